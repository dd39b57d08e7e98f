"""What the tests of this controller run in."""

from tests.controllers.daemonset.world import controlled
from tests.controllers.node_world import fixture_of

world = fixture_of(controlled)
