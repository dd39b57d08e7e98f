"""Puts API server, manager, scheduler and simulated nodes together in one process, on one loop.

``Plane`` is what ``pilothouse up``, the test fixtures and the simulation run. Programs talk to the API server through
its local transport, each under upstream's identity; a test may wrap those transports (faults,
recording).
"""

from pilothouse.plane.clients import LocalClients
from pilothouse.plane.options import NodeGroup, PlaneOptions
from pilothouse.plane.plane import Plane

__all__ = ["LocalClients", "NodeGroup", "Plane", "PlaneOptions"]
