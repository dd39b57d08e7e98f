"""Tables for ``kubectl get``."""
