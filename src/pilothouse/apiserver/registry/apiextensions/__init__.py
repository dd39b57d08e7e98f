"""Kinds of the group ``apiextensions.k8s.io``."""
