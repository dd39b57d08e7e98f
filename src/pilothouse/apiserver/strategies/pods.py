"""Pods: defaults, the few fields that may change, graceful deletion, the status they begin with.

After kubernetes' ``pkg/registry/core/pod/strategy.go`` and ``pkg/apis/core/validation`` (v1.36).
"""

from collections.abc import Iterable
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.label_keys import merge_label_keys
from pilothouse.apiserver.strategies.pod_annotations import annotation_problems, change_problems, profile_problems
from pilothouse.apiserver.strategies.pod_changes import spec_change_problems
from pilothouse.apiserver.strategies.pod_statuses import status_problems
from pilothouse.apiserver.strategies.pod_templates import image_space_problems, qos_class, validate_pod_spec
from pilothouse.apiserver.strategies.warnings import pod_spec_warnings
from pilothouse.semantics.pod_defaults import default_pod

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_STATUS = (("name", ""), ("image", ""), ("imageID", ""), ("ready", False), ("restartCount", 0))
"""What is printed of a container's status even when it is empty."""
_FINISHED = ("Succeeded", "Failed")


def _pod_problems(pod: Object) -> list[FieldError]:
    """What is wrong with a pod. Not all of it is said of templates (``validatePodMetadataAndSpec``)."""
    spec, meta = pod["spec"], pod["metadata"]
    problems: list[FieldError] = []
    if meta.get("annotations"):
        problems += annotation_problems(meta["annotations"], spec, "metadata.annotations")
    problems += validate_pod_spec(spec, "spec", meta=meta)
    for at, volume in enumerate(() if spec.get("serviceAccountName") else spec.get("volumes") or ()):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                field = f"spec.volumes[{at}].projected.sources[{position}].serviceAccountToken"
                problems.append(errors.not_allowed(field, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(field) or ()):
            problems += image_space_problems(container, f"spec.{field}[{position}]")
    return problems


def _annotation_change_problems(pod: Object, old: Object) -> list[FieldError]:
    annotations, before = (each["metadata"].get("annotations") or {} for each in (pod, old))
    return change_problems(annotations, before, pod["spec"], "metadata.annotations")


class PodStrategy(Strategy):
    """The one kind with a grace period."""

    tracked = ("spec",)
    graceful = True
    status_keeps = "pod"
    selectable = {  # read only
        "spec.nodeName": ("spec", "nodeName"),
        "spec.host": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "spec.hostNetwork": ("spec", "hostNetwork"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.podIPs": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    }
    selectable_defaults = {"spec.hostNetwork": "false"}  # read only

    def default(self, obj: Object) -> None:
        default_pod(obj)
        # Before owners are noted: who writes a condition owns the times that it leaves unset, too.
        _print_unset_times(obj)

    def warnings(self, obj: Object) -> Iterable[str]:
        return pod_spec_warnings(obj["spec"], "spec")

    def prepare_create(self, obj: Object, now: str) -> None:
        spec = obj["spec"]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            merge_label_keys(obj)
        status: Object = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            status["conditions"] = [_gated(now)]
        status["qosClass"] = qos_class(spec)
        obj["status"] = status

    def prepare_status(self, obj: Object, old: Object, now: str) -> None:
        if "deletionTimestamp" not in old["metadata"]:
            # Upstream takes it from nobody here, and refuses it nowhere (pkg/registry/core/pod/strategy.go).
            obj["metadata"].pop("deletionTimestamp", None)
        status: Object = obj.setdefault("status", {})
        if not status.get("qosClass"):
            known = (old.get("status") or {}).get("qosClass")
            if known:
                status["qosClass"] = known
        _align_addresses(status)

    def finish(self, obj: Object) -> None:
        for field in _STATUSES:
            for status in obj["status"].get(field) or ():
                for name, value in _STATUS:
                    status.setdefault(name, value)
                for state in ("state", "lastState"):
                    status.setdefault(state, {})
        _print_unset_times(obj)

    def validate(self, obj: Object) -> list[FieldError]:
        spec, annotations = obj["spec"], obj["metadata"].get("annotations") or {}
        problems = _pod_problems(obj)
        if spec.get("ephemeralContainers"):
            problems.append(errors.not_allowed("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            told = "cannot be set until all schedulingGates have been cleared"
            problems.append(errors.not_allowed("spec.nodeName", told))
        return problems + profile_problems(annotations, spec, "spec") if annotations else problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        annotations = _annotation_change_problems(obj, old)
        if obj["spec"] == old["spec"]:
            return annotations
        return _pod_problems(obj) + annotations + spec_change_problems(obj["spec"], old["spec"])

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        problems = _annotation_change_problems(obj, old)
        return problems + status_problems(obj, old)

    def grace_period(self, obj: Object, requested: int | None) -> int:
        spec, status = obj["spec"], obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in _FINISHED:
            return 0
        period: int = spec.get("terminationGracePeriodSeconds") or 0 if requested is None else requested
        return 1 if period < 0 else period


def _print_unset_times(obj: Object) -> None:
    """The two times of a condition are printed even when they are unset."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


def _gated(now: str) -> dict[str, Any]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _align_addresses(status: Object) -> None:
    """``podIP`` is the first of ``podIPs``. Where they differ the single one counts: kubelets older than the second
    family know no other (``pkg/apis/core/v1/conversion.go``)."""
    single, several = status.get("podIP"), status.get("podIPs")
    if single:
        if not several or several[0].get("ip") != single:
            status["podIPs"] = [{"ip": single}]
    elif several and several[0].get("ip"):
        status["podIP"] = several[0]["ip"]
