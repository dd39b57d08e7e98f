"""Memory of the manager does not grow with deleted objects."""

import asyncio
import re
from collections import Counter
from typing import Any

import pytest
from tests.reachable_objects import by_type, reachable_objects
from tests.scenarios.users import Doc, User, replica_set

from pilothouse.apiserver.serializers.results import WatchEvent
from pilothouse.client import shared_parts
from pilothouse.client.errors import NotFound
from pilothouse.controllers.cleanup.garbage_collector import attempts
from pilothouse.runtime import events, pod_control
from pilothouse.sim import Simulation, SimulationOptions

FEW = 4
FIRST_ROUNDS, ROUNDS = 8, 20
OF_THE_PAST = re.compile(r"round-(?:[5-9]|1[0-2])(?!\d)")
"""The end of a name of objects of the rounds in the middle."""
LARGE = 1 << 62
OTHERS = tuple(f"pilothouse.{part}" for part in ("apiserver", "storage", "sim", "plane", "env", "scheduler", "nodes"))
SHARED = ("DecodeMemo", "Context")
"""Between all programs of the process, and bounded; and what a task was started in, which leads everywhere."""


def is_foreign(obj: Any) -> bool:
    """Whether an object belongs to the API server and the simulation instead of the manager."""
    return type(obj).__module__.startswith(OTHERS) or type(obj).__qualname__ in SHARED


class ChurnUser(User):
    """Creates objects with new names, and deletes them."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.user)
        self._simulation = simulation
        self._rounds = 0

    async def create_permanent(self) -> None:
        """Create sets that remain, with pods on any node."""
        for path in ("replicasets/resident", "daemonsets/resident"):
            collection, _slash, name = f"/apis/apps/v1/namespaces/default/{path}".rpartition("/")
            await self.request("POST", collection, _set(collection, name))

    async def create_and_delete(self) -> None:
        """Create a node, a namespace, and sets in it and in another one; change and delete them with all propagation
        policies, and wait until everything is deleted."""
        self._rounds += 1
        number = self._rounds
        suffix = f"round-{number}"
        node = {"metadata": {"name": f"machine-{suffix}", "labels": {"topology.kubernetes.io/zone": "west"}}}
        await self.request("POST", "/api/v1/nodes", node)
        await self.request("POST", "/api/v1/namespaces", {"metadata": {"name": suffix}})
        sets = [
            f"/apis/apps/v1/namespaces/{namespace}/{resource}/{name}-{suffix}"
            for namespace in ("default", suffix)
            for resource, name in (("replicasets", "left"), ("replicasets", "taken"), ("daemonsets", "agent"))
        ]
        for path in sets:
            collection, _slash, name = path.rpartition("/")
            await self.request("POST", collection, _set(collection, name))
        await asyncio.sleep(3)
        for path in sets:
            containers = [{"name": "main", "image": f"pause:{number}"}]
            await self.merge(path, {"spec": {"template": {"spec": {"containers": containers}}}})
        if number % 2:
            self._simulation.end_watches(failure=("ended", "lost", "gone")[number // 2 % 3])
        await asyncio.sleep(90)  # the node has never reported: it is tainted, and its pods are evicted
        await self.request("DELETE", f"/api/v1/nodes/machine-{suffix}")
        for path, policy in zip(sets, ("Orphan", "Foreground", "Background"), strict=False):
            await self.request("DELETE", f"{path}?propagationPolicy={policy}")
        await self.request("DELETE", f"/api/v1/namespaces/{suffix}")
        while remaining := [pod for pod in await self.items("/api/v1/pods") if suffix in pod["metadata"]["name"]]:
            await asyncio.sleep(5)
            for pod in remaining:
                if "ownerReferences" not in pod["metadata"]:
                    await self._delete_pod(pod)
        while await self.get(f"/api/v1/namespaces/{suffix}"):  # noqa: ASYNC110  # it is another process that ends it
            await asyncio.sleep(5)

    async def _delete_pod(self, pod: Doc) -> None:
        meta = pod["metadata"]
        try:
            await self.request("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")
        except NotFound:
            return


def _set(collection: str, name: str) -> Doc:
    labels = {"app": name}
    if collection.endswith("replicasets"):
        return replica_set(name, 3, labels)
    spec = {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "pause:1"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches with limits are filled quickly."""
    monkeypatch.setattr(events, "CACHE_ENTRIES", FEW)
    monkeypatch.setattr(pod_control, "_BODIES", FEW)
    monkeypatch.setattr(shared_parts, "_MAX_PREVIOUS", FEW)
    monkeypatch.setattr(attempts.AbsentOwnerCache.__init__, "__defaults__", (FEW,))


@pytest.mark.simulation(options=SimulationOptions(nodes=2))
async def test_no_memory_leak_after_churn(simulation: Simulation, small_limits: None) -> None:
    user = ChurnUser(simulation)
    await user.create_permanent()
    for _round in range(FIRST_ROUNDS):
        await user.create_and_delete()
    await simulation.run_until_idle()
    before = _memory(simulation)
    for _round in range(ROUNDS - FIRST_ROUNDS):
        await user.create_and_delete()
    await simulation.run_until_idle()
    after = _memory(simulation)
    assert sorted(text for text in map(_text, after.values()) if OF_THE_PAST.search(text)) == []
    # Fewer than one per visit. Numbers do not count: which of them are one object is chance.
    grown = by_type(after) - by_type(before) - Counter({"builtins.int": LARGE, "builtins.float": LARGE})
    # Nor do frames: since Python 3.13 a suspended coroutine gets its frame object when somebody looks at it.
    grown -= Counter({"builtins.frame": LARGE})
    assert grown.total() < ROUNDS - FIRST_ROUNDS, f"more than after {FIRST_ROUNDS} visits: {grown}"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def _memory(simulation: Simulation) -> dict[int, Any]:
    process = simulation.process
    assert process is not None, "nothing has killed it"
    timers = [timer for timer in asyncio.get_running_loop()._timers if not timer[2].cancelled()]  # type: ignore[attr-defined]
    result = reachable_objects([process.manager, timers], is_foreign)
    # The number of reflectors that share the string of their resourceVersion is random, and so is
    # the number that are currently being notified.
    rng = {key for key, item in result.items() if (isinstance(item, str) and item.isdigit()) or _is_bookmark(item)}
    return {key: item for key, item in result.items() if key not in rng}


def _is_bookmark(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_bookmark, value))
    if isinstance(value, WatchEvent):
        return value.type == "BOOKMARK"
    return isinstance(value, bytes) and b'"metadata":{"resourceVersion":"' in value and b'"name":' not in value
