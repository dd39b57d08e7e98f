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
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_lease = msgspec.json.Decoder(Lease).decode
_version = msgspec.json.Decoder(dict[str, Any]).decode
_LEASES, _PREFIX = "coordination.k8s.io/leases/kube-system/", "internal.apiserver.k8s.io/storageversions/"
_LABEL, _VALUE = "apiserver.kubernetes.io/identity", "kube-apiserver"

ON_ITS_WAY = 60.0
"""Maximum seconds between reading the Lease and the write: many slow writes may precede it."""


class StorageVersions(Invariant):
    """All StorageVersions of a cluster. ``removed`` and ``deleted`` count entries and objects that the collector
    removed."""

    def __init__(self) -> None:
        self._clock = 0
        self._running: dict[str, tuple[int, float]] = {}
        """The running API servers, with commit and time of their start."""
        self._versions: dict[str, dict[str, Any]] = {}
        self._written: dict[tuple[str, str], int] = {}
        """By object and server: the commit that wrote the current entry."""
        self.removed = 0
        self.deleted = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        self._clock += 1
        deleted = change.type == "DELETED"
        if change.key.startswith(_LEASES):
            self._record_lease(change.key.removeprefix(_LEASES), None if deleted else _lease(change.value))
        is_collectors = origin is not None and origin.controller == DESCRIPTOR.client_name
        if change.key.startswith(_PREFIX):
            name = change.key.removeprefix(_PREFIX)
            self._check_version(name, None if deleted else _version(change.value), is_collectors=is_collectors)
        elif is_collectors:
            raise Violation(f"the collector has written {change.key}")

    def _record_lease(self, name: str, lease: Lease | None) -> None:
        if lease is None or lease.metadata.labels.get(_LABEL) != _VALUE:
            self._running.pop(name, None)
        elif name not in self._running:
            self._running[name] = self._clock, asyncio.get_running_loop().time()

    def _check_version(self, name: str, new: dict[str, Any] | None, *, is_collectors: bool) -> None:
        old = self._versions.pop(name, None)
        old_entries, new_entries = entries(old), entries(new)
        if is_collectors:
            self._check(name, old, new)
        if new is not None:
            self._versions[name] = new
        for server in [*old_entries, *(server for server in new_entries if server not in old_entries)]:
            if server not in new_entries:
                del self._written[name, server]
            elif old_entries.get(server) != new_entries[server]:
                self._written[name, server] = self._clock

    def _check(self, name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        assert old is not None, "it makes none"
        old_entries, new_entries = entries(old), entries(new)
        removed = [server for server in old_entries if server not in new_entries]
        for server in removed:
            self._check_removal(name, server)
        self.removed += len(removed)
        if new is None:
            self.deleted += 1
            return
        if (
            list(new_entries.items())
            != [(server, entry) for server, entry in old_entries.items() if server in new_entries]
            or not removed
        ):
            raise Violation(
                f"{name} had {list(old_entries.values())}, which the collector changed to {list(new_entries.values())}"
            )
        if _user_content(old) != _user_content(new):
            raise Violation(f"{name} was changed by the removal of {removed}")
        versions = {entry["encodingVersion"] for entry in new_entries.values()}
        common = versions.pop() if len(versions) == 1 else None
        status = {condition["type"]: condition["status"] for condition in new["status"]["conditions"]}
        if new["status"].get("commonEncodingVersion") != common or status["AllEncodingVersionsEqual"] != str(
            common is not None
        ):
            raise Violation(f"{name} does not have the common version {common}: {new['status']}")

    def _check_removal(self, name: str, server: str) -> None:
        started = self._running.get(server)
        if started is None:
            return
        commit, started_at = started
        if self._written[name, server] > commit:
            raise Violation(f"{name} has lost the entry that {server} has written since its start")
        if asyncio.get_running_loop().time() - started_at > ON_ITS_WAY:
            raise Violation(f"{name} has lost {server}, which is running")

    def check_final_state(self) -> None:
        """At the end there are no entries of servers that do not exist."""
        for name, storage_version in self._versions.items():
            absent = [server for server in entries(storage_version) if server not in self._running]
            if absent:
                raise Violation(f"{name} still has entries of {absent}")


def entries(storage_version: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """The entry of each server, in their order."""
    storage_versions = ((storage_version or {}).get("status") or {}).get("storageVersions") or []
    return {entry["apiServerID"]: entry for entry in storage_versions}


def _user_content(storage_version: dict[str, Any]) -> dict[str, Any]:
    """The parts that only users change."""
    metadata = storage_version["metadata"].items()
    meta = {key: value for key, value in metadata if key not in ("resourceVersion", "managedFields")}
    return {**{key: value for key, value in storage_version.items() if key != "status"}, "metadata": meta}
