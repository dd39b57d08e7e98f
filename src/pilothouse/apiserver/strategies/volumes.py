"""Volumes and claims.

After kubernetes' ``pkg/apis/core/{v1/defaults.go,validation}`` and ``pkg/registry/core`` (v1.36).
"""

from posixpath import normpath
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import IMMUTABLE, child, fill, fixed
from pilothouse.apiserver.strategies.pod_rules import node_selector_problems
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.apiserver.strategies.volume_sources import mode_problems, volume_source_problems
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors
from pilothouse.machinery.quantities import Quantity, QuantityError, canonicalize, parse_quantity

_RECLAIM = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
_NOT_A_SOURCE = (
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
)
_POSITIVE = "must be greater than zero"
_IMMUTABLE_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_ZERO = parse_quantity("0")


def _mode_problems(spec: Object, why: str = "") -> list[FieldError]:
    problems = mode_problems(spec, "spec", why)
    volume_mode = spec.get("volumeMode")
    if volume_mode not in _VOLUME_MODES:
        problems.append(errors.not_supported("spec.volumeMode", volume_mode, _VOLUME_MODES))
    return problems


def _class_problems(spec: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            told = dns_subdomain_errors(spec[field])
            problems += [errors.invalid_value(f"spec.{field}", spec[field], text) for text in told]
    attributes = spec.get("volumeAttributesClassName")
    if attributes == "":
        problems.append(errors.required("spec.volumeAttributesClassName", "an empty string is disallowed"))
    if attributes is not None and spec.get("csi") is None:
        problems.append(errors.required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return problems


def _is_negative(text: Any) -> bool:
    try:
        return parse_quantity(str(text)) < _ZERO
    except QuantityError:
        return False  # which its type tells


def _is_positive(text: Any) -> bool:
    try:
        return parse_quantity(str(text)) > _ZERO
    except QuantityError:
        return False


class VolumeStrategy(Strategy):
    """``v1`` PersistentVolumes. The server notes when the phase changes."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        canonicalize(spec.get("capacity"))
        fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
        path = spec.get("hostPath")
        if path is not None:
            path.setdefault("type", "")
        for field, defaults in _SOURCE_DEFAULTS.items():
            if spec.get(field) is not None:
                fill(spec[field], defaults)

    def prepare_create(self, obj: Object, now: str) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}

    def prepare_status(self, obj: Object, old: Object, now: str) -> None:
        status, before = child(obj, "status"), old.get("status") or {}
        fill(status, {"phase": "Pending"})
        if status["phase"] != before.get("phase"):
            if status.get("lastPhaseTransitionTime") in (None, before.get("lastPhaseTransitionTime")):
                status["lastPhaseTransitionTime"] = now
        elif before.get("lastPhaseTransitionTime"):
            status.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        capacity = spec.get("capacity") or {}
        problems = _mode_problems(spec)
        if not capacity:
            problems.append(errors.required("spec.capacity"))
        if "storage" not in capacity or len(capacity) > 1:
            problems.append(errors.not_supported("spec.capacity", capacity, ("storage",)))
        for name, amount in capacity.items():
            if _is_negative(amount):
                told = "must be a valid resource quantity"
                problems.append(errors.invalid_value(f"spec.capacity[{name}]", parse_quantity(amount).value, told))
            if not _is_positive(amount):
                problems.append(errors.invalid_value(f"spec.capacity[{name}]", amount, _POSITIVE))
        policy = spec.get("persistentVolumeReclaimPolicy")
        if policy not in _RECLAIM:
            problems.append(errors.not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
        affinity = spec.get("nodeAffinity")
        if affinity is not None and affinity.get("required") is None:
            problems.append(errors.required("spec.nodeAffinity.required", "must specify required node constraints"))
        elif affinity is not None:
            problems += node_selector_problems(affinity["required"], "spec.nodeAffinity.required")
        problems += volume_source_problems(spec, obj["metadata"].get("name") or "")
        path = (spec.get("hostPath") or {}).get("path") or ""
        if policy == "Recycle" and path.startswith("/") and normpath(path).strip("/") == "":
            told = "may not be 'recycle' for a hostPath mount of '/'"
            problems.append(errors.not_allowed("spec.persistentVolumeReclaimPolicy", told))
        return problems + _class_problems(spec)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        if spec == before:
            return []
        problems = self.validate_again(obj)
        sources = [{k: v for k, v in each.items() if k not in _NOT_A_SOURCE} for each in (spec, before)]
        if sources[0] != sources[1]:
            problems.append(
                errors.not_allowed(
                    "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
                )
            )
        problems += fixed(spec, before, "", ("volumeMode",))
        if before.get("nodeAffinity") and spec.get("nodeAffinity") != before["nodeAffinity"]:
            problems.append(errors.invalid_value("nodeAffinity", spec.get("nodeAffinity"), IMMUTABLE))
        return problems


_SOURCE_DEFAULTS: dict[str, dict[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


class ClaimStrategy(Strategy):
    """``v1`` PersistentVolumeClaims."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        fill(spec, {"volumeMode": "Filesystem"})
        resources = child(spec, "resources")
        for amounts in (resources.get("requests"), resources.get("limits")):
            canonicalize(amounts)
        source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
        # The older field and the newer one say the same (kubernetes pkg/registry/core/persistentvolumeclaim).
        if source and not reference:
            spec["dataSourceRef"] = dict(source)
        elif reference and not source and not reference.get("namespace"):
            spec["dataSource"] = dict(reference)
        for field in ("dataSource", "dataSourceRef"):
            if spec.get(field):
                spec[field].setdefault("apiGroup", None)  # printed even when it is not set

    def prepare_create(self, obj: Object, now: str) -> None:
        obj["status"] = {"phase": "Pending"}

    def prepare_status(self, obj: Object, old: Object, now: str) -> None:
        status = child(obj, "status")
        fill(status, {"phase": "Pending"})
        canonicalize(status.get("capacity"))

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems = _mode_problems(spec, "at least 1 access mode is required")
        requests = spec["resources"].get("requests") or {}
        if "storage" not in requests:
            problems.append(errors.required("spec.resources[storage]"))
        elif not _is_positive(requests["storage"]):
            problems.append(errors.invalid_value("spec.resources[storage]", requests["storage"], _POSITIVE))
        if spec.get("selector") is not None:
            problems += selector_problems(spec["selector"], "spec.selector")
        for field in ("storageClassName", "volumeAttributesClassName"):
            if spec.get(field):
                told = dns_subdomain_errors(spec[field])
                problems += [errors.invalid_value(f"spec.{field}", spec[field], text) for text in told]
        return problems + _data_source_problems(spec)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        if spec == before:
            return []
        problems = self.validate_again(obj)
        amounts = [_requests(each) for each in (spec, before)]
        is_bound = (old.get("status") or {}).get("phase") == "Bound"
        if _fixed_claim(spec, before) != _fixed_claim(before, before) or (not is_bound and amounts[0] != amounts[1]):
            problems.append(errors.not_allowed("spec", _IMMUTABLE_CLAIM))
        wanted, was = (_amount(each) for each in amounts)
        if wanted < was and wanted <= _amount((old.get("status") or {}).get("capacity") or {}):
            told = "field can not be less than status.capacity"
            problems.append(errors.not_allowed("spec.resources.requests.storage", told))
        problems += fixed(spec, before, "", ("volumeMode",))
        had, has = before.get("volumeAttributesClassName"), spec.get("volumeAttributesClassName")
        if had is not None and not has:
            told = f"update from non-nil value to {'nil' if has is None else 'an empty string'} is forbidden"
            problems.append(errors.not_allowed("spec.volumeAttributesClassName", told))
        return problems


def _amount(amounts: Object) -> Quantity:
    """Of storage; zero where none is named."""
    try:
        return parse_quantity(str(amounts.get("storage") or "0"))
    except QuantityError:
        return _ZERO  # which its type tells


def _data_source_problems(spec: Object) -> list[FieldError]:
    """Where the data of a claim comes from: two fields, which say the same unless the newer one names a namespace."""
    problems: list[FieldError] = []
    for field in ("dataSource", "dataSourceRef"):
        source, path = spec.get(field), f"spec.{field}"
        if source is None:
            continue
        problems += [errors.required(f"{path}.{part}") for part in ("name", "kind") if not source.get(part)]
        group, kind = source.get("apiGroup") or "", source.get("kind") or ""
        if not group and kind != "PersistentVolumeClaim":
            told = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            problems.append(errors.invalid_value(path, kind, told))
        if group:
            told_of = dns_subdomain_errors(group)
            problems += [errors.invalid_value(f"{path}.apiGroup", group, text) for text in told_of]
        namespace = source.get("namespace")
        if namespace:
            told_of = dns_label_errors(namespace)
            problems += [errors.invalid_value(f"{path}.namespace", namespace, text) for text in told_of]
    older, newer = spec.get("dataSource"), spec.get("dataSourceRef")
    if older is not None and newer is not None:
        if newer.get("namespace"):
            told = "may not be specified when dataSourceRef.namespace is specified"
            problems.append(errors.invalid_value("spec", "spec.dataSource", told))
        elif any((older.get(part) or None) != (newer.get(part) or None) for part in ("apiGroup", "kind", "name")):
            problems.append(errors.invalid_value("spec", "spec.dataSource", "must match dataSourceRef"))
    return problems


def _requests(spec: Object) -> Object:
    """What a claim asks for. What was stored by somebody else's hand may lack it."""
    return (spec.get("resources") or {}).get("requests") or {}


def _fixed_claim(spec: Object, before: Object) -> Object:
    """What of a claim never changes: nearly all; a volume is set once, as is a class that was left open."""
    found = {k: v for k, v in spec.items() if k not in ("resources", "volumeAttributesClassName")}
    if not before.get("volumeName"):
        found.pop("volumeName", None)
    if before.get("storageClassName") is None:
        found.pop("storageClassName", None)
    resources = {k: v for k, v in (spec.get("resources") or {}).items() if k != "requests"}
    requests = {k: v for k, v in _requests(spec).items() if k != "storage"}
    return {**found, "resources": resources, "requests": requests}
