"""The mandatory and suggested PriorityLevelConfigurations and FlowSchemas, after apiserver's
``pkg/apis/flowcontrol/bootstrap/default.go`` (v1.36).

Requests are not queued here; the objects exist because clients and tests expect them.
"""

from collections.abc import Iterator
from typing import Any

from pilothouse.apiserver.objects import Object

_GROUP = "flowcontrol.apiserver.k8s.io"
_ANNOTATIONS = {"apf.kubernetes.io/autoupdate-spec": "true"}
_PRIORITY_LEVELS: dict[str, tuple[int, int, tuple[int, int] | None]] = {
    # name: nominal concurrency shares, lendable percent, (queues, hand size)
    "catch-all": (5, 0, None),
    "system": (30, 33, (64, 6)),
    "node-high": (40, 25, (64, 6)),
    "leader-election": (10, 0, (16, 4)),
    "workload-high": (40, 50, (128, 6)),
    "workload-low": (100, 90, (128, 6)),
    "global-default": (20, 50, (128, 6)),
}


def flow_control_objects(now: str) -> Iterator[tuple[str, str, Object]]:
    """(group, resource, object) of the priority levels and flow schemas."""
    exempt = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}
    yield _GROUP, "prioritylevelconfigurations", _flow_object("exempt", exempt)
    for name, (shares, lendable_percent, queues) in _PRIORITY_LEVELS.items():
        response: Object = {"type": "Reject"}
        if queues is not None:
            queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": 50}
            response = {"type": "Queue", "queuing": queuing}
        limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable_percent}
        spec = {"type": "Limited", "limited": limited}
        yield _GROUP, "prioritylevelconfigurations", _flow_object(name, spec)
    for name, level, precedence, distinguisher, rule in _flow_schemas():
        schema: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if distinguisher:
            schema["distinguisherMethod"] = {"type": distinguisher}
        schema["rules"] = [rule]
        obj = _flow_object(name, schema)
        message = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        dangling = {"type": "Dangling", "status": "False", "lastTransitionTime": now, "reason": "Found"}
        obj["status"] = {"conditions": [{**dangling, "message": message}]}
        yield _GROUP, "flowschemas", obj


def _flow_object(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "annotations": dict(_ANNOTATIONS)}, "spec": spec}


def _flow_schemas() -> Iterator[tuple[str, str, int, str, Object]]:
    """(name, priority level, precedence, distinguisher, rule)."""
    all_users = _subjects("Group", "system:unauthenticated", "system:authenticated")
    nodes = _subjects("Group", "system:nodes")
    system_accounts = [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}]
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]}
    yield "exempt", "exempt", 1, "", _rule_for_all_requests(_subjects("Group", "system:masters"))
    probes = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
    yield "probes", "exempt", 2, "", {"subjects": all_users, "nonResourceRules": [probes]}
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
    yield "system-nodes", "system", 500, "ByUser", _rule_for_all_requests(nodes)
    for program in ("kube-controller-manager", "kube-scheduler"):
        yield (
            program,
            "workload-high",
            800,
            "ByNamespace",
            _rule_for_all_requests(_subjects("User", f"system:{program}")),
        )
    yield "kube-system-service-accounts", "workload-high", 900, "ByNamespace", _rule_for_all_requests(system_accounts)
    accounts = _subjects("Group", "system:serviceaccounts")
    yield "service-accounts", "workload-low", 9000, "ByUser", _rule_for_all_requests(accounts)
    yield "global-default", "global-default", 9900, "ByUser", _rule_for_all_requests(all_users)
    yield "catch-all", "catch-all", 10000, "ByUser", _rule_for_all_requests(all_users)


def _subjects(kind: str, *names: str) -> list[Object]:
    return [{"kind": kind, kind.lower(): {"name": name}} for name in names]


def _rule_for_all_requests(subjects: list[Object]) -> Object:
    resource_rule: dict[str, Any] = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True}
    return {
        "subjects": subjects,
        "resourceRules": [{**resource_rule, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
