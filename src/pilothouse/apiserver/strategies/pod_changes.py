"""What of a pod's spec may change: little, and a bit more while gates keep the pod from being scheduled.

After ``ValidatePodUpdate`` and what it calls in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.filling import go_named
from pilothouse.apiserver.strategies.pod_templates import image_space_problems
from pilothouse.apiserver.strategies.tolerations import toleration_problems

_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spec_change_problems(spec: Object, before: Object) -> list[FieldError]:
    """What is wrong with a change of a pod's spec, apart from what is wrong with the new one."""
    problems: list[FieldError] = []
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            # Upstream looks no further: the rest could not be compared.
            told = "pod updates may not add or remove containers"
            return [*problems, errors.not_allowed(f"spec.{field}", told)]
        for position, container in enumerate(spec.get(field) or ()):
            # Images are what of a container may change, so that upstream looks at them once more.
            if not container.get("image"):
                problems.append(errors.required(f"spec.{field}[{position}].image"))
            problems += image_space_problems(container, f"spec.{field}[{position}]")
    deadline = _deadline_problems(spec, before)
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return problems + deadline  # upstream looks no further here either
    problems += deadline
    problems += _toleration_problems(spec, before)
    problems += _gate_problems(spec, before)
    same = _without_mutable(spec, before)
    if before.get("schedulingGates"):
        problems += _put_back_of_gated(same, before)
    if same != before:
        problems.append(errors.not_allowed("spec", _MAY_CHANGE))
    return problems


def _without_mutable(spec: Object, before: Object) -> Object:
    """The new spec with everything that may change put back: equal to the old one if nothing else has."""
    same = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            same[field] = [
                {**container, "image": was.get("image"), "imagePullPolicy": was.get("imagePullPolicy")}
                if container.get("image") != was.get("image")
                else container
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


# While there are gates


def _put_back_of_gated(same: Object, before: Object) -> list[FieldError]:
    """What is wrong with how the choice of nodes has changed, which may only get narrower. It is put back in place."""
    problems: list[FieldError] = []
    chosen, was = same.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if chosen != was:
        if any(chosen.get(key) != value for key, value in was.items()):
            told = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            problems.append(errors.invalid_value("spec.nodeSelector", same.get("nodeSelector"), told))
        _put(same, "nodeSelector", before.get("nodeSelector"))
    affinity, old_affinity = same.get("affinity"), before.get("affinity")
    of_nodes, old_of_nodes = ((each or {}).get("nodeAffinity") for each in (affinity, old_affinity))
    if of_nodes == old_of_nodes:
        return problems
    problems += _affinity_problems(of_nodes, old_of_nodes)
    if old_affinity is None and not (affinity or {}).keys() - {"nodeAffinity"}:
        same.pop("affinity", None)
    else:
        same["affinity"] = dict(affinity or {})
        _put(same["affinity"], "nodeAffinity", old_of_nodes)
    return problems


def _put(obj: Object, field: str, value: Any) -> None:
    if value is None:
        obj.pop(field, None)
    else:
        obj[field] = value


def _affinity_problems(affinity: Object | None, before: Object | None) -> list[FieldError]:
    known: Sequence[Object] = ((before or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    terms: Sequence[Object] = ((affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if not known:
        return []
    if len(known) != len(terms):
        told = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        shown = [_shown(term) for term in terms] or None
        return [errors.invalid_value(path, shown, told)]
    told = "only additions are allowed (no mutations or deletions)"
    return [
        errors.invalid_value(f"{path}[{position}]", _shown(term), told)
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


def _shown(term: Object) -> Any:
    return go_named(
        {
            field: [{part: wanted.get(part) for part in ("key", "operator", "values")} for wanted in term[field]]
            if term.get(field)
            else None
            for field in ("matchExpressions", "matchFields")
        }
    )


def _deadline_problems(spec: Object, before: Object) -> list[FieldError]:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if new is not None and not 0 <= new <= 2147483647:
        return [errors.invalid_value(path, new, "must be between 0 and 2147483647, inclusive")]
    if old is None or new == old:
        return []
    if new is None:
        return [errors.invalid_value(path, None, "must not update from a positive integer to nil value")]
    if new > old:
        return [errors.invalid_value(path, new, "must be less than or equal to previous value")]
    return []


def _toleration_problems(spec: Object, before: Object) -> list[FieldError]:
    def bare(toleration: Object) -> Object:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [bare(toleration) for toleration in spec.get("tolerations") or ()]
    if all(bare(toleration) in kept for toleration in before.get("tolerations") or ()):
        return toleration_problems(spec.get("tolerations") or (), "spec.tolerations")
    return [
        errors.not_allowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    ]


def _gate_problems(spec: Object, before: Object) -> list[FieldError]:
    known = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    added = [(position, name) for position, name in enumerate(gates) if name not in known]
    return [
        errors.not_allowed(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for position, name in added
    ]
