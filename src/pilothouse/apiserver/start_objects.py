"""What a server adds to its cluster once it has started: flow control, its own APIServices, its priority classes.

``startup`` stores them. Nobody is held up by flow control here; the objects are there because clients and tests look
for them. As data they follow apiserver's ``pkg/apis/flowcontrol/bootstrap/default.go``, kube-aggregator's
``pkg/controllers/autoregister`` and kubernetes' ``pkg/registry/scheduling`` (v1.36).
"""

from collections.abc import Iterator
from typing import Any

from pilothouse.apiserver.admission.priority import SYSTEM_CLASSES
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.resources import built_in

Entry = tuple[str, str, Object]
"""(group, resource, object)."""

_FLOW = "flowcontrol.apiserver.k8s.io"
_APF = {"apf.kubernetes.io/autoupdate-spec": "true"}
_LEVELS: dict[str, tuple[int, int, tuple[int, int] | None]] = {
    # name: shares, percent that may be lent, (queues, hand size)
    "catch-all": (5, 0, None),
    "system": (30, 33, (64, 6)),
    "node-high": (40, 25, (64, 6)),
    "leader-election": (10, 0, (16, 4)),
    "workload-high": (40, 50, (128, 6)),
    "workload-low": (100, 90, (128, 6)),
    "global-default": (20, 50, (128, 6)),
}
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
_VERSION_PRIORITIES = {("", "v1"): 1, ("autoscaling", "v2"): 30, ("resource.k8s.io", "v1"): 20, (_FLOW, "v1"): 21}
_VERSION_PRIORITY = 15


def priority_classes() -> Iterator[Entry]:
    """The two classes for what the cluster itself runs. Upstream makes them when it has started
    (``scheduling/bootstrap-system-priority-classes``); pods may name them before."""
    for name, (value, description) in SYSTEM_CLASSES.items():
        found = {"metadata": {"name": name, "generation": 1}, "value": value, "description": description}
        yield "scheduling.k8s.io", "priorityclasses", {**found, "preemptionPolicy": "PreemptLowerPriority"}


def flow_control(now: str) -> Iterator[Entry]:
    """Priority levels, and the schemas that sort requests into them."""
    exempt = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}
    yield _FLOW, "prioritylevelconfigurations", _flow_object("exempt", exempt)
    for name, (shares, lendable, queues) in _LEVELS.items():
        response: Object = {"type": "Reject"}
        if queues is not None:
            queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": 50}
            response = {"type": "Queue", "queuing": queuing}
        limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
        spec = {"type": "Limited", "limited": limited}
        yield _FLOW, "prioritylevelconfigurations", _flow_object(name, spec)
    for name, level, precedence, by, rule in _schemas():
        schema: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if by:
            schema["distinguisherMethod"] = {"type": by}
        schema["rules"] = [rule]
        obj = _flow_object(name, schema)
        message = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        dangling = {"type": "Dangling", "status": "False", "lastTransitionTime": now, "reason": "Found"}
        obj["status"] = {"conditions": [{**dangling, "message": message}]}
        yield _FLOW, "flowschemas", obj


def _flow_object(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "annotations": dict(_APF)}, "spec": spec}


def _schemas() -> Iterator[tuple[str, str, int, str, Object]]:
    """(name, priority level, precedence, what tells flows apart, rule)."""
    everybody = _subjects("Group", "system:unauthenticated", "system:authenticated")
    nodes = _subjects("Group", "system:nodes")
    system_accounts = [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}]
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]}
    yield "exempt", "exempt", 1, "", _anything(_subjects("Group", "system:masters"))
    probes = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
    yield "probes", "exempt", 2, "", {"subjects": everybody, "nonResourceRules": [probes]}
    elected = [*_subjects("User", "system:kube-controller-manager", "system:kube-scheduler"), *system_accounts]
    election = {"subjects": elected, "resourceRules": [{"verbs": ["get", "create", "update"], **leases}]}
    yield "system-leader-election", "leader-election", 100, "ByUser", election
    health = [
        {
            "verbs": ["*"],
            "apiGroups": [""],
            "resources": ["nodes", "nodes/status"],
            "clusterScope": True,
            "namespaces": ["*"],
        },
        {"verbs": ["*"], **leases},
    ]
    yield "system-node-high", "node-high", 400, "ByUser", {"subjects": nodes, "resourceRules": health}
    yield "system-nodes", "system", 500, "ByUser", _anything(nodes)
    for program in ("kube-controller-manager", "kube-scheduler"):
        yield program, "workload-high", 800, "ByNamespace", _anything(_subjects("User", f"system:{program}"))
    yield "kube-system-service-accounts", "workload-high", 900, "ByNamespace", _anything(system_accounts)
    accounts = _subjects("Group", "system:serviceaccounts")
    yield "service-accounts", "workload-low", 9000, "ByUser", _anything(accounts)
    yield "global-default", "global-default", 9900, "ByUser", _anything(everybody)
    yield "catch-all", "catch-all", 10000, "ByUser", _anything(everybody)


def _subjects(kind: str, *names: str) -> list[Object]:
    return [{"kind": kind, kind.lower(): {"name": name}} for name in names]


def _anything(subjects: list[Object]) -> Object:
    everything: dict[str, Any] = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True}
    return {
        "subjects": subjects,
        "resourceRules": [{**everything, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def api_services(now: str) -> Iterator[Entry]:
    """One for each group version that is served here."""
    seen: dict[tuple[str, str], None] = {}
    for info in built_in():
        if info.group != "apiregistration.k8s.io":
            seen[info.group, info.version] = None
    for group, version in seen:
        yield "apiregistration.k8s.io", "apiservices", api_service(group, version, now)


def api_service(group: str, version: str, now: str, *, automanaged: str = "onstart") -> Object:
    """The APIService of a group version of this server. Those of custom groups are ``automanaged`` "true"."""
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
    """Since when it is written down whether tokens in secrets are still in use."""
    name = "kube-apiserver-legacy-service-account-token-tracking"
    return "", "configmaps", {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"since": today}}
