"""HorizontalPodAutoscalers of both versions: nothing gets lost between them, beside a real kube-apiserver too."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.apiserver.api import JSON, MERGE, Answer, Api, Object, on
from tests.real_cluster import RealCluster

PATH = "/apis/autoscaling/{}/namespaces/{}/horizontalpodautoscalers"
V1, V2 = (PATH.format(version, "default") for version in ("v1", "v2"))
CARRIED = "autoscaling.alpha.kubernetes.io/"

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
CPU: Object = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
SELECTOR = {"matchLabels": {"a": "b"}}
ABOUT = {"apiVersion": "v1", "kind": "Service", "name": "s"}
METRICS: list[Object] = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "hits<&>", "selector": SELECTOR},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": ABOUT,
            "metric": {"name": "hits"},
            "target": {"type": "Value", "value": "7"},
        },
    },
    {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}}},
]
CONTAINER = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "c",
        "target": {"type": "Utilization", "averageUtilization": 60},
    },
}
RULES = {
    "stabilizationWindowSeconds": 30,
    "selectPolicy": "Min",
    "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
}
BEHAVIOR = {"scaleUp": RULES, "scaleDown": {**RULES, "stabilizationWindowSeconds": 300}}
SPEC = {"scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 5, "metrics": [*METRICS, CPU], "behavior": BEHAVIOR}
STATUS = {
    "observedGeneration": 1,
    "currentReplicas": 2,
    "desiredReplicas": 3,
    "currentMetrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "400m"}},
        },
        {"type": "Pods", "pods": {"metric": {"name": "hits"}, "current": {"averageValue": "12"}}},
        {
            "type": "Object",
            "object": {"describedObject": ABOUT, "metric": {"name": "hits"}, "current": {"value": "5"}},
        },
        {
            "type": "External",
            "external": {"metric": {"name": "queue", "selector": SELECTOR}, "current": {"value": "3"}},
        },
    ],
    "conditions": [
        {
            "type": "AbleToScale",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "R",
            "message": "a < b",
        }
    ],
}

Ask = Callable[[str, str, Any], Awaitable[Object]]
"""Method, path with the version in braces, body; the answer's body."""


def test_a_client_of_v1_that_sends_back_what_it_read_loses_nothing() -> None:
    async def main(api: Api) -> tuple[Object, Object, Answer]:
        spec = {**SPEC, "metrics": [*METRICS, CONTAINER, CPU]}
        await api.made(V2, {"metadata": {"name": "h", "annotations": {"mine": "1"}}, "spec": spec})
        await api.ask("PATCH", V2 + "/h/status", {"status": STATUS}, MERGE)
        before = (await api.get(V2 + "/h")).body
        read = (await api.get(V1 + "/h")).body
        read["spec"]["maxReplicas"] = 9
        await api.put(V1 + "/h", read)
        status = (await api.get(V1 + "/h")).body
        status["status"]["desiredReplicas"] = 4
        await api.put(V1 + "/h/status", status)
        return before, (await api.get(V2 + "/h")).body, await api.get(V1 + "/h")

    before, after, shown = on(main)
    before["spec"]["maxReplicas"], before["status"]["desiredReplicas"] = 9, 4
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert after["metadata"]["annotations"] == {"mine": "1"}
    assert shown.body["spec"]["targetCPUUtilizationPercentage"] == 50
    assert shown.body["status"]["currentCPUUtilizationPercentage"] == 40
    names = ("metrics", "current-metrics", "behavior", "conditions")
    assert set(shown.meta["annotations"]) == {"mine", *(CARRIED + name for name in names)}
    assert "hits\\u003c\\u0026\\u003e" in shown.meta["annotations"][CARRIED + "metrics"]


def test_the_status_field_of_v1_is_the_cpu_of_v2() -> None:
    async def main(api: Api) -> list[Object]:
        await api.made(V1, {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
        body = {"status": {"currentReplicas": 1, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 33}}
        written = await api.ask("PATCH", V1 + "/h/status", body, MERGE)
        return [written.body["status"], *[(await api.get(path + "/h")).body["status"] for path in (V1, V2)]]

    written, first, second = on(main)
    assert written == first == {"currentReplicas": 1, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 33}
    current = {"averageUtilization": 33}
    assert second["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]


def test_a_status_written_in_v1_leaves_the_metrics_of_the_spec() -> None:
    async def main(api: Api) -> tuple[Object, Object]:
        made = await api.made(V2, {"metadata": {"name": "h"}, "spec": SPEC})
        read = (await api.get(V1 + "/h")).body
        read["metadata"]["annotations"] = {"mine": "1"}
        read["status"]["desiredReplicas"] = 4
        await api.put(V1 + "/h/status", read)
        return made["spec"], (await api.get(V2 + "/h")).body

    spec, after = on(main)
    assert after["spec"] == spec
    assert after["metadata"]["annotations"] == {"mine": "1"}
    assert after["status"]["desiredReplicas"] == 4


def test_other_metrics_are_enough_and_unreadable_ones_are_none() -> None:
    async def main(api: Api) -> list[Any]:
        shown = []
        memory = [{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}}]
        of_no_type = json.dumps([{"type": "Resource", "resource": {"name": 5}}])
        no_amount = json.dumps([{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "x"}}])
        texts = (json.dumps(memory), "no JSON", "[]", of_no_type, no_amount)
        for name, text in zip("abcde", texts, strict=True):
            meta = {"name": name, "annotations": {CARRIED + "metrics": text}}
            await api.made(V1, {"metadata": meta, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
            shown.append((await api.get(f"{V2}/{name}")).body["spec"]["metrics"])
        return shown

    default = {**CPU, "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    assert on(main) == [[METRICS[0]], *[[default]] * 4]


def test_annotations_that_stand_for_fields_are_nothing_in_v2() -> None:
    async def main(api: Api) -> Object:
        meta = {"name": "h", "annotations": {CARRIED + "metrics": "[]", CARRIED + "scale-up-tolerance": "1"}}
        return await api.made(V2, {"metadata": meta, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})

    assert "annotations" not in on(main)["metadata"]


def test_a_dry_run_shows_what_would_be_stored() -> None:
    async def main(api: Api) -> Object:
        meta = {"name": "h", "annotations": {CARRIED + "conditions": "[]"}}
        body = {"metadata": meta, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}
        return await api.made(V1 + "?dryRun=All", body)

    assert "annotations" not in on(main)["metadata"]


async def _story(ask: Ask) -> list[Object]:
    """Writes of both versions in turn, and what both versions show then."""
    shown: list[Object] = []

    async def look() -> None:
        shown.extend([await ask("GET", V1_PATH + "/h", None), await ask("GET", V2_PATH + "/h", None)])

    await ask("POST", V2_PATH, {"metadata": {"name": "h"}, "spec": SPEC})
    await look()
    await ask("PUT", V2_PATH + "/h/status", {**shown[-1], "status": STATUS})
    await look()
    changed = shown[-2]
    changed["spec"]["targetCPUUtilizationPercentage"] = 70
    changed["metadata"]["annotations"] = {**changed["metadata"]["annotations"], "mine": "1"}
    await ask("PUT", V1_PATH + "/h", changed)
    await look()
    # The annotation counts, not the field.
    changed = shown[-2]
    changed["status"]["currentCPUUtilizationPercentage"] = 1
    await ask("PUT", V1_PATH + "/h/status", changed)
    await look()
    # Without the annotations it is the field, and a v1 write says that there are no more metrics.
    changed = shown[-2]
    del changed["metadata"]["annotations"]
    await ask("PUT", V1_PATH + "/h/status", changed)
    await look()
    await ask("PUT", V1_PATH + "/h", {**shown[-2], "metadata": {"name": "h"}})
    await look()
    return shown


V1_PATH, V2_PATH = "{v1}", "{v2}"


def _normal(obj: Object) -> Object:
    meta = obj["metadata"]
    annotations = {
        name: json.loads(text) if name.startswith(CARRIED) else text
        for name, text in (meta.get("annotations") or {}).items()
    }
    status = {name: value for name, value in obj["status"].items() if value is not None}
    return {"annotations": annotations, "spec": obj["spec"], "status": status}


def _without_new(value: Any) -> Any:
    """Without the tolerance of newer releases, counts of nothing, and amounts that the older one writes where there
    are none, because it stores the first version."""
    if isinstance(value, dict):
        dropped = ("Tolerance",)
        return {
            name: _without_new(inner)
            for name, inner in value.items()
            if name not in dropped
            and (name, inner) not in (("averageValue", "0"), ("currentAverageValue", "0"), ("value", "0"))
            and not (name in ("conditions", "currentMetrics", "currentReplicas") and not inner)
        }
    return [_without_new(inner) for inner in value] if isinstance(value, list) else value


def test_both_forms_go_through_writes_as_on_the_real_server(real_cluster: RealCluster) -> None:
    namespace = real_cluster.namespace("hpa")

    async def ask_real(method: str, path: str, body: Any) -> Object:
        there = path.format(v1=PATH.format("v1", namespace), v2=PATH.format("v2beta2", namespace))
        if body is not None:
            body = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
            if "apiVersion" in body:
                body["apiVersion"] = "autoscaling/v1" if path.startswith(V1_PATH) else "autoscaling/v2beta2"
        answer: Object = real_cluster.request(method, there, body)
        return answer

    async def main(api: Api) -> list[Object]:
        async def ask(method: str, path: str, body: Any) -> Object:
            answer = await api.ask(method, path.format(v1=V1, v2=V2), body, JSON)
            assert answer.status < 300, answer.text
            return answer.body

        return await _story(ask)

    theirs, ours = asyncio.run(_story(ask_real)), on(main)
    for step, (before, after) in enumerate(zip(theirs, ours, strict=True)):
        assert _without_new(_normal(after)) == _without_new(_normal(before)), f"look {step}"
