"""The printer of Nodes. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from collections.abc import Mapping

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    nested_field,
    wide,
)


def print_node(value: Doc, now: Now) -> Row:
    status = nested_field(value, "status") or {}
    info = status.get("nodeInfo") or {}
    ready = [c.get("status") == "True" for c in status.get("conditions") or () if c.get("type") == "Ready"]
    status_text = "Unknown" if not ready else "Ready" if ready[0] else "NotReady"
    if nested_field(value, "spec", "unschedulable"):
        status_text += ",SchedulingDisabled"
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        status_text,
        ",".join(_roles(nested_field(value, "metadata", "labels") or {})) or NONE,
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: Mapping[str, str]) -> list[str]:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(role for role in roles if role)


def _address(status: Doc, kind: str) -> str:
    for address in status.get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address"))
    return NONE


PRINTER = Printer(
    (
        NAME,
        *columns("Status", "Roles"),
        AGE,
        *columns("Version"),
        *wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    print_node,
)
