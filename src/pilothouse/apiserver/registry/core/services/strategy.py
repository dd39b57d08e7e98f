"""The strategy of Services.

After kubernetes' ``pkg/registry/core/service/strategy.go`` (v1.36). Cluster IPs and ports are allocated by the
admission plugin in ``allocation``, which calls the functions here first.
"""

from collections.abc import Iterable, Sequence

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.services.service_types import (
    allocates_node_ports,
    is_externally_accessible,
    needs_cluster_ip,
    needs_hc_node_port,
    needs_node_port,
)
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_load_balancer_status
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors

with lazy_imports():
    from pilothouse.apiserver.registry.core.services import defaults, validation, warnings


# Updates


def patch_allocated_values(spec: Object, old_spec: Object) -> None:
    """Keep allocated values that the client omits on update (``patchAllocatedValues``)."""
    if needs_cluster_ip(old_spec) and needs_cluster_ip(spec):
        if not spec.get("clusterIP") and old_spec.get("clusterIP"):
            spec["clusterIP"] = old_spec["clusterIP"]
        if not spec.get("clusterIPs") and old_spec.get("clusterIPs"):
            spec["clusterIPs"] = list(old_spec["clusterIPs"])
    if allocates_node_ports(old_spec) and allocates_node_ports(spec):
        _patch_node_ports(spec.get("ports") or (), old_spec.get("ports") or ())
    if needs_hc_node_port(old_spec) and needs_hc_node_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old_spec.get("healthCheckNodePort")


def _patch_node_ports(ports: Sequence[Object], old_ports: Sequence[Object]) -> None:
    old_node_ports = {port.get("name") or "": port.get("nodePort") or 0 for port in old_ports}
    used_node_ports = {port.get("nodePort") for port in ports if port.get("nodePort")} & set(old_node_ports.values())
    for port in ports:
        node_port = old_node_ports.get(port.get("name") or "")
        if not port.get("nodePort") and node_port and node_port not in used_node_ports:
            port["nodePort"] = node_port


def normalize_cluster_ips(spec: Object, old_spec: Object | None) -> None:
    """Set ``clusterIPs`` for clients that set only ``clusterIP`` (``normalizeClusterIPs``)."""
    cluster_ip, cluster_ips = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if old_spec is None:
        if cluster_ip and not cluster_ips:
            spec["clusterIPs"] = [cluster_ip]
        return
    old_cluster_ip, old_cluster_ips = old_spec.get("clusterIP") or "", old_spec.get("clusterIPs") or []
    if old_cluster_ips and not cluster_ips and cluster_ip == old_cluster_ip:
        spec["clusterIPs"] = list(old_cluster_ips)
    elif cluster_ip != old_cluster_ip and cluster_ips == old_cluster_ips:
        if cluster_ip:
            spec["clusterIPs"] = [cluster_ip]
        else:
            spec.pop("clusterIPs", None)


def drop_type_dependent_fields(spec: Object, old_spec: Object) -> None:
    """Drop the unchanged fields that the new type does not have (``dropTypeDependentFields``)."""

    def drop_unchanged(*fields: str) -> None:
        for field in fields:
            if field in spec and spec[field] == old_spec.get(field):
                del spec[field]

    if needs_cluster_ip(old_spec) and not needs_cluster_ip(spec):
        if all(spec.get(field) == old_spec.get(field) for field in ("clusterIP", "clusterIPs")):
            drop_unchanged("clusterIP", "clusterIPs")
        drop_unchanged("ipFamilies", "ipFamilyPolicy")
    if needs_node_port(old_spec) and not needs_node_port(spec) and _node_ports(spec) <= _node_ports(old_spec):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if needs_hc_node_port(old_spec) and not needs_hc_node_port(spec):
        drop_unchanged("healthCheckNodePort")
    if old_spec.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        drop_unchanged("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_externally_accessible(old_spec) and not is_externally_accessible(spec):
        drop_unchanged("externalTrafficPolicy")


def _node_ports(spec: Object) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


class ServiceStrategy(Strategy):
    """``v1`` Services."""

    allow_create_on_update = True
    return_deleted_object = True
    selectable = {  # read only
        "spec.clusterIP": ("spec", "clusterIP"),
        "spec.type": ("spec", "type"),
    }
    empty_status = {"loadBalancer": {}}  # read only
    validate_name = staticmethod(dns_label_errors)
    update_steps = ("object meta update", "update", "object")

    def set_defaults(self, obj: Object) -> None:
        defaults.set_defaults_service(obj)

    def canonicalize(self, obj: Object) -> None:
        super().canonicalize(obj)
        if obj["spec"]["type"] == "ExternalName":  # not serialized upstream (``defaultOnReadInternalTrafficPolicy``)
            obj["spec"].pop("internalTrafficPolicy", None)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return warnings.warnings_for_service(obj)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return warnings.warnings_for_service(obj)

    def warnings_on_status_update(self, obj: Object, old: Object) -> Iterable[str]:
        return warnings_for_load_balancer_status(obj.get("status") or {})

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        drop_type_dependent_fields(obj["spec"], old["spec"])
        if obj["spec"]["type"] != "LoadBalancer":
            obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}

    def validate(self, obj: Object) -> ErrorList:
        return validation.validate_service(obj, None)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_service(obj, old)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_service_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_load_balancer_status(obj, old)

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"
