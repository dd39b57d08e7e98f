"""IPAddress objects: one for each cluster address that a service has, for those who look addresses up.

Upstream's allocator makes them before it gives an address out (kubernetes
``pkg/registry/core/service/ipallocator/ipallocator.go``, v1.36). Here ``addresses`` decides by looking at the services,
and these objects follow.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from pilothouse.apiserver.addresses import address_object
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import with_revision
from pilothouse.apiserver.startup import stage_object
from pilothouse.storage import Change, Record, Staged

_SERVICES = "/services/"
_GROUP = "networking.k8s.io"


class _Spec(msgspec.Struct, frozen=True):
    cluster_ips: tuple[str, ...] = msgspec.field(default=(), name="clusterIPs")


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class _Service(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


_read = msgspec.json.Decoder(_Service).decode


class AddressRecords:
    """Keeps the objects equal to what services have. ``run`` until cancelled; it does nothing while none changes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        info = core.table.find(_GROUP, "v1", "ipaddresses")
        assert info is not None, "IPAddresses are built in"
        self._info = info
        self._waiting: list[Change] = []
        self._woken = asyncio.Event()
        core.store.on_commit.append(self._hear)

    def _hear(self, changes: Sequence[Change]) -> None:
        found = [change for change in changes if change.key.startswith(_SERVICES)]
        if found:
            self._waiting += found
            self._woken.set()

    async def run(self) -> None:
        """Follow the services, beginning with those that are there."""
        staged: Staged | None = None
        self._waiting.clear()
        for record in self._core.store.list(_SERVICES).records:
            staged = self._make(_read(record.value)) or staged
        while True:
            if staged is not None:
                await self._core.commit(staged)
            if not self._waiting:
                self._woken.clear()
                await self._woken.wait()
            changes, self._waiting = self._waiting, []
            staged = None
            for change in changes:
                staged = self._follow(change) or staged

    def _follow(self, change: Change) -> Staged | None:
        before = _addresses(change.value if change.type == "DELETED" else change.previous)
        if change.type == "DELETED":
            return self._drop(before)
        service = _read(change.value)
        gone = [address for address in before if address not in service.spec.cluster_ips]
        dropped = self._drop(gone)
        return self._make(service) or dropped

    def _make(self, service: _Service) -> Staged | None:
        staged: Staged | None = None
        for address in service.spec.cluster_ips:
            if address and address != "None":
                wanted = address_object(address, service.metadata.namespace, service.metadata.name)
                staged = stage_object(self._core, _GROUP, "ipaddresses", wanted) or staged
        return staged

    def _drop(self, addresses: Sequence[str]) -> Staged | None:
        staged: Staged | None = None
        for address in addresses:
            record = self._core.store.staged(self._info.key("", address))
            if record is None:
                continue
            staged = self._core.store.stage(record.key, None, expected=record.revision, last=_last_state(record))
        return staged


def _last_state(record: Record) -> Callable[[int], bytes]:
    def last(revision: int) -> bytes:
        return with_revision(record.value, record.revision, revision)

    return last


def _addresses(value: bytes | None) -> list[str]:
    return [address for address in _read(value).spec.cluster_ips if address != "None"] if value else []
