"""Kinds of the group ``batch``."""
