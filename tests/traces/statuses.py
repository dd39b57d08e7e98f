"""Sequences of an object's reported status, without states that depend only on timing.

Several changes close together are one status update or many. Only the turning points are certain. A state between its
neighbors, every count between the two, depends on timing.
"""

from typing import Any

from tests.traces.canonical import Trace
from tests.traces.records import Record

State = dict[str, Any]

COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas")


def status_sequence(trace: Trace, records: list[Record]) -> list[State]:
    """The accepted status updates of one object, in order."""
    result: list[State] = []
    for doc in trace.docs(record for record in records if record.is_status and record.code < 400):
        body = doc.pop("body")
        status = body.pop("status")
        counts = {name: status.pop(name, 0) for name in COUNTS}
        result.append({**doc, "object": body, "status": status, **counts})
    return result


def turning_points(states: list[State]) -> list[State]:
    """The sequence without states that lie between two others."""
    kept: list[State] = []
    for index, state in enumerate(states):
        ahead = states[index + 1] if index + 1 < len(states) else None
        if not kept or ahead is None or not is_between(kept[-1], state, ahead):
            kept.append(state)
    return kept


def is_between(start: State, middle: State, end: State) -> bool:
    """Whether the state lies between start and end: the same counts change, in the same directions."""
    for key in {*start} - {*COUNTS}:
        if start[key] != middle[key] or middle[key] != end[key]:
            return False
    return all(_sign(middle[name] - start[name]) == _sign(end[name] - middle[name]) for name in COUNTS)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
