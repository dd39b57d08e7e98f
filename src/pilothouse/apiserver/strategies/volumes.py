"""Volumes, claims, and the kinds of storage.k8s.io.

After kubernetes' ``pkg/apis/{core,storage}/{v1/defaults.go,validation}`` and ``pkg/registry/{core,storage}`` (v1.36).
"""

from collections.abc import Sequence
from posixpath import normpath
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import IMMUTABLE, child, fill, fixed
from pilothouse.apiserver.strategies.pod_rules import node_selector_problems
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.apiserver.strategies.volume_sources import volume_source_problems
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, qualified_name_errors
from pilothouse.machinery.quantities import Quantity, QuantityError, canonical, canonicalize, parse_quantity

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_LONGEST_DRIVER = 63
_RECLAIM = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
_LIFECYCLES = ("Ephemeral", "Persistent")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_BINDING = ("Immediate", "WaitForFirstConsumer")
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
    modes = spec.get("accessModes") or []
    problems: list[FieldError] = []
    if not modes:
        problems.append(errors.required("spec.accessModes", why))
    problems += [errors.not_supported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        problems.append(errors.not_allowed("spec.accessModes", text))
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


def topology_problems(terms: Sequence[Object], path: str) -> list[FieldError]:
    """What is wrong with terms that select nodes for volumes (``ValidateTopologySelectorTerm``)."""
    problems: list[FieldError] = []
    # Upstream's list begins with an empty term for each there is, of which a term without expressions is a duplicate.
    before: list[dict[str, frozenset[str]]] = [{} for _ in terms]
    for position, term in enumerate(terms):
        where = f"{path}[{position}].matchLabelExpressions"
        wanted: dict[str, frozenset[str]] = {}
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key") or "", expression.get("values") or ()
            if not values:
                problems.append(errors.required(f"{where}[{number}].values"))
            problems += [
                errors.duplicate(f"{where}[{number}].values[{index}]", value)
                for index, value in enumerate(values)
                if value in values[:index]
            ]
            problems += [
                errors.invalid_value(f"{where}[{number}].key", key, text) for text in qualified_name_errors(key)
            ]
            if key in wanted:
                problems.append(errors.duplicate(f"{where}[{number}].key", key))
            wanted[key] = frozenset(values)
        problems += [errors.duplicate(where, "") for each in before if each == wanted]
        before.append(wanted)
    return problems


class StorageClassStrategy(Strategy):
    """Who provisions, and how. Only what concerns future volumes may change."""

    def default(self, obj: Object) -> None:
        fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        provisioner = (obj.get("provisioner") or "").lower()
        if not provisioner:
            problems.append(errors.required("provisioner"))
        else:
            told = qualified_name_errors(provisioner)
            problems += [errors.invalid_value("provisioner", provisioner, text) for text in told]
        if obj["reclaimPolicy"] not in ("Delete", "Retain"):
            problems.append(errors.not_supported("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain")))
        if obj["volumeBindingMode"] not in _BINDING:
            problems.append(errors.not_supported("volumeBindingMode", obj["volumeBindingMode"], _BINDING))
        return problems + topology_problems(obj.get("allowedTopologies") or (), "allowedTopologies")

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = self.validate_again(obj)
        if (obj.get("parameters") or {}) != (old.get("parameters") or {}):
            problems.append(errors.not_allowed("parameters", "updates to parameters are forbidden."))
        if obj.get("provisioner") != old.get("provisioner"):
            problems.append(errors.not_allowed("provisioner", "updates to provisioner are forbidden."))
        if obj.get("reclaimPolicy") != old.get("reclaimPolicy"):
            problems.append(errors.not_allowed("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
        return problems + fixed(obj, old, "", ("volumeBindingMode",))


class DriverStrategy(Strategy):
    """CSIDrivers: a flag for everything that a driver may want."""

    def default(self, obj: Object) -> None:
        fill(
            child(obj, "spec"),
            {
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "volumeLifecycleModes": ["Persistent"],
                "requiresRepublish": False,
                "seLinuxMount": False,
            },
        )

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems = [
            errors.not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
            for mode in spec.get("volumeLifecycleModes") or ()
            if mode not in _LIFECYCLES
        ]
        policy = spec.get("fsGroupPolicy")
        if policy not in _GROUP_POLICIES:
            problems.append(errors.not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = self.validate_again(obj)
        required = obj["spec"].get("attachRequired")
        if required != old["spec"].get("attachRequired"):
            problems.append(errors.invalid_value("spec.attachedRequired", required, IMMUTABLE))  # called so upstream
        return problems + fixed(obj["spec"], old["spec"], "spec", ("volumeLifecycleModes",))


class DriverNodeStrategy(Strategy):
    """CSINodes: which drivers a node has. A driver's entry is replaced by removing and adding it."""

    def finish(self, obj: Object) -> None:
        for driver in child(obj, "spec").setdefault("drivers", None) or ():
            driver.setdefault("topologyKeys", None)

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        seen: list[str] = []
        for position, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
            path, name = f"spec.drivers[{position}]", driver.get("name") or ""
            if not name:
                problems.append(errors.required(f"{path}.name"))
            problems += [
                errors.invalid_value(f"{path}.name", name, text) for text in dns_subdomain_errors(name.lower())
            ]
            if name in seen:
                problems.append(errors.duplicate(f"{path}.name", name))
            seen.append(name)
            if not driver.get("nodeID"):
                problems.append(errors.required(f"{path}.nodeID"))
            problems += _topology_key_problems(driver.get("topologyKeys") or (), path)
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        before = {driver.get("name"): driver for driver in (old.get("spec") or {}).get("drivers") or ()}
        problems = self.validate_again(obj)
        for driver in (obj.get("spec") or {}).get("drivers") or ():
            known = before.get(driver.get("name"))
            if known is not None and _fixed_driver(driver) != _fixed_driver(known):
                problems.append(errors.invalid_value("spec.drivers", _fixed_driver(driver), IMMUTABLE))
        return problems


def _topology_key_problems(keys: Sequence[str], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for position, key in enumerate(keys):
        if not key:
            problems.append(errors.required(path))
        if key in keys[:position]:
            problems.append(errors.duplicate(path, key))
        problems += [errors.invalid_value(path, keys, text) for text in qualified_name_errors(key)]
    return problems


def _fixed_driver(driver: Object) -> Object:
    """What of a driver never changes, as messages print it. How many volumes it can attach may."""
    return {
        "Name": driver.get("name") or "",
        "NodeID": driver.get("nodeID") or "",
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None,
    }


class AttachmentStrategy(Strategy):
    """VolumeAttachments: the wish never changes."""

    def finish(self, obj: Object) -> None:
        obj["status"] = {"attached": False, **(obj.get("status") or {})}

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        attacher, name = spec.get("attacher") or "", (spec.get("source") or {}).get("persistentVolumeName")
        problems = self._problems(spec)
        # Asked of new ones only, and the first question once more.
        problems += [] if attacher else [errors.required("spec.attacher")]
        if len(attacher.encode()) > _LONGEST_DRIVER:
            problems.append(errors.too_long("spec.attacher", _LONGEST_DRIVER))
        told = dns_subdomain_errors(attacher.lower())
        problems += [errors.invalid_value("spec.attacher", attacher, text) for text in told]
        if name is not None:
            told = dns_subdomain_errors(name)
            problems += [errors.invalid_value("spec.source.persistentVolumeName", name, text) for text in told]
        return problems

    @staticmethod
    def _problems(spec: Object) -> list[FieldError]:
        attacher, node = spec.get("attacher") or "", spec.get("nodeName") or ""
        problems = [] if attacher else [errors.required("spec.attacher")]
        nodes = [errors.invalid_value("spec.nodeName", node, text) for text in dns_subdomain_errors(node)]
        source = spec.get("source") or {}
        name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        if name is None and inline is None:
            problems.append(
                errors.required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
            )
        elif name is not None and inline is not None:
            problems.append(
                errors.not_allowed(
                    "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
                )
            )
        elif name is not None and not name:
            text = "must specify non empty persistentVolumeName"
            problems.append(errors.required("spec.source.persistentVolumeName", text))
        return problems + nodes

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self._problems(obj.get("spec") or {}) * self.judgements.spec + fixed(obj, old, "", ("spec",))


class AttributesClassStrategy(Strategy):
    """VolumeAttributesClasses never change."""

    def validate(self, obj: Object) -> list[FieldError]:
        return [] if obj.get("driverName") else [errors.required("driverName")]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj, old, "", ("driverName", "parameters"))


class CapacityStrategy(Strategy):
    """CSIStorageCapacities: how much a driver could provision where."""

    def default(self, obj: Object) -> None:
        for field in ("capacity", "maximumVolumeSize"):
            if obj.get(field) is not None:
                canonicalize_field(obj, field)

    def validate(self, obj: Object) -> list[FieldError]:
        return [] if obj.get("storageClassName") else [errors.required("storageClassName")]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj, old, "", ("nodeTopology", "storageClassName"))


def canonicalize_field(obj: Object, field: str) -> None:
    """Write one quantity as it is stored."""
    obj[field] = canonical(str(obj[field]))
