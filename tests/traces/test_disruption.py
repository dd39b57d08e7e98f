"""10a-disruption, replayed: the statuses that upstream wrote of a budget, one by one, around an eviction.

What differs from run to run: whether pods that become ready together are one write or several, whether the budget's
event or the evicted pod's is first, and conflicts, which here are avoided (docs/controllers/disruption.md).
"""

import functools
import json
from typing import Any

import pytest
from tests.custom_resources import DEFINITIONS, definition, version
from tests.traces.audit import AuditedServer
from tests.traces.kubectl_user import KubectlUser, replay
from tests.traces.records import Record, recorded
from tests.traces.scenarios import REPLICA_SET

SCENARIO = "10a-disruption"
USER = "disruption-controller"
BUDGETS = f"apis/policy/v1/namespaces/{SCENARIO}/poddisruptionbudgets"


async def steps(user: KubectlUser) -> None:
    """Its steps."""
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    await user.request("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
    await user.at(2.173)
    await user.create(REPLICA_SET % 3)
    await user.at(4.889)
    first, *others = await user.names("Pod")
    for name in (first, *others):
        await user.label(name, x="y")
    await user.at(7.089)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first}}
    await user.request("POST", f"{user.path('Pod', first)}/eviction", eviction)
    await user.at(10.759)
    change = {"spec": {"minAvailable": "50%"}}
    await user.request("PATCH", f"{BUDGETS}/web", change, "application/merge-patch+json")
    await user.at(12.857)
    await user.request("DELETE", f"{BUDGETS}/web", {"propagationPolicy": "Background"})
    await user.at(14.955)
    await user.delete("ReplicaSet", "web")
    await user.at(20.0)


@functools.cache
def played(seed: int) -> AuditedServer:
    """Once per seed; with seed 0 nothing has a latency."""
    return replay(SCENARIO, steps, seed=seed, latency=(0.001, 0.004) if seed else None)


def statuses(records: list[Record]) -> list[Record]:
    """The status writes and their verbs, without rejected ones."""
    own_records = [record for record in records if record.user == USER and not record.is_read and not record.is_event]
    assert {(item.verb, item.resource) for item in own_records} == {("update", "poddisruptionbudgets/status")}
    return [item for item in own_records if item.code == 200]


def figures(record: Record) -> tuple[int, int, int, int, int, int]:
    """Generation, allowed, healthy, desired, expected, and how many are on their way out."""
    status = record.status
    names = ("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return (*(status[name] for name in names), len(status.get("disruptedPods", {})))


def essence(record: Record) -> str:
    """The whole body without what differs between any two runs."""
    body: dict[str, Any] = json.loads(json.dumps(record.body))
    for name in ("uid", "resourceVersion", "creationTimestamp"):
        assert body["metadata"].pop(name)
    assert body["status"]["conditions"][0].pop("lastTransitionTime")
    body["status"]["disruptedPods"] = len(body["status"].get("disruptedPods", {}))
    return json.dumps(body, sort_keys=True)


MILESTONES = [
    pytest.param((1, 0, 0, 2, 0, 0), id="no healthy pods"),
    pytest.param((1, 0, 0, 2, 3, 0), id="healthy pods not yet counted"),
    pytest.param((1, 1, 3, 2, 3, 0), id="all healthy"),
    pytest.param((1, 0, 2, 2, 4, 0), id="one evicted, replaced"),
    pytest.param((1, 1, 3, 2, 4, 0), id="one evicted, replacement healthy"),
    pytest.param((1, 1, 3, 2, 3, 0), id="the evicted pod is deleted"),
    pytest.param((2, 1, 3, 2, 3, 0), id="a share, of the ReplicaSet"),
]
STEPS = [figures_ for (figures_,) in (milestone.values for milestone in MILESTONES)]
SOMETIMES = {
    (1, 0, 0, 2, 1, 0),
    (1, 0, 0, 2, 2, 0),
    (1, 0, 1, 2, 3, 0),
    (1, 0, 2, 2, 3, 0),
    (1, 0, 2, 2, 3, 1),
}
"""Between these: some are there, or ready; the evicted one is noted, or seen to be deleted."""


@pytest.mark.parametrize("run", ["upstream", "0", "1", "2", "3"])
def test_status_counts_are_upstreams(run: str) -> None:
    """Upstream's own are held against the same list."""
    records = recorded(SCENARIO) if run == "upstream" else played(int(run)).records
    result = [figures(status) for status in statuses(records)]
    assert [item for item in result if item not in SOMETIMES] == STEPS
    assert any(item in SOMETIMES for item in result)


@pytest.mark.parametrize("which", range(4))
def test_requests_are_upstreams(which: int) -> None:
    expected = {figures(item): essence(item) for item in statuses(recorded(SCENARIO))}
    compared = 0
    for record in statuses(played(which).records):
        if figures(record) in expected and record.t > 0:
            assert essence(record) == expected[figures(record)]
            compared += 1
    assert compared >= len(STEPS) - 1


@pytest.mark.parametrize("which", range(4))
def test_no_conflicts_with_the_own_last_write(which: int) -> None:
    codes = [record.code for record in played(which).records if record.user == USER and not record.is_read]
    assert codes.count(409) <= 1, "an eviction may come between"


@pytest.mark.parametrize("which", range(4))
def test_the_bootstrap_roles_allow_every_request(which: int) -> None:
    assert not [str(attributes) for _user, attributes, decision in played(which).decisions if not decision.allowed]


def test_events_are_upstreams() -> None:
    def outcomes(records: list[Record]) -> list[tuple[str, int, str]]:
        own_records = [record for record in records if record.user == USER and record.is_event]
        return [(item.verb, item.body["count"], item.body["message"]) for item in own_records]

    actual, expected = played(0).records, recorded(SCENARIO)
    assert outcomes(actual) == outcomes(expected)
    (first,) = [item.body for item in actual if item.user == USER and item.is_event and item.verb == "create"]
    (other,) = [item.body for item in expected if item.user == USER and item.is_event and item.verb == "create"]
    for name in ("reason", "type", "source", "reportingComponent", "reportingInstance"):
        assert first.get(name) == other.get(name), name
    assert first["involvedObject"].keys() == other["involvedObject"].keys()


async def rarities(user: KubectlUser) -> None:
    """Cases missing in 10a: a scale subresource, and a disruption that does not happen."""
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    widgets_definition = definition("Widget", version(subresources={"scale": paths}))
    await user.request("POST", DEFINITIONS.removeprefix("/"), widgets_definition)
    await user.at(40.0)  # the manager has refreshed discovery by then
    widgets = f"apis/example.com/v1/namespaces/{SCENARIO}/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 3}}
    created = await user.request("POST", widgets, widget)
    owner = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": created["metadata"]["uid"]}
    pod = {
        "metadata": {"name": "a", "labels": {"app": "web"}, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    }
    await user.request("POST", user.path("Pod"), pod)
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await user.request("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": budget})
    target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    path = f"{user.path('Pod', 'a')}/status"
    await user.at(50.0)
    await user.request("PATCH", path, {"status": {"conditions": [target]}}, "application/strategic-merge-patch+json")
    await user.at(200.0)


def test_bootstrap_roles_allow_rare_requests() -> None:
    server = replay(SCENARIO, rarities)
    own_decisions = [item for item in server.decisions if item[0].user.endswith(f":{USER}")]
    assert not [str(attributes) for _user, attributes, decision in own_decisions if not decision.allowed]
    attributes = {(decided.verb, decided.resource, decided.subresource) for _user, decided, _decision in own_decisions}
    assert {("get", "widgets", "scale"), ("patch", "pods", "status")} <= attributes
    assert ("update", "poddisruptionbudgets", "status") in attributes
    last = [
        record for record in server.records if record.user == USER and record.resource == "poddisruptionbudgets/status"
    ][-1]
    assert figures(last)[1:5] == (0, 1, 2, 3)
