"""A sample test suite: kr8s and lightkube in asynchronous tests, run by anyio's plugin."""

from typing import Any

import kr8s
import pytest
from kr8s.asyncio.objects import ConfigMap, Pod
from lightkube import AsyncClient, KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources import core_v1

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported")]
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}


@pytest.fixture
def anyio_backend() -> str:
    """pilothouse runs on asyncio."""
    return "asyncio"


@pytest.mark.pilothouse(serve=True, nodes=1)
async def test_a_pod_becomes_ready_for_kr8s(pilothouse_async: Any) -> None:
    async with pilothouse_async() as cluster:
        api = await kr8s.asyncio.api(kubeconfig=str(cluster.kubeconfig))
        pod = await Pod(POD, api=api)
        await pod.create()
        await pod.wait("condition=Ready", timeout=20)
        assert [item.name async for item in api.get("pods")] == ["p"]


@pytest.mark.pilothouse(serve=True, nodes=0)
async def test_two_clients_see_one_cluster(pilothouse_async: Any) -> None:
    async with pilothouse_async() as cluster:
        api = await kr8s.asyncio.api(kubeconfig=str(cluster.kubeconfig))
        await (await ConfigMap({"metadata": {"name": "settings"}, "data": {"a": "1"}}, api=api)).create()
        async with AsyncClient(config=KubeConfig.from_file(str(cluster.kubeconfig)), field_manager="suite") as kube:
            assert (await kube.get(core_v1.ConfigMap, "settings")).data == {"a": "1"}
            applied = core_v1.ConfigMap(metadata=ObjectMeta(name="settings"), data={"b": "2"})
            await kube.apply(applied)
        assert (await cluster.get("v1", "ConfigMap", "settings"))["data"] == {"a": "1", "b": "2"}
