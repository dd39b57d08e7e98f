"""Nodes that fail, become unreachable and recover while volumes are attached, under faults of the manager."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from tests.scenarios.test_attaching import RESOURCES, WITH_SETS, Owner
from tests.scenarios.test_volumes import PODS, SETS, web

from pilothouse.client.errors import ApiError
from pilothouse.sim import Simulation, draw
from pilothouse.sim.invariants.attachments import Attachments
from pilothouse.sim.invariants.volumes import Volumes

SECONDS = 1800.0


class Machines:
    """The machines of a cluster of three nodes; at most one is shut down at a time."""

    def __init__(self, simulation: Simulation) -> None:
        assert simulation.plane.nodes is not None
        self._nodes = simulation.plane.nodes
        self._rng = simulation.env.stream("machines")
        self._down = ""
        self._keeps_pods = False

    def shut_down(self) -> None:
        """Shut down a machine, unless one is shut down already."""
        if self._down:
            return
        self._down = f"node-{self._rng.randrange(3)}"
        ways: list[tuple[Callable[[str], None], bool]] = [
            (self._nodes.silence, True),
            (self._nodes.silence, False),
            (self._nodes.vanish, False),
            (self._nodes.take_out_of_service, False),
        ]
        way, self._keeps_pods = self._rng.choice(ways)
        way(self._down)

    def start_again(self) -> None:
        """Start the machine that is shut down."""
        if self._down:
            self._nodes.revive(self._down, pods=self._keeps_pods)
            self._down = ""


@pytest.mark.simulation(options=WITH_SETS, invariants=lambda: (Attachments(), Volumes()))
async def test_volumes_are_moved_from_failed_nodes(simulation: Simulation, seed: int) -> None:
    user, machines = Owner(simulation), Machines(simulation)
    await user.request("POST", SETS, web("standard"))
    await asyncio.sleep(30.0)
    rng = simulation.env.stream("user")

    async def run_actions() -> None:
        for _ in range(14):
            with contextlib.suppress(ApiError):
                match rng.choice(("lose", "lose", "bring back", "delete")):
                    case "lose":
                        machines.shut_down()
                    case "bring back":
                        machines.start_again()
                    case _:
                        await user.request("DELETE", f"{PODS}/web-{rng.randrange(3)}")
            await asyncio.sleep(rng.choice((1.0, 20.0, 120.0, 400.0)))

    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), run_actions())
    simulation.end_faults()
    machines.start_again()
    await asyncio.sleep(1000.0)
    await simulation.run_until_idle()
    pods = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in await user.items(PODS)}
    assert pods == {f"web-{number}": "Running" for number in range(3)}
    await user.request("DELETE", f"{SETS}/web")
    await user.delete_everything(simulation)
