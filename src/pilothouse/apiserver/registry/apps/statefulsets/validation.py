"""Validation of StatefulSets. After kubernetes' ``pkg/apis/apps/validation/validation.go`` (v1.36)."""

import msgspec

from pilothouse.apiserver.field_errors import (
    ErrorList,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    of_named_type,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.validation import (
    SELECTOR,
    is_selector,
    validate_collision_count,
    validate_counts_at_most,
    validate_restart_policy_always,
    validate_rolling_update_stateful_set,
    validate_selector,
    validate_template_labels,
)
from pilothouse.apiserver.registry.core.persistentvolumeclaims import PersistentVolumeClaimStrategy
from pilothouse.apiserver.registry.core.pods.validation import (
    validate_pod_template_metadata,
    validate_pod_template_spec,
)
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields
from pilothouse.machinery.names import dns_label_errors


def validate_stateful_set_policies(spec: Object) -> ErrorList:
    """``podManagementPolicy``, ``updateStrategy`` and ``persistentVolumeClaimRetentionPolicy``."""
    errors: ErrorList = []
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(
            invalid("spec.podManagementPolicy", of_named_type(policy), "must be 'OrderedReady' or 'Parallel'")
        )
    strategy = spec["updateStrategy"]
    path, rolling_update = "spec.updateStrategy", strategy.get("rollingUpdate")
    if strategy["type"] == "OnDelete":
        if rolling_update is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            bad_value = internal_value("*apps.RollingUpdateStatefulSetStrategy", rolling_update)
            errors.append(invalid(f"{path}.rollingUpdate", bad_value, detail))
    elif strategy["type"] == "RollingUpdate":
        errors += validate_rolling_update_stateful_set(rolling_update or {}, f"{path}.rollingUpdate")
    else:
        bad_value = internal_value("apps.StatefulSetUpdateStrategy", strategy)
        errors.append(invalid(path, bad_value, "must be 'RollingUpdate' or 'OnDelete'"))
    retention = spec["persistentVolumeClaimRetentionPolicy"]
    for field in ("whenDeleted", "whenScaled"):
        if retention[field] not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            errors.append(not_supported(path, retention[field], ("Retain", "Delete")))
    return errors


_MUTABLE_FIELDS = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_IMMUTABLE_FIELDS_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


_CLAIMS = PersistentVolumeClaimStrategy()


def validate_stateful_set_on_update(obj: Object, old: Object) -> ErrorList:
    """The part of the spec's validation that an update repeats."""
    if obj["spec"] == old["spec"]:
        return []
    errors = validate_stateful_set(obj["spec"], is_update=True)
    if errors and validate_stateful_set(old["spec"], is_update=True):
        # The template of an invalid stored object is not validated: it may have been stored before this validation
        # existed.
        errors = validate_stateful_set(obj["spec"], is_update=True, template=False)
    return errors


def validate_stateful_set_status_update(obj: Object, old: Object) -> ErrorList:
    status: Object = obj.get("status") or {}
    fields = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    return (
        validate_nonnegative_fields(status, "status", (*fields, "observedGeneration", "collisionCount"))
        + validate_counts_at_most(
            status,
            (
                *((field, "replicas", "status.replicas") for field in fields[1:]),
                ("availableReplicas", "readyReplicas", "status.readyReplicas"),
            ),
        )
        + validate_collision_count(status, old.get("status") or {})
    )


def validate_stateful_set_update(obj: Object, old: Object) -> ErrorList:
    """Immutable fields (``ValidateStatefulSetUpdate``)."""
    if obj["spec"] == old["spec"]:
        return []
    immutable, old_immutable = ({k: v for k, v in o["spec"].items() if k not in _MUTABLE_FIELDS} for o in (obj, old))
    return [forbidden("spec", _IMMUTABLE_FIELDS_TEXT)] if immutable != old_immutable else []


def validate_stateful_set(spec: Object, *, is_update: bool = False, template: bool = True) -> ErrorList:
    """``ValidateStatefulSetSpec``. ``is_update``: immutable fields are not validated, because they may have been stored
    before their validation existed. ``template``: whether the template is validated (its labels always are)."""
    errors = validate_stateful_set_policies(spec)
    for position, claim in enumerate(() if is_update else spec.get("volumeClaimTemplates") or ()):
        errors += [
            msgspec.structs.replace(error, field=f"spec.volumeClaimTemplates[{position}].{error.field}")
            for error in _CLAIMS.validate(claim)
        ]
    errors += validate_nonnegative_fields(spec, "spec", ("replicas", "minReadySeconds"))
    errors += validate_nonnegative_fields(spec.get("ordinals") or {}, "spec.ordinals", ("start",))
    name = spec["serviceName"]
    if name and not is_update:
        errors += [invalid("spec.serviceName", name, msg) for msg in dns_label_errors(name)]
    errors += validate_selector(spec, "statefulset")
    selector = spec.get("selector")
    pod_template: Object = spec["template"]
    if selector and not is_selector(selector):
        errors.append(invalid("spec.selector", internal_value(SELECTOR, selector), ""))
    else:
        errors += validate_template_labels(selector, pod_template)
        if template:
            errors += validate_pod_template_spec(_pod_template_with_claims(spec), "spec.template")
        errors += validate_pod_template_metadata(pod_template, "spec.template")
    return errors + validate_restart_policy_always(pod_template, "StatefulSet")


def _pod_template_with_claims(spec: Object) -> Object:
    """The template as the controller completes it: with volumes for the claims, without hostname and subdomain."""
    pod_spec: Object = spec["template"].get("spec") or {}
    completed_spec = {field: value for field, value in pod_spec.items() if field not in ("hostname", "subdomain")}
    names = dict.fromkeys(
        (claim.get("metadata") or {}).get("name") or "" for claim in spec.get("volumeClaimTemplates") or ()
    )
    if names:
        claim_volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        other_volumes = [volume for volume in pod_spec.get("volumes") or () if (volume.get("name") or "") not in names]
        completed_spec["volumes"] = claim_volumes + other_volumes
    return {**spec["template"], "spec": completed_spec}
