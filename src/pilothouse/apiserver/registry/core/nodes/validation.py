"""Validation of Nodes. After kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36)."""

import re
from collections.abc import Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    FieldError,
    duplicate,
    forbidden,
    format_value,
    internal_value,
    invalid,
    not_supported,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import validate_resource_quantity
from pilothouse.apiserver.registry.generic.ip_validation import validate_cidr_for_legacy_field
from pilothouse.machinery.cidrs import parse_cidr
from pilothouse.machinery.names import label_value_errors, qualified_name_errors

_MAX_FEATURE_LENGTH = 253
_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", re.ASCII)
_INVALID_FEATURE = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _validate_pod_cidrs(pod_cidrs: Sequence[str | None]) -> ErrorList:
    """``podCIDRs``: one CIDR, or one of each family."""
    errors: ErrorList = []
    families: list[int] = []
    for position, cidr in enumerate(pod_cidrs):
        errors += validate_cidr_for_legacy_field(cidr or "", f"spec.podCIDRs[{position}]")
        try:
            families.append(parse_cidr(cidr or "").version)
        except ValueError:
            continue
    if len(pod_cidrs) > 1 and sorted(families) != [4, 6]:
        detail = "may specify no more than one CIDR for each IP family"
        errors.append(invalid("spec.podCIDRs", [cidr or "" for cidr in pod_cidrs], detail))
    return errors


def _validate_node_resources(status: Object) -> ErrorList:
    errors: ErrorList = []
    for field in ("capacity", "allocatable"):
        for name, quantity in (status.get(field) or {}).items():
            errors += validate_resource_quantity(name, quantity, f"status.{field}.{name}")
    return errors


def _validate_declared_features(features: Sequence[str]) -> ErrorList:
    """``validateNodeDeclaredFeatures``: unique and sorted."""
    errors: ErrorList = []
    for position, name in enumerate(features):
        path = f"status.declaredFeatures[{position}]"
        if len(name.encode()) > _MAX_FEATURE_LENGTH:
            detail = f"must be no more than {_MAX_FEATURE_LENGTH} characters"
            errors.append(invalid(path, name, f"invalid feature name {format_value(name)}: {detail}"))
        elif _feature.fullmatch(name) is None:
            errors.append(invalid(path, name, f"invalid feature name {format_value(name)}: {_INVALID_FEATURE}"))
        following = features[position + 1] if position + 1 < len(features) else None
        path = f"status.declaredFeatures[{position + 1}]"
        if following == name:
            errors.append(duplicate(path, name))
        elif following is not None and following < name:
            errors.append(invalid(path, following, "list must be sorted alphabetically"))
    return errors


def _validate_node_addresses(addresses: Sequence[Object]) -> ErrorList:
    errors: ErrorList = []
    unique_addresses: set[tuple[str, str]] = set()
    for position, entry in enumerate(addresses):
        kind, address = entry.get("type") or "", entry.get("address") or ""
        if (kind, address) in unique_addresses:
            errors.append(duplicate(f"status.addresses[{position}]", internal_value("core.NodeAddress", entry)))
        unique_addresses.add((kind, address))
    return errors


def _validate_taints(taints: Sequence[Object]) -> ErrorList:
    """``validateNodeTaints``, with upstream's path ``metadata.taints``."""
    errors: ErrorList = []
    unique_taints: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        path = f"metadata.taints[{position}]"
        key, effect, value = (taint.get(field) or "" for field in ("key", "effect", "value"))
        errors += [invalid(f"{path}.key", key, msg) for msg in qualified_name_errors(key)]
        msgs = label_value_errors(value)
        if msgs:
            errors.append(invalid(f"{path}.value", value, ";".join(msgs)))
        if not effect:
            errors.append(required(f"{path}.effect"))
        elif effect not in _EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
        if (key, effect) in unique_taints:
            errors.append(_duplicate_taint(path, taint))
        unique_taints.add((key, effect))
    return errors


def _duplicate_taint(path: str, taint: Object) -> FieldError:
    error = duplicate(path, internal_value("core.Taint", taint))
    return FieldError(error.field, error.reason, f"{error.text}: taints must be unique by key and effect pair")


def validate_node(obj: Object) -> ErrorList:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    errors = _validate_taints(spec.get("taints") or ()) + _validate_node_resources(status)
    capacity = ((status.get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    if capacity is not None and capacity <= 0:
        errors.append(invalid("metadata.nodeSwapStatus.capacity", capacity, "must be greater than zero"))
    return (
        errors
        + _validate_declared_features(status.get("declaredFeatures") or ())
        + _validate_pod_cidrs(spec.get("podCIDRs") or ())
    )


def validate_node_update(obj: Object, old: Object) -> ErrorList:
    spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    if spec == old_spec:
        return []
    errors: ErrorList = []
    detail = 'node updates may not change {} except from "" to valid'
    pod_cidrs, old_pod_cidrs = spec.get("podCIDRs") or (), old_spec.get("podCIDRs") or ()
    change_count = (
        sum(cidr != old_cidr for cidr, old_cidr in zip(pod_cidrs, old_pod_cidrs, strict=False))
        if len(pod_cidrs) == len(old_pod_cidrs)
        else 1
    )
    if old_pod_cidrs:
        errors += [forbidden("spec.podCIDRs", detail.format("podCIDR"))] * change_count
    if old_spec.get("providerID") and spec.get("providerID") != old_spec["providerID"]:
        errors.append(forbidden("spec.providerID", detail.format("providerID")))
    errors += _validate_taints(spec.get("taints") or ())
    if spec.get("externalID") != old_spec.get("externalID"):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def validate_node_status_update(obj: Object, old: Object) -> ErrorList:
    status, old_status = obj.get("status") or {}, old.get("status") or {}
    errors: ErrorList = []
    if any(status.get(field) != old_status.get(field) for field in ("capacity", "allocatable")):
        errors += _validate_node_resources(status)
    if status.get("declaredFeatures") != old_status.get("declaredFeatures"):
        errors += _validate_declared_features(status.get("declaredFeatures") or ())
    if status.get("addresses") != old_status.get("addresses"):
        errors += _validate_node_addresses(status.get("addresses") or ())
    return errors
