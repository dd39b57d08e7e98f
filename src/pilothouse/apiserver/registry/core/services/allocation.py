"""Allocates cluster IPs, IP families and node ports of Services.

An admission plugin, because the allocators need all Services (``allocators``). After kubernetes'
``pkg/registry/core/service/storage/alloc.go`` and ``pkg/registry/core/service/strategy.go`` (v1.36).
"""

import ipaddress
from collections.abc import Sequence
from functools import partial

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.field_errors import ErrorList, format_value, invalid
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.registry.core.services.allocators import (
    ALLOCATED_ADDRESS,
    Allocations,
    IPAllocator,
    PortAllocationOperation,
    PortAllocator,
    family_of,
    ranges_of,
)
from pilothouse.apiserver.registry.core.services.service_types import (
    allocates_node_ports,
    is_headless,
    needs_cluster_ip,
    needs_hc_node_port,
    needs_node_port,
)
from pilothouse.apiserver.registry.core.services.strategy import normalize_cluster_ips, patch_allocated_values
from pilothouse.apiserver.registry.generic.object_fields import set_or_remove
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.cidrs import Network
from pilothouse.storage import Staged, Store

with lazy_imports():
    from pilothouse.apiserver.registry.core.services import validation as service_validation


_FAMILIES = ("IPv4", "IPv6")
_NETWORKING = "networking.k8s.io"
_SERVICE_CIDRS = "networking.k8s.io/servicecidrs/"
DEFAULT_SERVICE_CIDR = f"{_SERVICE_CIDRS}kubernetes"
"""The key of the default ServiceCIDR, which has the server's own ranges."""


class _ServiceCIDRSpec(msgspec.Struct, frozen=True):
    cidrs: tuple[str, ...] = ()


class _ServiceCIDRMeta(msgspec.Struct, frozen=True):
    deletionTimestamp: str = ""  # noqa: N815  # as on the wire


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _ServiceCIDRStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _ServiceCIDR(msgspec.Struct, frozen=True):
    metadata: _ServiceCIDRMeta = _ServiceCIDRMeta()
    spec: _ServiceCIDRSpec = _ServiceCIDRSpec()
    status: _ServiceCIDRStatus = _ServiceCIDRStatus()

    @property
    def is_ready(self) -> bool:
        """Whether addresses are allocated from the ServiceCIDR: its condition ``Ready`` is True or missing, and it is
        not being deleted."""
        conditions = [condition.status for condition in self.status.conditions if condition.type == "Ready"]
        return not self.metadata.deletionTimestamp and conditions[:1] in ([], ["True"])


_read_service_cidr = msgspec.json.Decoder(_ServiceCIDR).decode


def _networks_of(service_cidr: _ServiceCIDR) -> list[Network]:
    """The ranges of a ServiceCIDR from which addresses are allocated."""
    return [ipaddress.ip_network(cidr, strict=False) for cidr in service_cidr.spec.cidrs if service_cidr.is_ready]


class ServiceAddresses(Plugin):
    """Allocates cluster IPs and node ports of Services, and rejects specified ones that are not available."""

    resources = frozenset({"services"})

    def __init__(self, env: Env, store: Store, table: ResourceTable, service_range: str) -> None:
        self._store = store
        self._ranges = ranges_of(service_range)
        allocations = self._allocations = Allocations(env, store, table)
        self._pools = {
            f"IPv{network.version}": IPAllocator(env, partial(self._networks, network.version), allocations)
            for network in self._ranges
        }
        self._ports = PortAllocator(env, allocations)

    def repair(self) -> Staged | None:
        """Stage the missing IPAddresses of Services that existed before this server started. Returns the last write."""
        return self._allocations.repair()

    def _networks(self, version: int) -> list[Network]:
        """The ready ranges of one family: the server's own, then those of other ServiceCIDRs."""
        records = {record.key: _read_service_cidr(record.value) for record in self._store.list(_SERVICE_CIDRS).records}
        default_cidr = records.pop(DEFAULT_SERVICE_CIDR, None)
        networks = list(self._ranges)
        if default_cidr is not None:
            default_networks = _networks_of(default_cidr)
            # The stored ranges are used even if the flag has changed, unless it only adds the second family: upstream's
            # default ServiceCIDR controller does not update them.
            if not default_cidr.is_ready or networks[: len(default_networks)] != default_networks:
                networks = default_networks
        for service_cidr in records.values():
            networks += _networks_of(service_cidr)
        return [network for network in dict.fromkeys(networks) if network.version == version]

    def allocate(self, write: AdmissionAttributes) -> None:
        obj = write.obj
        if not _is_service_write(write) or obj is None:
            return
        if not write.dry_run:
            self.repair()
        spec: Object = obj.setdefault("spec", {})
        if self._store.is_shared:
            # If another server allocates the same values concurrently, the write is retried: with the values of the
            # request, and with newly allocated values for the rest.
            if write.requested is None:
                write.requested = _requested_values(spec)
            else:
                _restore_requested_values(spec, write.requested)
        old_spec: Object | None = None
        if write.old is not None:
            old_spec = write.old.get("spec") or {}
            patch_allocated_values(spec, old_spec)
        normalize_cluster_ips(spec, old_spec)
        if needs_cluster_ip(spec) and not _is_matching_prefer_dual_stack(spec, old_spec):
            self._init_families(write, spec, old_spec)
            self._allocate_addresses(write, spec, old_spec)
        self._allocate_ports(write, spec, old_spec)

    def validate(self, write: AdmissionAttributes) -> None:
        # Another write may have been staged since ``allocate``.
        obj = write.obj
        if not _is_service_write(write) or obj is None or write.dry_run or not needs_cluster_ip(obj["spec"]):
            return
        spec, key = obj["spec"], write.info.key(write.namespace, write.name)
        for address in spec.get("clusterIPs") or ():
            if address != "None" and self._allocations.holder_of_address(address) not in ("", key):
                raise _not_allocated(write, spec, f" {address}: {ALLOCATED_ADDRESS}")

    # Families

    def _init_families(self, write: AdmissionAttributes, spec: Object, old_spec: Object | None) -> None:
        """``initIPFamilyFields``: set ``ipFamilyPolicy`` and ``ipFamilies``, and validate them."""
        if spec.get("ipFamilyPolicy") is None:
            if old_spec is not None and old_spec.get("ipFamilyPolicy") is not None:
                spec["ipFamilyPolicy"] = old_spec["ipFamilyPolicy"]
            else:
                spec["ipFamilyPolicy"] = "RequireDualStack" if _is_headless_without_selector(spec) else "SingleStack"
        _raise_if_invalid(write, service_validation.validate_service_cluster_ips_related_fields(spec, old_spec))
        all_errors = _trim_secondary(spec, old_spec) if old_spec is not None else []
        _raise_if_invalid(write, all_errors + _validate_single_stack(spec) + self._infer_families(spec))
        families: list[str] = spec.setdefault("ipFamilies", [])
        default_family, is_single = next(iter(self._pools)), spec["ipFamilyPolicy"] == "SingleStack"
        if _is_headless_without_selector(spec):
            # Without a selector the endpoints can be of any family, even in a single-stack cluster.
            families += [] if families else [default_family]
            families += [] if is_single or len(families) > 1 else [_other_family(families[0])]
            return
        if spec["ipFamilyPolicy"] == "RequireDualStack" and len(self._pools) < 2:
            detail = "this cluster is not configured for dual-stack services"
            all_errors.append(invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], detail))
        all_errors += [
            invalid(f"spec.ipFamilies[{position}]", family, "not configured on this cluster")
            for position, family in enumerate(families)
            if family not in self._pools
        ]
        _raise_if_invalid(write, all_errors)
        families += [] if families else [default_family]
        if not is_single and len(families) == 1 and len(self._pools) == 2:
            families.append(_other_family(families[0]))

    def _infer_families(self, spec: Object) -> ErrorList:
        """Add the families of specified cluster IPs to ``ipFamilies``."""
        errors: ErrorList = []
        addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
        for position, address in enumerate(addresses):
            if address == "None":
                break
            family = family_of(address)
            if position < len(families):
                continue
            if family in self._pools:
                families = spec["ipFamilies"] = [*families, family]
            else:
                detail = f"{family} is not configured on this cluster"
                errors.append(invalid(f"spec.clusterIPs[{position}]", addresses, detail))
        return errors

    # Addresses

    def _allocate_addresses(self, write: AdmissionAttributes, spec: Object, old_spec: Object | None) -> None:
        """``allocClusterIPs`` and ``updateClusterIPs``."""
        families, start = spec["ipFamilies"], 0
        if old_spec is not None and needs_cluster_ip(old_spec):
            if is_headless(old_spec) or not len(old_spec.get("ipFamilies") or ()) == 1 < len(families):
                return
            start = 1
        elif is_headless(spec) or (spec.get("clusterIPs") or ())[:1] == ["None"]:
            return
        addresses: list[str] = spec.setdefault("clusterIPs", [])
        addresses += [""] * (len(families) - len(addresses))
        for position in range(start, len(families)):
            addresses[position] = self._allocate_address(write, spec, families[position], addresses[position])
        spec["clusterIP"] = addresses[0]

    def _allocate_address(self, write: AdmissionAttributes, spec: Object, family: str, requested: str) -> str:
        pool = self._pools[family]
        address = requested or (pool.network_address() if write.dry_run else pool.find_free())
        if not address:
            name = format_value(write.name)
            raise errors.internal(f"failed to allocate a serviceIP for Service {name}: range is full")
        reason = pool.out_of_range(address, dry_run=write.dry_run) if requested else ""
        if not write.dry_run:
            reason = reason or _validate_parent(write, address) or pool.allocated_error(address)
        if reason:
            raise _not_allocated(write, spec, f" {requested}: {reason}" if requested else f": {reason}")
        return address

    # Ports

    def _allocate_ports(self, write: AdmissionAttributes, spec: Object, old_spec: Object | None) -> None:
        """``txnAllocNodePorts`` and ``txnUpdateNodePorts``."""
        operation = PortAllocationOperation(self._ports, dry_run=write.dry_run)
        if needs_node_port(spec):
            if old_spec is None:
                _init_node_ports(write, spec, operation)
            else:
                _update_node_ports(write, spec, old_spec, operation)
        if needs_hc_node_port(spec) and (old_spec is None or not needs_hc_node_port(old_spec)):
            requested = spec.get("healthCheckNodePort") or 0
            reason = operation.allocate(requested) if requested else ""
            if reason:
                raise errors.internal(f"failed to allocate requested HealthCheck NodePort {requested}: {reason}")
            if not requested:
                spec["healthCheckNodePort"] = operation.allocate_next("HealthCheck NodePort 0")


def _init_node_ports(write: AdmissionAttributes, spec: Object, operation: PortAllocationOperation) -> None:
    """``initNodePorts``: ports with the same number and different protocols share a node port."""
    ports: Sequence[Object] = spec.get("ports") or ()
    requested: dict[int, int] = {}
    for port in ports:
        if port.get("nodePort"):
            requested.setdefault(port.get("port") or 0, port["nodePort"])
    allocated: dict[int, int] = {}
    for position, port in enumerate(ports):
        number, node_port = port.get("port") or 0, port.get("nodePort") or 0
        if not node_port and not allocates_node_ports(spec):
            continue
        if number in allocated:
            if not node_port:
                port["nodePort"] = allocated[number]
            elif node_port != allocated[number]:
                _reject_node_port(write, position, node_port, operation.allocate(node_port))
            continue
        if number in requested:
            _reject_node_port(write, position, requested[number], operation.allocate(requested[number]))
            port["nodePort"] = requested[number]
        else:
            port["nodePort"] = operation.allocate_next("nodePort")
        allocated[number] = port["nodePort"]


def _update_node_ports(
    write: AdmissionAttributes, spec: Object, old_spec: Object, operation: PortAllocationOperation
) -> None:
    old_node_ports = {port.get("nodePort") for port in old_spec.get("ports") or ()}
    unique_ports: set[tuple[str, int]] = set()
    allocated: set[int] = set()
    for position, port in enumerate(spec.get("ports") or ()):
        node_port = port.get("nodePort") or 0
        if not node_port and not allocates_node_ports(spec):
            continue
        if not node_port:
            node_port = port["nodePort"] = operation.allocate_next("nodePort")
        elif node_port not in old_node_ports and node_port not in allocated:
            _reject_node_port(write, position, node_port, operation.allocate(node_port))
            allocated.add(node_port)
        key = (port.get("protocol") or "", node_port)
        if key in unique_ports:
            raise errors.plain(f"duplicate nodePort: {{{key[0]} {node_port}}}")
        unique_ports.add(key)


def _reject_node_port(write: AdmissionAttributes, position: int, node_port: int, reason: str) -> None:
    if reason:
        _raise_if_invalid(write, [invalid(f"spec.ports[{position}].nodePort", node_port, reason)])


def _requested_values(spec: Object) -> Object:
    """The requested values of the fields that are allocated."""
    fields = {name: spec.get(name) for name in ("clusterIP", "healthCheckNodePort")}
    addresses = spec.get("clusterIPs")
    node_ports = [port.get("nodePort") for port in spec.get("ports") or ()]
    return {**fields, "clusterIPs": None if addresses is None else list(addresses), "nodePorts": node_ports}


def _restore_requested_values(spec: Object, requested: Object) -> None:
    for name in ("clusterIP", "healthCheckNodePort", "clusterIPs"):
        value = requested[name]
        set_or_remove(spec, name, list(value) if isinstance(value, list) else value)
    for port, node_port in zip(spec.get("ports") or (), requested["nodePorts"], strict=False):
        set_or_remove(port, "nodePort", node_port)


def _is_service_write(write: AdmissionAttributes) -> bool:
    return write.info.resource == "services" and not write.info.group and not write.subresource


def _is_matching_prefer_dual_stack(spec: Object, old_spec: Object | None) -> bool:
    """Whether the fields of a PreferDualStack Service have not changed: it is then not upgraded to dual-stack
    (``isMatchingPreferDualStackClusterIPFields``)."""
    return (
        old_spec is not None
        and spec.get("type") in ("ClusterIP", "NodePort", "LoadBalancer")
        and spec.get("ipFamilyPolicy") == "PreferDualStack"
        and old_spec.get("ipFamilyPolicy") in (None, "PreferDualStack")
        and all((spec.get(field) or None) == old_spec.get(field) for field in ("type", "ipFamilies", "clusterIPs"))
    )


def _is_headless_without_selector(spec: Object) -> bool:
    """Whether the Service is headless and has no selector."""
    return spec.get("clusterIP") == "None" and not spec.get("selector")


def _trim_secondary(spec: Object, old_spec: Object) -> ErrorList:
    """Drop the secondary cluster IP and family of a Service that becomes SingleStack; removing them requires
    SingleStack."""
    errors: ErrorList = []
    for field, noun in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        values, old_values = spec.get(field) or [], old_spec.get(field) or []
        if spec["ipFamilyPolicy"] != "SingleStack":
            if 0 < len(values) < len(old_values):
                detail = f"must be 'SingleStack' to release the secondary {noun}"
                errors.append(invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], detail))
        elif values == old_values and len(values) > 1:
            spec[field] = values[:1]
    return errors


def _validate_single_stack(spec: Object) -> ErrorList:
    if spec["ipFamilyPolicy"] != "SingleStack":
        return []
    detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    return [
        invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], detail.format(noun))
        for field, noun in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
        if len(spec.get(field) or ()) == 2
    ]


def _other_family(family: str) -> str:
    return _FAMILIES[1] if family == _FAMILIES[0] else _FAMILIES[0]


def _validate_parent(write: AdmissionAttributes, address: str) -> str:
    """The error of an IPAddress for this Service. It is created before the name of the Service is validated."""
    parent = {"resource": "services", "namespace": write.namespace, "name": write.name}
    all_errors = registration_of(_NETWORKING, "ipaddresses").strategy.validate({"spec": {"parentRef": parent}})
    return str(errors.invalid(_NETWORKING, "IPAddress", address, all_errors).message) if all_errors else ""


def _raise_if_invalid(write: AdmissionAttributes, all_errors: ErrorList) -> None:
    if all_errors:
        raise errors.invalid("", "Service", write.name, all_errors)


def _not_allocated(write: AdmissionAttributes, spec: Object, reason: str) -> errors.StatusError:
    error = invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP{reason}")
    return errors.invalid("", "Service", write.name, [error])
