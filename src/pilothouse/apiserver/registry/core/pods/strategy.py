"""The strategy of Pods. After kubernetes' ``pkg/registry/core/pod/strategy.go`` (v1.36)."""

from collections.abc import Iterable
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.disabled_fields import (
    GATES,
    drop_disabled_spec_fields,
    drop_disabled_status_fields,
)
from pilothouse.apiserver.registry.core.pods.valid_specs import ValidSpecs
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_ip
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.semantics.pod_defaults import default_pod

with lazy_imports():
    from pilothouse.apiserver.registry.core.pods import app_armor, label_keys, validation, warnings


_CONTAINER_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
"""The fields with container statuses, whose empty states are serialized."""
_TERMINAL_PHASES = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    """``v1`` Pods, the only kind that is deleted with a grace period."""

    return_deleted_object = True
    generation_fields = ("spec",)
    graceful = True
    kept_on_status_update = "pod"
    disabled_gates = GATES
    update_steps = ("object meta update", "object meta", "update")
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

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._valid_specs = ValidSpecs()

    def set_defaults(self, obj: Object) -> None:
        default_pod(obj)
        if (obj["spec"].get("terminationGracePeriodSeconds") or 0) < 0:
            obj["spec"]["terminationGracePeriodSeconds"] = 1  # pkg/apis/core/v1/conversion.go
        # Before managedFields are computed: the manager that sets one of the two fields owns both.
        _sync_pod_ips(obj.get("status") or {})

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        drop_disabled_spec_fields(obj["spec"], None if old is None else old["spec"], self.disabled_gates)

    def warnings_before_create(self, obj: Object) -> Iterable[str]:
        return app_armor.warnings_for_annotations(obj) if "annotations" in obj["metadata"] else ()

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        yield from warnings.warnings_for_name(obj["metadata"]["name"], "in the Pod's hostname")
        if self._valid_specs.contains(obj):
            return
        has_warnings = False
        for warning in warnings.warnings_for_pod(obj):
            has_warnings = True
            yield warning
        if not has_warnings:
            self._valid_specs.add(obj)

    def warnings_on_status_update(self, obj: Object, old: Object) -> Iterable[str]:
        for field in ("podIPs", "hostIPs"):
            for position, address in enumerate((obj.get("status") or {}).get(field) or ()):
                yield from warnings_for_ip(address.get("ip") or "", f"status.{field}[{position}].ip")

    def prepare_for_create(self, obj: Object, now: str) -> None:
        spec = obj["spec"]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            label_keys.merge_label_keys(obj)
        status: Object = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            status["conditions"] = [_scheduling_gated_condition(now)]
        status["qosClass"] = validation.qos_class(spec)
        obj["status"] = status
        if "annotations" in obj["metadata"]:
            app_armor.sync_annotations(obj)

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        if "deletionTimestamp" not in old["metadata"]:
            # Upstream neither clears nor rejects the field (pkg/registry/core/pod/strategy.go).
            obj["metadata"].pop("deletionTimestamp", None)
        status: Object = obj.setdefault("status", {})
        if not status.get("qosClass"):
            qos_class = (old.get("status") or {}).get("qosClass")
            if qos_class:
                status["qosClass"] = qos_class
        drop_disabled_status_fields(status)

    def canonicalize(self, obj: Object) -> None:
        for field in _CONTAINER_STATUSES:
            for status in obj["status"].get(field) or ():
                for state in ("state", "lastState"):
                    status.setdefault(state, {})

    def validate(self, obj: Object) -> ErrorList:
        return [] if self._valid_specs.contains(obj) else validation.validate_pod(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_pod_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_pod_status_update(obj, old)

    def grace_period(self, obj: Object, requested: int | None) -> int:
        spec, status = obj["spec"], obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in _TERMINAL_PHASES:
            return 0
        period: int = spec.get("terminationGracePeriodSeconds") or 0 if requested is None else requested
        return 1 if period < 0 else period


def _scheduling_gated_condition(now: str) -> dict[str, Any]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _sync_pod_ips(status: Object) -> None:
    """``podIP`` is the first of ``podIPs``. If they differ ``podIP`` is used: old kubelets set only this field
    (``pkg/apis/core/v1/conversion.go``)."""
    pod_ip, pod_ips = status.get("podIP"), status.get("podIPs")
    if pod_ip:
        if not pod_ips or pod_ips[0].get("ip") != pod_ip:
            status["podIPs"] = [{"ip": pod_ip}]
    elif pod_ips and pod_ips[0].get("ip"):
        status["podIP"] = pod_ips[0]["ip"]
