"""Time, randomness, identity, tasks and event loops: the environment of a program besides the cluster.

Nothing above this package reads a clock or generates random numbers itself. Programs get an ``Env`` in their
constructor; the real one uses the operating system, the simulated one is determined by its seed.
"""

from pilothouse.env.lazy import lazy_exports

with lazy_exports():
    from pilothouse.env.clock import Clock, SystemClock
    from pilothouse.env.environment import Env
    from pilothouse.env.logging import Log
    from pilothouse.env.random_streams import RandomStreams
    from pilothouse.env.tasks import TaskGroup

__all__ = ["Clock", "Env", "Log", "RandomStreams", "SystemClock", "TaskGroup"]
