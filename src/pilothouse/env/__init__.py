"""Time, chance, identity, tasks and loops: everything a program here may know about the world besides the cluster.

Nothing above this package reads a clock or draws a number on its own. Programs get an ``Env`` in their constructor; the
real one asks the operating system, the simulated one is a function of its seed.
"""

from pilothouse.env.lazy import lazy_exports

with lazy_exports():
    from pilothouse.env.chance import Chance
    from pilothouse.env.clock import Clock, SystemClock
    from pilothouse.env.environment import Env
    from pilothouse.env.logging import Log
    from pilothouse.env.tasks import TaskGroup

__all__ = ["Chance", "Clock", "Env", "Log", "SystemClock", "TaskGroup"]
