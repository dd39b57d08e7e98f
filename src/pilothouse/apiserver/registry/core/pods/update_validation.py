"""Validation of updates of pod specs, of which few fields are mutable, some only while the pod has scheduling gates.

After ``ValidatePodUpdate`` and the functions it calls in kubernetes' ``pkg/apis/core/validation/validation.go``
(v1.36).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, forbidden, internal_diff, internal_value, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.pod_spec import validate_image_whitespace
from pilothouse.apiserver.registry.core.validation import validate_tolerations
from pilothouse.apiserver.registry.generic.object_fields import set_or_remove

_IMMUTABLE_FIELDS_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod_spec_update(spec: Object, old_spec: Object) -> ErrorList:
    errors: ErrorList = []
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(old_spec.get(field) or ()):
            # As upstream, the other fields are not validated.
            return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        for position, container in enumerate(spec.get(field) or ()):
            # Upstream validates images again, as they are mutable.
            if not container.get("image"):
                errors.append(required(f"spec.{field}[{position}].image"))
            errors += validate_image_whitespace(container, f"spec.{field}[{position}]")
    deadline_errors = _validate_active_deadline_update(spec, old_spec)
    if deadline_errors and spec.get("activeDeadlineSeconds") is not None:
        return errors + deadline_errors  # as upstream, the other fields are not validated
    errors += deadline_errors
    errors += _validate_only_added_tolerations(spec, old_spec)
    errors += _validate_scheduling_gates_update(spec, old_spec)
    munged_spec = _munge_mutable_fields(spec, old_spec)
    if old_spec.get("schedulingGates"):
        errors += _validate_gated_update(munged_spec, old_spec)
    if munged_spec != old_spec:
        diff = internal_diff("core.PodSpec", old_spec, munged_spec)
        errors.append(forbidden("spec", _IMMUTABLE_FIELDS_TEXT + diff))
    return errors


def _munge_mutable_fields(spec: Object, old_spec: Object) -> Object:
    """The new spec with mutable fields reset to the old values: equal to the old spec if only these have changed."""
    munged_spec = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            munged_spec[field] = [
                {**container, "image": old_container["image"]}
                if container.get("image") != old_container.get("image")
                else container
                for container, old_container in zip(spec[field], old_spec[field], strict=True)
            ]
    mutable_fields = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if (old_spec.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        mutable_fields.append("terminationGracePeriodSeconds")
    for field in mutable_fields:
        if field in old_spec:
            munged_spec[field] = old_spec[field]
        else:
            munged_spec.pop(field, None)
    return munged_spec


# Pods with scheduling gates


def _validate_gated_update(munged_spec: Object, old_spec: Object) -> ErrorList:
    """Validate changes of node selector and node affinity, which may only become more restrictive, and reset them in
    ``munged_spec``."""
    errors: ErrorList = []
    node_selector, old_node_selector = munged_spec.get("nodeSelector") or {}, old_spec.get("nodeSelector") or {}
    if node_selector != old_node_selector:
        if any(node_selector.get(key) != value for key, value in old_node_selector.items()):
            bad_value = internal_value("{}string", munged_spec.get("nodeSelector"))
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", bad_value, detail))
        set_or_remove(munged_spec, "nodeSelector", old_spec.get("nodeSelector"))
    affinity, old_affinity = munged_spec.get("affinity"), old_spec.get("affinity")
    node_affinity, old_node_affinity = ((a or {}).get("nodeAffinity") for a in (affinity, old_affinity))
    if node_affinity == old_node_affinity:
        return errors
    errors += _validate_node_affinity_update(node_affinity, old_node_affinity)
    if old_affinity is None and not (affinity or {}).keys() - {"nodeAffinity"}:
        munged_spec.pop("affinity", None)
    else:
        munged_spec["affinity"] = dict(affinity or {})
        set_or_remove(munged_spec["affinity"], "nodeAffinity", old_node_affinity)
    return errors


def _validate_node_affinity_update(node_affinity: Object | None, old_node_affinity: Object | None) -> ErrorList:
    old_terms: Sequence[Object] = ((old_node_affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    terms: Sequence[Object] = ((node_affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if not old_terms:
        return []
    if len(old_terms) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, internal_value("[]core.NodeSelectorTerm", terms or None), detail)]
    detail = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{path}[{position}]", internal_value("core.NodeSelectorTerm", term), detail)
        for position, (term, old_term) in enumerate(zip(terms, old_terms, strict=True))
        if not _only_adds(term, old_term)
    ]


def _only_adds(term: Mapping[str, Any], old_term: Mapping[str, Any]) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old_term.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all(
        list(term.get(field) or ())[: len(old_term.get(field) or ())] == list(old_term.get(field) or ())
        for field in fields
    )


def _validate_active_deadline_update(spec: Object, old_spec: Object) -> ErrorList:
    deadline, old_deadline = spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if deadline is not None and not 0 <= deadline <= 2147483647:
        return [invalid(path, deadline, "must be between 0 and 2147483647, inclusive")]
    if old_deadline is None or deadline == old_deadline:
        return []
    if deadline is None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    if deadline > old_deadline:
        return [invalid(path, deadline, "must be less than or equal to previous value")]
    return []


def _validate_only_added_tolerations(spec: Object, old_spec: Object) -> ErrorList:
    def without_seconds(toleration: Object) -> frozenset[tuple[str, object]]:
        return frozenset((name, value) for name, value in toleration.items() if name != "tolerationSeconds")

    tolerations = {without_seconds(toleration) for toleration in spec.get("tolerations") or ()}
    if all(without_seconds(toleration) in tolerations for toleration in old_spec.get("tolerations") or ()):
        return validate_tolerations(spec.get("tolerations") or (), "spec.tolerations")
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _validate_scheduling_gates_update(spec: Object, old_spec: Object) -> ErrorList:
    old_gates = {gate.get("name") for gate in old_spec.get("schedulingGates") or ()}
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    new_gates = [(position, name) for position, name in enumerate(gates) if name not in old_gates]
    return [
        forbidden(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for position, name in new_gates
    ]
