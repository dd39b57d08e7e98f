"""``docs/operating.md`` refers to existing metrics, labels, paths, flags and controllers."""

import asyncio
import functools
import re

import pytest
from tests.programs import ROOT

from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.apiserver.server import ApiServer
from pilothouse.cli import up
from pilothouse.cli.controllers_reference import older_names
from pilothouse.cli.manager import flag_set
from pilothouse.controllermanager import build_metrics
from pilothouse.controllermanager.app import pages_of
from pilothouse.controllermanager.compatibility import own_controllers
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.slis import Slis
from pilothouse.controllers.node.node_ipam import NodeIpamOptions
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.plane import LocalClients
from pilothouse.runtime import process_metrics
from pilothouse.runtime.client_metrics import RestClientMetrics
from pilothouse.runtime.metrics import Registry
from pilothouse.scheduler.metrics import SchedulerMetrics
from pilothouse.storage import MemoryStore

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
RANGES = NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/16")
OPTIONS = Options(controller_options={"node-ipam-controller": RANGES})


def section(title: str) -> str:
    """The text below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_names_before_v1_28_are_those_of_the_deployment() -> None:
    deployment = (ROOT / "deploy" / "deployment.yaml").read_text(encoding="utf-8")
    listed = re.search(r"--controllers=(\S+)", deployment)
    assert listed is not None
    assert older_names(listed[1].split(",")) in PAGE


@functools.cache
def running() -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """A leading manager with every controller, and the API server: their metrics with labels, and the pages."""

    async def main(env: Env) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
        server, metrics = ApiServer(env, MemoryStore(env)), Registry()
        RestClientMetrics(metrics, env.now)
        process_metrics.install(metrics)
        build_metrics.install(metrics, OPTIONS.gates)
        manager = Manager(env, OPTIONS, LocalClients(env, server.transport).manager(), DESCRIPTORS, metrics=metrics)
        slis = Slis(env)
        async with TaskGroup("manager") as group:
            group.start(manager.run(), name="manager")
            await asyncio.sleep(5.0)
            group.cancel()
        registries = (
            metrics,
            slis._registry,
            ServerMetrics(env.perf_counter, server.store, tuple).registry,
            SchedulerMetrics(Registry(), "").registry,
        )
        families = [family for registry in registries for family in registry._families.values()]
        await server.close()
        return {item.name: tuple(item.label_names) for item in families}, frozenset(
            pages_of(env, OPTIONS, manager).paths
        )

    return virtual.run(main)


NAMED = sorted(set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?:\{([^}]*)\})?`", section("Metrics to watch"))))


@pytest.mark.parametrize(("name", "labels"), [pytest.param(*item, id=item[0]) for item in NAMED])
def test_every_metric_exists(name: str, labels: str) -> None:
    metrics, _pages = running()
    assert name in metrics
    wanted = [label for label in labels.split(",") if label and "=" not in label]
    assert not wanted or set(wanted) == set(metrics[name])


def test_minimum_number_of_metrics() -> None:
    assert len(NAMED) > 20


def test_metrics_of_other_sections_exist() -> None:
    metrics, _pages = running()
    assert set(re.findall(r"`([a-z]+_[a-z_]+_total)", PAGE)) <= set(metrics)


def test_every_path_exists() -> None:
    _metrics, pages = running()
    named = set(re.findall(r"`(/(?:healthz|livez|readyz|metrics|configz|flagz|statusz|debug)[a-z/]*)", PAGE))
    assert len(named) > 7
    assert named <= pages


def test_every_flag_exists() -> None:
    known = {flag.name for flags in (flag_set("pilothouse manager"), up.flag_set("up")) for flag in flags}
    elsewhere = {"require-hashes", "no-deps", "raw"}  # pip's and kubectl's
    named = set(re.findall(r"--([a-z][a-z-]+[a-z])\b", PAGE)) - elsewhere
    assert len(named) > 12
    assert named <= known


def test_every_controller_is_listed() -> None:
    """Upstream's controllers in the list; pilothouse's own ones anywhere on the page."""
    own = own_controllers(DESCRIPTORS)
    first = PAGE.partition("**Read this first.**")[2].partition("\n\n")[0]
    for descriptor in DESCRIPTORS:
        text = (PAGE if descriptor in own else first).replace("\n", " ")
        short = descriptor.name.removesuffix("-controller")
        assert re.search(rf"\b{short}\b", text), f"docs/operating.md does not name {short}"
    assert "fifty-two" in first
    assert len(DESCRIPTORS) - len(own) == 52, "docs/operating.md counts upstream's controllers"
