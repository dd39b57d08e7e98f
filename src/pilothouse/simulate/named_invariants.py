"""The invariants of ``pilothouse.sim.invariants`` by the names of their classes."""

import difflib
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable

from pilothouse.apiserver.resources import built_in
from pilothouse.controllers.workloads.replicaset.decide import BURST
from pilothouse.sim import invariants
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.invariants.garbage import Garbage
from pilothouse.sim.invariants.replicasets import ReplicaSets


@functools.cache
def known() -> dict[str, Callable[[], Invariant]]:
    """Those that need nothing but what is known here."""
    factories: dict[str, Callable[[], Invariant]] = {
        "ReplicaSets": lambda: ReplicaSets(burst=BURST),
        "Garbage": _garbage,
    }
    for module in pkgutil.iter_modules(invariants.__path__):
        for name, member in vars(importlib.import_module(f"{invariants.__name__}.{module.name}")).items():
            is_own = (
                isinstance(member, type) and issubclass(member, Invariant) and member.__module__.endswith(module.name)
            )
            if is_own and not name.startswith("_") and _needs_nothing(member):
                factories[name] = member
    return dict(sorted(factories.items()))


def _garbage() -> Invariant:
    return Garbage({(info.api_version, info.kind): (info.resource, info.namespaced) for info in built_in()})


def _needs_nothing(kind: type[Invariant]) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    return all(
        parameter.default is not parameter.empty or parameter.kind is parameter.VAR_POSITIONAL
        for parameter in parameters
    )


def create(name: str) -> Invariant:
    """A new one. Raises ``LookupError``."""
    factory = known().get(name)
    if factory is None:
        near = difflib.get_close_matches(name, known(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known())}"
        raise LookupError(f'no invariant is called "{name}"; {hint}')
    return factory()
