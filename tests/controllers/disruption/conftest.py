"""The fixture ``world``: an API server with the controller running."""

from tests.controllers.disruption.world import world_with_controller
from tests.controllers.node_world import fixture_of

world = fixture_of(world_with_controller)
