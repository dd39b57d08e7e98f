"""10b-hpa-no-metrics, replayed: requests, statuses and events of an autoscaler without a metrics server."""

import functools
import json
from typing import Any

import pytest
from tests.traces.audit import AuditedServer
from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import KubectlUser, replay
from tests.traces.records import Record, recorded
from tests.traces.scenarios import DEPLOYMENT

SCENARIO = "10b-hpa-no-metrics"
USER = "horizontal-pod-autoscaler"
AUTOSCALERS = f"apis/autoscaling/v2/namespaces/{SCENARIO}/horizontalpodautoscalers"


async def steps(user: KubectlUser) -> None:
    """Its steps."""
    await user.create(DEPLOYMENT % 1)
    await user.at(2.909)
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": target,
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": cpu}],
    }
    await user.request("POST", AUTOSCALERS, {"metadata": {"name": "web"}, "spec": spec})
    await user.at(39.015)
    path = f"{user.path('Deployment', 'web')}/scale"
    await user.request("PATCH", path, {"spec": {"replicas": 0}}, "application/merge-patch+json")
    await user.at(59.128)
    await user.request("DELETE", f"{AUTOSCALERS}/web", {"propagationPolicy": "Background"})
    await user.delete("Deployment", "web")
    await user.at(80.0)


@functools.cache
def played(seed: int) -> AuditedServer:
    """Once per seed; with seed 0 nothing has a latency."""
    return replay(SCENARIO, steps, seed=seed, latency=(0.001, 0.004) if seed else None)


def requests(trace: Trace) -> list[Record]:
    """Without discovery, and without events, which are sent beside the rest."""
    return [item for item in trace.of(USER) if item.resource not in ("/api", "/apis") and not item.is_event]


SEEDS = pytest.mark.parametrize("which", range(4))


def statuses(records: list[Record]) -> list[dict[str, Any]]:
    """Each status that was written, without times."""
    result = []
    for record in records:
        if record.resource == "horizontalpodautoscalers/status":
            status = json.loads(json.dumps(record.status))
            assert status.pop("lastScaleTime")
            for condition in status["conditions"]:
                assert condition.pop("lastTransitionTime")
            result.append(status)
    return result


@SEEDS
def test_requests_are_upstreams_in_order(which: int) -> None:
    actual, expected = Trace(played(which).records), Trace(recorded(SCENARIO))

    def outcomes(records: list[Record]) -> list[tuple[str, str, str, int, Any]]:
        return [(record.verb, record.resource, record.name, record.code, record.query) for record in records]

    assert outcomes(requests(actual)) == outcomes(requests(expected))


@SEEDS
def test_statuses_are_upstreams(which: int) -> None:
    actual, expected = statuses(played(which).records), statuses(recorded(SCENARIO))
    assert len(actual) == 3
    assert actual == expected


def test_scale_update_is_upstreams() -> None:
    def sent(records: list[Record]) -> list[Any]:
        bodies = [
            record.body
            for record in records
            if record.user == USER and record.verb == "update" and record.resource == "deployments/scale"
        ]
        for body in bodies:
            for name in ("uid", "resourceVersion", "creationTimestamp"):
                assert body["metadata"].pop(name)
        return bodies

    assert sent(json_copy(played(0).records)) == sent(json_copy(recorded(SCENARIO)))


def json_copy(records: list[Record]) -> list[Record]:
    """Bodies of their own, which may be changed."""
    import msgspec

    return [msgspec.structs.replace(record, body=json.loads(json.dumps(record.body))) for record in records]


@SEEDS
def test_events_are_upstreams(which: int) -> None:
    def outcomes(trace: Trace) -> list[str]:
        return trace.lines([item for item in trace.of(USER) if item.is_event])

    assert_same(outcomes(Trace(played(which).records)), outcomes(Trace(recorded(SCENARIO))))


@SEEDS
def test_the_bootstrap_roles_allow_every_request(which: int) -> None:
    assert not [str(attributes) for _user, attributes, decision in played(which).decisions if not decision.allowed]
