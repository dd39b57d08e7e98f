"""Looks up the invariants of ``pilothouse.sim.invariants`` by class name."""

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
def factories_by_name() -> dict[str, Callable[[], Invariant]]:
    """The factories of invariants without required arguments, by class name."""
    factories: dict[str, Callable[[], Invariant]] = {
        "ReplicaSets": lambda: ReplicaSets(burst=BURST),
        "Garbage": _garbage,
    }
    for module in pkgutil.iter_modules(invariants.__path__):
        for name, member in vars(importlib.import_module(f"{invariants.__name__}.{module.name}")).items():
            is_own = (
                isinstance(member, type) and issubclass(member, Invariant) and member.__module__.endswith(module.name)
            )
            if is_own and not name.startswith("_") and _has_no_required_arguments(member):
                factories[name] = member
    bases = {base.__name__ for factory in factories.values() if isinstance(factory, type) for base in factory.__bases__}
    for name in bases & factories.keys():
        del factories[name]  # what others derive from checks nothing itself
    return dict(sorted(factories.items()))


def _garbage() -> Invariant:
    return Garbage({(info.api_version, info.kind): (info.resource, info.namespaced) for info in built_in()})


def _has_no_required_arguments(kind: type[Invariant]) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    return all(
        parameter.default is not parameter.empty or parameter.kind is parameter.VAR_POSITIONAL
        for parameter in parameters
    )


def create(name: str) -> Invariant:
    """Create an invariant. Raises ``LookupError``."""
    factory = factories_by_name().get(name)
    if factory is None:
        near = difflib.get_close_matches(name, factories_by_name(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(factories_by_name())}"
        raise LookupError(f'no invariant is called "{name}"; {hint}')
    return factory()
