"""Metrics have upstream's names, types, labels and buckets.

These are the metrics that a running manager has registered; ``tests/real/test_all_rights.py`` checks that they have
values after a scenario.
"""

import asyncio
import functools

import msgspec
import pytest
from tests.controllermanager.metric_table import METRICS, Metric, summary

from pilothouse.apiserver.server import ApiServer
from pilothouse.controllermanager import build_metrics
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.slis import Slis
from pilothouse.controllers.cloud.node_route import NodeRouteOptions
from pilothouse.controllers.cloud.service_lb import ServiceLBOptions
from pilothouse.controllers.node.node_ipam import NodeIpamOptions
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.plane import LocalClients
from pilothouse.runtime import process_metrics
from pilothouse.runtime.client_metrics import RestClientMetrics
from pilothouse.runtime.metrics import Registry
from pilothouse.storage import MemoryStore

RANGES = NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/16")
CLOUD: dict[str, msgspec.Struct] = {
    "node-route-controller": NodeRouteOptions(provider="simulated", allocate=True, cluster_cidr="10.0.0.0/16"),
    "service-lb-controller": ServiceLBOptions(provider="simulated"),
}
OPTIONS = Options(
    controllers=("*", "selinux-warning-controller"), controller_options={"node-ipam-controller": RANGES, **CLOUD}
)


@functools.cache
def registered() -> dict[str, Metric]:
    """What a leading manager with every controller has."""

    async def main(env: Env) -> dict[str, Metric]:
        server, metrics, slis = ApiServer(env, MemoryStore(env)), Registry(), Slis(env)
        process_metrics.install(metrics)
        build_metrics.install(metrics, OPTIONS.gates)
        RestClientMetrics(metrics, env.now)
        manager = Manager(env, OPTIONS, LocalClients(env, server.transport).manager(), DESCRIPTORS, metrics=metrics)
        async with TaskGroup("manager") as group:
            group.start(manager.run(), name="manager")
            await asyncio.sleep(5.0)
            group.cancel()
        await server.close()
        result = [*metrics._families.values(), *slis._registry._families.values()]
        return {
            item.name: Metric(item.name, item.type, frozenset(item.label_names), summary(item.bounds))
            for item in result
        }

    return virtual.run(main)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_metric_is_upstreams(metric: Metric) -> None:
    assert registered()[metric.name] == metric


def test_own_metrics_have_the_pilothouse_prefix() -> None:
    """Except one of Go's runtime."""
    result = {name for name in registered() if not name.startswith("pilothouse_")}
    assert result - {"go_goroutines"} == {m.name for m in METRICS}
