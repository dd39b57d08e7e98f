"""Kinds of the group without a name (``v1``)."""
