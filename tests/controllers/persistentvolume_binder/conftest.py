"""What the tests of this controller run in."""

from tests.controllers.node_world import fixture_of
from tests.controllers.persistentvolume_binder.world import binding

world = fixture_of(binding)
