"""Parts of the Deployment benches: completion, pods becoming ready; ``pilothouse up`` in small."""

import asyncio
from typing import Any

from bench.deployments import deployment, is_rolled_out
from bench.light_kubelet import LightKubelet
from bench.many_deployments import measure
from bench.report import Figure
from tests.tables import cases

from pilothouse.api.core import PODS, Pod
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.env import Env, TaskGroup
from pilothouse.testing import async_plane

DONE = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}


@cases(
    "status, expected",
    {
        "complete": (DONE, True),
        "not observed yet": ({}, False),
        "observed generation before the change": ({**DONE, "observedGeneration": 1}, False),
        "an old pod remains": ({**DONE, "replicas": 4}, False),
        "one not updated": ({**DONE, "updatedReplicas": 2}, False),
        "one not available": ({**DONE, "availableReplicas": 2}, False),
    },
)
def test_rollout_status_is_kubectls(status: dict[str, Any], expected: bool) -> None:
    result = deployment("web", 3)
    result["metadata"]["generation"] = 2
    assert is_rolled_out({**result, "status": status}) is expected


async def test_unscheduled_pods_are_bound_round_robin(env: Env) -> None:
    """They become ready immediately, and are removed once deleted; a DaemonSet's pod is bound by its affinity."""

    async with (
        async_plane(env=env, nodes=0, scheduler=False, controllers=()) as cluster,
        TaskGroup("nodes") as group,
    ):
        client = cluster.client
        group.start(LightKubelet(client, env, 2).run(), name="light kubelet")
        for name in ("a", "b", "c", "d"):
            await client.create(PODS.raw, _pod(name, "node-1" if name == "d" else ""), "default")
            await asyncio.sleep(1)
        pods = [await client.get(PODS, name, "default") for name in ("a", "b", "c", "d")]
        assert [pod.spec.node_name for pod in pods] == ["node-0", "node-1", "node-0", "node-1"]
        assert all(map(_is_ready, pods))
        await client.delete(PODS, "a", "default")
        await asyncio.sleep(1)
        assert await _is_gone(client, "a")
        group.cancel()


def _pod(name: str, node: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app"}]}
    if node:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        term = {"nodeSelectorTerms": [{"matchFields": fields}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    return {"metadata": {"name": name}, "spec": spec}


def _is_ready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


async def _is_gone(client: Client, name: str) -> bool:
    try:
        await client.get(PODS, name, "default")
    except NotFound:
        return True
    return False


def test_deployments_become_ready_on_up() -> None:
    result = measure(3)
    assert result["seconds"] > 0
    assert result["cpu"] > 0
    assert result["resident"] > 0


def test_time_budget_is_checked_against_the_median() -> None:
    assert Figure(name="to ready", unit="s", value=19.0, budget=60.0, aim=20.0).verdict == "aim"
    assert Figure(name="to ready", unit="s", value=61.0, budget=60.0, aim=20.0).verdict == "MISSED"
