"""Claims of volumes, and templates of claims.

After ``ValidatePersistentVolumeClaim*`` in kubernetes' ``pkg/apis/core/validation/validation.go`` and
``pkg/registry/core/persistentvolumeclaim`` (v1.36).
"""

from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import IMMUTABLE, child, fill, fixed
from pilothouse.apiserver.strategies.selectors import annotation_problems, label_problems_in, selector_problems
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, qualified_name_errors
from pilothouse.machinery.quantities import Quantity, QuantityError, canonicalize, parse_quantity

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
POSITIVE = "must be greater than zero"
_IMMUTABLE_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_CLASS = "volume.beta.kubernetes.io/storage-class"
_ATTRIBUTES = "volumeAttributesClassName"
_RESIZES = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
)
_NOT_OF_TEMPLATES = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields"),
)
_ZERO = parse_quantity("0")


def is_negative(text: Any) -> bool:
    """Whether it is an amount below zero."""
    try:
        return parse_quantity(str(text)) < _ZERO
    except QuantityError:
        return False  # which its type tells


def is_positive(text: Any) -> bool:
    """Whether it is an amount above zero."""
    try:
        return parse_quantity(str(text)) > _ZERO
    except QuantityError:
        return False


def mode_problems(spec: Object, path: str, why: str = "") -> list[FieldError]:
    """What is wrong with the ways in which a volume is used, or asked for."""
    modes = spec.get("accessModes") or []
    problems: list[FieldError] = [] if modes else [errors.required(f"{path}.accessModes", why)]
    problems += [errors.not_supported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES[:3] for mode in modes):
        text = "may not use ReadWriteOncePod with other access modes"
        problems.append(errors.not_allowed(f"{path}.accessModes", text))
    return problems


def volume_mode_problems(spec: Object, path: str) -> list[FieldError]:
    """What is wrong with what is in a volume: files, or blocks."""
    mode = spec.get("volumeMode")
    return [] if mode in _VOLUME_MODES else [errors.not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)]


def claim_spec_problems(spec: Object, path: str) -> list[FieldError]:
    """What is wrong with the spec of a claim (``ValidatePersistentVolumeClaimSpec``)."""
    problems = mode_problems(spec, path, "at least 1 access mode is required")
    if spec.get("selector") is not None:
        problems += selector_problems(spec["selector"], f"{path}.selector")
    requests = _requests(spec)
    if "storage" not in requests:
        problems.append(errors.required(f"{path}.resources[storage]"))
    elif not is_positive(requests["storage"]):
        problems.append(errors.invalid_value(f"{path}.resources[storage]", requests["storage"], POSITIVE))
    problems += _class_problems(spec, path, "storageClassName") + volume_mode_problems(spec, path)
    return problems + _data_source_problems(spec, path) + _class_problems(spec, path, _ATTRIBUTES)


def claim_template_problems(template: Object, path: str) -> list[FieldError]:
    """What is wrong with a template for claims, of which only labels and annotations are taken."""
    meta = template.get("metadata") or {}
    problems = annotation_problems(meta.get("annotations") or {}, f"{path}.metadata.annotations")
    problems += label_problems_in(meta.get("labels") or {}, f"{path}.metadata.labels")
    problems += [
        errors.not_allowed(f"{path}.metadata.{'uID' if field == 'uid' else field}", "cannot be set")
        for field in _NOT_OF_TEMPLATES
        if meta.get(field)
    ]
    return problems + claim_spec_problems(template.get("spec") or {}, f"{path}.spec")


def _class_problems(spec: Object, path: str, field: str) -> list[FieldError]:
    name = spec.get(field)
    return [errors.invalid_value(f"{path}.{field}", name, text) for text in dns_subdomain_errors(name)] if name else []


class ClaimStrategy(Strategy):
    """``v1`` PersistentVolumeClaims."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        fill(spec, {"volumeMode": "Filesystem"})
        resources = child(spec, "resources")
        for amounts in (resources.get("requests"), resources.get("limits")):
            canonicalize(amounts)
        if (spec.get("dataSourceRef") or {}).get("namespace"):
            # Behind a gate that is off (CrossNamespaceVolumeDataSource), so that the server drops all of it.
            del spec["dataSourceRef"]
        source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
        # The older field and the newer one say the same (kubernetes pkg/registry/core/persistentvolumeclaim).
        if source and not reference:
            spec["dataSourceRef"] = dict(source)
        elif reference and not source:
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
        canonicalize(status.get("allocatedResources"))

    def validate(self, obj: Object) -> list[FieldError]:
        return claim_spec_problems(obj["spec"], "spec")

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        problems = [] if spec == before else self.validate_again(obj)
        notes, known = ((each["metadata"].get("annotations") or {}).get(_CLASS) for each in (obj, old))
        upgraded = known is not None and before.get("storageClassName") is None and notes in (None, known)
        upgraded = upgraded and spec.get("storageClassName") == known
        if notes != known and not upgraded:
            problems.append(errors.invalid_value(f"metadata.annotations.{_CLASS}", notes or "", IMMUTABLE))
        if spec == before:
            return problems
        status = old.get("status") or {}
        if _fixed_claim(spec, before, known, status) != _fixed_claim(before, before, known, status):
            problems.append(errors.not_allowed("spec", _IMMUTABLE_CLAIM))
        wanted, was = (_amount(_requests(each)) for each in (spec, before))
        if wanted < was and wanted <= _amount(status.get("capacity") or {}):
            told = "field can not be less than status.capacity"
            problems.append(errors.not_allowed("spec.resources.requests.storage", told))
        problems += fixed(spec, before, "", ("volumeMode",))
        has = spec.get(_ATTRIBUTES)
        if not has and has != before.get(_ATTRIBUTES) and status.get("currentVolumeAttributesClassName") is not None:
            what = "nil" if has is None else "empty string"
            told = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
            problems.append(errors.not_allowed(f"spec.{_ATTRIBUTES}", told))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        problems = _basic_problems(status.get("capacity") or {}, "status.capacity")
        path = "status.allocatedResourceStatuses"
        for name, state in (status.get("allocatedResourceStatuses") or {}).items():
            problems += _resource_problems(name, path)
            if state not in _RESIZES:
                # Upstream shows the name of the resource rather than the state.
                problems.append(errors.not_supported(path, name, _RESIZES))
        path = "status.allocatedResources"
        for name, amount in (status.get("allocatedResources") or {}).items():
            problems += _resource_problems(name, path) or _basic_problems({name: amount}, path)
        return problems


def _resource_problems(name: str, path: str) -> list[FieldError]:
    """Of Kubernetes' own resources a claim has storage only (``validatePersistentVolumeClaimResourceKey``)."""
    told = qualified_name_errors(name)
    if told:
        return [errors.invalid_value(path, name, text) for text in told]
    is_native = "/" not in name or "kubernetes.io/" in name
    return [errors.not_supported(path, name, ("storage",))] if is_native and name != "storage" else []


def _basic_problems(amounts: Object, path: str) -> list[FieldError]:
    told = "must be a valid resource quantity"
    return [
        errors.invalid_value(f"{path}[{name}]", parse_quantity(str(amount)).value, told)
        for name, amount in amounts.items()
        if is_negative(amount)
    ]


def _amount(amounts: Object) -> Quantity:
    """Of storage; zero where none is named."""
    try:
        return parse_quantity(str(amounts.get("storage") or "0"))
    except QuantityError:
        return _ZERO  # which its type tells


def _data_source_problems(spec: Object, path: str) -> list[FieldError]:
    """Where the data of a claim comes from: two fields, which say the same unless the newer one names a namespace."""
    problems: list[FieldError] = []
    for field in ("dataSource", "dataSourceRef"):
        source, where = spec.get(field), f"{path}.{field}"
        if source is None:
            continue
        problems += [errors.required(f"{where}.{part}") for part in ("name", "kind") if not source.get(part)]
        group, kind = source.get("apiGroup") or "", source.get("kind") or ""
        if not group and kind != "PersistentVolumeClaim":
            told = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            problems.append(errors.invalid_value(where, kind, told))
        if group:
            told_of = dns_subdomain_errors(group)
            problems += [errors.invalid_value(f"{where}.apiGroup", group, text) for text in told_of]
        namespace = source.get("namespace")
        if namespace:
            told_of = dns_label_errors(namespace)
            problems += [errors.invalid_value(f"{where}.namespace", namespace, text) for text in told_of]
    older, newer = spec.get("dataSource"), spec.get("dataSourceRef")
    if older is not None and newer is not None:
        if newer.get("namespace"):
            told = "may not be specified when dataSourceRef.namespace is specified"
            problems.append(errors.invalid_value(path, f"{path}.dataSource", told))
        elif any((older.get(part) or None) != (newer.get(part) or None) for part in ("apiGroup", "kind", "name")):
            problems.append(errors.invalid_value(path, f"{path}.dataSource", "must match dataSourceRef"))
    return problems


def _requests(spec: Object) -> Object:
    """What a claim asks for. What was stored by somebody else's hand may lack it."""
    requests: Object = (spec.get("resources") or {}).get("requests") or {}
    return requests


def _fixed_claim(spec: Object, before: Object, noted: str | None, status: Object) -> Object:
    """What of a claim never changes: nearly all; a volume is set once, as is a class that was left open, or was only
    noted. What is asked for changes once there is a volume."""
    is_bound = status.get("phase") == "Bound"
    found = {k: v for k, v in spec.items() if k != "resources"}
    if is_bound:
        found.pop(_ATTRIBUTES, None)
    if not before.get("volumeName"):
        found.pop("volumeName", None)
    if before.get("storageClassName") is None and noted in (None, spec.get("storageClassName")):
        found.pop("storageClassName", None)
    resources = {k: v for k, v in (spec.get("resources") or {}).items() if k != "requests"}
    requests = {k: v for k, v in _requests(spec).items() if not (is_bound and k == "storage")}
    return {**found, "resources": resources, "requests": requests}
