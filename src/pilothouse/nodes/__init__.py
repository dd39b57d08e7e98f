"""Simulated nodes: they heartbeat, and take the pods bound to them through their lives as a kubelet writes them.

A client like any other: works against the embedded API server and any real one. ``profile`` says how fast things
happen. Pure: ``node_object`` and ``pod_status`` (what is written), ``pod_stages`` (what comes next). Acting:
``heartbeats`` (registration, Leases, node status), ``pod_lives`` (the pods); ``simulator`` puts them together.
"""

from pilothouse.nodes.profile import Profile
from pilothouse.nodes.simulator import NodeSimulator

__all__ = ["NodeSimulator", "Profile"]
