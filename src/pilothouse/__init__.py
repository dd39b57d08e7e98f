"""pilothouse: Kubernetes' controller manager in Python."""

__version__ = "0.1.0"

KUBERNETES_VERSION = "v1.36.2"
"""The release whose behaviour is followed, and which the embedded API server reports."""
