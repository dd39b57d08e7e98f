"""``Actions`` performs the entries of a timeline."""

import asyncio
import random  # noqa: TID251  # the type of a stream
from collections.abc import Callable, Coroutine
from typing import Any

from pilothouse.client.errors import ApiError, NotFound, TooManyRequests
from pilothouse.env.virtual import VirtualClock
from pilothouse.machinery.times import format_time
from pilothouse.sim import Simulation, faults
from pilothouse.simulate.actions import load, pods
from pilothouse.simulate.actions.administrator import ActionError, Administrator
from pilothouse.simulate.actions.nodes import Nodes
from pilothouse.simulate.scenario import Scenario, actions


class Actions:
    """The actions of one run."""

    def __init__(self, simulation: Simulation, scenario: Scenario) -> None:
        self._simulation = simulation
        self._scenario = scenario
        self._entry = scenario.spec.timeline
        self._rejected: dict[int, pods.Rejected] = {}
        """Rejected evictions of drains, by the number of the entry."""
        self.administrator = Administrator(simulation.user)
        restored = scenario.snapshot
        self.nodes = Nodes(simulation, scenario.spec.cluster.node_groups, () if restored is None else restored.nodes)
        self._perform: dict[str, Callable[[Any, random.Random], Coroutine[Any, Any, None]]] = {
            "patch": lambda action, _rng: self.administrator.change(action),
            "scale": lambda action, _rng: self.administrator.scale(action),
            "set_image": lambda action, _rng: self.administrator.set_image(action),
            "restart": self._restart,
            "delete": lambda action, _rng: self.administrator.delete(action),
            "cordon": self._cordon,
            "uncordon": self._uncordon,
            "taint": self._taint,
            "untaint": self._untaint,
            "evict": self._evict,
            "crash": self._crash,
            "manager": self._fault_manager,
            "program": self._fault_manager,
            "api_server": self._fault_api_server,
            "load": lambda action, _rng: load.follow(self.administrator, simulation.env, action),
            "clock": self._jump,
        }

    async def perform(self, number: int) -> None:
        """Perform the entry of that number. Raises ``ActionError``."""
        entry = self._entry[number]
        rng = self._simulation.env.stream(f"actions/{number}")
        try:
            if entry.apply is not None:
                await self.administrator.apply(self._scenario.applied[number])
                return
            if entry.nodes is not None:
                by = f'entry "{entry.name}"' if entry.name else f"spec.timeline[{number}]"
                names = self.nodes.select(entry.nodes, rng, vanished=entry.nodes.effect == "revive")
                await self.nodes.fault(entry.nodes, names, by)
                return
            if entry.drain is not None:
                await self._drain(number, entry.drain, rng)
                return
            await self._perform[entry.action](getattr(entry, entry.action), rng)
        except ActionError:
            raise
        except (ApiError, KeyError, ValueError) as error:
            raise ActionError(str(error)) from error

    async def _restart(self, action: actions.Restart, _rng: random.Random) -> None:
        await self.administrator.restart(action, format_time(self._simulation.env.now()))

    async def _drain(self, number: int, action: actions.Drain, rng: random.Random) -> None:
        names, rejected = self.nodes.select(action, rng), self._rejected.setdefault(number, {})
        await pods.drain(self._simulation.user, self.nodes, names, action, rejected)

    def obstacles(self, number: int) -> list[str]:
        """Why the entry of that number is not finished, as far as that is known: the rejected evictions of a drain."""
        return pods.rejected_lines(self._rejected.get(number, {}))

    async def _cordon(self, action: actions.NodeSelection, rng: random.Random) -> None:
        await self.nodes.cordon(self.nodes.select(action, rng), unschedulable=True)

    async def _uncordon(self, action: actions.NodeSelection, rng: random.Random) -> None:
        await self.nodes.cordon(self.nodes.select(action, rng), unschedulable=False)

    async def _taint(self, action: actions.TaintNodes, rng: random.Random) -> None:
        await self.nodes.taint(self.nodes.select(action, rng), action.taint)

    async def _untaint(self, action: actions.UntaintNodes, rng: random.Random) -> None:
        await self.nodes.untaint(self.nodes.select(action, rng), action.taint)

    async def _evict(self, action: actions.Evict, rng: random.Random) -> None:
        for pod in await pods.select(self._simulation.user, action, rng):
            try:
                await pods.evict(self._simulation.user, pod)
            except (NotFound, TooManyRequests) as error:
                self._simulation.log.record(f"eviction of {pod['metadata']['name']}: {error}")

    async def _crash(self, action: actions.Crash, rng: random.Random) -> None:
        for pod in await pods.select(self._simulation.user, action, rng):
            meta = pod["metadata"]
            self.nodes.simulator.crash(meta["namespace"], meta["name"], action.container, action.exit_code)

    async def _fault_manager(self, action: actions.ManagerFault, _rng: random.Random) -> None:
        if action.partition is not None:
            await self._simulation.partition(action.partition)
        else:
            self._simulation.kill(down=action.down, stale=action.stale)

    async def _fault_api_server(self, action: actions.ApiServerFault, _rng: random.Random) -> None:
        lasts = float(action.for_ or 0.0)
        if action.lag is not None:
            await self._simulation.inject(faults.Move(at=0.0, behind=True))
            await self._simulation.inject(faults.Lag(at=0.0, lag=action.lag, seconds=lasts))
            await self._simulation.inject(faults.Move(at=0.0, behind=False))
            return
        await self._simulation.inject(_server_fault(action, lasts))

    async def _jump(self, action: actions.ClockFault, _rng: random.Random) -> None:
        clock = self._simulation.env.clock
        assert isinstance(clock, VirtualClock), "a simulation has a virtual clock"
        clock.jump(action.forward if action.forward is not None else -(action.back or 0.0))
        await asyncio.sleep(0)


def _server_fault(action: actions.ApiServerFault, lasts: float) -> faults.Fault:
    resource = action.resource
    if action.slow is not None:
        return faults.SlowRequests(at=0.0, longest=action.slow, seconds=lasts)
    if action.fail_writes is not None:
        return faults.FailWrites(
            at=0.0, failure=action.fail_writes, resource=resource, probability=action.probability, seconds=lasts
        )
    if action.fail_reads is not None:
        return faults.FailReads(at=0.0, failure=action.fail_reads, probability=action.probability, seconds=lasts)
    if action.drop_watches is not None:
        return faults.DropWatches(at=0.0, resource=resource, failure=action.drop_watches)
    if action.slow_watches is not None:
        return faults.SlowWatches(at=0.0, resource=resource, longest=action.slow_watches, seconds=lasts)
    if action.hold_watches:
        return faults.HoldWatches(at=0.0, resource=resource, seconds=lasts)
    return faults.Compact(at=0.0)
