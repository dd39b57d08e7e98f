"""The usage of objects for ResourceQuota: resources, amounts, and scopes. Pure.

Admission and the controller that computes ``status.used`` share the evaluators. After kubernetes'
``pkg/quota/v1/evaluator/core`` and apiserver's ``pkg/quota/v1`` (v1.36). Objects are JSON.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.machinery.times import add_seconds
from pilothouse.semantics.pod_amounts import Amounts, Json, add, amounts, has_pod_level_resources, pod_amounts

ONE = Quantity(1)
_ZERO = Quantity(0)
REQUESTS = "requests."


class ScopeRequirement(msgspec.Struct, frozen=True, rename="camel"):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = ()

    def allows(self, value: str) -> bool:
        """Whether an object with that value, empty for none, is selected."""
        if self.operator == "Exists":
            return bool(value)
        if self.operator == "DoesNotExist":
            return not value
        listed = bool(value) and value in (self.values or ())
        return listed if self.operator == "In" else self.operator == "NotIn" and not listed


class Evaluator:
    """Counts objects of one resource: ``count/<resource>``, and an older name of the same."""

    def __init__(self, group: str, resource: str, alias: str = "") -> None:
        self.count = f"count/{resource}.{group}" if group else f"count/{resource}"
        self._names = frozenset({self.count, alias} - {""})

    def handles(self, operation: str, subresource: str, obj: Json, old: Json | None) -> bool:
        """Whether such a write can change usage."""
        return operation == "CREATE" and not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those of the resource names that this evaluator counts, sorted."""
        return sorted(name for name in names if self.counts(name))

    def counts(self, name: str) -> bool:
        return name in self._names

    def usage(self, obj: Json, now: datetime.datetime) -> Amounts:
        """The usage of the object. It may include resources that are not counted."""
        return dict.fromkeys(sorted(self._names), ONE)

    def in_scope(self, scope: ScopeRequirement, obj: Json) -> bool:
        """Whether the object matches the scope. Objects that are only counted match none."""
        return False

    def lacking(self, required: Sequence[str], obj: Json) -> str:
        """The resources that the object must specify because they are limited; empty if there are none."""
        return ""


# Pods

_POD_NAMES = frozenset(
    {
        "pods",
        *(
            f"{prefix}{name}"
            for name in ("cpu", "memory", "ephemeral-storage")
            for prefix in ("", "requests.", "limits.")
        ),
    }
)
_MUST_BE_GIVEN = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"},
)


DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""The prefix of implicit extended resources: devices of the class (``ResourceDeviceClassPrefix``)."""


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own: no domain, or one of kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_dra_extended_resource_name(name: str) -> bool:
    """Whether containers may request it as an extended resource, of a device plugin or a device class (v1.36
    ``pkg/scheduler/util/utils.go``)."""
    return (not is_native(name) and not name.startswith(REQUESTS)) or name.startswith(DEVICE_CLASS_PREFIX)


def _is_extended_resource_name_for_quota(name: str) -> bool:
    """Extended resources can only be limited by their requests."""
    return name.startswith(REQUESTS) and (not is_native(name) or name.startswith(REQUESTS + DEVICE_CLASS_PREFIX))


class PodEvaluator(Evaluator):
    """Pods, and their resources, until they are finished. ``pod_level_resources`` is the gate: whether pod-level
    resources count."""

    def __init__(self, *, pod_level_resources: bool = True) -> None:
        super().__init__("", "pods")
        self._pod_level = pod_level_resources

    def handles(self, operation: str, subresource: str, obj: Json, old: Json | None) -> bool:
        if subresource == "resize":
            return operation == "UPDATE"
        if subresource:
            return False
        return operation == "CREATE" or (old is not None and in_terminating_scope(old) != in_terminating_scope(obj))

    def counts(self, name: str) -> bool:
        return (
            name in _POD_NAMES
            or name == self.count
            or name.startswith(("hugepages-", "requests.hugepages-"))
            or _is_extended_resource_name_for_quota(name)
        )

    def usage(self, obj: Json, now: datetime.datetime) -> Amounts:
        used: Amounts = {self.count: ONE}
        if not has_ended(obj, now):
            spec, status = obj.get("spec") or {}, obj.get("status") or {}
            requests, limits = (
                pod_amounts(spec, field, status=status, overhead=True, pod_level=self._pod_level)
                for field in ("requests", "limits")
            )
            add(used, _compute(requests, limits))
        return used

    def in_scope(self, scope: ScopeRequirement, obj: Json) -> bool:
        match scope.scope_name:
            case "Terminating":
                return in_terminating_scope(obj)
            case "NotTerminating":
                return not in_terminating_scope(obj)
            case "BestEffort":
                return _is_best_effort(obj, pod_level=self._pod_level)
            case "NotBestEffort":
                return not _is_best_effort(obj, pod_level=self._pod_level)
            case "PriorityClass":
                return scope.allows((obj.get("spec") or {}).get("priorityClassName") or "")
            case "CrossNamespacePodAffinity":
                return _selects_other_namespaces(obj.get("spec") or {})
        return False

    def lacking(self, required: Sequence[str], obj: Json) -> str:
        spec = obj.get("spec") or {}
        if self._pod_level and has_pod_level_resources(spec):
            return ""
        missing: dict[str, set[str]] = {}
        for field in ("containers", "initContainers"):
            for container in spec.get(field) or ():
                resources = container.get("resources") or {}
                compute = _compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
                for name in required:
                    if name in _MUST_BE_GIVEN and name not in compute:
                        missing.setdefault(name, set()).add(container.get("name", ""))
        if not missing:
            return ""
        return "must specify " + "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _compute(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Amounts:
    """Amounts by the names under which quota limits them."""
    used: Amounts = {"pods": ONE}
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in requests:
            used[name] = used[REQUESTS + name] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            used[name] = used[REQUESTS + name] = amount
        elif is_dra_extended_resource_name(name):
            used[REQUESTS + name] = amount
    return used


def has_ended(pod: Json, now: datetime.datetime) -> bool:
    """Whether the pod no longer uses its resources: it is done, or its grace period has passed, since a node that
    is lost must not keep its pods from being replaced."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    meta = pod.get("metadata") or {}
    deleted, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    if not deleted or grace is None:
        return False
    return now > add_seconds(datetime.datetime.fromisoformat(deleted), grace)


def in_terminating_scope(pod: Json) -> bool:
    """Whether the pod has a deadline."""
    seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _is_best_effort(pod: Json, *, pod_level: bool) -> bool:
    qos_class = (pod.get("status") or {}).get("qosClass")
    if qos_class:
        return bool(qos_class == "BestEffort")
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    everything = [spec, *containers] if pod_level else containers
    for one in everything:
        resources = one.get("resources") or {}
        for field in ("requests", "limits"):
            listed = resources.get(field) or {}
            if any(name in listed and parse_quantity(str(listed[name])) > _ZERO for name in ("cpu", "memory")):
                return False
    return True


def _selects_other_namespaces(spec: Json) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms: Json = affinity.get(kind) or {}
        listed = list(terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            listed.append(weighted.get("podAffinityTerm") or {})
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in listed):
            return True
    return False


# Services


class ServiceEvaluator(Evaluator):
    """Services, and of those that cost something outside the cluster their load balancers and node ports."""

    def __init__(self) -> None:
        super().__init__("", "services", "services")
        self._names |= {"services.nodeports", "services.loadbalancers"}

    def handles(self, operation: str, subresource: str, obj: Json, old: Json | None) -> bool:
        return not subresource and operation in ("CREATE", "UPDATE")

    def usage(self, obj: Json, now: datetime.datetime) -> Amounts:
        spec = obj.get("spec") or {}
        ports = spec.get("ports") or ()
        balanced = spec.get("type") == "LoadBalancer"
        count = 0
        if spec.get("type") == "NodePort" or (balanced and spec.get("allocateLoadBalancerNodePorts") is not False):
            count = len(ports)
        elif balanced:
            count = sum(bool(port.get("nodePort")) for port in ports)
        return {
            self.count: ONE,
            "services": ONE,
            "services.loadbalancers": ONE if balanced else _ZERO,
            "services.nodeports": Quantity(count),
        }


# Claims

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_OF_CLASS = ".storageclass.storage.k8s.io/"
_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")


class ClaimEvaluator(Evaluator):
    """Volume claims and their size, also by storage class."""

    def __init__(self) -> None:
        super().__init__("", "persistentvolumeclaims", "persistentvolumeclaims")

    def handles(self, operation: str, subresource: str, obj: Json, old: Json | None) -> bool:
        if subresource == "status":
            return old is not None and attribute_classes(obj) != attribute_classes(old)
        return not subresource and operation in ("CREATE", "UPDATE")

    def counts(self, name: str) -> bool:
        return (
            name == self.count or name in _CLAIM_NAMES or name.endswith(tuple(_OF_CLASS + one for one in _CLAIM_NAMES))
        )

    def usage(self, obj: Json, now: datetime.datetime) -> Amounts:
        used = {self.count: ONE, "persistentvolumeclaims": ONE}
        annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
        spec = obj.get("spec") or {}
        storage_class = spec.get("storageClassName") if annotated is None else annotated
        requested = amounts((spec.get("resources") or {}).get("requests")).get("storage")
        if requested is not None:
            requested = requested.rounded_up(0)
            allocated = amounts((obj.get("status") or {}).get("allocatedResources")).get("storage")
            if allocated is not None and allocated > requested:
                requested = allocated.rounded_up(0)  # a growing claim has that much already
            used["requests.storage"] = requested
        if storage_class:
            used[f"{storage_class}{_OF_CLASS}persistentvolumeclaims"] = ONE
            if requested is not None:
                used[f"{storage_class}{_OF_CLASS}requests.storage"] = requested
        return used

    def in_scope(self, scope: ScopeRequirement, obj: Json) -> bool:
        if scope.scope_name != "VolumeAttributesClass":
            return False
        classes = attribute_classes(obj)
        return any(scope.allows(name) for name in classes) if classes else scope.allows("")


def attribute_classes(claim: Json) -> list[str]:
    """The current class of the claim, the requested one, and the target of a modification."""
    status = claim.get("status") or {}
    named = {
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return sorted(name for name in named if name)


# Devices

OF_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
"""The suffix of limits of devices."""
_ALL_DEVICES = 32
"""The charge of a request for all devices of a class: the maximum of a claim."""


class ResourceClaimEvaluator(Evaluator):
    """Resource claims, and devices by class. Of alternatives the one that uses most counts."""

    def __init__(self) -> None:
        super().__init__("resource.k8s.io", "resourceclaims")

    def counts(self, name: str) -> bool:
        return name == self.count or name.endswith(OF_DEVICE_CLASS)

    def usage(self, obj: Json, now: datetime.datetime) -> Amounts:
        used: Amounts = {self.count: ONE}
        for request in ((obj.get("spec") or {}).get("devices") or {}).get("requests") or ():
            most: dict[str, int] = {}
            for one in [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or ():
                name = one.get("deviceClassName", "") + OF_DEVICE_CLASS
                most[name] = max(most.get(name, 0), _devices(one))
            add(used, {name: Quantity(count) for name, count in most.items()})
        return used


def _devices(request: Json) -> int:
    """Unknown modes, of later releases, do not count."""
    match request.get("allocationMode"):
        case "ExactCount":
            return request.get("count") or 0
        case "All":
            return _ALL_DEVICES
    return 0


_SPECIAL: Mapping[tuple[str, str], Evaluator] = {
    ("", "pods"): PodEvaluator(),
    ("", "services"): ServiceEvaluator(),
    ("", "persistentvolumeclaims"): ClaimEvaluator(),
    ("resource.k8s.io", "resourceclaims"): ResourceClaimEvaluator(),
    **{
        ("", resource): Evaluator("", resource, resource)
        for resource in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
    },
}
_NEVER = frozenset(
    {
        ("", "bindings"),
        ("", "componentstatuses"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)


def standing_evaluators() -> list[Evaluator]:
    """Those of the resources that every server has, and that are more than counted or have an older name."""
    return list(_SPECIAL.values())


def evaluator_for(group: str, resource: str) -> Evaluator | None:
    """The evaluator of that resource; None if it is never limited (``pkg/quota/v1/install/registry.go``)."""
    special = _SPECIAL.get((group, resource))
    if special is not None:
        return special
    return None if (group, resource) in _NEVER else Evaluator(group, resource)
