"""Pools that services draw from: cluster addresses and node ports, what is taken of them and by whom.

What is taken follows the store as writes are staged, so that two creates of one turn never get the same. Each cluster
address has an IPAddress object (kubernetes' ``pkg/registry/core/service/ipallocator/cidrallocator.go``, v1.36), which
is staged together with the service: they become visible in one commit, and go together.

An entry may be stale after a commit that failed; the next user reads the service itself and drops the entry.
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
from pilothouse.machinery.cidrs import Network, gives
from pilothouse.storage import Change, Staged, Store

with lazy_imports():
    from pilothouse.apiserver.registry.core.services import range_allocations

SERVICES = "/services/"
NODE_PORTS = range(30000, 32768)
ALLOCATED_ADDRESS = "provided IP is already allocated"
_ALLOCATED_PORT = "provided port is already allocated"
_STATIC_PORTS = 86
"""The lower ports, which are handed out last: min(max(16, size/32), 128) (``portallocator``)."""


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


def ranges_of(text: str) -> tuple[Network, ...]:
    """The ranges of ``--service-cluster-ip-range``: one, or one of each family. Raises ``ValueError``."""
    found = tuple(ipaddress.ip_network(part.strip(), strict=False) for part in text.split(","))
    if len({network.version for network in found}) < len(found):
        raise ValueError("there may be one range of each family")
    return found


def first_address(service_range: str) -> str:
    """The address of the service ``kubernetes``."""
    return str(ranges_of(service_range)[0][1])


class Taken:
    """Addresses and node ports of all services, by the key of the service that has them."""

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
            self._note(record.key, record.value)
        for prefix in (SERVICES, self._info.prefix):
            store.follow_staged(prefix, self._follow)
        if store.is_shared:
            store.follow(SERVICES, self._note_others)

    def repair(self) -> Staged | None:
        """Stage the IPAddress of every service that has none, as upstream's repair controller; the last write.

        Services of the start, and of data directories from before there were any, have none. Called when the server
        runs or the first service is written, whichever is earlier; from then on each service brings its own.
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
        """The key of the service or IPAddress that has the address, or an empty string."""
        key = self._addresses.get(address)
        if key is not None:
            record = self._store.staged(key)
            if record is not None and address in _addresses(record.value):
                return key
            del self._addresses[address]
        name = self._info.key("", address)
        return name if self._store.staged(name) is not None else ""

    def holder_of_port(self, port: int) -> str:
        """The key of the service that has the node port, or an empty string."""
        key = self._ports.get(port)
        if key is None:
            return ""
        record = self._store.staged(key)
        if record is not None and port in _ports(record.value):
            return key
        del self._ports[port]
        return ""

    def is_reserved(self, port: int) -> bool:
        """Whether another server has taken the node port, whose service is not known here yet."""
        return self._ranges is not None and self._ranges.has_port(port)

    def is_reserved_address(self, address: str) -> bool:
        """The same for an address."""
        return self._ranges is not None and self._ranges.has_address(address)

    def _note_others(self, changes: Iterable[Change]) -> None:
        """What other servers have given to their services."""
        for change in changes:
            if change.type != "DELETED":
                self._note(change.key, change.value)

    def _note(self, key: str, value: bytes) -> None:
        for address in _addresses(value):
            self._addresses[address] = key
        for port in _ports(value):
            self._ports[port] = key

    def _follow(self, staged: Staged) -> None:
        change = staged.change
        if not change.key.startswith(SERVICES):
            if staged.record is None:
                self._restore(change.key.removeprefix(self._info.prefix))
            return
        before: tuple[str, ...] = ()
        ports_before: tuple[int, ...] = ()
        if change.before is not None:
            before, ports_before = _addresses(change.before.value), _ports(change.before.value)
            for port in ports_before:
                self._ports.pop(port, None)
        after: tuple[str, ...] = ()
        ports_after: tuple[int, ...] = ()
        if staged.record is not None:
            after, ports_after = _addresses(staged.record.value), _ports(staged.record.value)
            self._note(change.key, staged.record.value)
        if self._ranges is not None:
            self._ranges.stage(before, after, ports_before, ports_after)
        for address in before:
            if address not in after:
                self._addresses.pop(address, None)
                name = self._info.key("", address)
                record = self._store.staged(name)
                if record is not None:
                    self._store.stage(name, None, last=partial(with_revision, record.value, record.revision))
        for address in after if self._complete else ():
            if address not in before:
                self._stage_object(address, change.key)

    def _restore(self, address: str) -> None:
        """An IPAddress was deleted. A service that has the address keeps it (upstream: its repair controller)."""
        key = self._addresses.get(address, "")
        record = self._store.staged(key) if self._complete and key else None
        if record is not None and address in _addresses(record.value):
            self._stage_object(address, key)

    def _stage_object(self, address: str, service: str) -> Staged | None:
        """The IPAddress of a service, unless there is one."""
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

        def make(revision: int) -> bytes:
            meta["resourceVersion"] = str(revision)
            return encode_object(self._info, obj)

        return self._store.stage(key, make, expected=0)


def _spec(value: bytes) -> _Spec:
    try:
        return _read(value).spec
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Spec()  # an invalid stored object takes nothing, and does not block others


def _addresses(value: bytes) -> tuple[str, ...]:
    return tuple(address for address in _spec(value).clusterIPs if address and address != "None")


def _ports(value: bytes) -> tuple[int, ...]:
    spec = _spec(value)
    ports = tuple(port.nodePort for port in spec.ports if port.nodePort)
    return (*ports, spec.healthCheckNodePort) if spec.healthCheckNodePort else ports


class AddressPool:
    """The addresses of one family."""

    def __init__(self, env: Env, networks: Callable[[], Iterable[Network]], taken: Taken) -> None:
        self._env = env
        self._networks = networks
        self._taken = taken

    def out_of_range(self, address: str, *, dry_run: bool = False) -> str:
        """Why the address is none of the pool's, or an empty string."""
        found = ipaddress.ip_address(address)
        networks = tuple(self._networks())
        if any(gives(network, found) for network in networks):
            return ""
        if dry_run and networks:
            return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {networks[0]}"
        return "the provided network does not match the current range"

    def taken(self, address: str) -> str:
        """Why the address cannot be allocated, or an empty string."""
        known = str(ipaddress.ip_address(address))
        is_taken = self._taken.holder_of_address(known) or self._taken.is_reserved_address(known)
        return ALLOCATED_ADDRESS if is_taken else ""

    def network_address(self) -> str:
        """What stands for an address in an answer to a dry run."""
        return next((str(network.network_address) for network in self._networks()), "")

    def free(self) -> str:
        """A free address, or an empty string. The lower part of a range comes last, so that it stays free
        for those who ask for one."""
        for network in self._networks():
            for offset in _offsets(self._env, network):
                address = str(network[offset])
                if not self._taken.holder_of_address(address) and not self._taken.is_reserved_address(address):
                    return address
        return ""


def _offsets(env: Env, network: Network) -> Iterator[int]:
    """Every usable offset of a range: the upper part from a random place on, then the lower one."""
    size = network.num_addresses
    # The last address of an IPv4 range is its broadcast address.
    last = size - 1 if network.version == 4 else size
    static = min(max(16, size // 16), 256) if size > 16 else 0
    upper = range(static + 1, last)
    if upper:
        start = env.stream("apiserver service addresses").randrange(len(upper))
        for step in range(len(upper)):
            yield upper[(start + step) % len(upper)]
    yield from range(1, min(static + 1, last))


class PortPool:
    """Node ports."""

    def __init__(self, env: Env, taken: Taken) -> None:
        self._env = env
        self._taken = taken

    def allocation_error(self, port: int) -> str:
        """Why the port cannot be allocated, or an empty string."""
        if port not in NODE_PORTS:
            return (
                f"provided port is not in the valid range. The range of valid ports is "
                f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            )
        return self.taken(port)

    def taken(self, port: int) -> str:
        """The same for a valid port number."""
        return _ALLOCATED_PORT if self._taken.holder_of_port(port) or self._taken.is_reserved(port) else ""

    def free(self, besides: Iterable[int]) -> int:
        """A free port that is not in ``besides``; 0 when there is none."""
        mine = frozenset(besides)
        upper = NODE_PORTS[_STATIC_PORTS:]
        start = self._env.stream("apiserver node ports").randrange(len(upper))
        for candidates in (upper[start:], upper[:start], NODE_PORTS[:_STATIC_PORTS]):
            for port in candidates:
                if port not in mine and not self._taken.holder_of_port(port) and not self._taken.is_reserved(port):
                    return port
        return 0


class PortAllocation:
    """The node ports of one write (``portallocator.PortAllocationOperation``)."""

    def __init__(self, pool: PortPool, *, dry_run: bool) -> None:
        self._pool = pool
        self._dry_run = dry_run
        self._allocated: list[int] = []

    def allocate(self, port: int) -> str:
        """Why the write may not have the port, or an empty string."""
        reason = self._pool.taken(port) if self._dry_run else self._pool.allocation_error(port)
        if not reason and port in self._allocated:
            reason = _ALLOCATED_PORT
        if not reason:
            self._allocated.append(port)
        return reason

    def allocate_next(self, what: str) -> int:
        """A free port; in a dry run a placeholder. Raises if there is none."""
        if self._dry_run:
            port = max(self._allocated, default=NODE_PORTS.stop) + 1
        else:
            port = self._pool.free(self._allocated)
        if not port:
            raise errors.internal(f"failed to allocate a {what}: range is full")
        self._allocated.append(port)
        return port
