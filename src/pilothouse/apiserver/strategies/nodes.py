"""Nodes: their status is taken on create, too; what a node is called elsewhere may be set once.

After kubernetes' ``pkg/registry/core/node`` and ``pkg/apis/core/validation`` (v1.36).
"""

import re
from collections.abc import Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.amounts import amount_problems
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child
from pilothouse.apiserver.strategies.network_forms import range_problems
from pilothouse.machinery.cidrs import parse_cidr
from pilothouse.machinery.names import label_value_errors, qualified_name_errors
from pilothouse.machinery.quantities import canonicalize

_LONGEST_FEATURE = 253
_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", re.ASCII)
_NO_FEATURE = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_INFO = (
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


def _range_problems(ranges: Sequence[str | None]) -> list[FieldError]:
    """What is wrong with the addresses of a node's pods: one range, or one of each family."""
    problems: list[FieldError] = []
    families: list[int] = []
    for position, text in enumerate(ranges):
        problems += range_problems(text or "", f"spec.podCIDRs[{position}]")
        try:
            families.append(parse_cidr(text or "").version)
        except ValueError:
            continue
    if len(ranges) > 1 and sorted(families) != [4, 6]:
        told = "may specify no more than one CIDR for each IP family"
        problems.append(errors.invalid_value("spec.podCIDRs", [text or "" for text in ranges], told))
    return problems


def _amount_problems(status: Object) -> list[FieldError]:
    """What is wrong with what a node has (``ValidateNodeResources``)."""
    problems: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, amount in (status.get(field) or {}).items():
            problems += amount_problems(name, amount, f"status.{field}.{name}")
    return problems


def _feature_problems(features: Sequence[str]) -> list[FieldError]:
    """What is wrong with the features that a node declares: each once, in order (``validateNodeDeclaredFeatures``)."""
    problems: list[FieldError] = []
    for position, name in enumerate(features):
        path, before = f"status.declaredFeatures[{position}]", features[position - 1] if position else ""
        if position and name == before:
            problems.append(errors.duplicate(path, name))
        elif name < before:
            problems.append(errors.invalid_value(path, name, "list must be sorted alphabetically"))
        if len(name.encode()) > _LONGEST_FEATURE:
            told = f"must be no more than {_LONGEST_FEATURE} characters"
            problems.append(errors.invalid_value(path, name, f"invalid feature name {errors.shown(name)}: {told}"))
        elif _feature.fullmatch(name) is None:
            problems.append(
                errors.invalid_value(path, name, f"invalid feature name {errors.shown(name)}: {_NO_FEATURE}")
            )
    return problems


def _address_problems(addresses: Sequence[Object]) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, entry in enumerate(addresses):
        kind, address = entry.get("type") or "", entry.get("address") or ""
        if (kind, address) in seen:
            problems.append(errors.duplicate(f"status.addresses[{position}]", {"Type": kind, "Address": address}))
        seen.add((kind, address))
    return problems


def _told_twice(path: str, taint: Object) -> FieldError:
    shown = {name: taint.get(wire) or "" for name, wire in (("Key", "key"), ("Value", "value"), ("Effect", "effect"))}
    found = errors.duplicate(path, {**shown, "TimeAdded": taint.get("timeAdded")})
    return FieldError(found.field, found.reason, f"{found.text}: taints must be unique by key and effect pair")


class NodeStrategy(Strategy):
    """Unschedulable, taints and configSource are free to change."""

    keeps_status_on_create = True
    selectable = {"spec.unschedulable": ("spec", "unschedulable")}  # read only
    selectable_defaults = {"spec.unschedulable": "false"}  # read only
    selectable_namespace = False

    def default(self, obj: Object) -> None:
        status = obj.get("status")
        if status:
            for field in ("capacity", "allocatable"):
                canonicalize(status.get(field))
            if status.get("allocatable") is None and status.get("capacity"):
                status["allocatable"] = dict(status["capacity"])
        spec = obj.setdefault("spec", {})
        # One field in two shapes (pkg/apis/core/v1/conversion.go, Convert_v1_NodeSpec_To_core_NodeSpec, v1.36).
        if spec.get("podCIDRs"):
            if not spec.get("podCIDR") or spec["podCIDR"] == spec["podCIDRs"][0]:
                spec["podCIDR"] = spec["podCIDRs"][0]
            else:
                spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDR"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        if not spec.get("unschedulable"):
            spec.pop("unschedulable", None)

    def finish(self, obj: Object) -> None:
        status: dict[str, Any] = obj.setdefault("status", {})
        # Neither of the two is left out when it is empty (k8s.io/api v0.36, core/v1 DaemonEndpoint).
        child(child(status, "daemonEndpoints"), "kubeletEndpoint").setdefault("Port", 0)
        for image in status.get("images") or ():
            # A list without omitempty: Go writes null for none (k8s.io/api v0.36, core/v1 ContainerImage).
            image["names"] = image.get("names") or None
        known = status.get("nodeInfo") or {}
        status["nodeInfo"] = {**{field: known.get(field) or "" for field in _NODE_INFO}, **known}

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        seen: set[tuple[str, str]] = set()
        for position, taint in enumerate(obj.get("spec", {}).get("taints") or ()):
            path = f"metadata.taints[{position}]"
            key, effect = taint.get("key") or "", taint.get("effect") or ""
            value = taint.get("value") or ""
            problems += [errors.invalid_value(f"{path}.key", key, text) for text in qualified_name_errors(key)]
            found = label_value_errors(value)
            if found:
                problems.append(errors.invalid_value(f"{path}.value", value, ";".join(found)))
            if not effect:
                problems.append(errors.required(f"{path}.effect"))
            elif effect not in _EFFECTS:
                problems.append(errors.not_supported(f"{path}.effect", effect, _EFFECTS))
            if (key, effect) in seen:
                problems.append(_told_twice(path, taint))
            seen.add((key, effect))
        status = obj.get("status") or {}
        problems += _amount_problems(status) + _feature_problems(status.get("declaredFeatures") or ())
        return problems + _range_problems((obj.get("spec") or {}).get("podCIDRs") or ())

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if spec == before:
            return []
        problems = self.validate_again(obj)
        told = 'node updates may not change {} except from "" to valid'
        ranges, known = spec.get("podCIDRs") or (), before.get("podCIDRs") or ()
        changes = sum(new != was for new, was in zip(ranges, known, strict=False)) if len(ranges) == len(known) else 1
        if known:
            problems += [errors.not_allowed("spec.podCIDRs", told.format("podCIDR"))] * changes
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            problems.append(errors.not_allowed("spec.providerID", told.format("providerID")))
        if spec.get("externalID") != before.get("externalID"):
            problems.append(errors.not_allowed("spec.externalID", "may not be updated"))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status, before = obj.get("status") or {}, old.get("status") or {}
        problems: list[FieldError] = []
        if any(status.get(field) != before.get(field) for field in ("capacity", "allocatable")):
            problems += _amount_problems(status)
        if status.get("declaredFeatures") != before.get("declaredFeatures"):
            problems += _feature_problems(status.get("declaredFeatures") or ())
        if status.get("addresses") != before.get("addresses"):
            problems += _address_problems(status.get("addresses") or ())
        return problems

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"
