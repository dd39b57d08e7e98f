"""Faults that start with a change: what clients observe during the fault."""

import asyncio
from typing import Any

from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client import Client, merge_patch
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import InformerFactory
from pilothouse.sim import SimulationOptions, running
from pilothouse.sim.faults import DownDuringChange, Fault, FaultPlan, MissedChange, StaleCache, StaleRestart
from pilothouse.sim.process import Program

KEY = "/configmaps/default/a"
Seen = list[tuple[float, str]]


def program(observed: Seen) -> Program:
    """Records each observed state of the ConfigMap, with its time."""
    began: list[float] = []

    async def start(client: Client, env: Env) -> None:
        informers = InformerFactory(client, env)
        maps = informers.informer(CONFIG_MAPS)
        began.append(env.monotonic())

        def note(sign: str, event: Any) -> None:
            if "n" in event.data:
                observed.append((round(env.monotonic() - began[0]), sign + event.data["n"]))

        maps.add_handler(
            on_add=lambda found, _initial: note("+", found),
            on_update=lambda _old, new: note("", new),
            on_delete=lambda found, _unknown: note("-", found),
        )
        async with TaskGroup("program") as group:
            informers.start(group)
            await asyncio.get_running_loop().create_future()

    return Program("program", start)


@cases(
    "fault, expected",
    {
        "no fault": (None, [(10, "+1"), (20, "2"), (30, "-2")]),
        "the cache is behind, from the second change on": (
            StaleCache(key=KEY, nth=2, seconds=15.0),
            [(10, "+1"), (35, "2"), (35, "-2")],
        ),
        "second change hidden": (MissedChange(key=KEY, nth=2, until=3), [(10, "+1"), (31, "-1")]),
        "creation hidden": (MissedChange(key=KEY, nth=1, until=3), []),
        "hidden until a change that does not happen": (
            MissedChange(key=KEY, nth=2, until=9),
            [(10, "+1"), (81, "-1")],
        ),
        "the deletion happens while it is down": (
            DownDuringChange(key=KEY, nth=3, down=5.0),
            [(10, "+1"), (20, "2")],
        ),
        "restarted with the state before the second change": (
            StaleRestart(key=KEY, nth=2, seconds=2.0),
            [(10, "+1"), (20, "2"), (22, "+1")],
        ),
        "change that does not happen": (
            StaleRestart(key=KEY, nth=7, seconds=2.0),
            [(10, "+1"), (20, "2"), (30, "-2")],
        ),
    },
)
async def test_effects_of_faults(env: Env, fault: Fault | None, expected: Seen) -> None:
    observed: Seen = []
    async with running(env, SimulationOptions(nodes=0, controllers=()), program=program(observed)) as simulation:
        plan = FaultPlan((fault,) if fault else ())
        following = asyncio.get_running_loop().create_task(simulation.follow(plan))
        await asyncio.sleep(10)
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "1"}}
        await simulation.user.create(CONFIG_MAPS.raw, body, "default")
        await asyncio.sleep(10)
        await simulation.user.patch(CONFIG_MAPS.raw, "a", merge_patch({"data": {"n": "2"}}), "default")
        await asyncio.sleep(10)
        await simulation.user.delete(CONFIG_MAPS, "a", "default")
        await following
        await asyncio.sleep(200)
        await simulation.run_until_idle()
    if isinstance(fault, StaleRestart) and fault.nth == 2:
        assert observed.pop()[1] in ("-1", "-2"), "it catches up in the end"
        observed = [item for item in observed if item[0] <= 23]
    assert observed == expected
