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

_IMMUTABLE_FIELDS_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod_spec_update(spec: Object, before: Object) -> ErrorList:
    errors: ErrorList = []
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            # As upstream, the other fields are not validated.
            return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        for position, container in enumerate(spec.get(field) or ()):
            # Upstream validates images again, as they are mutable.
            if not container.get("image"):
                errors.append(required(f"spec.{field}[{position}].image"))
            errors += validate_image_whitespace(container, f"spec.{field}[{position}]")
    deadline = _validate_active_deadline_update(spec, before)
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return errors + deadline  # as upstream, the other fields are not validated
    errors += deadline
    errors += _validate_only_added_tolerations(spec, before)
    errors += _validate_scheduling_gates_update(spec, before)
    same = _without_mutable(spec, before)
    if before.get("schedulingGates"):
        errors += _validate_gated_update(same, before)
    if same != before:
        diff = internal_diff("core.PodSpec", before, same)
        errors.append(forbidden("spec", _IMMUTABLE_FIELDS_TEXT + diff))
    return errors


def _without_mutable(spec: Object, before: Object) -> Object:
    """The new spec with mutable fields reset to the old values: equal to the old spec if only these have changed."""
    same = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            same[field] = [
                {**container, "image": was["image"]} if container.get("image") != was.get("image") else container
                for container, was in zip(spec[field], before[field], strict=True)
            ]
    mutable = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        mutable.append("terminationGracePeriodSeconds")
    for field in mutable:
        if field in before:
            same[field] = before[field]
        else:
            same.pop(field, None)
    return same


# Pods with scheduling gates


def _validate_gated_update(same: Object, before: Object) -> ErrorList:
    """Validate changes of node selector and node affinity, which may only become more restrictive, and reset them in
    ``same``."""
    errors: ErrorList = []
    selector, was = same.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if selector != was:
        if any(selector.get(key) != value for key, value in was.items()):
            bad_value = internal_value("{}string", same.get("nodeSelector"))
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", bad_value, detail))
        _put(same, "nodeSelector", before.get("nodeSelector"))
    affinity, old_affinity = same.get("affinity"), before.get("affinity")
    node_affinity, old_node_affinity = ((a or {}).get("nodeAffinity") for a in (affinity, old_affinity))
    if node_affinity == old_node_affinity:
        return errors
    errors += _validate_node_affinity_update(node_affinity, old_node_affinity)
    if old_affinity is None and not (affinity or {}).keys() - {"nodeAffinity"}:
        same.pop("affinity", None)
    else:
        same["affinity"] = dict(affinity or {})
        _put(same["affinity"], "nodeAffinity", old_node_affinity)
    return errors


def _put(obj: Object, field: str, value: Any) -> None:
    if value is None:
        obj.pop(field, None)
    else:
        obj[field] = value


def _validate_node_affinity_update(affinity: Object | None, before: Object | None) -> ErrorList:
    known: Sequence[Object] = ((before or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    terms: Sequence[Object] = ((affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if not known:
        return []
    if len(known) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, internal_value("[]core.NodeSelectorTerm", terms or None), detail)]
    detail = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{path}[{position}]", internal_value("core.NodeSelectorTerm", term), detail)
        for position, (term, was) in enumerate(zip(terms, known, strict=True))
        if not _only_adds(term, was)
    ]


def _only_adds(term: Mapping[str, Any], was: Mapping[str, Any]) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(was.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all(
        list(term.get(field) or ())[: len(was.get(field) or ())] == list(was.get(field) or ()) for field in fields
    )


def _validate_active_deadline_update(spec: Object, before: Object) -> ErrorList:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if new is not None and not 0 <= new <= 2147483647:
        return [invalid(path, new, "must be between 0 and 2147483647, inclusive")]
    if old is None or new == old:
        return []
    if new is None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    if new > old:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _validate_only_added_tolerations(spec: Object, before: Object) -> ErrorList:
    def bare(toleration: Object) -> Object:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [bare(toleration) for toleration in spec.get("tolerations") or ()]
    if all(bare(toleration) in kept for toleration in before.get("tolerations") or ()):
        return validate_tolerations(spec.get("tolerations") or (), "spec.tolerations")
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _validate_scheduling_gates_update(spec: Object, before: Object) -> ErrorList:
    known = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    added = [(position, name) for position, name in enumerate(gates) if name not in known]
    return [
        forbidden(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for position, name in added
    ]
