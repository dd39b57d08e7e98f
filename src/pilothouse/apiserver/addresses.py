"""Cluster addresses and node ports of services.

Runs as admission, because giving an address means looking at all services; what is taken is kept in memory and
follows the store. Single stack only. After kubernetes' ``pkg/registry/core/service/storage/alloc.go`` (v1.36):
dynamic addresses come from the upper part of the range, node ports likewise, so that the lower part stays free for
static requests.
"""

import ipaddress

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission import Admission, Plugin
from pilothouse.apiserver.objects import Object
from pilothouse.env import Env
from pilothouse.storage import Store

_NODE_PORTS = range(30000, 32768)
_STATIC_PORTS = 86
_MANAGER = "ipallocator.k8s.io"


class _Port(msgspec.Struct, frozen=True):
    nodePort: int = 0  # noqa: N815  # as on the wire


class _Spec(msgspec.Struct, frozen=True):
    clusterIP: str = ""  # noqa: N815  # as on the wire
    ports: tuple[_Port, ...] = ()
    healthCheckNodePort: int = 0  # noqa: N815  # as on the wire


class _Service(msgspec.Struct):
    spec: _Spec = _Spec()


_read = msgspec.json.Decoder(_Service).decode


def first_address(service_range: str) -> str:
    """The address of the service ``kubernetes``."""
    return str(ipaddress.ip_network(service_range)[1])


def address_object(address: str, namespace: str, service: str) -> Object:
    """The IPAddress that says which service has the address."""
    family = f"IPv{ipaddress.ip_address(address).version}"
    labels = {"ipaddress.kubernetes.io/ip-family": family}
    return {
        "metadata": {"name": address, "labels": {**labels, "ipaddress.kubernetes.io/managed-by": _MANAGER}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
    }


class ServiceAddresses(Plugin):
    """Gives services what they have no address or port of."""

    def __init__(self, env: Env, store: Store, service_range: str) -> None:
        self._env = env
        self._store = store
        self._network = ipaddress.ip_network(service_range)
        size = self._network.num_addresses
        self._static = min(max(16, size // 16), 256)

    def admit(self, write: Admission) -> None:
        info, obj = write.info, write.obj
        if info.resource != "services" or info.group or write.subresource or obj is None:
            return
        spec: Object = obj.get("spec") or {}
        kind = spec.get("type")
        if kind == "ExternalName" or kind not in ("ClusterIP", "NodePort", "LoadBalancer"):
            return
        if write.old is not None:
            # What the client leaves out on update stays; PrepareUpdate sees to that. Here only what was never there.
            before = write.old.get("spec") or {}
            for field in ("clusterIP", "clusterIPs"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]
        self._give_address(write, spec)
        if kind in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts") is not False:
            self._give_ports(write, spec)
        if (
            kind == "LoadBalancer"
            and spec.get("externalTrafficPolicy") == "Local"
            and not spec.get("healthCheckNodePort")
        ):
            taken = {port.nodePort for service in self._services() for port in service.spec.ports}
            taken |= {service.spec.healthCheckNodePort for service in self._services()}
            taken |= {port.get("nodePort") or 0 for port in spec.get("ports") or ()}
            spec["healthCheckNodePort"] = self._free_port(taken)

    def _give_address(self, write: Admission, spec: Object) -> None:
        address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        headless = address == "None"
        if not address:
            address = self._free_address()
        elif not headless and write.old is None:
            self._check(write, address)
        spec["clusterIP"] = address
        if not spec.get("clusterIPs"):
            spec["clusterIPs"] = [address]
        if not spec.get("ipFamilies"):
            spec["ipFamilies"] = ["IPv4", "IPv6"] if headless and not spec.get("selector") else ["IPv4"]
        if not spec.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = "RequireDualStack" if len(spec["ipFamilies"]) > 1 else "SingleStack"

    def _check(self, write: Admission, address: str) -> None:
        why = ""
        try:
            inside = ipaddress.ip_address(address) in self._network
        except ValueError:
            problem = errors.invalid_value("spec.clusterIPs[0]", address, "must be a valid IP address")
            raise errors.invalid("", "Service", write.name, [problem]) from None
        if not inside:
            why = "the provided network does not match the current range"
        elif address in self._taken_addresses():
            why = "provided IP is already allocated"
        if why:
            problem = errors.invalid_value("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")
            raise errors.invalid("", "Service", write.name, [problem])

    def _services(self) -> list[_Service]:
        return [_read(record.value) for record in self._store.list("/services/").records]

    def _taken_addresses(self) -> set[str]:
        return {service.spec.clusterIP for service in self._services()}

    def _free_address(self) -> str:
        taken = self._taken_addresses()
        size = self._network.num_addresses
        upper = range(self._static + 1, size - 1)
        random = self._env.stream("apiserver service addresses")
        start = random.randrange(len(upper)) if upper else 0
        for offset in [*(upper[(start + i) % len(upper)] for i in range(len(upper))), *range(1, self._static + 1)]:
            address = str(self._network[offset])
            if address not in taken:
                return address
        raise errors.internal("failed to allocate a serviceIP: range is full")

    def _give_ports(self, write: Admission, spec: Object) -> None:
        ports = spec.get("ports") or ()
        known: dict[str, int] = {}
        if write.old is not None:
            known = {
                port.get("name") or "": port["nodePort"]
                for port in (write.old.get("spec") or {}).get("ports") or ()
                if port.get("nodePort")
            }
        taken = {port.nodePort for service in self._services() for port in service.spec.ports if port.nodePort}
        taken |= {service.spec.healthCheckNodePort for service in self._services()}
        by_number: dict[int, int] = {}
        for position, port in enumerate(ports):
            given = port.get("nodePort") or known.get(port.get("name") or "")
            if given and given not in known.values():
                path = f"spec.ports[{position}].nodePort"
                why = ""
                if given not in _NODE_PORTS:
                    why = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                elif given in taken:
                    why = "provided port is already allocated"
                if why:
                    raise errors.invalid("", "Service", write.name, [errors.invalid_value(path, given, why)])
            if not given:
                # One number for TCP and UDP of the same port.
                given = by_number.get(port.get("port") or 0) or self._free_port(taken)
            taken.add(given)
            by_number[port.get("port") or 0] = given
            port["nodePort"] = given

    def _free_port(self, taken: set[int]) -> int:
        random = self._env.stream("apiserver node ports")
        upper = _NODE_PORTS[_STATIC_PORTS:]
        start = random.randrange(len(upper))
        candidates: list[int] = [*upper[start:], *upper[:start], *_NODE_PORTS[:_STATIC_PORTS]]
        for candidate in candidates:
            if candidate not in taken:
                return candidate
        raise errors.internal("failed to allocate a nodePort: range is full")
