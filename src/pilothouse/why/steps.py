"""``Explanation``: the answer to "why", a tree of steps from what is seen to what began it."""

import re

import msgspec

USER = "user"
"""Somebody's act."""
PROGRAM = "program"
"""A program of its own accord: a service account that is not Kubernetes', an operator."""
FAULT = "fault"
"""Something broke: a node fell silent, a container exited, an image can't be pulled."""
TIME = "time"
"""A time was reached that an object states."""
STATE = "state"
"""Nothing happened: it is as the objects say (no node has room)."""
UNKNOWN = "unknown"
"""It is not recorded what began it."""


_TIME = re.compile(r'(?<!")\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z')

NOT_FOUND = "not found"
"""The state of an object that is not there and of which no change is known."""
AS_DESIRED = "as desired"
NO_CONDITION = "no condition says otherwise"
"""The state of an object that asks for something, and whose status has no conditions to go by."""


class Step(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """One link. ``because`` are the links that led to it, the most important first; a step without any is a root."""

    text: str
    """What is so, or what happened: a sentence without a full stop."""
    object: str = ""
    """What it is about: ``pod/web-1``."""
    namespace: str = ""
    resource_version: str = ""
    """Of the change that the step is."""
    time: str = ""
    by: str = ""
    """Who made the change."""
    decision: str = ""
    """What a controller said of it."""
    table: list[str] = []
    """Lines with the details: a ranking, nodes by reason, containers."""
    hints: list[str] = []
    """Of an act: what else the same user did within the same seconds, and what a program may have copied."""
    root: str = ""
    """USER, PROGRAM, FAULT, TIME, STATE or UNKNOWN, for a step that nothing led to."""
    because: list["Step"] = []

    def roots(self) -> list["Step"]:
        """The steps that began it, in the order of the tree."""
        if not self.because:
            return [self]
        return [root for step in self.because for root in step.roots()]


class Explanation(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Why one object is as it is."""

    object: str
    namespace: str = ""
    state: str
    """In a word or two: ``deleted``, ``pending``, ``not ready``, ``terminating``, ``as desired``; ``no condition says
    otherwise``."""
    steps: list[Step]
    """What there is to say, each with what led to it; the most important first."""
    unseen: list[str] = []
    """What could not be looked at, and why."""

    def roots(self) -> list[Step]:
        """What began it all, each once."""
        found: dict[tuple[str, str], Step] = {}
        for step in self.steps:
            for root in step.roots():
                found.setdefault((root.text, root.resource_version), root)
        return list(found.values())


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def text_lines(explanation: Explanation) -> list[str]:
    """The explanation for a terminal: a line about the object, a tree, the roots, and what was not seen."""
    place = f" in namespace {explanation.namespace}" if explanation.namespace else ""
    lines = [f"{explanation.object}{place}: {explanation.state}"]
    for number, step in enumerate(explanation.steps):
        lines += tree_lines(step, is_last=number == len(explanation.steps) - 1)
    roots = explanation.roots()
    if any(step.because for step in explanation.steps):
        lines += ["", "It began with:" if len(roots) == 1 else "It began with each of these:"]
        for root in roots:
            lines += [f"  {_headline(root)}", *(f"    {hint}" for hint in root.hints)]
    else:
        lines += [f"   {hint}" for root in roots for hint in root.hints]
    if explanation.unseen:
        lines += ["", "Not seen:", *(f"  {each}" for each in explanation.unseen)]
    return plain_times(lines)


def plain_times(lines: list[str]) -> list[str]:
    """Lines whose times are all of one day, without the day. Values of fields, in quotes, stay as they are."""
    days = {found[1] for line in lines for found in _TIME.finditer(line)}
    return [_TIME.sub(r"\2", line) for line in lines] if len(days) == 1 else lines


def tree_lines(step: Step, indent: str = "", *, is_last: bool = True) -> list[str]:
    """A step and what led to it, as a tree. Times have their day: see ``plain_times``."""
    lines = [f"{indent}{'└─ ' if is_last else '├─ '}{_headline(step)}"]
    below = indent + ("   " if is_last else "│  ")
    bar = "│  " if step.because else "   "
    if step.decision:
        lines.append(f"{below}{bar}{step.decision}")
    lines += [f"{below}{bar}{line}" for line in step.table]
    for number, each in enumerate(step.because):
        lines += tree_lines(each, below, is_last=number == len(step.because) - 1)
    return lines


def _headline(step: Step) -> str:
    at = f"{step.time[:19]}Z  " if step.time else ""
    by = f", by {step.by}" if step.by else ""
    return f"{at}{step.text}{by}"
