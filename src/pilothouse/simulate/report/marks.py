"""Marks of actions, faults and violations: numbered shapes on the axis, and lines through all panels. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from pilothouse.simulate.recording import ACTION, FAULT, VIOLATION, Mark
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.markup import Markup, element, short
from pilothouse.simulate.report.panel import Panel, label_part

_APART = 20.0
"""Minimum distance in pixels; closer marks are merged into one with several numbers."""
_SHAPES = {
    ACTION: "M0 -6L6 5H-6Z",
    FAULT: "M0 -7L7 0L0 7L-7 0Z",
    VIOLATION: "M-5 -5L5 5M5 -5L-5 5",
}
_ROWS = {VIOLATION: 0, FAULT: 1, ACTION: 2}
NAMES = {ACTION: "action", FAULT: "fault", VIOLATION: "violation"}
_ROW = 20
_MAX_IN_TITLE = 12


class _Group(msgspec.Struct):
    kind: str
    x: float
    marks: list[tuple[int, Mark]]


def numbered(marks: Sequence[Mark]) -> list[tuple[int, Mark]]:
    """Sort by time, and number from 1."""
    return list(enumerate(sorted(marks, key=lambda mark: mark.at), 1))


def marks_panel(marks: Sequence[Mark], axis: Axis) -> Panel:
    """A lane for each kind of marks, with the numbers of the table of marks."""
    kinds = [kind for kind in _ROWS if any(mark.kind == kind for mark in marks)]
    parts = []
    for row, kind in enumerate(kinds):
        y = 10 + row * _ROW
        sample = element("path", d=_SHAPES[kind], class_=f"mark {kind}", transform=f"translate(7 {y - 4:g})")
        parts += [sample, label_part(f"{NAMES[kind]}s", y, x=20)]
        for group in _groups([entry for entry in numbered(marks) if entry[1].kind == kind], axis):
            parts.append(_group_part(group, axis, y - 4))
    return Panel(len(kinds) * _ROW + 4, parts)


def _groups(marks: list[tuple[int, Mark]], axis: Axis) -> Iterator[_Group]:
    group: _Group | None = None
    for number, mark in marks:
        x = axis.x(mark.at)
        if group is not None and x - group.x < _APART:
            group.marks.append((number, mark))
            continue
        if group is not None:
            yield group
        group = _Group(mark.kind, x, [(number, mark)])
    if group is not None:
        yield group


def _group_part(group: _Group, axis: Axis, y: float) -> Markup:
    lines = [f"{number}. {axis.label(mark.at)}: {short(mark.text, 200)}" for number, mark in group.marks]
    if len(lines) > _MAX_IN_TITLE:
        lines = [*lines[:_MAX_IN_TITLE], f"and {len(lines) - _MAX_IN_TITLE} more"]
    first, last = group.marks[0][0], group.marks[-1][0]
    label = str(first) if first == last else f"{first}–{last}" if last - first + 1 == len(group.marks) else f"{first}…"
    shape = element("path", d=_SHAPES[group.kind], class_=f"mark {group.kind}")
    number = element("text", label, x=9, y=4, class_="number")
    return element("g", element("title", "\n".join(lines)), shape, number, transform=f"translate({group.x:g} {y:g})")


def line_parts(marks: Sequence[Mark], axis: Axis, height: float) -> list[Markup]:
    """Lines through all panels below the marks."""
    parts = []
    for kind in _SHAPES:
        xs = sorted({axis.x(mark.at) for mark in marks if mark.kind == kind})
        if xs:
            path = "".join(f"M{x:g} 0V{height:g}" for x in xs)
            parts.append(element("path", d=path, class_=f"through {kind}"))
    return parts
