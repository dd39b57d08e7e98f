"""The fixture ``world``: an API server with the controller running."""

from tests.controllers.daemonset.world import controlled
from tests.controllers.node_world import fixture_of

world = fixture_of(controlled)
