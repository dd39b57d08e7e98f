"""A control plane inside your tests: API server, controllers, scheduler and simulated nodes in the test's own process.

``plane`` is for synchronous tests (it runs the server in its own thread), ``async_plane`` for asynchronous ones, also
in virtual time. The pytest plugin (``pilothouse.testing.plugin``) has fixtures for both. Nothing is imported before it
is used: pytest loads this package at every start, also for runs without a cluster.
"""

from pilothouse.env.lazy import lazy_exports
from pilothouse.env.memory import creating_permanent_objects

with lazy_exports(during=creating_permanent_objects):
    from pilothouse.testing.asynchronous import AsyncCluster, Timeout, async_plane
    from pilothouse.testing.exploration import ExplorationFailed, explore
    from pilothouse.testing.running import MissingRight
    from pilothouse.testing.state import State
    from pilothouse.testing.synchronous import Cluster, PlaneEnded, plane

__all__ = [
    "AsyncCluster",
    "Cluster",
    "ExplorationFailed",
    "MissingRight",
    "PlaneEnded",
    "State",
    "Timeout",
    "async_plane",
    "explore",
    "plane",
]
