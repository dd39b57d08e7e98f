"""Simulated clusters whose API servers serve kinds that are off by default."""

import asyncio

from tests.controllers.certificate_kinds import DEFINITIONS
from tests.scenarios.users import Doc, User

from pilothouse.sim import Simulation


async def serve(simulation: Simulation, *definitions: Doc) -> None:
    """Define these kinds, and restart the manager, which skips controllers of missing kinds at startup."""
    user = User(simulation.user)
    for definition in definitions:
        await user.request("POST", DEFINITIONS, definition)
    await asyncio.sleep(5.0)
    simulation.kill()
    await asyncio.sleep(1.0)
    assert simulation.process is not None, "it was started again at once"
    assert simulation.process.manager is not None, "a process has a manager"
    await simulation.process.manager.leading.wait()
