"""A week of an autoscaler in virtual time, with a load by local time across a daylight saving change: the exact
replicas, each at the exact second."""

import asyncio
import datetime
from zoneinfo import ZoneInfo

import pytest
from tests.controllers.horizontal_pod_autoscaler.metrics_apis import MetricsServer
from tests.controllers.node_world import World

from pilothouse.api.apps import DEPLOYMENTS, Deployment
from pilothouse.client import merge_patch
from pilothouse.controllers.workloads.horizontal_pod_autoscaler import DESCRIPTOR
from pilothouse.env import TaskGroup
from pilothouse.machinery.times import parse_time
from pilothouse.runtime import InformerFactory

ROME = ZoneInfo("Europe/Rome")
BEGAN = datetime.datetime(2026, 3, 25, 23, tzinfo=datetime.UTC)
"""Midnight in Rome; in the night of the fourth day the clocks are set forward."""
PERIOD, WINDOW = datetime.timedelta(seconds=15), datetime.timedelta(seconds=300)
DAY = (1, 1, 1, 1, 1, 2, 3, 8, 15, 15, 9, 9, 12, 5, 5, 5, 18, 20, 20, 6, 4, 3, 2, 1)
"""How many are needed in each hour of the day."""
LABELS = {"app": "web"}
DEPLOYED = "/apis/apps/v1/namespaces/default/deployments"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


def needed(at: datetime.datetime) -> int:
    return DAY[at.astimezone(ROME).hour]


def due(days: int) -> list[tuple[datetime.datetime, int]]:
    """When which size is to be set: up at once, twice as many or four at each sync; down when nothing higher was
    recommended for five minutes."""
    size, sizes = 1, []
    for hour in range(days * 24):
        at = BEGAN + datetime.timedelta(hours=hour)
        wanted = needed(at)
        if wanted < size:
            size = wanted
            sizes.append((at + WINDOW, size))
        while wanted > size:
            size = min(wanted, max(2 * size, 4))
            sizes.append((at, size))
            at += PERIOD
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("start", [BEGAN])
async def test_week_with_daylight_saving_time(world: World, start: datetime.datetime, soak: bool) -> None:
    # The short one ends on the day after the clocks are set.
    days = 7 if soak else 5
    set_: list[tuple[datetime.datetime, int]] = []
    apis = MetricsServer(world.faults)
    apis.values["namespaces/default/visitors"] = lambda: [{"value": str(100 * needed(world.env.now()))}]
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    await world.request("POST", DEPLOYED, {"metadata": {"name": "web"}, "spec": spec})
    metric = {"metric": {"name": "visitors"}, "target": {"type": "AverageValue", "averageValue": "100"}}
    autoscaler = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 30,
        "metrics": [{"type": "External", "external": metric}],
    }
    async with TaskGroup("obeyed") as group:

        async def obey(replicas: int) -> None:
            patch = merge_patch({"status": {"replicas": replicas}})
            await world.admin.patch(DEPLOYMENTS, "web", patch, "default", subresource="status")

        def changed(deployment: Deployment) -> None:
            wanted = deployment.spec.replicas or 0
            if wanted != deployment.status.replicas:
                if deployment.status.replicas:
                    set_.append((world.env.now(), wanted))
                group.start(obey(wanted), name="obey")

        informers = InformerFactory(world.admin, world.env)
        informers.informer(DEPLOYMENTS).add_handler(
            lambda one, _initial: changed(one), lambda _old, one: changed(one), lambda _one, _unknown: None
        )
        informers.start(group)
        await world.start(DESCRIPTOR)
        await world.request("POST", HPAS, {"metadata": {"name": "web"}, "spec": autoscaler})
        await asyncio.sleep(days * 86400)
        last = (await world.must_get(f"{HPAS}/web"))["status"]["lastScaleTime"]
        assert parse_time(last) == set_[-1][0].replace(microsecond=0)
        group.cancel()
    expected = due(days)
    assert [(at.replace(microsecond=0), size) for at, size in set_] == expected
    assert len(expected) > 70
    assert (expected[-1][0] - expected[0][0]).days == days - 1
