"""Kinds of the group ``coordination.k8s.io``."""
