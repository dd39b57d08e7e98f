"""The fixture ``world``: an API server with the controller running."""

from tests.controllers.node_world import fixture_of
from tests.controllers.persistentvolume_binder.world import binding

world = fixture_of(binding)
