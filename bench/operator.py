"""An operator compared with kopf: 1,000 Websites to ready, one change of all, and two minutes at rest.

``examples/website_operator.py`` and the same with kopf (``bench/website_kopf.py``), each in a process of its own,
against ``pilothouse up`` in another, alternately (``ORDER``). Wall time, CPU and peak resident memory of the
operator, and its requests. Nothing without kopf.

Requests are counted by the API server: writes and reads of Websites and of what they own, by anybody but this program
and the controllers (which write the status of Deployments), and the operator's events. Lists and watches are not, nor
is the reading of single ConfigMaps, which the API server does, too.
"""

import asyncio
import contextlib
import importlib.util
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.processes import (
    ROOT,
    cpu_seconds,
    environment,
    peak_bytes_of,
    pilothouse,
    started,
    wait_for_line,
)
from bench.report import Figure, figure
from bench.rollouts import requests_in
from bench.tally import Tally, create_all
from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.core import EVENTS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import Client, merge_patch
from pilothouse.client.connect import connect
from pilothouse.env import Env, TaskGroup, loops

COUNT = 1000
REST_SECONDS = 120.0
ORDER = ("pilothouse", "kopf", "kopf", "pilothouse")
PODS_PER_NODE = 100
"""A simulated node takes 110."""
EXAMPLE = ROOT / "examples" / "website_operator.py"
WITH_KOPF = Path(__file__).with_name("website_kopf.py")
_CONCURRENCY = 16
_START_SECONDS = 5.0
"""Until an operator that has just started is at rest."""
_OURS_ALONE = ("websites", "websites/status", "configmaps", "services", "deployments")
"""Resources that the operator writes, and no controller of the plane."""
_WRITES = ("APPLY", "PATCH", "POST", "PUT", "DELETE", "GET")
_BY_THE_SERVER = ("GET", "configmaps")
"""The API server itself reads ``kube-system/extension-apiserver-authentication`` once a minute."""


class SiteCondition(View, frozen=True):
    """A condition, as far as it is waited for."""

    type: str
    status: str
    observed_generation: int = 0


class SiteStatus(View, frozen=True):
    """A status, as far as it is waited for."""

    conditions: tuple[SiteCondition, ...] = ()


class Site(View, frozen=True):
    """A Website of either operator."""

    metadata: ObjectMeta = ObjectMeta()
    status: SiteStatus = SiteStatus()


SITES = Kind("example.com", "v1", "websites", "Website", True, Site)


def is_ready(site: Site, generation: int) -> bool:
    """Whether it is ready as it has been since that generation."""
    return any(
        each.type == "Ready" and each.status == "True" and each.observed_generation >= generation
        for each in site.status.conditions
    )


def command(who: str, kubeconfig: Path) -> list[str]:
    """The command line of ``pilothouse`` or ``kopf``."""
    if who == "pilothouse":
        off = ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--kube-api-qps=0"]
        return pilothouse("run", str(EXAMPLE), f"--kubeconfig={kubeconfig}", *off)
    return [sys.executable, "-m", "kopf", "run", str(WITH_KOPF), "--all-namespaces", "--standalone", "--quiet"]


def own_requests(counts: Counter[str], events: int) -> int:
    """Those of the operator. ``events``: how many it has sent."""
    total = events
    for sort, count in counts.items():
        verb, _space, rest = sort.partition(" ")
        resource = rest.rpartition(" ")[0]  # empty for paths of no resource
        if verb in _WRITES and resource in _OURS_ALONE and (verb, resource) != _BY_THE_SERVER:
            total += count
    return total


async def _answered(client: Client) -> Counter[str]:
    return requests_in((await client.request("GET", "/metrics")).body.decode())


async def _events(client: Client) -> int:
    """How often events about Websites have been sent."""
    found = await client.list(EVENTS, "default", field_selector="involvedObject.kind=Website")
    return sum(each.count or 1 for each in found.items)


class Phase:
    """Of one phase of a run: seconds, CPU microseconds and requests of the operator."""

    def __init__(self, pid: int, client: Client, found: dict[str, float], count: int) -> None:
        self._pid, self._client, self._found, self._count = pid, client, found, count

    async def measure(self, name: str, work: Any, *, sent: int, timed: bool = True) -> None:
        """Do the work, in which this program sends so many writes of Websites."""
        before, events = await _answered(self._client), await _events(self._client)
        cpu, began = cpu_seconds(self._pid), time.perf_counter()
        await work
        took, used = time.perf_counter() - began, cpu_seconds(self._pid) - cpu
        if timed:
            self._found[f"{name} s"] = took
        self._found[f"{name}, CPU per Website µs"] = used / self._count * 1e6
        counts = await _answered(self._client) - before
        sends = own_requests(counts, await _events(self._client) - events)
        self._found[f"{name}, requests"] = sends - sent


async def _run(who: str, kubeconfig: Path, log: Path, count: int, rest_seconds: float) -> dict[str, float]:
    env, found = Env(), dict[str, float]()
    client = Client(connect(env, kubeconfig=str(kubeconfig)), env)
    await client.create(CUSTOM_RESOURCE_DEFINITIONS.raw, _definition())
    names = [f"site-{number}" for number in range(count)]
    made_of = {"apiVersion": "example.com/v1", "kind": "Website", "spec": {"html": "<h1>Hello</h1>"}}
    bodies = [{**made_of, "metadata": {"name": name}} for name in names]

    async def change(name: str) -> None:
        await client.patch(SITES.raw, name, merge_patch({"spec": {"html": "<h1>Changed</h1>"}}), "default")

    with started(command(who, kubeconfig), log, env={**environment(), "KUBECONFIG": str(kubeconfig)}) as process:
        await asyncio.sleep(_START_SECONDS)
        assert process.poll() is None, f"{who} has ended, see {log}"
        phase = Phase(process.pid, client, found, count)
        async with TaskGroup("bench") as group:
            made = Tally(client, env, SITES, lambda site: is_ready(site, 1))
            await made.start(group)

            async def make_all() -> None:
                await create_all(client, SITES, bodies, "default")
                await made.reach(count)

            await phase.measure("to ready", make_all(), sent=count)
            await asyncio.sleep(_START_SECONDS)
            changed = Tally(client, env, SITES, lambda site: is_ready(site, 2))
            await changed.start(group)

            async def change_all() -> None:
                for first in range(0, count, _CONCURRENCY):
                    await asyncio.gather(*map(change, names[first : first + _CONCURRENCY]))
                await changed.reach(count)

            await phase.measure("one change of all", change_all(), sent=count)
            group.cancel()
        await asyncio.sleep(_START_SECONDS)
        await phase.measure(f"{rest_seconds:.0f} s at rest", asyncio.sleep(rest_seconds), sent=0, timed=False)
        found["peak memory MB"] = peak_bytes_of(process.pid) / 1e6
    await client.close()
    return found


def _definition() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("website_operator", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["website_operator"] = module
    spec.loader.exec_module(module)
    definition: dict[str, Any] = module.WEBSITES.definition()
    return definition


@contextlib.contextmanager
def _plane(count: int) -> Iterator[tuple[Path, Path]]:
    """The kubeconfig and the directory of a plane with room for so many pods."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        directory = Path(name)
        nodes = 1 + (count - 1) // PODS_PER_NODE
        log = directory / "plane"
        # Each Website has a Service.
        flags = [f"--nodes={nodes}", "--port=0", "--service-cluster-ip-range=10.0.0.0/16"]
        with started(pilothouse("up", *flags), log, cwd=directory) as process:
            wait_for_line(process, "is ready", log)
            yield directory / ".pilothouse" / "kubeconfig", directory


def measure(who: str, count: int, rest_seconds: float) -> dict[str, float]:
    """One operator on a plane of its own."""
    with _plane(count) as (kubeconfig, directory):
        return loops.run(_run(who, kubeconfig, directory / who, count, rest_seconds))


_LIMITS = {"CPU per Website": (0.5, 0.2), "memory": (0.8, 0.5)}
"""Budget and aim of what the framework answers for; wall time is mostly the API server's."""


def figures(count: int = COUNT, rest_seconds: float = REST_SECONDS, order: Sequence[str] = ORDER) -> list[Figure]:
    """Both operators in turn. Nothing without kopf."""
    if importlib.util.find_spec("kopf") is None:
        print("operator: kopf is not installed: python -m pip install kopf kubernetes_asyncio", file=sys.stderr)
        return []
    runs: dict[str, list[dict[str, float]]] = {"pilothouse": [], "kopf": []}
    for who in order:
        runs[who].append(measure(who, count, rest_seconds))
        shown = ", ".join(f"{name} {value:.3g}" for name, value in runs[who][-1].items())
        print(f"operator, {who}: {shown}", file=sys.stderr, flush=True)
    return [_compared(count, name, runs) for name in runs["pilothouse"][0]]


def _compared(count: int, name: str, runs: dict[str, list[dict[str, float]]]) -> Figure:
    title, _, unit = name.rpartition(" ")
    budget, aim = next((limits for part, limits in _LIMITS.items() if part in title), (None, None))
    if "at rest" in title:
        budget, aim = None, None  # next to nothing, divided by next to nothing
    return figure(
        f"{count:,} Websites, {title.rstrip(',')}",
        unit,
        [run[name] for run in runs["pilothouse"]],
        # Nothing divides by no requests.
        [run[name] for run in runs["kopf"]] if any(run[name] for run in runs["kopf"]) else (),
        other_name="kopf",
        budget=budget,
        aim=aim,
        by_best=unit in ("s", "µs"),
    )


def main() -> None:
    from bench.report import table

    print(table(figures(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)))


if __name__ == "__main__":
    main()
