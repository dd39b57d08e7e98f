"""A scheduler that binds pods to nodes that fit: name, taints, node selector and affinity, resources.

A client like any other, under upstream's identity and scheduler name. ``snapshot`` keeps what is known of the nodes up
to date with every event, ``placement`` decides (pure), ``scheduler`` acts.
"""

from pilothouse.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
