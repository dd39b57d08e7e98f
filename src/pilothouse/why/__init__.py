"""Why an object is as it is, or is gone: the chain of causes, back to the act or the fault that began it.

``explain`` answers for any object. It reads with a client, so it works against any API server; the data that only
pilothouse's provides (who wrote, and why) comes from ``/debug/history/changes``, or from decision and audit logs.

* ``evidence`` is what there is to go by; ``changes`` says what a change was, ``chain`` follows it back.
* ``states`` looks at objects of each kind: what is remarkable about them, and what that follows from.
* ``steps`` is the answer, as a tree, as text and as JSON.
"""

from pilothouse.why.evidence import Evidence, Reference, ServerEvidence
from pilothouse.why.explain import explain
from pilothouse.why.steps import AS_DESIRED, NO_CONDITION, NOT_FOUND, Explanation, Step, text_lines

__all__ = [
    "AS_DESIRED",
    "NOT_FOUND",
    "NO_CONDITION",
    "Evidence",
    "Explanation",
    "Reference",
    "ServerEvidence",
    "Step",
    "explain",
    "text_lines",
]
