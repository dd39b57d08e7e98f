"""All known bugs, by area of controllers and, within it, as they are numbered upstream."""

from collections.abc import Sequence

from pilothouse.simulate.bugs import (
    autoscalers,
    cronjobs,
    daemonsets,
    deployments,
    endpoints,
    garbage,
    jobs,
    kubelets,
    nodes,
    replicasets,
    statefulsets,
)
from pilothouse.simulate.bugs.declaration import Bug, Scenario

_AREAS = (
    replicasets,
    deployments,
    daemonsets,
    statefulsets,
    kubelets,
    jobs,
    cronjobs,
    garbage,
    nodes,
    endpoints,
    autoscalers,
)
BUGS: tuple[Bug, ...] = tuple(
    bug for area in _AREAS for bug in sorted(area.BUGS, key=lambda bug: (bug.controller, int(bug.number)))
)


class UnknownBug(LookupError):
    """No bug, or no scenario of the bug, has the name."""


def find(name: str) -> Bug:
    """The bug with this id, number, or other thread: ``129795``, ``kubernetes#129795``. Raises ``UnknownBug``."""
    for bug in BUGS:
        for thread in bug.threads:
            if name in (thread, thread.rpartition("#")[2]):
                return bug
    raise UnknownBug(f"no known bug is called {name!r}: `pilothouse bugs list` has all")


def find_scenarios(bug: Bug, name: str) -> Sequence[Scenario]:
    """The scenarios whose name starts with ``name``; all for an empty name. Raises ``UnknownBug``."""
    scenarios = [scenario for scenario in bug.scenarios if scenario.name.startswith(name)]
    if not scenarios:
        names = ", ".join(repr(scenario.name) for scenario in bug.scenarios)
        raise UnknownBug(f"{bug.id} has no scenario {name!r}, but {names}")
    return scenarios
