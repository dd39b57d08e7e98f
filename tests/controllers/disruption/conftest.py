"""What the tests of this controller run in."""

from tests.controllers.disruption.scene import budgeting
from tests.controllers.node_world import fixture_of

world = fixture_of(budgeting)
