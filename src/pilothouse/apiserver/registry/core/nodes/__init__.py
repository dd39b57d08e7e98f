"""Nodes. After kubernetes' ``pkg/registry/core/node`` and ``pkg/apis/core/validation`` (v1.36)."""

from collections.abc import Iterable
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.quantities import canonicalize

with lazy_imports():
    from pilothouse.apiserver.registry.core.nodes import printers as node_printers
    from pilothouse.apiserver.registry.core.nodes import validation as node_validation
    from pilothouse.apiserver.registry.core.nodes import warnings as node_warnings

_NODE_INFO_FIELDS = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


class NodeStrategy(Strategy):
    """Nodes: ``status`` is kept on create; ``configSource`` is dropped unless it is stored already."""

    update_steps = ("object meta", "object", "object meta update", "update")

    keeps_status_on_create = True
    selectable = {"spec.unschedulable": ("spec", "unschedulable")}  # read only
    selectable_defaults = {"spec.unschedulable": "false"}  # read only
    selectable_namespace = False

    def set_defaults(self, obj: Object) -> None:
        set_defaults_node(obj)

    def canonicalize(self, obj: Object) -> None:
        status: dict[str, Any] = obj.setdefault("status", {})
        # Both are serialized even if they are empty (k8s.io/api v0.36, core/v1 DaemonEndpoint).
        ensure_object(ensure_object(status, "daemonEndpoints"), "kubeletEndpoint").setdefault("Port", 0)
        for image in status.get("images") or ():
            # A list without omitempty: Go writes null for none (k8s.io/api v0.36, core/v1 ContainerImage).
            image["names"] = image.get("names") or None
        node_info = status.get("nodeInfo") or {}
        status["nodeInfo"] = {**{field: node_info.get(field) or "" for field in _NODE_INFO_FIELDS}, **node_info}

    def prepare_for_create(self, obj: Object, now: str) -> None:
        obj["spec"].pop("configSource", None)
        (obj.get("status") or {}).pop("config", None)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        if "configSource" not in old["spec"]:
            obj["spec"].pop("configSource", None)

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        if "config" not in (old.get("status") or {}):
            (obj.get("status") or {}).pop("config", None)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return node_warnings.warnings_for_node(obj)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        return node_validation.validate_node(obj)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return [] if obj.get("spec") == old.get("spec") else self.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return node_validation.validate_node_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return node_validation.validate_node_status_update(obj, old)

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def set_defaults_node(obj: Object) -> None:
    status = obj.get("status")
    if status:
        for field in ("capacity", "allocatable"):
            canonicalize(status.get(field))
        if status.get("allocatable") is None and status.get("capacity"):
            status["allocatable"] = dict(status["capacity"])
    spec = obj.setdefault("spec", {})
    # ``podCIDR`` is the first of ``podCIDRs`` (pkg/apis/core/v1/conversion.go, Convert_v1_NodeSpec_To_core_NodeSpec,
    # v1.36).
    if spec.get("podCIDRs"):
        if not spec.get("podCIDR") or spec["podCIDR"] == spec["podCIDRs"][0]:
            spec["podCIDR"] = spec["podCIDRs"][0]
        else:
            spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDR"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    if not spec.get("unschedulable"):
        spec.pop("unschedulable", None)


REGISTRATION = Registration(
    NodeStrategy(),
    printer=lambda: node_printers.PRINTER,
    etcd_prefix="minions",
)
