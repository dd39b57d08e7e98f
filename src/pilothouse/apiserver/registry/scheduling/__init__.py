"""Kinds of the group ``scheduling.k8s.io``."""
