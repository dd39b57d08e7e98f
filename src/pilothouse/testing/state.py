"""The state of a simulated cluster for invariants of an operator's tests, after every write."""

import asyncio
from collections.abc import Callable

import msgspec

from pilothouse.machinery.api_resources import hint_of_kind
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.sim.simulation import Simulation
from pilothouse.storage import Change
from pilothouse.testing.asynchronous import Object, Objects
from pilothouse.testing.mistakes import UnknownKind


class State:
    """The objects of the cluster at one instant, for invariants."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._decoded: dict[str, tuple[int, Object]] = {}
        self.converged = False
        """Whether this is the final state: all faults have ended, and nothing is written any more."""

    def list(self, api_version: str, kind: str, namespace: str = "") -> Objects:
        """The objects of a kind, of one namespace or of all, by key. Raises ``LookupError`` for an unknown kind."""
        prefix = self._prefix(api_version, kind)
        records = self._simulation.store.list(f"{prefix}{namespace}/" if namespace else prefix).records
        return [self._object(record.key, record.revision, record.value) for record in records]

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Object | None:
        """One object, or None. For cluster-scoped kinds the namespace is empty."""
        key = f"{namespace}/{name}" if namespace else name
        record = self._simulation.store.get(f"{self._prefix(api_version, kind)}{key}")
        return None if record is None else self._object(record.key, record.revision, record.value)

    def _prefix(self, api_version: str, kind: str) -> str:
        group = api_version.rpartition("/")[0]
        table = self._simulation.plane.server.core.table
        for info in table:
            if (info.group, info.kind) == (group, kind) and "list" in info.verbs:
                return info.prefix
        served = [(info.api_version, info.kind, info.resource) for info in table if "list" in info.verbs]
        hint = hint_of_kind(served, api_version, kind)
        raise UnknownKind.of(api_version, kind, hint)

    def _object(self, key: str, revision: int, value: bytes) -> Object:
        decoded = self._decoded.get(key)
        if decoded is None or decoded[0] != revision:
            decoded = self._decoded[key] = (revision, msgspec.json.decode(value))
        return decoded[1]


Check = Callable[[State], object]
"""Raises ``AssertionError`` if it is violated. Called after every write, and at the end."""


def name_of(check: Check) -> str:
    """The name of a function in reports."""
    return getattr(check, "__name__", repr(check))


class CheckFailed(Violation):
    """An invariant function has failed."""

    def __init__(self, check: str, error: AssertionError) -> None:
        super().__init__(f"{check}: {error}")
        self.check = check


class Checks(Invariant):
    """Calls functions of the state after every write, and at the end."""

    def __init__(self, checks: list[Check], muted: set[str]) -> None:
        self._checks = checks
        self._muted = muted
        self.muted_failed = False
        """Whether a function has failed that no longer ends the run."""
        self.state: State | None = None

    def committed(self, _change: Change, _origin: Origin | None) -> None:
        """A write has become visible. A violation must not be handled by the program that wrote it."""
        try:
            self._call()
        except Exception as error:  # noqa: BLE001  # raised here the operator might catch it; the run must end
            context = {"message": "an invariant failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def check_final_state(self) -> None:
        """The final state."""
        if self.state is not None:
            self.state.converged = True
            self._call()

    def _call(self) -> None:
        if self.state is None:
            return
        for check in self._checks:
            try:
                check(self.state)
            except AssertionError as error:
                if name_of(check) not in self._muted:
                    raise CheckFailed(name_of(check), error) from error
                self.muted_failed = True
