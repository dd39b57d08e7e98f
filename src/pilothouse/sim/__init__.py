"""The whole cluster on one loop, in virtual time, with faults and with invariants that are checked after every write.

``simulate(story, seed=…, invariants=…)`` runs a coroutine ``story(simulation)``; the same seed tells the same story in
every process. ``faults`` has what can go wrong, as data; ``faults.draw`` makes a plan from a seed, and
``Simulation.follow`` lets it happen. ``invariants`` holds what must be true meanwhile and in the end.

Not simulated: sockets, TLS and time spent computing.
"""

from pilothouse.sim.faults import FaultPlan, draw, stretched
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.simulation import Simulation, SimulationFailed, SimulationOptions, running, simulate
from pilothouse.sim.story import Origin, Story

__all__ = [
    "FaultPlan",
    "Invariant",
    "Origin",
    "Simulation",
    "SimulationFailed",
    "SimulationOptions",
    "Story",
    "Violation",
    "draw",
    "running",
    "simulate",
    "stretched",
]
