"""Fixtures: two nodes, a claim ``data`` with its volume, and a CSI driver. Tests start the controller."""

import pytest
from tests.controllers.node_world import World
from tests.controllers.persistentvolume_attach_detach.builders import RWO, Attacher, disk, machine


@pytest.fixture
def modes() -> tuple[str, ...]:
    """The access modes of the volume."""
    return RWO


@pytest.fixture
async def driver(world: World, modes: tuple[str, ...]) -> Attacher:
    result = Attacher(world)
    for name in ("a", "b"):
        await machine(world, name)
    await disk(world, modes=modes)
    world._group.start(result.run(), name="attacher")
    return result
