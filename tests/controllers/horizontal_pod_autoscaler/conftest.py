"""The fixture ``hpa``: an API server with the controller running."""

from tests.controllers.horizontal_pod_autoscaler.world import scaling
from tests.controllers.node_world import fixture_of

hpa = fixture_of(scaling)
