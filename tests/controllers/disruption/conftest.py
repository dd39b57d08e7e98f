"""The fixture ``world``: an API server with the controller running."""

from tests.controllers.disruption.scene import budgeting
from tests.controllers.node_world import fixture_of

world = fixture_of(budgeting)
