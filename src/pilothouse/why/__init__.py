"""Explains the state of an object, or its deletion: the chain of causes, back to the write or fault that started it.

``explain`` takes any object and reads with a client, so it works against any API server. The origin of writes (user,
component, decision) is in ``/debug/history/changes`` of pilothouse's API server, or in decision and audit logs.

* ``evidence`` reads changes, objects and events; ``changes`` describes a change, ``chain`` follows it back.
* ``states`` checks objects by kind: not ready, pending, terminating, and why.
* ``steps`` has the result: a tree of steps, printed as text or JSON.
"""

from pilothouse.why.evidence import Evidence, Reference, ServerEvidence
from pilothouse.why.explain import explain
from pilothouse.why.steps import (
    AS_DESIRED,
    NO_CONDITION,
    NO_STATUS,
    NOT_FOUND,
    STORED,
    UNKNOWN_CONDITIONS,
    UNREADABLE,
    UNREMARKABLE,
    Explanation,
    Step,
    text_lines,
)

__all__ = [
    "AS_DESIRED",
    "NOT_FOUND",
    "NO_CONDITION",
    "NO_STATUS",
    "STORED",
    "UNKNOWN_CONDITIONS",
    "UNREADABLE",
    "UNREMARKABLE",
    "Evidence",
    "Explanation",
    "Reference",
    "ServerEvidence",
    "Step",
    "explain",
    "text_lines",
]
