"""``Explanation``: a tree of steps from the state of an object to its root causes, and its output as text."""

import re
from collections.abc import Iterator

import msgspec

USER = "user"
"""Root cause: a write of a person."""
PROGRAM = "program"
"""Root cause: a write of a program other than Kubernetes' components, such as an operator."""
FAULT = "fault"
"""Root cause: a failure; a node stopped reporting, a container exited, an image can't be pulled."""
TIME = "time"
"""Root cause: a time given in an object was reached."""
STATE = "state"
"""Root cause: the current state of objects, not an event (no node has room)."""
UNKNOWN = "unknown"
"""The root cause is not recorded."""

_MAX_ROOT_LINES = 4
"""Lines of a state's table that are repeated with the root causes."""
_TIME = re.compile(r'(?<!")\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z')

NOT_FOUND = "not found"
"""The state of an object that does not exist and has no recorded change."""
UNREADABLE = "not known: it can't be read"
"""The state of an object whose read failed, for example because the user lacks the permission."""
AS_DESIRED = "as desired"
TOO_MANY_PODS = "too many pods"
"""The state of a workload with more pods than desired, those that are terminating not counted."""
DELETED_PODS_REMAIN = f"{AS_DESIRED}, but deleted pods remain"
"""The state of a workload that has its pods, and others that are deleted and not removed."""
NO_CONDITION = "not known: its status has no conditions"
"""The state of an object with a spec whose controller reports a status without conditions."""
UNKNOWN_CONDITIONS = "not known: its conditions have types of their own"
"""The state of an object with conditions that may mean an error or not."""
NO_STATUS = "not known: no controller has written a status"
"""The state of an object with a spec that no controller has synced, or one that reports nothing."""
STORED = "exists, and has no status"
"""The state of an object that no controller reports on, such as a ConfigMap."""
UNREMARKABLE = frozenset({AS_DESIRED, NO_CONDITION, UNKNOWN_CONDITIONS, NO_STATUS, STORED})
"""States of existing objects with which nothing is known to be wrong."""


class Step(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """A state or a change. ``because`` are its causes, the most important first; a step without any is a root cause."""

    text: str
    """The state or the change: a sentence without a full stop."""
    object: str = ""
    """The object: ``pod/web-1``."""
    namespace: str = ""
    resource_version: str = ""
    """The object's after the change, if the step is one."""
    time: str = ""
    by: str = ""
    """Who made the change."""
    decision: str = ""
    """The recorded decision of the controller that wrote."""
    table: list[str] = []
    """Detail lines: a ranking, nodes by reason, containers."""
    hints: list[str] = []
    """For a root cause of type USER or PROGRAM: other writes of the same user, and values it may have copied."""
    root: str = ""
    """USER, PROGRAM, FAULT, TIME, STATE or UNKNOWN for a root cause, otherwise empty."""
    because: list["Step"] = []

    def roots(self) -> list["Step"]:
        """The root causes below this step, in the order of the tree."""
        if not self.because:
            return [self]
        return [root for step in self.because for root in step.roots()]

    @property
    def is_change(self) -> bool:
        """Whether this is a change, or that one is not recorded; otherwise it is a state."""
        return bool(self.time or self.by or self.resource_version) or self.root == UNKNOWN


class Explanation(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """The explanation of one object's state."""

    object: str
    namespace: str = ""
    state: str
    """In a few words: ``deleted``, ``pending``, ``not ready``, ``terminating``, ``as desired``."""
    steps: list[Step]
    """The findings with their causes, the most important first."""
    unseen: list[str] = []
    """What could not be read, and why."""
    root_causes: list[Step] = []
    """What holds the object up, each with the changes that led to it as ``because``; otherwise the first changes."""

    def causes(self) -> list[Step]:
        """The ``root_causes`` of the steps.

        The cause on a way to a root is its last state: the last change, such as the creation of a Deployment, does not
        say what is wrong. A state that has other states as its causes only sums them up."""
        states: dict[tuple[str, str], Step] = {}
        alone: dict[tuple[str, str], Step] = {}
        for state, root in (pair for step in self.steps for pair in _roots_of_states(step, None)):
            if state is None:
                alone.setdefault(_key(root), root)
                continue
            cause = states.get(_key(state))
            if cause is None:
                because = list[Step]()
                cause = states[_key(state)] = Step(
                    text=state.text,
                    object=state.object,
                    namespace=state.namespace,
                    table=state.table,
                    root=state.root or STATE,
                    because=because,
                )
            if root is not state and _key(root) not in map(_key, cause.because):
                cause.because.append(root)
        named = {_key(root) for cause in states.values() for root in cause.because}
        return [*states.values(), *(root for key, root in alone.items() if key not in named)]

    def roots(self) -> list[Step]:
        """All root causes, each once."""
        unique: dict[tuple[str, str], Step] = {}
        for step in self.steps:
            for root in step.roots():
                unique.setdefault(_key(root), root)
        return list(unique.values())


def _roots_of_states(step: Step, state: Step | None) -> Iterator[tuple[Step | None, Step]]:
    """The roots below a step, each with the last state that leads to it."""
    if not step.is_change:
        state = step
    if not step.because:
        yield state, step
    sums_up = not step.is_change and not all(cause.is_change for cause in step.because)
    for cause in step.because:
        yield from _roots_of_states(cause, None if sums_up else state)


def _key(step: Step) -> tuple[str, str]:
    return step.text, step.resource_version


def pluralize(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def text_lines(explanation: Explanation) -> list[str]:
    """The explanation for a terminal: the object's state, the tree, the root causes, and what could not be read."""
    within = f" in namespace {explanation.namespace}" if explanation.namespace else ""
    lines = [f"{explanation.object}{within}: {explanation.state}"]
    for number, step in enumerate(explanation.steps):
        lines += tree_lines(step, is_last=number == len(explanation.steps) - 1)
    if any(step.because for step in explanation.steps):
        lines += ["", "Root cause:" if len(explanation.root_causes) == 1 else "Root causes:"]
        for cause in explanation.root_causes:
            lines += [f"  {line}" for line in cause_lines(cause)]
    else:
        lines += [f"   {hint}" for root in explanation.roots() for hint in root.hints]
    if explanation.unseen:
        lines += ["", "Not seen:", *(f"  {item}" for item in explanation.unseen)]
    return plain_times(lines)


def cause_lines(cause: Step) -> Iterator[str]:
    """A root cause: what holds the object up, the beginning of its table, and the changes that led to it."""
    yield _headline(cause)
    if not cause.is_change:
        yield from (f"  {line}" for line in cause.table[:_MAX_ROOT_LINES])
        if more := len(cause.table[_MAX_ROOT_LINES:]):
            yield f"  and {pluralize(more, 'more line')} above"
    yield from (f"  {hint}" for hint in cause.hints)
    for change in cause.because:
        yield f"  {_headline(change)}"
        yield from (f"    {hint}" for hint in change.hints)


def plain_times(lines: list[str]) -> list[str]:
    """Remove the date from times if all are of one day. Quoted times, which are field values, are kept."""
    days = {match[1] for line in lines for match in _TIME.finditer(line)}
    return [_TIME.sub(r"\2", line) for line in lines] if len(days) == 1 else lines


def tree_lines(step: Step, indent: str = "", *, is_last: bool = True) -> list[str]:
    """A step and its causes as a tree. Times include the date: see ``plain_times``."""
    lines = [f"{indent}{'└─ ' if is_last else '├─ '}{_headline(step)}"]
    below = indent + ("   " if is_last else "│  ")
    bar = "│  " if step.because else "   "
    if step.decision:
        lines.append(f"{below}{bar}{step.decision}")
    lines += [f"{below}{bar}{line}" for line in step.table]
    for number, cause in enumerate(step.because):
        lines += tree_lines(cause, below, is_last=number == len(step.because) - 1)
    return lines


def _headline(step: Step) -> str:
    at = f"{step.time[:19]}Z  " if step.time else ""
    by = f", by {step.by}" if step.by else ""
    return f"{at}{step.text}{by}"
