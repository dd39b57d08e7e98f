"""A Deployment, its metrics and autoscaler, on the embedded API server in virtual time; and builders of metric specs.

Used by ``test_sizes``, ``test_metrics``, ``test_targets``, ``test_writes`` and ``test_to_zero``.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.controllers import node_world
from tests.controllers.horizontal_pod_autoscaler.metrics_apis import Meter, MetricsServer
from tests.controllers.node_world import PODS, World
from tests.workloads import pod_spec, workload

from pilothouse.controllers.workloads.horizontal_pod_autoscaler import DESCRIPTOR, HorizontalPodAutoscalerOptions
from pilothouse.env import Env
from pilothouse.machinery.times import format_time

Doc = dict[str, Any]
APPS = "/apis/apps/v1/namespaces/default"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
WEB, HPA = f"{APPS}/deployments/web", f"{HPAS}/web"
PERIOD = 15.0
CPU_50 = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
PERCENT = "cpu resource utilization (percentage of request)"


class AutoscalerWorld:
    """A Deployment that only the autoscaler scales, and pods created by the test."""

    def __init__(self, world: World, meter: Meter) -> None:
        self.world = world
        self.meter = meter
        self.apis = MetricsServer(world.faults)

    async def deploy(self, replicas: int, *, name: str = "web", labels: Doc | None = None) -> None:
        body = workload("Deployment", name, pod=pod_spec(), labels=labels, replicas=replicas)
        await self.world.request("POST", f"{APPS}/deployments", body)

    async def pods(
        self,
        count: int,
        *,
        app: str = "web",
        request: str = "100m",
        first: int = 0,
        ready: bool = True,
        whole: str = "",
    ) -> None:
        """Pods that just started, with a CPU request of the container and optionally of the pod (``whole``)."""
        world, now = self.world, format_time(self.world.env.now())
        for number in range(first, first + count):
            name = f"{app}-{number}"
            containers = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": request}}}]
            spec = {"containers": containers, **({"resources": {"requests": {"cpu": whole}}} if whole else {})}
            await world.request("POST", PODS, {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec})
            condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
            status = {"phase": "Running", "startTime": now, "conditions": [condition]}
            await world.merge(f"{PODS}/{name}/status", {"status": status})
        await world.merge(f"{APPS}/deployments/{app}/status", {"status": {"replicas": first + count}})

    async def autoscale(self, low: int, high: int, *metrics: Doc, name: str = "web", **spec: Any) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.pop("target", name)}
        spec = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high, **spec}
        spec["metrics"] = list(metrics) or [CPU_50]
        await self.world.request("POST", HPAS, {"metadata": {"name": name}, "spec": spec})

    async def size(self, name: str = "web") -> int:
        return int((await self.world.must_get(f"{APPS}/deployments/{name}"))["spec"]["replicas"])

    async def status(self, name: str = "web") -> Doc:
        obj: Doc = (await self.world.must_get(f"{HPAS}/{name}"))["status"]
        return obj

    async def reasons(self, name: str = "web") -> dict[str, str]:
        """Status and reason by condition type, such as ``True ReadyForNewScale``."""
        conditions = await self.world.conditions(f"{HPAS}/{name}")
        return {kind: f"{condition['status']} {condition['reason']}" for kind, condition in conditions.items()}

    async def message(self, condition: str) -> str:
        return str((await self.world.conditions(HPA))[condition]["message"])


@contextlib.asynccontextmanager
async def scaling(
    env: Env, *, options: HorizontalPodAutoscalerOptions | None = None, metered: bool = True, settle: float = 3600.0
) -> AsyncIterator[AutoscalerWorld]:
    """Start the controller an hour before the scenario."""
    async with node_world.world(env) as world:
        meter = Meter()
        if metered:
            world.server.serve_resource_metrics(meter)
        # CPU samples of new pods are used immediately.
        options_ = options or HorizontalPodAutoscalerOptions(cpu_initialization_period=0.0)
        await world.start(DESCRIPTOR, options_)
        await asyncio.sleep(settle)
        yield AutoscalerWorld(world, meter)


def external(name: str = "qps", **target: Any) -> Doc:
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def per_pod(value: str) -> Doc:
    return {
        "type": "Pods",
        "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def of_object(kind: str = "Deployment", api_version: str = "apps/v1", **target: Any) -> Doc:
    about = {"apiVersion": api_version, "kind": kind, "name": "other"}
    return {"type": "Object", "object": {"metric": {"name": "qps"}, "describedObject": about, "target": target}}


def measured(*values: str) -> list[Doc]:
    return [{"describedObject": {"name": f"web-{number}"}, "value": value} for number, value in enumerate(values)]


CUSTOM, EXTERNAL = "namespaces/default", "namespaces/default/qps"


def resource(name: str = "cpu", container: str = "", **target: Any) -> Doc:
    if container:
        return {
            "type": "ContainerResource",
            "containerResource": {"name": name, "container": container, "target": target},
        }
    return {"type": "Resource", "resource": {"name": name, "target": target}}
