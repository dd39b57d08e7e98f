"""The creations and deletions that a controller has requested and not yet observed in its cache.

A controller that created three pods must not create three more because its cache does not show them yet. Before it
acts it
*expects*; event handlers *observe*; until everything expected was observed, or five minutes have passed, it does not
act again for that key. Keys are ``namespace/name`` of the owner. Event handlers lower, reconcilers set; both run on one
loop.

Mirrors ``pkg/controller/controller_utils.go`` of v1.36 (``ControllerExpectations``,
``UIDTrackingControllerExpectations``). The consistency store (``consistency``) covers the same lag by version;
expectations also cover deletions.
"""

from collections.abc import Iterable

from pilothouse.env import Env

TIMEOUT_SECONDS = 300.0
"""``ExpectationsTimeout``: after five minutes an expectation no longer blocks, whatever happened to it."""

_JUST_AFTER = 0.001


class Expectation:
    """How many creations and deletions of one key are outstanding, since when. Counters may fall below zero."""

    __slots__ = ("adds", "at", "deletions")

    def __init__(self, adds: int, deletions: int, at: float) -> None:
        self.adds = adds
        self.deletions = deletions
        self.at = at

    def fulfilled(self) -> bool:
        """Whether everything was observed."""
        return self.adds <= 0 and self.deletions <= 0

    def __repr__(self) -> str:
        return f"Expectation(adds={self.adds}, deletions={self.deletions}, at={self.at})"


class Expectations:
    """The plain counters."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._records: dict[str, Expectation] = {}

    def get(self, key: str) -> Expectation | None:
        """The record of a key."""
        return self._records.get(key)

    def set(self, key: str, adds: int, deletions: int) -> None:
        """Replace whatever was expected for the key; its five minutes start now."""
        self._records[key] = Expectation(adds, deletions, self._env.monotonic())

    def expect_creations(self, key: str, adds: int) -> None:
        """Expect ``adds`` creations and nothing else."""
        self.set(key, adds, 0)

    def raise_(self, key: str, adds: int, deletions: int) -> None:
        """Expect more, on top of an existing record. The clock keeps running; without a record nothing happens."""
        record = self._records.get(key)
        if record is not None:
            record.adds += adds
            record.deletions += deletions

    def lower(self, key: str, adds: int, deletions: int) -> None:
        """Expect less: observed, or failed and therefore never to be observed. Without a record nothing happens."""
        record = self._records.get(key)
        if record is not None:
            record.adds -= adds
            record.deletions -= deletions

    def creation_observed(self, key: str) -> None:
        """Lower by one creation that was observed or failed."""
        record = self._records.get(key)
        if record is not None:
            record.adds -= 1

    def deletion_counted(self, key: str) -> None:
        """Lower by one deletion that was observed or failed."""
        record = self._records.get(key)
        if record is not None:
            record.deletions -= 1

    def satisfied(self, key: str) -> bool:
        """Whether the controller may act on the key: nothing expected, all observed, or older than five minutes.

        An expired record stays where it is; it only no longer blocks.
        """
        record = self._records.get(key)
        if record is None or record.fulfilled():
            return True
        return self._env.monotonic() - record.at > TIMEOUT_SECONDS

    def expires_in(self, key: str) -> float | None:
        """The seconds after which the key may be synced although something expected was not observed; ``None`` if
        nothing is expected. A sync that expectations block is requeued for that time, because an event that is never
        observed enqueues nothing (upstream waits until another event)."""
        record = self._records.get(key)
        if record is None or self.satisfied(key):
            return None
        return record.at + TIMEOUT_SECONDS - self._env.monotonic() + _JUST_AFTER

    def delete(self, key: str) -> None:
        """Drop the expectations of a key whose owner was deleted or replaced."""
        self._records.pop(key, None)


class UidTrackingExpectations(Expectations):
    """The variant with the keys of the objects whose deletion is expected (``UIDTrackingControllerExpectations``).

    A deletion counts once, and only if it was expected, although it is observed twice: as an update that sets
    ``deletionTimestamp`` and as the DELETED event.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._expected_deletions: dict[str, set[str]] = {}
        self._awaited_by: dict[str, str] = {}

    def expect(self, key: str, adds: int, object_keys: Iterable[str]) -> None:
        """Expect this many creations, exactly these objects to go, and nothing else."""
        self._forget_expected_deletions(key)
        expected = set(object_keys)
        if expected:
            self._expected_deletions[key] = expected
            self._awaited_by.update(dict.fromkeys(expected, key))
        self.set(key, adds, len(expected))

    def expect_creations(self, key: str, adds: int) -> None:
        self.expect(key, adds, ())

    def expect_deletions(self, key: str, object_keys: Iterable[str]) -> None:
        """Expect exactly these objects to go, and nothing else."""
        self.expect(key, 0, object_keys)

    def expected_deletions(self, key: str) -> frozenset[str]:
        """The objects of that key whose deletion is still outstanding."""
        return frozenset(self._expected_deletions.get(key, ()))

    def awaited_by(self, object_key: str) -> str | None:
        """The key that waits for the deletion of this object.

        The deleted object may not have the owner: if it was adopted and deleted while a watch was broken, the cached
        orphan is delivered. Upstream then waits until the expectation expires.
        """
        return self._awaited_by.get(object_key)

    def deletion_observed(self, key: str, object_key: str) -> None:
        """The deletion of this object was observed, or failed."""
        expected = self._expected_deletions.get(key)
        if expected is not None and object_key in expected:
            expected.discard(object_key)
            self._stop_awaiting(key, object_key)
            self.deletion_counted(key)

    def delete(self, key: str) -> None:
        super().delete(key)
        self._forget_expected_deletions(key)

    def _forget_expected_deletions(self, key: str) -> None:
        for object_key in self._expected_deletions.pop(key, ()):  # in no particular order: they all go
            self._stop_awaiting(key, object_key)

    def _stop_awaiting(self, key: str, object_key: str) -> None:
        if self._awaited_by.get(object_key) == key:
            del self._awaited_by[object_key]
