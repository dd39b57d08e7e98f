"""Metrics of a process of the plane, which are on the pages of all its programs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.metrics import Registry

if TYPE_CHECKING:
    from pilothouse.controllermanager.feature_gates import FeatureGates

with lazy_imports():
    from pilothouse.controllermanager import build_metrics
    from pilothouse.runtime import process_metrics


def process_exposition(gates: "Callable[[], FeatureGates]") -> Callable[[], str]:
    """Metrics of the process, its version and feature gates. They are installed at the first request."""
    registries: list[Registry] = []

    def exposition() -> str:
        if not registries:
            registries.append(Registry())
            process_metrics.install(registries[0])
            build_metrics.install(registries[0], gates())
        return registries[0].exposition()

    return exposition
