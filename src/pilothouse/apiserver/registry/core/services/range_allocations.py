"""The bitmaps of allocated node ports and cluster IPs that API servers on one etcd share.

kube-apiserver has ``/registry/ranges/servicenodeports``, and up to v1.30 ``/registry/ranges/serviceips``; each is a
RangeAllocation (kubernetes ``pkg/registry/core/service/allocator/storage/storage.go``). They are not in the API. A
server that allocates a port sets its bit in the transaction that writes the Service, so that two servers never allocate
the same one.
"""

import base64
import ipaddress
from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.machinery.cidrs import Network
from pilothouse.storage import Record, Staged, Store

PREFIX = "/rangeallocations/"
"""The prefix of RangeAllocations in the store; ``storage_codec`` maps it to kube-apiserver's keys."""
NODE_PORTS = f"{PREFIX}servicenodeports"
ADDRESSES = f"{PREFIX}serviceips"


class _Allocation(msgspec.Struct, frozen=True):
    range: str = ""
    data: str = ""


_MAX_HOST_BITS = 20
"""Maximum host bits of a range: kube-apiserver rejects larger ones (``cmd/kube-apiserver/app/options/validation.go``,
v1.36)."""
_decode = msgspec.json.Decoder(_Allocation).decode


def _read(value: bytes) -> _Allocation:
    """Decode a RangeAllocation. An invalid one counts as empty, and is rebuilt from the Services."""
    try:
        return _decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Allocation()


def _bits(data: str) -> int:
    try:
        return int.from_bytes(base64.b64decode(data), "big")
    except ValueError:
        return 0


class RangeAllocation:
    """One RangeAllocation, with its latest staged state."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._cached: tuple[Record, int] | None = None

    @property
    def record(self) -> Record | None:
        """The latest staged record."""
        return self._store.staged(self._key)

    def bits(self) -> int:
        """The allocated offsets, as a bitmap."""
        record = self.record
        if record is None:
            return 0
        if self._cached is None or self._cached[0] is not record:
            self._cached = record, _bits(_read(record.value).data)
        return self._cached[1]

    def range(self) -> str:
        """The range to which the offsets refer."""
        record = self.record
        return "" if record is None else _read(record.value).range

    def network(self) -> Network | None:
        """The range as a network; None if it is not a valid range of addresses."""
        try:
            network = ipaddress.ip_network(self.range())
        except ValueError:
            return None
        return network if network.max_prefixlen - network.prefixlen <= _MAX_HOST_BITS else None

    def has(self, offset: int) -> bool:
        """Whether the offset is allocated."""
        return offset >= 0 and bool(self.bits() >> offset & 1)

    def stage(self, new_range: str, allocate: Iterable[int], release: Iterable[int]) -> Staged | None:
        """Stage the RangeAllocation with the offsets of ``allocate`` set and those of ``release`` cleared.
        ``new_range``: the range of a new RangeAllocation. None if nothing changes."""
        record, old_bits = self.record, self.bits()
        bits = old_bits
        for offset in release:
            bits &= ~(1 << offset)
        for offset in allocate:
            bits |= 1 << offset
        if bits == old_bits and record is not None:
            return None
        data = base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "big")).decode()
        value: dict[str, Any] = {"kind": "RangeAllocation", "apiVersion": "v1", "metadata": {}}
        value |= {"range": self.range() or new_range, "data": data}

        def encode(revision: int) -> bytes:
            value["metadata"] = {"resourceVersion": str(revision)}
            return msgspec.json.encode(value)

        return self._store.stage(self._key, encode, expected=0 if record is None else record.revision)


def offset_of(address: str, network: Network) -> int:
    """The offset of an address in a range: 0 for the first one after the network address, -1 if it is not in the
    range."""
    ip = ipaddress.ip_address(address)
    if ip.version != network.version or ip not in network:
        return -1
    return int(ip) - int(network.network_address) - 1


class SharedRanges:
    """The allocations of all API servers of a store: node ports and, if a server up to v1.30 uses bitmaps for them,
    cluster IPs."""

    def __init__(self, store: Store, ports: range) -> None:
        self._range = ports
        self._ports = RangeAllocation(store, NODE_PORTS)
        self._addresses = RangeAllocation(store, ADDRESSES)

    def has_port(self, port: int) -> bool:
        """Whether a node port is allocated."""
        return self._ports.has(port - self._range.start)

    def has_address(self, address: str) -> bool:
        """Whether an address is allocated."""
        network = self._addresses.network()
        return network is not None and self._addresses.has(offset_of(address, network))

    def stage(
        self,
        old_addresses: Iterable[str],
        new_addresses: Iterable[str],
        old_ports: Iterable[int],
        new_ports: Iterable[int],
    ) -> Staged | None:
        """Stage the changed allocations of a Service. Returns the last write."""
        first_port, ports, staged = self._range.start, frozenset(new_ports), None
        allocate = [port - first_port for port in ports if port in self._range]
        release = [port - first_port for port in old_ports if port in self._range and port not in ports]
        if allocate or release or self._ports.record is None:
            staged = self._ports.stage(f"{first_port}-{self._range.stop - 1}", allocate, release)
        network = self._addresses.network()
        if network is not None:
            addresses = frozenset(new_addresses)
            released = [address for address in old_addresses if address not in addresses]
            staged = self._addresses.stage("", _offsets(addresses, network), _offsets(released, network)) or staged
        return staged


def _offsets(addresses: Iterable[str], network: Network) -> list[int]:
    return [offset for address in addresses if (offset := offset_of(address, network)) >= 0]
