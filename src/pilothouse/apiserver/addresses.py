"""Cluster addresses, families and node ports of services: what a service asked for, and what it gets.

Runs as an admission plugin, because giving an address means looking at all services (``address_pools``). After
kubernetes' ``pkg/registry/core/service/storage/alloc.go`` and ``pkg/registry/core/service/strategy.go`` (v1.36).
"""

import ipaddress
from collections.abc import Sequence
from functools import partial

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.address_pools import (
    AddressPool,
    PortPool,
    Taken,
    family_of,
    ranges_of,
)
from pilothouse.apiserver.admission import Admission, Plugin
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.apiserver.strategies.services import (
    cluster_address_problems,
    drop_of_old_type,
    keep_allocated,
    needs_addresses,
    needs_health_check_port,
    needs_node_ports,
)
from pilothouse.env import Env
from pilothouse.machinery.cidrs import Network
from pilothouse.storage import Staged, Store

_FAMILIES = ("IPv4", "IPv6")
_RANGES = "networking.k8s.io/servicecidrs/"
OWN_RANGE = f"{_RANGES}kubernetes"
"""The key of the object that stands for the server's own ranges."""


class _RangeSpec(msgspec.Struct, frozen=True):
    cidrs: tuple[str, ...] = ()


class _RangeMeta(msgspec.Struct, frozen=True):
    deletionTimestamp: str = ""  # noqa: N815  # as on the wire


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _RangeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Range(msgspec.Struct, frozen=True):
    metadata: _RangeMeta = _RangeMeta()
    spec: _RangeSpec = _RangeSpec()
    status: _RangeStatus = _RangeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether addresses are taken of it. Where no controller says so, it is; not when it is being deleted."""
        conditions = [each.status for each in self.status.conditions if each.type == "Ready"]
        return not self.metadata.deletionTimestamp and conditions[:1] in ([], ["True"])


_read_range = msgspec.json.Decoder(_Range).decode


class ServiceAddresses(Plugin):
    """Gives services what they have no address or port of, and refuses what cannot be theirs."""

    concerns = frozenset({"services"})

    def __init__(self, env: Env, store: Store, table: ResourceTable, service_range: str) -> None:
        self._store = store
        self._ranges = ranges_of(service_range)
        taken = self._taken = Taken(env, store, table)
        self._pools = {
            f"IPv{network.version}": AddressPool(env, partial(self._networks, network.version), taken)
            for network in self._ranges
        }
        self._ports = PortPool(env, taken)

    def repair(self) -> Staged | None:
        """Make what services lack that were there before this server; the last write."""
        return self._taken.repair()

    def _networks(self, version: int) -> list[Network]:
        """The ranges of one family: the server's own, unless its object says otherwise, then those of other
        ServiceCIDRs that are ready."""
        records = {record.key: _read_range(record.value) for record in self._store.list(_RANGES).records}
        own = records.pop(OWN_RANGE, None)
        found: list[Network] = []
        if own is None or own.is_ready:
            found += [network for network in self._ranges if network.version == version]
        for stored in records.values():
            for cidr in stored.spec.cidrs if stored.is_ready else ():
                network = ipaddress.ip_network(cidr, strict=False)
                if network.version == version and network not in found:
                    found.append(network)
        return found

    def allot(self, write: Admission) -> None:
        obj = write.obj
        if not _concerns(write) or obj is None:
            return
        if not write.dry_run:
            self.repair()
        spec: Object = obj.setdefault("spec", {})
        before: Object | None = None
        if write.old is not None:
            before = write.old.get("spec") or {}
            keep_allocated(spec, before)
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        if before is not None:
            drop_of_old_type(spec, before)
        problems = cluster_address_problems(spec, before)
        if problems:
            raise errors.invalid("", "Service", write.name, problems)
        if not needs_addresses(spec):
            return
        key = write.info.key(write.namespace, write.name)
        self._settle_families(write, spec, before)
        if spec.get("clusterIP") != "None":
            self._give_addresses(write, spec, key)
        if needs_node_ports(spec):
            self._give_ports(write, spec, key)
        if needs_health_check_port(spec):
            self._give_health_check_port(spec, before, key)

    def review(self, write: Admission) -> None:
        # Between allot and here others may have had their turn.
        obj = write.obj
        if not _concerns(write) or obj is None or not needs_addresses(obj["spec"]):
            return
        spec, key = obj["spec"], write.info.key(write.namespace, write.name)
        for address in spec.get("clusterIPs") or ():
            if address != "None":
                why = self._pools[family_of(address)].why_not(address, key)
                if why == "provided IP is already allocated":
                    raise _not_allocated(write, spec, address, why)

    # Families

    def _settle_families(self, write: Admission, spec: Object, before: Object | None) -> None:
        if before is not None and _stays_preferred(spec, before):
            return
        headless, addresses = spec.get("clusterIP") == "None", spec.get("clusterIPs") or []
        families: list[str] = list(spec.get("ipFamilies") or ())
        policy = spec.get("ipFamilyPolicy")
        if policy is None and (len(addresses) == 2 or len(families) == 2):
            policy = "RequireDualStack"
        problems: list[FieldError] = []
        for position, address in enumerate(addresses):
            if address == "None":
                break
            if position < len(families):
                continue
            family = family_of(address)
            if family not in self._pools:
                why = f"{family} is not configured on this cluster"
                problems.append(errors.invalid_value(f"spec.clusterIPs[{position}]", addresses, why))
            else:
                families.append(family)
        if problems:
            raise errors.invalid("", "Service", write.name, problems)
        default = next(iter(self._pools))
        if headless and not spec.get("selector"):
            # Somebody else fills in the endpoints, of whatever family; also where the cluster has only one.
            policy = policy or "RequireDualStack"
            families = families or [default]
            if len(families) < 2 and policy != "SingleStack":
                families.append(_other(families[0]))
        else:
            policy = policy or "SingleStack"
            if policy == "RequireDualStack" and len(self._pools) < 2:
                told = "this cluster is not configured for dual-stack services"
                problems.append(errors.invalid_value("spec.ipFamilyPolicy", policy, told))
            problems += [
                errors.invalid_value(f"spec.ipFamilies[{position}]", family, "not configured on this cluster")
                for position, family in enumerate(families)
                if family not in self._pools
            ]
            if problems:
                raise errors.invalid("", "Service", write.name, problems)
            families = families or [default]
            if policy != "SingleStack" and len(families) == 1 and len(self._pools) == 2:
                families.append(_other(families[0]))
        spec["ipFamilies"], spec["ipFamilyPolicy"] = families, policy

    # Addresses

    def _give_addresses(self, write: Admission, spec: Object, key: str) -> None:
        wanted: list[str] = list(spec.get("clusterIPs") or ())
        given: list[str] = []
        for position, family in enumerate(spec["ipFamilies"]):
            pool = self._pools[family]
            if position < len(wanted) and wanted[position]:
                why = pool.why_not(wanted[position], key)
                if why:
                    raise _not_allocated(write, spec, wanted[position], why)
                given.append(wanted[position])
                continue
            address = pool.free()
            if not address:
                raise errors.internal("failed to allocate a serviceIP: range is full")
            given.append(address)
        spec["clusterIP"], spec["clusterIPs"] = given[0], given

    # Ports

    def _give_ports(self, write: Admission, spec: Object, key: str) -> None:
        ports: Sequence[Object] = spec.get("ports") or ()
        for position, port in enumerate(ports):
            asked = port.get("nodePort")
            why = self._ports.why_not(asked, key) if asked else ""
            if why:
                problem = errors.invalid_value(f"spec.ports[{position}].nodePort", asked, why)
                raise errors.invalid("", "Service", write.name, [problem])
        if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            return
        mine = {port["nodePort"] for port in ports if port.get("nodePort")}
        # One number serves TCP and UDP of the same port; a protocol has a number only once.
        of_number: dict[int, int] = {}
        used: set[tuple[str, int]] = set()
        for port in ports:
            if port.get("nodePort"):
                of_number.setdefault(port.get("port") or 0, port["nodePort"])
                used.add((port.get("protocol") or "", port["nodePort"]))
        for port in ports:
            if port.get("nodePort"):
                continue
            protocol = port.get("protocol") or ""
            given = of_number.get(port.get("port") or 0, 0)
            if not given or (protocol, given) in used:
                given = self._ports.free(mine)
            if not given:
                raise errors.internal("failed to allocate a nodePort: range is full")
            port["nodePort"] = given
            mine.add(given)
            used.add((protocol, given))
            of_number.setdefault(port.get("port") or 0, given)

    def _give_health_check_port(self, spec: Object, before: Object | None, key: str) -> None:
        asked = spec.get("healthCheckNodePort") or 0
        if asked:
            if before is not None and before.get("healthCheckNodePort") == asked:
                return
            why = self._ports.why_not(asked, key)
            if why:
                raise errors.internal(f"failed to allocate requested HealthCheck NodePort {asked}: {why}")
            return
        given = self._ports.free(port.get("nodePort") or 0 for port in spec.get("ports") or ())
        if not given:
            raise errors.internal("failed to allocate a HealthCheck NodePort: range is full")
        spec["healthCheckNodePort"] = given


def _concerns(write: Admission) -> bool:
    return write.info.resource == "services" and not write.info.group and not write.subresource


def _stays_preferred(spec: Object, before: Object) -> bool:
    """Whether a service that prefers two families asks for nothing new: it is not changed because the cluster has."""
    return spec.get("ipFamilyPolicy") == "PreferDualStack" and all(
        spec.get(field) == before.get(field) for field in ("ipFamilyPolicy", "ipFamilies", "clusterIPs", "clusterIP")
    )


def _other(family: str) -> str:
    return _FAMILIES[1] if family == _FAMILIES[0] else _FAMILIES[0]


def _not_allocated(write: Admission, spec: Object, address: str, why: str) -> errors.StatusError:
    asked = spec.get("clusterIPs") or [address]
    problem = errors.invalid_value("spec.clusterIPs", asked, f"failed to allocate IP {address}: {why}")
    return errors.invalid("", "Service", write.name, [problem])
