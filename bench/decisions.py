"""Scheduler, one decision: CPU at 1,000 and 5,000 nodes by kind of pod, and of a failed attempt with preemption.

There is no server and there are no requests. Pods of earlier decisions stay assigned.
"""

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bench.report import Figure, figure
from pilothouse.api.core import Node, Pod
from pilothouse.env import virtual
from pilothouse.env.environment import Env
from pilothouse.machinery.labels import Selector, parse_selector
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.fit_error import FitError
from pilothouse.scheduler.framework.runtime import Framework
from pilothouse.scheduler.framework.types import ZONE, PodInfo
from pilothouse.scheduler.plugins.default_preemption import post_filter
from pilothouse.scheduler.plugins.pod_topology_spread import HOSTNAME
from pilothouse.scheduler.schedule_one import ScheduleResult, SchedulingAlgorithm

ROUNDS = 3
_ALLOCATABLE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
_REQUESTS = {"cpu": "100m", "memory": "64Mi"}
_SELECTOR = {"matchLabels": {"app": "web"}}


class _Namespaces:
    def labels(self, name: str) -> Mapping[str, str]:
        return {"kubernetes.io/metadata.name": name}

    def select(self, selector: Selector) -> frozenset[str]:
        return frozenset(("default",)) if selector.matches(self.labels("default")) else frozenset()


def cluster(nodes: int) -> Cache:
    """Equal nodes in five zones."""
    cache = Cache()
    for number in range(nodes):
        name = f"n{number}"
        labels = {HOSTNAME: name, ZONE: f"z{number % 5}"}
        document = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": _ALLOCATABLE}}
        cache.update_node(msgspec.convert(document, Node))
    return cache


def pod_info(name: str, requests: Mapping[str, str] = _REQUESTS, **spec: Any) -> PodInfo:
    """A pod of one container."""
    container = {"name": "c", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return PodInfo(msgspec.convert({"metadata": metadata, "spec": {"containers": [container], **spec}}, Pod))


def _spread(key: str, skew: int) -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _SELECTOR,
    }
    return {"topologySpreadConstraints": [constraint]}


def _apart(kind: str) -> dict[str, Any]:
    term = {"labelSelector": _SELECTOR, "topologyKey": HOSTNAME}
    terms = [term] if kind == "required" else [{"weight": 10, "podAffinityTerm": term}]
    return {"affinity": {"podAntiAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": terms}}}


KINDS: dict[str, tuple[bool, Callable[[int], dict[str, Any]]]] = {
    "plain": (False, lambda _number: {}),
    "of a ReplicaSet": (True, lambda _number: {}),
    "each with its own request": (False, lambda number: {"requests": {"cpu": f"{100 + number}m"}}),
    "spread over zones, required": (False, lambda _number: _spread(ZONE, 1)),
    "spread over nodes, required": (False, lambda _number: _spread(HOSTNAME, 1)),
    "apart, required": (False, lambda _number: _apart("required")),
    "apart, preferred": (False, lambda _number: _apart("preferred")),
}


def decision(nodes: int, kind: str, count: int = 500) -> float:
    """Microseconds of CPU per decision on that many equal nodes."""
    owned, spec = KINDS[kind]
    selector = parse_selector("app=web") if owned else None
    cache = cluster(nodes)
    algorithm = SchedulingAlgorithm(Framework(cache, _Namespaces()), lambda _pod: selector, random.Random(1))
    pod_infos = [pod_info(f"p{number}", **spec(number)) for number in range(count)]
    began = time.process_time()
    for one in pod_infos:
        result = algorithm.schedule_pod(one)
        assert isinstance(result, ScheduleResult)
        cache.assume_pod(one, result.suggested_host)
    return (time.process_time() - began) / count * 1e6


def failed_attempt(nodes: int, priority: int, count: int = 10) -> float:
    """Microseconds of CPU per attempt on nodes that are full of pods of priority 0, ten on each."""

    async def main(env: Env) -> float:
        cache = cluster(nodes)
        for number in range(nodes * 10):
            cache.assume_pod(pod_info(f"old{number}", {"cpu": "3200m"}), f"n{number // 10}")
        framework = Framework(cache, _Namespaces())
        algorithm = SchedulingAlgorithm(framework, lambda _pod: None, random.Random(1))
        one = pod_info("p", {"cpu": "5"}, priority=priority)
        began = time.process_time()
        for _ in range(count):
            fit_error = algorithm.schedule_pod(one)
            assert isinstance(fit_error, FitError)
            result = post_filter(framework, one, fit_error, (), env.now(), random.Random(1))
            assert (result.candidate is not None) == (priority > 0)
        return (time.process_time() - began) / count * 1e6

    return virtual.run(main)


def figures() -> list[Figure]:
    """One row each; nothing is promised for them, they are here to be watched."""
    rows = []
    for nodes in (1000, 5000):
        for kind in KINDS:
            name = f"scheduler: decision at {nodes:,} nodes, pods {kind}"
            rows.append(figure(name, "µs", [decision(nodes, kind) for _ in range(ROUNDS)]))
        for priority, name in ((0, "no room"), (1, "preemption")):
            runs = [failed_attempt(nodes, priority) for _ in range(ROUNDS)]
            rows.append(figure(f"scheduler: attempt at {nodes:,} full nodes, {name}", "µs", runs))
    return rows


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
