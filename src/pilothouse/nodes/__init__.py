"""Simulated nodes: they send heartbeats and run the pods bound to them, as far as a kubelet writes to the API server.

A client like any other, of the embedded API server or a real one. ``profile`` has the durations. Pure: ``node_object``
and ``pod_status`` (written objects), ``pod_steps`` (the next step). ``heartbeats`` does registration, Leases and node
status, ``pod_workers`` the pods, ``volume_manager`` their volumes, ``eviction_manager`` node pressure; ``simulator``
creates them.
"""

from pilothouse.nodes.profile import Profile
from pilothouse.nodes.simulator import NodeSimulator

__all__ = ["NodeSimulator", "Profile"]
