"""What the tests of this controller run in."""

from tests.controllers.node_world import fixture_of
from tests.controllers.statefulset.world import controlled

world = fixture_of(controlled)
