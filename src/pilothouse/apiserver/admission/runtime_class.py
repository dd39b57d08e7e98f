"""RuntimeClass: sets ``overhead``, node selector and tolerations of pods from their RuntimeClass.

After kubernetes' ``plugin/pkg/admission/runtimeclass/admission.go`` and ``pkg/util/tolerations`` (v1.36).
"""

import bisect
from typing import Any

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.semantics.pod_amounts import amounts
from pilothouse.storage import Store

PREFIX = storage_prefix("node.k8s.io", "runtimeclasses")
_OVERHEAD_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClass(Plugin):
    """Sets the fields of new pods, and rejects an overhead that differs from the one of the class."""

    resources = frozenset({"pods"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, write: AdmissionAttributes) -> None:
        spec = _new_pod_spec(write)
        if spec is None:
            return
        runtime_class = self._get_runtime_class(write, spec)
        if runtime_class is None:
            return
        pod_fixed = (runtime_class.get("overhead") or {}).get("podFixed")
        if pod_fixed:
            if spec.get("overhead") and amounts(spec["overhead"]) != amounts(pod_fixed):
                raise new_forbidden(write, _OVERHEAD_MISMATCH)
            spec["overhead"] = dict(pod_fixed)
        scheduling = runtime_class.get("scheduling")
        if scheduling:
            _set_scheduling(write, spec, scheduling)

    def validate(self, write: AdmissionAttributes) -> None:
        spec = _new_pod_spec(write)
        if spec is None or not (spec.get("overhead") or spec.get("runtimeClassName")):
            return
        runtime_class = self._get_runtime_class(write, spec)
        pod_fixed = None if runtime_class is None else (runtime_class.get("overhead") or {}).get("podFixed")
        if pod_fixed:
            if amounts(spec.get("overhead")) != amounts(pod_fixed):
                raise new_forbidden(write, _OVERHEAD_MISMATCH)
        elif spec.get("overhead"):
            raise new_forbidden(
                write, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )

    def _get_runtime_class(self, write: AdmissionAttributes, spec: Object) -> Object | None:
        name = spec.get("runtimeClassName")
        if name is None:
            return None
        record = self._store.staged(PREFIX + name)
        if record is None:
            raise new_forbidden(write, f'pod rejected: RuntimeClass "{name}" not found')
        return decode(record.value)


def _new_pod_spec(write: AdmissionAttributes) -> Object | None:
    """The spec of the pod if the write creates one."""
    if write.pod is None or write.operation != "CREATE":
        return None
    spec: Object | None = write.pod.get("spec")
    return spec


def _set_scheduling(write: AdmissionAttributes, spec: Object, scheduling: Object) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            raise new_forbidden(
                write,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = "
                f"{selector[key]}",
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    tolerations = scheduling.get("tolerations")
    if tolerations:
        spec["tolerations"] = merge_tolerations([*(spec.get("tolerations") or ()), *tolerations])


def merge_tolerations(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``MergeTolerations``: without tolerations of which another one is a superset; of equal ones the first.

    Each is compared only with those that may be its supersets, which differ in nothing but their seconds.
    """
    positions: dict[tuple[str, ...], list[int]] = {}
    for position, toleration in enumerate(tolerations):
        positions.setdefault(_group_key(toleration), []).append(position)
    merged: list[dict[str, Any]] = []
    merged_of: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for position, toleration in enumerate(tolerations):
        groups = _groups_of_supersets(toleration)
        if any(_is_superset(superset, toleration) for group in groups for superset in merged_of.get(group, ())):
            continue
        superset_positions = [positions.get(group, []) for group in groups]
        later_supersets = (
            tolerations[group_positions[index]]
            for group_positions in superset_positions
            for index in range(bisect.bisect_right(group_positions, position), len(group_positions))
        )
        if any(superset != toleration and _is_superset(superset, toleration) for superset in later_supersets):
            continue
        merged.append(toleration)
        merged_of.setdefault(_group_key(toleration), []).append(toleration)
    return merged


def _group_key(toleration: dict[str, Any]) -> tuple[str, ...]:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    operator = toleration.get("operator") or "Equal"
    return (key, effect, operator) if operator == "Exists" else (key, effect, operator, toleration.get("value") or "")


def _groups_of_supersets(toleration: dict[str, Any]) -> list[tuple[str, ...]]:
    own_group = _group_key(toleration)
    key, effect, *operator_and_value = own_group
    groups = [own_group, (key, "", *operator_and_value)]
    groups += [
        (superset_key, superset_effect, "Exists") for superset_key in (key, "") for superset_effect in (effect, "")
    ]
    return [*dict.fromkeys(groups)]


def _is_superset(superset: dict[str, Any], toleration: dict[str, Any]) -> bool:
    """Whether ``superset`` tolerates every taint that ``toleration`` tolerates (``isSuperset``)."""
    if superset == toleration:
        return True
    operator = superset.get("operator") or "Equal"
    key = superset.get("key") or ""
    if key != (toleration.get("key") or "") and (key or operator != "Exists"):
        return False
    effect = superset.get("effect") or ""
    if effect and effect != (toleration.get("effect") or ""):
        return False
    seconds, toleration_seconds = superset.get("tolerationSeconds"), toleration.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None and (toleration_seconds is None or toleration_seconds > seconds):
        return False
    if operator == "Exists":
        return True
    return operator == toleration.get("operator") == "Equal" and (superset.get("value") or "") == (
        toleration.get("value") or ""
    )
