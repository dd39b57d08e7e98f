"""Pods: defaults, the few fields that may change, graceful deletion, the status they begin with.

After kubernetes' ``pkg/registry/core/pod/strategy.go`` and ``pkg/apis/core/validation`` (v1.36).
"""

import ipaddress
from collections.abc import Container, Iterable, Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import fixed
from pilothouse.apiserver.strategies.pod_templates import qos_class, toleration_problems, validate_pod_spec
from pilothouse.apiserver.strategies.warnings import pod_spec_warnings
from pilothouse.machinery.names import dns_subdomain_errors, qualified_name_errors
from pilothouse.semantics.pod_defaults import default_pod

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_STATUS = (("name", ""), ("image", ""), ("imageID", ""), ("ready", False), ("restartCount", 0))
"""What is printed of a container's status even when it is empty."""
_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_BAD_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_FINISHED = ("Succeeded", "Failed")
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def _image_problems(containers: Iterable[Object], path: str) -> list[FieldError]:
    """Images are what of a container may change, so that upstream looks at them once more."""
    problems: list[FieldError] = []
    for position, container in enumerate(containers):
        if not container.get("image"):
            problems.append(errors.required(f"{path}[{position}].image"))
    return problems + _spaced_problems(containers, path)


def _spaced_problems(containers: Iterable[Object], path: str) -> list[FieldError]:
    told = "must not have leading or trailing whitespace"
    return [
        errors.invalid_value(f"{path}[{position}].image", container["image"], told)
        for position, container in enumerate(containers)
        if (container.get("image") or "").strip() != (container.get("image") or "")
    ]


def _pod_problems(spec: Object) -> list[FieldError]:
    """What is wrong with the spec of a pod. Not all of it is said of templates (``validatePodMetadataAndSpec``)."""
    problems = validate_pod_spec(spec, "spec")
    for at, volume in enumerate(() if spec.get("serviceAccountName") else spec.get("volumes") or ()):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                field = f"spec.volumes[{at}].projected.sources[{position}].serviceAccountToken"
                problems.append(errors.not_allowed(field, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        problems += _spaced_problems(spec.get(field) or (), f"spec.{field}")
    return problems


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
        spec = obj["spec"]
        problems = _pod_problems(spec)
        if spec.get("ephemeralContainers"):
            problems.append(errors.not_allowed("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            told = "cannot be set until all schedulingGates have been cleared"
            problems.append(errors.not_allowed("spec.nodeName", told))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        if spec == before:
            return []
        problems = _pod_problems(spec)
        for field in ("containers", "initContainers"):
            if len(spec.get(field) or ()) != len(before.get(field) or ()):
                # Upstream looks no further: the rest could not be compared.
                told = "pod updates may not add or remove containers"
                return [*problems, errors.not_allowed(f"spec.{field}", told)]
            problems += _image_problems(spec.get(field) or (), f"spec.{field}")
        deadline = _deadline_problems(spec, before)
        if deadline and spec.get("activeDeadlineSeconds") is not None:
            return problems + deadline  # upstream looks no further here either
        problems += deadline
        problems += _toleration_problems(spec, before)
        problems += _gate_problems(spec, before)
        if _without_mutable(spec, before) != before:
            problems.append(errors.not_allowed("spec", _MAY_CHANGE))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status, before = obj.get("status") or {}, old.get("status") or {}
        problems: list[FieldError] = []
        for position, condition in enumerate(status.get("conditions") or ()):
            kind = condition.get("type") or ""
            if kind not in _SYSTEM_CONDITIONS:
                where = f"metadata.conditions[{position}].Type"  # upstream says so
                problems += [errors.invalid_value(where, kind, text) for text in qualified_name_errors(kind)]
        node = status.get("nominatedNodeName")
        if node and node != before.get("nominatedNodeName"):
            told = dns_subdomain_errors(node)
            problems += [errors.invalid_value("status.nominatedNodeName", node, text) for text in told]
        problems += fixed(status, before, "status", ("qosClass",))
        policy = old["spec"].get("restartPolicy")
        going_on = {
            container.get("name")
            for container in old["spec"].get("initContainers") or ()
            if container.get("restartPolicy") == "Always"
        }
        for field in ("containerStatuses", "initContainerStatuses"):
            if policy != "Always":
                spared = going_on if field == "initContainerStatuses" else frozenset()
                problems += _restart_problems(status, before, field, policy == "OnFailure", spared)
        problems += _restart_problems(status, before, "ephemeralContainerStatuses", False, frozenset())
        addresses = status.get("podIPs") or ()
        return problems if addresses == before.get("podIPs") else problems + _address_problems(addresses)

    def grace_period(self, obj: Object, requested: int | None) -> int:
        spec, status = obj["spec"], obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in _FINISHED:
            return 0
        period: int = spec.get("terminationGracePeriodSeconds") or 0 if requested is None else requested
        return 1 if period < 0 else period


def _restart_problems(
    status: Object, before: Object, field: str, may_fail: bool, spared: Container[str | None]
) -> list[FieldError]:
    """``ValidateContainerStateTransition``: what has ended does not run again, and the old status is the one named."""
    now = {each.get("name"): each for each in status.get(field) or ()}
    problems: list[FieldError] = []
    for position, was in enumerate(before.get(field) or ()):
        ended = (was.get("state") or {}).get("terminated")
        if ended is None or (may_fail and ended.get("exitCode")) or was.get("name") in spared:
            continue
        known = now.get(was.get("name"))
        if known is not None and (known.get("state") or {}).get("terminated") is None:
            told = "may not be transitioned to non-terminated state"
            problems.append(errors.not_allowed(f"status.{field}[{position}].state", told))
    return problems


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


def _address_problems(addresses: Sequence[Object]) -> list[FieldError]:
    """``validatePodIPs``: at most one address of each family."""
    found = [str(address.get("ip") or "") for address in addresses]
    problems: list[FieldError] = []
    for position, text in enumerate(found):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            problems.append(errors.invalid_value(f"status.podIPs[{position}]", text, _BAD_ADDRESS))
    if len(found) < 2:
        return problems
    if len(found) > 2 or (":" in found[0]) == (":" in found[1]):
        told = "may specify no more than one IP for each IP family"
        problems.append(errors.invalid_value("status.podIPs", list(addresses), told))
    for position, address in enumerate(found):
        if address in found[:position]:
            problems.append(errors.duplicate(f"status.podIPs[{position}]", addresses[position]))
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
    if before.get("schedulingGates"):
        mutable += ["nodeSelector", "affinity"]
    for field in mutable:
        if field in before:
            same[field] = before[field]
        else:
            same.pop(field, None)
    return same


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
    added = [gate.get("name") for gate in spec.get("schedulingGates") or () if gate.get("name") not in known]
    if not added:
        return []
    return [
        errors.not_allowed(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for position, name in enumerate(added)
    ]
