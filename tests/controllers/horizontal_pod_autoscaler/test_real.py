"""The controller on kube-apiserver, with the rights of its role: scale subresources, statuses, events.

v1.20 has no autoscaling/v2, so that the manager leaves the controller out there. Its v2beta2 has the same fields
except tolerances: a wrapping transport changes the version in requests. Statuses are read as autoscaling/v1. No metrics
API is served there; after the missing API was observed, the transport returns generated metrics.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.controllers.real_world import RealWorld
from tests.real_cluster import RealCluster, minor_version

from pilothouse.api import wire
from pilothouse.client.interceptor import Answer, Interceptor, Rule
from pilothouse.controllers.workloads.horizontal_pod_autoscaler import DESCRIPTOR, HorizontalPodAutoscalerOptions
from pilothouse.env import Env
from pilothouse.machinery.times import format_time

NEEDED = ("system:kube-controller-manager", "system:controller:horizontal-pod-autoscaler")
CURRENT_VERSION, OLDER_VERSION = "autoscaling/v2", "autoscaling/v2beta2"
LABELS = {"app": "web"}
OPTIONS = HorizontalPodAutoscalerOptions(sync_period=0.5, cpu_initialization_period=0.0, downscale_stabilization=3.0)


def _is_older() -> bool:
    """Whether the server has no autoscaling/v2, which v1.23 has added."""
    return minor_version() < 23


def _to_older(request: wire.Request) -> wire.Request:
    target = request.target.replace(f"/apis/{CURRENT_VERSION}/", f"/apis/{OLDER_VERSION}/")
    body = request.body.replace(f'"{CURRENT_VERSION}"'.encode(), f'"{OLDER_VERSION}"'.encode())
    return msgspec.structs.replace(request, target=target, body=body)


def _from_older(text: bytes) -> bytes:
    return text.replace(f'"{OLDER_VERSION}"'.encode(), f'"{CURRENT_VERSION}"'.encode())


class Older:
    """A transport to a server with an older API version."""

    def __init__(self, inner: wire.Transport) -> None:
        self._inner = inner

    async def request(self, request: wire.Request) -> wire.Response:
        response = await self._inner.request(_to_older(request))
        return msgspec.structs.replace(response, body=_from_older(response.body))

    async def open(self, request: wire.Request) -> wire.Stream:
        return OlderStream(await self._inner.open(_to_older(request)))

    async def close(self) -> None:
        await self._inner.close()


class OlderStream:
    """A watch. Only whole lines are handed on, so that no version is cut in two."""

    def __init__(self, inner: wire.Stream) -> None:
        self._inner = inner
        self.status, self.headers = inner.status, inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for piece in self._inner:
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            if newline:
                yield _from_older(lines + newline)
        if rest:
            yield _from_older(rest)

    async def close(self) -> None:
        await self._inner.close()


def metrics(namespace: str, milli: int, count: int) -> Answer:
    """The response of a metrics server for pods web-0 …"""
    containers = [{"name": "main", "usage": {"cpu": f"{milli}m", "memory": "1Mi"}}]
    common = {"timestamp": None, "window": "15s", "containers": containers}
    items = [{"metadata": {"name": f"web-{n}", "namespace": namespace}, **common} for n in range(count)]
    body = msgspec.json.encode({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items})
    return Answer(wire.Response(200, {"content-type": "application/json"}, body))


class AutoscalerWorld(RealWorld):
    """A Deployment, its pods, and its autoscaler as autoscaling/v1."""

    def __init__(self, env: Env, cluster: RealCluster, namespace: str) -> None:
        super().__init__(env, cluster)
        self.namespace = namespace
        self._apps = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self.autoscalers = f"/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers"

    async def record_initial_recommendation(self, pods: int) -> None:
        resources = {"requests": {"cpu": "100m"}}
        spec = {"containers": [{"name": "main", "image": "pause", "resources": resources}]}
        template = {"metadata": {"labels": LABELS}, "spec": spec}
        deployment = {"replicas": pods, "selector": {"matchLabels": LABELS}, "template": template}
        await self.request("POST", self._apps, {"metadata": {"name": "web"}, "spec": deployment})
        await self.request("PATCH", f"{self._apps}/web/status", {"status": {"replicas": pods}})
        now = format_time(self.env.now())
        for number in range(pods):
            path = f"/api/v1/namespaces/{self.namespace}/pods"
            await self.request("POST", path, {"metadata": {"name": f"web-{number}", "labels": LABELS}, "spec": spec})
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            status = {"phase": "Running", "startTime": now, "conditions": [ready]}
            await self.request("PATCH", f"{path}/web-{number}/status", {"status": status})
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        autoscaler = {
            "scaleTargetRef": target,
            "minReplicas": 1,
            "maxReplicas": 9,
            "targetCPUUtilizationPercentage": 50,
        }
        await self.request("POST", self.autoscalers, {"metadata": {"name": "web"}, "spec": autoscaler})

    def size(self) -> int:
        return int(self.cluster.request("GET", f"{self._apps}/web/scale")["spec"]["replicas"])

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.request("GET", f"{self.autoscalers}/web")["status"]
        return status

    def conditions(self) -> dict[str, Any]:
        path = self.autoscalers.replace("/v1/", "/v2beta2/" if _is_older() else "/v2/")
        status = self.cluster.request("GET", f"{path}/web")["status"]
        return {item["type"]: item for item in status.get("conditions") or ()}

    def reasons(self) -> set[str]:
        events = self.items(f"/api/v1/namespaces/{self.namespace}/events")
        return {event["reason"] for event in events if event["source"]["component"] == "horizontal-pod-autoscaler"}

    async def until_size(self, size: int) -> None:
        await self.until(lambda: self.size() == size, f"{size} replicas")


@pytest.mark.real_loop
async def test_replicas_follow_the_metrics(env: Env, real_cluster: RealCluster) -> None:
    hpa = AutoscalerWorld(env, real_cluster, real_cluster.namespace("autoscaling"))
    faults: list[Interceptor] = []

    def wrap(transport: wire.Transport) -> wire.Transport:
        faults.append(Interceptor(Older(transport) if _is_older() else transport, env))
        return faults[0]

    async with hpa.controllers((DESCRIPTOR, OPTIONS), user="autoscaler", roles=NEEDED, wrap=wrap):
        await hpa.record_initial_recommendation(2)
        await hpa.until(lambda: "ScalingActive" in hpa.conditions(), "the condition ScalingActive")
        result = hpa.conditions()["ScalingActive"]
        assert (result["status"], result["reason"]) == ("False", "FailedGetResourceMetric")
        assert result["message"].endswith(
            "unable to fetch metrics from resource metrics API: the server could not find the requested resource "
            "(get pods.metrics.k8s.io)"
        )
        measured = faults[0].add(Rule(metrics(hpa.namespace, 80, 2), resource="pods.metrics.k8s.io"))
        await hpa.until_size(4)
        faults[0].remove(measured)
        faults[0].add(Rule(metrics(hpa.namespace, 10, 2), resource="pods.metrics.k8s.io"))
        await hpa.until_size(1)
        await hpa.until(lambda: hpa.status()["desiredReplicas"] == 1, "the status, which is written after the scale")
        status = hpa.status()
        assert status["currentCPUUtilizationPercentage"] == 10
        assert status["lastScaleTime"]
        assert hpa.reasons() == {"FailedGetResourceMetric", "FailedComputeMetricsReplicas", "SuccessfulRescale"}
        deployment = f"/apis/apps/v1/namespaces/{hpa.namespace}/deployments/web"
        await hpa.request("PATCH", deployment, {"spec": {"replicas": 12}})
        await hpa.until_size(9)
