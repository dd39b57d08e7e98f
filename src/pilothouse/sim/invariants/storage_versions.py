"""Invariants of StorageVersions: no running API server loses an entry that it has written since its start, the common
version matches the remaining entries, and at the end there are no entries of servers that do not exist.

Checked against the committed Leases and entries of StorageVersions.
"""

import asyncio
from typing import Any

import msgspec

from pilothouse.api.coordination import Lease
from pilothouse.controllers.cleanup.storageversion_garbage_collector import DESCRIPTOR
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.story import Origin
from pilothouse.storage import Change

_lease = msgspec.json.Decoder(Lease).decode
_version = msgspec.json.Decoder(dict[str, Any]).decode
_LEASES, _PREFIX = "coordination.k8s.io/leases/kube-system/", "internal.apiserver.k8s.io/storageversions/"
_LABEL, _VALUE = "apiserver.kubernetes.io/identity", "kube-apiserver"

ON_ITS_WAY = 60.0
"""Maximum seconds between reading the Lease and the write: there may be many slow writes before it."""


class StorageVersions(Invariant):
    """All of a cluster. ``removed`` and ``deleted`` count the entries and objects that the collector removed."""

    def __init__(self) -> None:
        self._clock = 0
        self._came: dict[str, tuple[int, float]] = {}
        """The running servers: the commit and time since which they run."""
        self._versions: dict[str, dict[str, Any]] = {}
        self._written: dict[tuple[str, str], int] = {}
        """By object and server: the commit that wrote the current entry."""
        self.removed = 0
        self.deleted = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        self._clock += 1
        gone = change.type == "DELETED"
        if change.key.startswith(_LEASES):
            self._see_lease(change.key.removeprefix(_LEASES), None if gone else _lease(change.value))
        is_collectors = origin is not None and origin.controller == DESCRIPTOR.client_name
        if change.key.startswith(_PREFIX):
            name = change.key.removeprefix(_PREFIX)
            self._see_version(name, None if gone else _version(change.value), is_collectors=is_collectors)
        elif is_collectors:
            raise Violation(f"the collector has written {change.key}")

    def _see_lease(self, name: str, lease: Lease | None) -> None:
        if lease is None or lease.metadata.labels.get(_LABEL) != _VALUE:
            self._came.pop(name, None)
        elif name not in self._came:
            self._came[name] = self._clock, asyncio.get_running_loop().time()

    def _see_version(self, name: str, now: dict[str, Any] | None, *, is_collectors: bool) -> None:
        before = self._versions.pop(name, None)
        old, new = entries(before), entries(now)
        if is_collectors:
            self._check(name, before, now)
        if now is not None:
            self._versions[name] = now
        for server in [*old, *(server for server in new if server not in old)]:
            if server not in new:
                del self._written[name, server]
            elif old.get(server) != new[server]:
                self._written[name, server] = self._clock

    def _check(self, name: str, before: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
        assert before is not None, "it makes none"
        old, new = entries(before), entries(now)
        gone = [server for server in old if server not in new]
        for server in gone:
            self._check_removal(name, server)
        self.removed += len(gone)
        if now is None:
            self.deleted += 1
            return
        if list(new.items()) != [(server, entry) for server, entry in old.items() if server in new] or not gone:
            raise Violation(f"{name} said {list(old.values())}, and the collector made that {list(new.values())}")
        if _besides(before) != _besides(now):
            raise Violation(f"{name} says something else since {gone} were taken out")
        said = {entry["encodingVersion"] for entry in new.values()}
        common = said.pop() if len(said) == 1 else None
        status = {one["type"]: one["status"] for one in now["status"]["conditions"]}
        if now["status"].get("commonEncodingVersion") != common or status["AllEncodingVersionsEqual"] != str(
            common is not None
        ):
            raise Violation(f"{name} does not say that {common} is what all agree on: {now['status']}")

    def _check_removal(self, name: str, server: str) -> None:
        came = self._came.get(server)
        if came is None:
            return
        commit, at = came
        if self._written[name, server] > commit:
            raise Violation(f"{name} has lost what {server} has said since it came")
        if asyncio.get_running_loop().time() - at > ON_ITS_WAY:
            raise Violation(f"{name} has lost {server}, which has been there for long")

    def settled(self) -> None:
        """No entry of a server that does not exist."""
        for name, storage_version in self._versions.items():
            left = [server for server in entries(storage_version) if server not in self._came]
            if left:
                raise Violation(f"{name} still names {left}")


def entries(storage_version: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """The entry of each server, in their order."""
    listed = ((storage_version or {}).get("status") or {}).get("storageVersions") or []
    return {entry["apiServerID"]: entry for entry in listed}


def _besides(storage_version: dict[str, Any]) -> dict[str, Any]:
    """The parts that only users change."""
    metadata = storage_version["metadata"].items()
    meta = {key: value for key, value in metadata if key not in ("resourceVersion", "managedFields")}
    return {**{key: value for key, value in storage_version.items() if key != "status"}, "metadata": meta}
