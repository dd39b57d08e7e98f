"""One change of a node: CPU at 100, 1,000 and 5,000 nodes; it should not depend on the number of nodes.

In this process, on the virtual loop: the embedded API server and a manager with all controllers; Nodes without
heartbeats, no scheduler. One DaemonSet has a pod on every node, four others select a label that few nodes have. Each
kind of change is made to many nodes, one after the other. Figures: CPU microseconds per change of everything that
follows from it, the server included, and the number of keys that are reconciled. The figure is the best of a few
rounds, because periodic passes of node lifecycle and pod garbage collector fall into others. A round makes each change
and reverts it, and counts both.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from bench.report import Figure, figure
from bench.virtual_rollout import daemon_set
from pilothouse.api.apps import DAEMON_SETS
from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.machinery.times import format_time
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

SIZES = (100, 1000, 5000)
ROUNDS = 5
_FLAT = 1.5
CHANGES = 60
_SELECTIVE = 4
_PAUSE_SECONDS = 0.001
"""Of virtual time after each change: far more than nothing, which is how long the controllers take."""

Change = Callable[[str, int], Awaitable[object]]
"""Of that node, for that time; every second time takes back what the one before has done."""


class _Cluster:
    """Nodes, DaemonSets, and the changes."""

    def __init__(self, env: Env, client: Client) -> None:
        self._env = env
        self._client = client

    async def build(self, nodes: int) -> None:
        now = format_time(self._env.now())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
        conditions = [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}]
        for number in range(nodes):
            name = f"node-{number}"
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
            body = {"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}}
            await self._client.create(NODES.raw, body)
            await self._client.patch(NODES.raw, name, strategic_merge_patch({"spec": {"taints": None}}))
        await self._client.create(DAEMON_SETS.raw, daemon_set("everywhere"), "default")
        for number in range(_SELECTIVE):
            selective: dict[str, Any] = daemon_set(f"somewhere-{number}")
            selective["spec"]["template"]["spec"]["nodeSelector"] = {f"wants-{number}": "yes"}
            await self._client.create(DAEMON_SETS.raw, selective, "default")
        await asyncio.sleep(1)
        there = len((await self._client.list(PODS, "default")).items)
        assert there == nodes, f"{there} daemons on {nodes} nodes"

    async def heartbeat(self, node: str, time: int) -> object:
        """A kubelet reports its status: nothing but a time is new."""
        beat = {"type": "Ready", "lastHeartbeatTime": format_time(self._env.now()), "message": str(time)}
        return await self._status(node, beat)

    async def pressure(self, node: str, time: int) -> object:
        """A condition comes or goes, which brings or takes a taint."""
        wanted = "False" if time % 2 else "True"
        return await self._status(node, {"type": "MemoryPressure", "status": wanted})

    async def label(self, node: str, time: int) -> object:
        """A label that no DaemonSet asks for."""
        return await self._patch(node, {"metadata": {"labels": {"color": f"c{time}"}}})

    async def taint(self, node: str, time: int) -> object:
        """A taint that keeps new pods away, and lets those stay that run."""
        taints = None if time % 2 else [{"key": "maintenance", "effect": "NoSchedule"}]
        return await self._patch(node, {"spec": {"taints": taints}})

    async def selected(self, node: str, time: int) -> object:
        """The label that a DaemonSet asks for comes or goes: a pod is made or deleted."""
        wanted = None if time % 2 else "yes"
        return await self._patch(node, {"metadata": {"labels": {"wants-0": wanted}}})

    async def _status(self, node: str, condition: dict[str, Any]) -> object:
        patch = strategic_merge_patch({"status": {"conditions": [condition]}})
        return await self._client.patch(NODES.raw, node, patch, subresource="status")

    async def _patch(self, node: str, body: dict[str, Any]) -> object:
        return await self._client.patch(NODES.raw, node, strategic_merge_patch(body))

    @property
    def changes(self) -> dict[str, Change]:
        return {
            "heartbeat": self.heartbeat,
            "a label nobody selects": self.label,
            "a taint that pods may stay with": self.taint,
            "a condition with a taint": self.pressure,
            "a label that is selected": self.selected,
        }


def costs(nodes: int) -> dict[str, tuple[float, float]]:
    """Microseconds and keys per change, by the kind of change."""

    async def main(env: Env) -> dict[str, tuple[float, float]]:
        manager = Options(leader_election=LeaderElection(enabled=False))
        plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=0, scheduler=False, manager=manager))
        found: dict[str, tuple[float, float]] = {}
        async with TaskGroup("bench") as group:
            group.start(plane.run())
            await plane.wait_ready()
            assert plane.manager is not None, "the plane was asked for one"
            metrics = plane.manager.metrics
            cluster = _Cluster(env, plane.client())
            await cluster.build(nodes)
            # Spread over all nodes, so that no place in a list is favoured.
            names = [f"node-{number * nodes // CHANGES}" for number in range(CHANGES)]
            for title, change in cluster.changes.items():
                rounds = []
                for number in range(ROUNDS):
                    keys = sum(_looks(metrics.exposition()))
                    began = time.process_time()
                    for which in (2 * number, 2 * number + 1):
                        for name in names:
                            await change(name, which)
                            await asyncio.sleep(_PAUSE_SECONDS)
                    took = time.process_time() - began
                    keys = sum(_looks(metrics.exposition())) - keys
                    rounds.append((took / CHANGES / 2 * 1e6, keys / CHANGES / 2))
                found[title] = min(rounds)
            group.cancel()
        return found

    return virtual.run(main)


def _looks(exposition: str) -> Iterator[float]:
    """How often each queue's keys were worked on."""
    for line in re.findall(r"^workqueue_work_duration_seconds_count\{.*\} (\S+)$", exposition, re.MULTILINE):
        yield float(line)


def figures(sizes: tuple[int, ...] = SIZES) -> list[Figure]:
    """By kind of change, each size; the ratio is that to the smallest, and flat is what stays below 1.5."""
    found = {nodes: costs(nodes) for nodes in sizes}
    rows = []
    for title in found[sizes[0]]:
        base, _keys = found[sizes[0]][title]
        for nodes in sizes:
            cost, keys = found[nodes][title]
            name, note = f"node change at {nodes:,}: {title}", f"{keys:.1f} keys"
            if nodes == sizes[0]:
                rows.append(figure(name, "µs CPU", [cost], note=note))
            else:
                rows.append(
                    figure(name, "µs CPU", [cost], [base], other_name=f"at {sizes[0]}", budget=_FLAT, note=note)
                )
    return rows


def main() -> None:
    from bench.report import table

    print(table(figures()))


if __name__ == "__main__":
    main()
