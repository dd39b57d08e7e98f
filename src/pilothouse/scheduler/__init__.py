"""A scheduler that binds pods to nodes: kube-scheduler's default profile, as far as it decides about placement.

A client like any other, under upstream's identity and scheduler name. ``wish`` reads what a pod asks for, ``snapshot``
keeps what is known of nodes and pods up to date with every event, ``filters``, ``relations``, ``scores`` and
``spreading`` say which node does and how well, ``placement`` and ``preemption`` decide, ``scheduler`` acts.
"""

from pilothouse.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
