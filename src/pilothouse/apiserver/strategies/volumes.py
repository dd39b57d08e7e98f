"""Volumes; claims for them are in ``claims``.

After kubernetes' ``pkg/apis/core/{v1/defaults.go,validation}`` and ``pkg/registry/core`` (v1.36).
"""

from posixpath import normpath
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.affinities import node_selector_problems
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.claims import (
    POSITIVE,
    is_negative,
    is_positive,
    mode_problems,
    volume_mode_problems,
)
from pilothouse.apiserver.strategies.filling import IMMUTABLE, child, fill, fixed, go_named
from pilothouse.apiserver.strategies.volume_sources import volume_source_problems
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.machinery.quantities import canonical, canonicalize, parse_quantity

_RECLAIM = ("Delete", "Recycle", "Retain")
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
        problems = mode_problems(spec, "spec")
        if not capacity:
            problems.append(errors.required("spec.capacity"))
        if "storage" not in capacity or len(capacity) > 1:
            problems.append(errors.not_supported("spec.capacity", capacity, ("storage",)))
        for name, amount in capacity.items():
            if is_negative(amount):
                told = "must be a valid resource quantity"
                problems.append(errors.invalid_value(f"spec.capacity[{name}]", parse_quantity(amount).value, told))
            if not is_positive(amount):
                problems.append(errors.invalid_value(f"spec.capacity[{name}]", amount, POSITIVE))
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
        return problems + volume_mode_problems(spec, "spec") + _class_problems(spec)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        if spec == before:
            return []
        problems = self.validate_again(obj)
        sources = [{k: v for k, v in each.items() if k not in _NOT_A_SOURCE} for each in (spec, before)]
        csi, driver = sources[0].get("csi"), sources[1].get("csi")
        if csi is not None and driver is not None and driver.get("controllerExpandSecretRef") is None:
            # It may be set once.
            sources[0]["csi"] = {k: v for k, v in csi.items() if k != "controllerExpandSecretRef"}
        if sources[0] != sources[1]:
            problems.append(
                errors.not_allowed(
                    "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
                )
            )
        problems += fixed(spec, before, "", ("volumeMode",))
        known = before.get("nodeAffinity")
        if known and spec.get("nodeAffinity") not in (known, with_stable_labels(known, spec.get("nodeAffinity"))):
            told = f"{IMMUTABLE}, except for updating from beta label to GA"
            problems.append(errors.invalid_value("nodeAffinity", go_named(spec.get("nodeAffinity")), told))
        name = "volumeAttributesClassName"
        if before.get(name) is not None and spec.get(name) is None:
            told = "update from non-nil value to nil is forbidden"
            problems.append(errors.not_allowed(f"spec.{name}", told))
        return problems


_STABLE = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def with_stable_labels(affinity: Object, wanted: Object | None) -> Object:
    """The affinity of a volume with the labels that have other names by now, wherever ``wanted`` has these."""
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or ()
    others = ((wanted or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    if len(terms) != len(others):
        return affinity
    found = []
    for term, other in zip(terms, others, strict=True):
        asked, named = term.get("matchExpressions") or (), other.get("matchExpressions") or ()
        if len(asked) == len(named):
            asked = [
                {**one, "key": another.get("key")} if _STABLE.get(one.get("key") or "") == another.get("key") else one
                for one, another in zip(asked, named, strict=True)
            ]
        found.append({**term, **({"matchExpressions": asked} if asked else {})})
    return {**affinity, "required": {**affinity["required"], "nodeSelectorTerms": found}}


_SOURCE_DEFAULTS: dict[str, dict[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def canonicalize_field(obj: Object, field: str) -> None:
    """Write one quantity as it is stored."""
    obj[field] = canonical(str(obj[field]))
