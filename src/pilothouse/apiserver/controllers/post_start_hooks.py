"""Objects of upstream's post-start hooks: APIServices and PriorityClasses.

``bootstrap_objects`` stores them. They follow kube-aggregator's ``pkg/controllers/autoregister`` and kubernetes'
``pkg/registry/scheduling`` (v1.36).
"""

from collections.abc import Iterator

from pilothouse.apiserver.admission.priority import SYSTEM_CLASSES
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.resources import built_in

Entry = tuple[str, str, Object]
"""(group, resource, object)."""

_GROUP_PRIORITIES: dict[str, int] = {
    # kubernetes pkg/controlplane/apiserver/aggregator.go, DefaultGenericAPIServicePriorities and its own.
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "storagemigration.k8s.io": 15800,
}
_VERSION_PRIORITIES = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("resource.k8s.io", "v1"): 20,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
}
_VERSION_PRIORITY = 15


def priority_classes() -> Iterator[Entry]:
    """The two system PriorityClasses. Upstream creates them in a post-start hook
    (``scheduling/bootstrap-system-priority-classes``); pods may refer to them before."""
    for name, (value, description) in SYSTEM_CLASSES.items():
        priority_class = {"metadata": {"name": name, "generation": 1}, "value": value, "description": description}
        yield "scheduling.k8s.io", "priorityclasses", {**priority_class, "preemptionPolicy": "PreemptLowerPriority"}


def api_services(now: str) -> Iterator[Entry]:
    """One APIService for each group version that this server serves."""
    group_versions: dict[tuple[str, str], None] = {}
    for info in built_in():
        if info.group != "apiregistration.k8s.io":
            group_versions[info.group, info.version] = None
    for group, version in group_versions:
        yield "apiregistration.k8s.io", "apiservices", api_service(group, version, now)


def api_service(group: str, version: str, now: str, *, automanaged: str = "onstart") -> Object:
    """The APIService of a local group version. Those of custom groups are ``automanaged`` "true"."""
    spec: Object = {
        **({"group": group} if group else {}),
        "version": version,
        "groupPriorityMinimum": _GROUP_PRIORITIES.get(group, 1000),
        "versionPriority": _VERSION_PRIORITIES.get((group, version), _VERSION_PRIORITY)
        if group in _GROUP_PRIORITIES
        else 100,
    }
    available = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    return {
        "metadata": {
            "name": f"{version}.{group}",
            "labels": {"kube-aggregator.kubernetes.io/automanaged": automanaged},
        },
        "spec": spec,
        "status": {"conditions": [available]},
    }


def token_tracking(today: str) -> Entry:
    """The ConfigMap with the date since which the use of tokens in Secrets is tracked."""
    name = "kube-apiserver-legacy-service-account-token-tracking"
    return "", "configmaps", {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"since": today}}
