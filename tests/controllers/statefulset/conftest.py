"""The fixture ``world``: an API server with the controller running."""

from tests.controllers.node_world import fixture_of
from tests.controllers.statefulset.world import controlled

world = fixture_of(controlled)
