"""Endpoints of the Service ``kubernetes`` when several API servers share one store: all servers that are alive.

As kubernetes' ``pkg/controlplane/reconcilers/lease.go`` (v1.36), and compatible with kube-apiserver: each server has a
key for its address that expires after fifteen seconds and is renewed every ten, and writes the Endpoints from all these
keys. The keys are not visible in the API.
"""

import asyncio
import ipaddress

import msgspec

from pilothouse.apiserver.controllers.bootstrap_objects import stage_endpoint_slice, stage_endpoints
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.origins import own_writes
from pilothouse.apiserver.storage_codec.keys import MASTER_LEASES
from pilothouse.storage import Change, Staged

_RENEW_SECONDS = 10.0
_REASON = "API servers that are alive are the endpoints of the Service kubernetes"


class _Address(msgspec.Struct, frozen=True):
    ip: str = ""


class _Subset(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = ()
    ports: tuple[dict[str, object], ...] = ()


class _Meta(msgspec.Struct, frozen=True):
    generation: int = 0


class _Endpoints(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    subsets: tuple[_Subset, ...] = ()


_decode = msgspec.json.Decoder(_Endpoints).decode


def _read(value: bytes) -> _Endpoints:
    """The decoded value; an empty one if it is malformed: another server's lease is then ignored, and objects that this
    server maintains are written again."""
    try:
        return _decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Endpoints()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class LeaseReconciler:
    """Keeps this server in the endpoints, and removes servers whose leases have expired."""

    def __init__(self, core: Core, host: str, port: int) -> None:
        self._core = core
        self._host = host
        self._port = port
        self._changed = asyncio.Event()
        self._ports_checked = False
        core.store.follow(MASTER_LEASES, self._notify)

    def _notify(self, _changes: list[Change]) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Renew and reconcile until cancelled."""
        core = self._core
        while True:
            with own_writes(core.env, "kubernetes", _REASON):
                await core.retry_until_stored(self._renew)
                self._changed.clear()
                await core.retry_until_stored(lambda: core.commit_staged(self._stage_endpoints))
            self._ports_checked = True
            try:
                async with asyncio.timeout(_RENEW_SECONDS):
                    while True:
                        await self._changed.wait()
                        self._changed.clear()
                        with own_writes(core.env, "kubernetes", _REASON):
                            await core.retry_until_stored(lambda: core.commit_staged(self._stage_endpoints))
            except TimeoutError:
                continue

    async def _renew(self) -> None:
        key = f"{MASTER_LEASES}{self._host}"
        record = self._core.store.staged(key)
        generation = 1 if record is None else _read(record.value).metadata.generation + 1

        def make(revision: int) -> bytes:
            # Go writes only changed values; a renewal has to change something.
            meta = {"resourceVersion": str(revision), "generation": generation}
            subsets = [{"addresses": [{"ip": self._host}]}]
            return msgspec.json.encode({"kind": "Endpoints", "apiVersion": "v1", "metadata": meta, "subsets": subsets})

        await self._core.commit(self._core.store.stage(key, make, expected=0 if record is None else record.revision))

    def _stage_endpoints(self) -> Staged | None:
        leases = [_read(record.value).subsets for record in self._core.store.list(MASTER_LEASES).records]
        lease_ips = {subsets[0].addresses[0].ip for subsets in leases if subsets and subsets[0].addresses}
        master_ips = sorted(filter(_is_address, lease_ips))
        if not master_ips:
            return None
        addresses, port = self._current_endpoints()
        if self._ports_checked and addresses == master_ips:
            # The port may be that of another server with the same address.
            return stage_endpoint_slice(self._core, master_ips, port or self._port)
        return stage_endpoints(self._core, master_ips, self._port)

    def _current_endpoints(self) -> tuple[list[str], int]:
        """The addresses and the port of the Endpoints as they are; no address where they have another form."""
        record = self._core.store.staged("/endpoints/default/kubernetes")
        subsets = () if record is None else _read(record.value).subsets
        if len(subsets) != 1:
            return [], 0
        port = next(
            (number for endpoint_port in subsets[0].ports if isinstance(number := endpoint_port.get("port"), int)), 0
        )
        return sorted(address.ip for address in subsets[0].addresses), port
