"""PodMetrics."""

from pilothouse.apiserver.registry.metrics import REGISTRATION

__all__ = ["REGISTRATION"]
