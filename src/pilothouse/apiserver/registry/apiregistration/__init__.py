"""Kinds of the group ``apiregistration.k8s.io``."""
