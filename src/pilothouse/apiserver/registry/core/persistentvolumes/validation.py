"""Validation of PersistentVolumes. After kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36)."""

from posixpath import normpath

from pilothouse.apiserver.field_errors import (
    ErrorList,
    forbidden,
    internal_diff,
    internal_value,
    invalid,
    not_supported,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.persistentvolumeclaims.validation import (
    POSITIVE,
    is_negative,
    is_positive,
    validate_access_modes,
    validate_volume_mode,
)
from pilothouse.apiserver.registry.core.pods.affinity import validate_node_selector
from pilothouse.apiserver.registry.core.volume_sources import validate_persistent_volume_source
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE, validate_immutable_fields
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.machinery.quantities import parse_quantity

_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_NON_SOURCE_FIELDS = (
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


def _validate_classes(spec: Object) -> ErrorList:
    name, attributes_class = spec.get("storageClassName"), spec.get("volumeAttributesClassName")
    errors = [invalid("spec.storageClassName", name, msg) for msg in dns_subdomain_errors(name)] if name else []
    errors += validate_volume_mode(spec, "spec")
    if attributes_class is None:
        return errors
    path = "spec.volumeAttributesClassName"
    if not attributes_class:
        errors.append(required(path, "an empty string is disallowed"))
    else:
        errors += [invalid(path, attributes_class, msg) for msg in dns_subdomain_errors(attributes_class)]
    if spec.get("csi") is None:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_SUPPORTS_MOUNT_OPTIONS = frozenset(
    (
        *("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder"),
        *("cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
    )
)


def check_mount_option(obj: Object) -> ErrorList:
    """``checkMountOption`` (kubernetes ``pkg/volume/validation``)."""
    if _MOUNT_OPTIONS not in (obj["metadata"].get("annotations") or {}):
        return []
    if any(obj["spec"].get(source) is not None for source in _SUPPORTS_MOUNT_OPTIONS):
        return []
    return [forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", "may not specify mount options for this volume type")]


def validate_persistent_volume(obj: Object) -> ErrorList:
    spec = obj["spec"]
    capacity = spec.get("capacity") or {}
    errors = [] if spec.get("accessModes") else [required("spec.accessModes")]
    errors += validate_access_modes(spec, "spec")
    if not capacity:
        errors.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported("spec.capacity", internal_value("{}quantity", spec.get("capacity")), ("storage",)))
    for name, quantity in capacity.items():
        if is_negative(quantity):
            detail = "must be a valid resource quantity"
            errors.append(invalid(f"spec.capacity[{name}]", parse_quantity(quantity).value, detail))
        if not is_positive(quantity):
            errors.append(invalid(f"spec.capacity[{name}]", quantity, POSITIVE))
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM_POLICIES:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
    affinity = spec.get("nodeAffinity")
    if affinity is not None and affinity.get("required") is None:
        errors.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
    elif affinity is not None:
        errors += validate_node_selector(affinity["required"], "spec.nodeAffinity.required")
    errors += validate_persistent_volume_source(spec, obj["metadata"].get("name") or "")
    path = (spec.get("hostPath") or {}).get("path") or ""
    if policy == "Recycle" and path.startswith("/") and normpath(path).strip("/") == "":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", detail))
    return errors + _validate_classes(spec)


def validate_persistent_volume_update(obj: Object, old: Object) -> ErrorList:
    spec, old_spec = obj["spec"], old["spec"]
    if spec == old_spec:
        return []
    errors: ErrorList = []
    sources = [{k: v for k, v in any_spec.items() if k not in _NON_SOURCE_FIELDS} for any_spec in (spec, old_spec)]
    csi, old_csi = sources[0].get("csi"), sources[1].get("csi")
    if csi is not None and old_csi is not None and old_csi.get("controllerExpandSecretRef") is None:
        # ``controllerExpandSecretRef`` can be set once.
        sources[0]["csi"] = {k: v for k, v in csi.items() if k != "controllerExpandSecretRef"}
    if sources[0] != sources[1]:
        diff = internal_diff("core.PersistentVolumeSource", sources[1], sources[0])
        detail = f"spec.persistentvolumesource is immutable after creation\n{diff}"
        errors.append(forbidden("spec.persistentvolumesource", detail))
    errors += validate_immutable_fields(spec, old_spec, "", {"volumeMode": "*string"})
    old_affinity = old_spec.get("nodeAffinity")
    if old_affinity and spec.get("nodeAffinity") not in (
        old_affinity,
        with_ga_labels(old_affinity, spec.get("nodeAffinity")),
    ):
        detail = f"{IMMUTABLE}, except for updating from beta label to GA"
        bad_value = internal_value("*core.VolumeNodeAffinity", spec.get("nodeAffinity"))
        errors.append(invalid("nodeAffinity", bad_value, detail))
    field = "volumeAttributesClassName"
    if old_spec.get(field) is not None and spec.get(field) is None:
        errors.append(forbidden(f"spec.{field}", "update from non-nil value to nil is forbidden"))
    return errors


_GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def with_ga_labels(affinity: Object, desired: Object | None) -> Object:
    """The affinity with beta labels replaced by their GA names where ``desired`` has these."""
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or ()
    desired_terms = ((desired or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    if len(terms) != len(desired_terms):
        return affinity
    new_terms = []
    for term, desired_term in zip(terms, desired_terms, strict=True):
        expressions, desired_expressions = (
            term.get("matchExpressions") or (),
            desired_term.get("matchExpressions") or (),
        )
        if len(expressions) == len(desired_expressions):
            expressions = [
                {**expression, "key": desired_expression.get("key")}
                if _GA_LABELS.get(expression.get("key") or "") == desired_expression.get("key")
                else expression
                for expression, desired_expression in zip(expressions, desired_expressions, strict=True)
            ]
        new_terms.append({**term, **({"matchExpressions": expressions} if expressions else {})})
    return {**affinity, "required": {**affinity["required"], "nodeSelectorTerms": new_terms}}
