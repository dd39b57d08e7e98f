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
        found = self._class(write, spec)
        if found is None:
            return
        fixed = (found.get("overhead") or {}).get("podFixed")
        if fixed:
            if spec.get("overhead") and amounts(spec["overhead"]) != amounts(fixed):
                raise new_forbidden(write, _OVERHEAD_MISMATCH)
            spec["overhead"] = dict(fixed)
        scheduling = found.get("scheduling")
        if scheduling:
            _set_scheduling(write, spec, scheduling)

    def validate(self, write: AdmissionAttributes) -> None:
        spec = _new_pod_spec(write)
        if spec is None or not (spec.get("overhead") or spec.get("runtimeClassName")):
            return
        found = self._class(write, spec)
        fixed = None if found is None else (found.get("overhead") or {}).get("podFixed")
        if fixed:
            if amounts(spec.get("overhead")) != amounts(fixed):
                raise new_forbidden(write, _OVERHEAD_MISMATCH)
        elif spec.get("overhead"):
            raise new_forbidden(
                write, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )

    def _class(self, write: AdmissionAttributes, spec: Object) -> Object | None:
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


def merge_tolerations(everything: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``MergeTolerations``: without tolerations of which another one is a superset; of equal ones the first.

    Each is compared only with those that may be its supersets, which differ in nothing but their seconds.
    """
    positions: dict[tuple[str, ...], list[int]] = {}
    for position, one in enumerate(everything):
        positions.setdefault(_group(one), []).append(position)
    merged: list[dict[str, Any]] = []
    merged_of: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for position, one in enumerate(everything):
        groups = _groups_of_supersets(one)
        if any(_is_superset(other, one) for group in groups for other in merged_of.get(group, ())):
            continue
        found = [positions.get(group, []) for group in groups]
        later = (
            everything[same[index]] for same in found for index in range(bisect.bisect_right(same, position), len(same))
        )
        if any(other != one and _is_superset(other, one) for other in later):
            continue
        merged.append(one)
        merged_of.setdefault(_group(one), []).append(one)
    return merged


def _group(toleration: dict[str, Any]) -> tuple[str, ...]:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    operator = toleration.get("operator") or "Equal"
    return (key, effect, operator) if operator == "Exists" else (key, effect, operator, toleration.get("value") or "")


def _groups_of_supersets(narrow: dict[str, Any]) -> list[tuple[str, ...]]:
    own = _group(narrow)
    key, effect, *rest = own
    groups = [own, (key, "", *rest)]
    groups += [(wide_key, wide_effect, "Exists") for wide_key in (key, "") for wide_effect in (effect, "")]
    return [*dict.fromkeys(groups)]


def _is_superset(wide: dict[str, Any], narrow: dict[str, Any]) -> bool:
    """Whether ``wide`` tolerates every taint that ``narrow`` tolerates (``isSuperset``)."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    key = wide.get("key") or ""
    if key != (narrow.get("key") or "") and (key or operator != "Exists"):
        return False
    effect = wide.get("effect") or ""
    if effect and effect != (narrow.get("effect") or ""):
        return False
    seconds, desired = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None and (desired is None or desired > seconds):
        return False
    if operator == "Exists":
        return True
    return operator == narrow.get("operator") == "Equal" and (wide.get("value") or "") == (narrow.get("value") or "")
