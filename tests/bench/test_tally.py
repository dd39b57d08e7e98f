"""Bookkeeping of side-by-side runs with thousands of objects."""

import asyncio
from typing import cast

import pytest
from bench.claims import claim, volume
from bench.tally import Tally, create_all, written
from tests.real_cluster import RealCluster

from pilothouse.api.core import NAMESPACES, Namespace
from pilothouse.client import merge_patch
from pilothouse.env import Env, TaskGroup
from pilothouse.testing import async_plane

METRICS = """# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="persistentvolumes",scope="cluster",subresource="",verb="PUT"} 3
apiserver_request_total{code="409",resource="persistentvolumes",scope="cluster",subresource="status",verb="PUT"} 1
apiserver_request_total{code="200",resource="persistentvolumeclaims",subresource="",verb="PUT"} 2e+06
apiserver_request_total{code="201",resource="persistentvolumes",subresource="",verb="POST"} 50
apiserver_request_total{code="200",resource="pods",subresource="",verb="PUT"} 70
apiserver_request_duration_seconds_count{resource="persistentvolumes",verb="PUT"} 90
"""


class Exposing:
    """Of a cluster its metrics alone."""

    def request(self, _method: str, _path: str) -> str:
        return METRICS


def test_all_writes_are_counted() -> None:
    cluster = cast(RealCluster, Exposing())
    assert written(cluster, "PUT", "persistentvolumes") == 4
    assert written(cluster, "PUT", "persistentvolumes", "persistentvolumeclaims") == 2_000_004
    assert written(cluster, "DELETE", "persistentvolumes") == 0


async def test_object_is_counted_once(env: Env) -> None:
    """Including objects that existed before."""

    async with (
        async_plane(env=env, nodes=0, scheduler=False, controllers=()) as cluster,
        TaskGroup("tally") as group,
    ):
        client = cluster.client

        def is_marked(text: Namespace) -> bool:
            return "bench" in text.metadata.labels

        def body(name: str, *labels: str) -> dict[str, object]:
            return {"metadata": {"name": name, "labels": dict.fromkeys(labels, "yes")}}

        await create_all(client, NAMESPACES, [body("a", "bench"), body("b")])
        tally = Tally(client, env, NAMESPACES, is_marked)
        await tally.start(group)
        await tally.reach(1)
        later = asyncio.ensure_future(tally.reach(20))
        await create_all(client, NAMESPACES, [body(f"c{number}", "bench") for number in range(18)])
        await asyncio.sleep(1)
        assert not later.done(), "one is missing"
        for labels in ({"bench": None}, {"bench": "again"}):
            await client.patch(NAMESPACES, "a", merge_patch({"metadata": {"labels": labels}}))
        await asyncio.sleep(1)
        assert not later.done(), "the same one again"
        await client.patch(NAMESPACES, "b", merge_patch({"metadata": {"labels": {"bench": "now"}}}))
        await later
        group.cancel()


@pytest.mark.parametrize("count", [1, 25])
def test_each_claim_has_a_volume_of_its_size(count: int) -> None:
    sizes = sorted(volume("v", number)["spec"]["capacity"]["storage"] for number in range(count))
    assert sizes == sorted(claim(number)["spec"]["resources"]["requests"]["storage"] for number in range(count))
