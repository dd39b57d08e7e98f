"""The fixture ``scene``: an API server with the controller running."""

from tests.controllers.horizontal_pod_autoscaler.scene import scaling
from tests.controllers.node_world import fixture_of

scene = fixture_of(scaling)
