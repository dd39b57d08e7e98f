"""What happened in a run, at bounded size: ``Recorder`` observes a simulation, ``Recording`` is what it has seen.

A recorder reads what is committed, and what asks the API servers. It never waits, writes or sets a timer, so a run with
one and a run without make the same writes at the same times.

* ``structs`` are the values; ``series`` keeps numbers over time within bounds.
* ``views`` is what is read of objects. ``pods`` says what a pod counts as, ``workload`` counts the pods of one owner,
  ``workloads`` knows whose pod each is.
* ``bounds`` says how many pods have to be ready; ``nodes``, ``events`` and ``clients`` are about those.
"""

from pilothouse.simulate.recording.recorder import Recorder
from pilothouse.simulate.recording.structs import (
    ACTION,
    FAULT,
    VIOLATION,
    Bound,
    Event,
    Mark,
    Node,
    Percentiles,
    Rates,
    Recording,
    Revision,
    Rollout,
    Steps,
    Workload,
    Writes,
)

__all__ = [
    "ACTION",
    "FAULT",
    "VIOLATION",
    "Bound",
    "Event",
    "Mark",
    "Node",
    "Percentiles",
    "Rates",
    "Recorder",
    "Recording",
    "Revision",
    "Rollout",
    "Steps",
    "Workload",
    "Writes",
]
