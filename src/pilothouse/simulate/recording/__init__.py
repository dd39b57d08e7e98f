"""Recordings of runs, of bounded size: a ``Recorder`` observes a simulation and returns a ``Recording``.

A recorder only observes commits and requests. It never waits, writes or starts timers, so a recorded run has the same
writes at the same times as one without a recorder.

* ``structs`` has the types of a recording; ``series`` stores time series with bounded length.
* ``views`` has the decoded fields of objects. ``pods`` classifies a pod, ``workload`` counts the pods of one owner,
  ``workloads`` maps pods to owners.
* ``bounds`` computes the required number of ready pods; ``nodes``, ``events`` and ``clients`` record nodes, events and
  the origin of requests.
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
