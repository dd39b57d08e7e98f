"""A scheduler that binds pods to nodes, as the default profile of kube-scheduler v1.36 does.

It is a client like any other, with upstream's identity and scheduler name. The modules follow ``pkg/scheduler``:
``scheduler`` runs the cycles, ``schedule_one`` chooses nodes, ``eventhandlers`` and ``queueing_hints`` react to events,
``plugins`` has the plugins by name, ``framework`` their types and runtime, ``backend`` the cache and the queue.
"""

from pilothouse.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
