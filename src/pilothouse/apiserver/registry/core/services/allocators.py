"""Allocators of cluster IPs and node ports, and the record of the Services that have them.

The record is updated when writes are staged, so that two concurrent creates never get the same value. Each cluster IP
has an IPAddress object (kubernetes' ``pkg/registry/core/service/ipallocator/cidrallocator.go``, v1.36), which is staged
together with the Service: both are created in one commit, and deleted in one.

An entry may be stale after a failed commit; every lookup therefore checks the Service, and drops a stale entry.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.objects import Object, Timestamps, encode_object, with_revision
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.cidrs import Network, prefix_contains_ip
from pilothouse.storage import Change, Staged, Store

with lazy_imports():
    from pilothouse.apiserver.registry.core.services import range_allocations

SERVICES = "/services/"
NODE_PORTS = range(30000, 32768)
ALLOCATED_ADDRESS = "provided IP is already allocated"
_ALLOCATED_PORT = "provided port is already allocated"
_STATIC_PORTS = 86
"""The size of the static band, the lower ports, which are allocated last: min(max(16, size/32), 128)
(``portallocator``)."""


class _Port(msgspec.Struct, frozen=True):
    nodePort: int = 0  # noqa: N815  # as on the wire


class _Spec(msgspec.Struct, frozen=True):
    clusterIPs: tuple[str, ...] = ()  # noqa: N815  # as on the wire
    ports: tuple[_Port, ...] = ()
    healthCheckNodePort: int = 0  # noqa: N815  # as on the wire


class _Service(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_read = msgspec.json.Decoder(_Service).decode


def family_of(address: str) -> str:
    """``IPv4`` or ``IPv6``."""
    return "IPv6" if ":" in address else "IPv4"


def ranges_of(ranges: str) -> tuple[Network, ...]:
    """The ranges of ``--service-cluster-ip-range``: one, or one of each family. Raises ``ValueError``."""
    networks = tuple(ipaddress.ip_network(cidr.strip(), strict=False) for cidr in ranges.split(","))
    if len({network.version for network in networks}) < len(networks):
        raise ValueError("at most one CIDR of each IP family is allowed")
    return networks


def first_address(service_range: str) -> str:
    """The address of the service ``kubernetes``."""
    return str(ranges_of(service_range)[0][1])


class Allocations:
    """The allocated addresses and node ports, with the key of the Service that has each."""

    def __init__(self, env: Env, store: Store, table: ResourceTable) -> None:
        self._env = env
        self._store = store
        self._time = Timestamps(env)
        info = table.find("networking.k8s.io", "v1", "ipaddresses")
        assert info is not None, "IP addresses are built in"
        self._info = info
        self._addresses: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        self._complete = False
        self._ranges = range_allocations.SharedRanges(store, NODE_PORTS) if store.is_shared else None
        for record in store.list(SERVICES).records:
            self._record(record.key, record.value)
        for prefix in (SERVICES, self._info.prefix):
            store.follow_staged(prefix, self._on_staged)
        if store.is_shared:
            store.follow(SERVICES, self._on_commit)

    def repair(self) -> Staged | None:
        """Stage the IPAddress of every Service that has none, as upstream's repair controller. Returns the last write.

        The Services that exist when the server starts, and those of older data directories, may have none. Called when
        the server runs or before the first write of a Service, whichever is earlier; from then on IPAddresses are
        staged with their Service.
        """
        if self._complete:
            return None
        self._complete = True
        staged = None
        for address, key in sorted(self._addresses.items()):
            if self.holder_of_address(address) == key:
                staged = self._stage_object(address, key) or staged
        if self._ranges is not None:
            staged = self._ranges.stage((), self._addresses, (), self._ports) or staged
        return staged

    def holder_of_address(self, address: str) -> str:
        """The key of the Service that has the address, or of its IPAddress; empty if it is not allocated."""
        key = self._addresses.get(address)
        if key is not None:
            record = self._store.staged(key)
            if record is not None and address in _addresses(record.value):
                return key
            del self._addresses[address]
        name = self._info.key("", address)
        return name if self._store.staged(name) is not None else ""

    def holder_of_port(self, port: int) -> str:
        """The key of the Service that has the node port; empty if it is not allocated."""
        key = self._ports.get(port)
        if key is None:
            return ""
        record = self._store.staged(key)
        if record is not None and port in _ports(record.value):
            return key
        del self._ports[port]
        return ""

    def is_reserved(self, port: int) -> bool:
        """Whether another API server has allocated the node port, for a Service that this one has not observed yet."""
        return self._ranges is not None and self._ranges.has_port(port)

    def is_reserved_address(self, address: str) -> bool:
        """Whether another API server has allocated the address, for a Service that this one has not observed yet."""
        return self._ranges is not None and self._ranges.has_address(address)

    def _on_commit(self, changes: Iterable[Change]) -> None:
        """Record what other API servers allocated to Services."""
        for change in changes:
            if change.type != "DELETED":
                self._record(change.key, change.value)

    def _record(self, key: str, value: bytes) -> None:
        for address in _addresses(value):
            self._addresses[address] = key
        for port in _ports(value):
            self._ports[port] = key

    def _on_staged(self, staged: Staged) -> None:
        change = staged.change
        if not change.key.startswith(SERVICES):
            if staged.record is None:
                self._restore(change.key.removeprefix(self._info.prefix))
            return
        old_addresses: tuple[str, ...] = ()
        old_ports: tuple[int, ...] = ()
        if change.old is not None:
            old_addresses, old_ports = _addresses(change.old.value), _ports(change.old.value)
            for port in old_ports:
                self._ports.pop(port, None)
        addresses: tuple[str, ...] = ()
        ports: tuple[int, ...] = ()
        if staged.record is not None:
            addresses, ports = _addresses(staged.record.value), _ports(staged.record.value)
            self._record(change.key, staged.record.value)
        if self._ranges is not None:
            self._ranges.stage(old_addresses, addresses, old_ports, ports)
        for address in old_addresses:
            if address not in addresses:
                self._addresses.pop(address, None)
                name = self._info.key("", address)
                record = self._store.staged(name)
                if record is not None:
                    self._store.stage(name, None, last=partial(with_revision, record.value, record.revision))
        for address in addresses if self._complete else ():
            if address not in old_addresses:
                self._stage_object(address, change.key)

    def _restore(self, address: str) -> None:
        """Stage a deleted IPAddress again if a Service has the address (upstream: the repair controller)."""
        key = self._addresses.get(address, "")
        record = self._store.staged(key) if self._complete and key else None
        if record is not None and address in _addresses(record.value):
            self._stage_object(address, key)

    def _stage_object(self, address: str, service: str) -> Staged | None:
        """Stage the IPAddress of a Service; None if it exists."""
        key = self._info.key("", address)
        if self._store.staged(key) is not None:
            return None
        _empty, _resource, namespace, name = service.split("/")
        meta: Object = {
            "name": address,
            "uid": self._env.uid(),
            "creationTimestamp": self._time.now(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family_of(address),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        }
        parent = {"resource": "services", "namespace": namespace, "name": name}
        obj: Object = {"metadata": meta, "spec": {"parentRef": parent}}

        def encode(revision: int) -> bytes:
            meta["resourceVersion"] = str(revision)
            return encode_object(self._info, obj)

        return self._store.stage(key, encode, expected=0)


def _spec(value: bytes) -> _Spec:
    try:
        return _read(value).spec
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Spec()  # an invalid stored object has no allocations


def _addresses(value: bytes) -> tuple[str, ...]:
    return tuple(address for address in _spec(value).clusterIPs if address and address != "None")


def _ports(value: bytes) -> tuple[int, ...]:
    spec = _spec(value)
    ports = tuple(port.nodePort for port in spec.ports if port.nodePort)
    return (*ports, spec.healthCheckNodePort) if spec.healthCheckNodePort else ports


class IPAllocator:
    """Finds free cluster IPs of one IP family. ``networks`` are its ranges, in order of preference."""

    def __init__(self, env: Env, networks: Callable[[], Iterable[Network]], allocations: Allocations) -> None:
        self._env = env
        self._networks = networks
        self._allocations = allocations

    def out_of_range(self, address: str, *, dry_run: bool = False) -> str:
        """The error if the address is in none of the ranges, else an empty string."""
        ip = ipaddress.ip_address(address)
        networks = tuple(self._networks())
        if any(prefix_contains_ip(network, ip) for network in networks):
            return ""
        if dry_run and networks:
            return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {networks[0]}"
        return "the provided network does not match the current range"

    def allocated_error(self, address: str) -> str:
        """Why the address cannot be allocated, or an empty string."""
        canonical = str(ipaddress.ip_address(address))
        is_allocated = self._allocations.holder_of_address(canonical) or self._allocations.is_reserved_address(
            canonical
        )
        return ALLOCATED_ADDRESS if is_allocated else ""

    def network_address(self) -> str:
        """The placeholder for an address in the response to a dry run."""
        return next((str(network.network_address) for network in self._networks()), "")

    def find_free(self) -> str:
        """A free address, or an empty string. The lower part of each range is used last, so that it stays free for
        Services that specify an address."""
        for network in self._networks():
            for offset in _offsets(self._env, network):
                address = str(network[offset])
                if not self._allocations.holder_of_address(address) and not self._allocations.is_reserved_address(
                    address
                ):
                    return address
        return ""


def _offsets(env: Env, network: Network) -> Iterator[int]:
    """All usable offsets of a range: the upper part from a random offset, then the static band."""
    size = network.num_addresses
    # The last address of an IPv4 range is the broadcast address.
    end = size - 1 if network.version == 4 else size
    static_size = min(max(16, size // 16), 256) if size > 16 else 0
    upper_band = range(static_size + 1, end)
    if upper_band:
        start = env.stream("apiserver service addresses").randrange(len(upper_band))
        for step in range(len(upper_band)):
            yield upper_band[(start + step) % len(upper_band)]
    yield from range(1, min(static_size + 1, end))


class PortAllocator:
    """Finds free node ports."""

    def __init__(self, env: Env, allocations: Allocations) -> None:
        self._env = env
        self._allocations = allocations

    def allocation_error(self, port: int) -> str:
        """The error if the port is out of range or allocated, else an empty string."""
        if port not in NODE_PORTS:
            return (
                f"provided port is not in the valid range. The range of valid ports is "
                f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            )
        return self.allocated_error(port)

    def allocated_error(self, port: int) -> str:
        """The error if the port is allocated, else an empty string."""
        return _ALLOCATED_PORT if self._allocations.holder_of_port(port) or self._allocations.is_reserved(port) else ""

    def find_free(self, except_for: Iterable[int]) -> int:
        """A free port that is not in ``except_for``; 0 when there is none."""
        excluded = frozenset(except_for)
        upper_band = NODE_PORTS[_STATIC_PORTS:]
        start = self._env.stream("apiserver node ports").randrange(len(upper_band))
        for candidates in (upper_band[start:], upper_band[:start], NODE_PORTS[:_STATIC_PORTS]):
            for port in candidates:
                if (
                    port not in excluded
                    and not self._allocations.holder_of_port(port)
                    and not self._allocations.is_reserved(port)
                ):
                    return port
        return 0


class PortAllocationOperation:
    """The node ports of one write (``portallocator.PortAllocationOperation``)."""

    def __init__(self, pool: PortAllocator, *, dry_run: bool) -> None:
        self._pool = pool
        self._dry_run = dry_run
        self._allocated: list[int] = []

    def allocate(self, port: int) -> str:
        """Allocate this port; returns the error, or an empty string."""
        reason = self._pool.allocated_error(port) if self._dry_run else self._pool.allocation_error(port)
        if not reason and port in self._allocated:
            reason = _ALLOCATED_PORT
        if not reason:
            self._allocated.append(port)
        return reason

    def allocate_next(self, noun: str) -> int:
        """Allocate any free port; in a dry run a placeholder. Raises if the range is full."""
        if self._dry_run:
            port = max(self._allocated, default=NODE_PORTS.stop) + 1
        else:
            port = self._pool.find_free(self._allocated)
        if not port:
            raise errors.internal(f"failed to allocate a {noun}: range is full")
        self._allocated.append(port)
        return port
