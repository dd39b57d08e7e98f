"""Pods."""

from pilothouse.apiserver.registry.core.pods.strategy import PodStrategy
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.core.pods import printers as pod_printers


REGISTRATION = Registration(
    PodStrategy(),
    printer=lambda: pod_printers.PRINTER,
)
