"""A whole cluster in one event loop, in virtual time, with faults and with invariants that are checked after every
write.

``simulate(scenario, seed=…, invariants=…)`` runs a coroutine ``scenario(simulation)``; the same seed gives the same run
in every process. ``faults`` defines faults as data; ``faults.draw`` derives a plan from a seed, and
``Simulation.follow`` executes it. ``invariants`` has conditions that are checked after every write and at the end.

Not simulated: sockets, TLS and time spent computing.
"""

from pilothouse.sim.faults import FaultPlan, draw, stretched
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.process import Program
from pilothouse.sim.run_log import Origin, RunLog
from pilothouse.sim.simulation import Simulation, SimulationFailed, SimulationOptions, running, simulate

__all__ = [
    "FaultPlan",
    "Invariant",
    "Origin",
    "Program",
    "RunLog",
    "Simulation",
    "SimulationFailed",
    "SimulationOptions",
    "Violation",
    "draw",
    "running",
    "simulate",
    "stretched",
]
