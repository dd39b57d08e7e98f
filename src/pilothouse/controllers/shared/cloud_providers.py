"""Finds the providers of ``shared.cloud``: one is here, others are installed under an entry point."""

from collections.abc import Callable

from pilothouse.controllers.shared.cloud import CloudProvider
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from importlib import metadata

    from pilothouse.controllers.shared import simulated_cloud

ENTRY_POINTS = "pilothouse.cloud_providers"
SIMULATED = "simulated"
"""The built-in provider, ``shared.simulated_cloud``."""


class UnknownProvider(ValueError):
    """No provider of that name is installed, or it cannot be loaded."""


def installed() -> list[str]:
    return sorted({SIMULATED, *(entry_point.name for entry_point in metadata.entry_points(group=ENTRY_POINTS))})


def load_provider(name: str, env: Env) -> CloudProvider:
    """The provider of that name. Raises ``UnknownProvider``."""
    if name == SIMULATED:
        return simulated_cloud.SimulatedCloud(env)
    entry_points = list(metadata.entry_points(group=ENTRY_POINTS, name=name))
    if not entry_points:
        raise UnknownProvider(f"no cloud provider {name!r} is installed, there are {', '.join(installed())}")
    factory: Callable[[Env], CloudProvider] = entry_points[0].load()
    return factory(env)


def validate_provider(provider: "str | CloudProvider") -> list[str]:
    """The errors of the option: no such provider is installed."""
    if not isinstance(provider, str) or not provider or provider in installed():
        return []
    return [f"--cloud-loops: no cloud provider {provider!r} is installed, there are {', '.join(installed())}"]


def the_provider(provider: "str | CloudProvider", env: Env) -> CloudProvider:
    return load_provider(provider, env) if isinstance(provider, str) else provider
