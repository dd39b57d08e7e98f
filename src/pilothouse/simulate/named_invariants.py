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
    found: dict[str, Callable[[], Invariant]] = {"ReplicaSets": lambda: ReplicaSets(burst=BURST), "Garbage": _garbage}
    for module in pkgutil.iter_modules(invariants.__path__):
        for name, each in vars(importlib.import_module(f"{invariants.__name__}.{module.name}")).items():
            is_own = isinstance(each, type) and issubclass(each, Invariant) and each.__module__.endswith(module.name)
            if is_own and not name.startswith("_") and _needs_nothing(each):
                found[name] = each
    return dict(sorted(found.items()))


def _garbage() -> Invariant:
    return Garbage({(each.api_version, each.kind): (each.resource, each.namespaced) for each in built_in()})


def _needs_nothing(kind: type[Invariant]) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    return all(each.default is not each.empty or each.kind is each.VAR_POSITIONAL for each in parameters)


def create(name: str) -> Invariant:
    """A new one. Raises ``LookupError``."""
    found = known().get(name)
    if found is None:
        near = difflib.get_close_matches(name, known(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known())}"
        raise LookupError(f'no invariant is called "{name}"; {hint}')
    return found()
