"""A recording as SVG: marks, workloads, nodes, requests, queues and events on one time axis. Pure."""

from collections.abc import Sequence

import msgspec

from pilothouse.simulate.recording import Recording, Steps
from pilothouse.simulate.report import nodes, rows, workloads
from pilothouse.simulate.report.axis import WIDTH, Axis
from pilothouse.simulate.report.marks import line_parts, marks_panel
from pilothouse.simulate.report.markup import LONGEST, Markup, element, short
from pilothouse.simulate.report.panel import Panel, axis_panel, grid_part, placed
from pilothouse.simulate.report.styles import PATTERNS, picture_css
from pilothouse.simulate.report.texts import count_text, number_text, seconds_text

_MARGIN = 20
_REST = 0.2
"""A longer quiet time at the end, as a share of the axis, is cut off."""


class Section(msgspec.Struct, frozen=True):
    """The panels of one section."""

    key: str
    title: str
    panels: list[Panel]


def axis_of(recording: Recording) -> Axis:
    """The axis of a run. Quiet time at the end is cut off."""
    end = max(recording.seconds, 1.0)
    last = last_change(recording)
    if last < end * (1 - _REST):
        end = max(last * (1 + _REST / 2), 1.0)
    elif recording.failure:
        end *= 1.03  # margin for a violation at the end
    return Axis(0.0, end, recording.zero)


def last_change(recording: Recording) -> float:
    """The time of the last change of a workload or node, the last Event or the last mark."""
    series: list[Steps] = [*recording.node_states.values()]
    for workload in recording.workloads:
        series += [workload.ready, workload.unavailable, workload.pending, workload.terminating, workload.desired]
        series += [revision.pods for revision in workload.revisions]
    ends = [steps.at[-1] for steps in series if steps.at]
    ends += [mark.at for mark in recording.marks] + [event.last for event in recording.events]
    return max(ends, default=0.0)


def sections_of(recording: Recording, axis: Axis) -> list[Section]:
    """All sections that are not empty."""
    workloads_shown = workloads.shown_workloads(recording)
    sections = [
        Section(
            "workloads",
            "Workloads",
            [p for workload in workloads_shown for p in workloads.workload_panels(workload, axis)],
        ),
        Section("nodes", "Nodes", nodes.node_panels(recording, axis)),
        Section("requests", "API requests", rows.request_panels(recording, axis)),
        Section("queues", "Work queues", rows.queue_panels(recording, axis)),
        Section("events", "Events", rows.event_panels(recording, axis)),
    ]
    return [section for section in sections if section.panels]


def picture(
    panels: Sequence[Panel], recording: Recording, axis: Axis, label: str, *, top: Sequence[Markup] = ()
) -> Markup:
    """Panels with marks above and times below, as an ``svg`` element for HTML."""
    inner, height = _composed(panels, recording, axis)
    return element(
        "svg",
        *top,
        *inner,
        viewBox=f"-1 0 {WIDTH + 2} {height:g}",
        role="img",
        aria_label=label,
        data_begin=round(axis.begin - axis.zero, 3),
        data_end=round(axis.end - axis.zero, 3),
    )


def _composed(panels: Sequence[Panel], recording: Recording, axis: Axis) -> tuple[list[Markup], float]:
    lane = marks_panel(recording.marks, axis)
    first, below_lane = placed([lane, axis_panel(axis, above=True)], 6)
    drawn, below = placed(panels, below_lane + 10)
    times, bottom = placed([axis_panel(axis)], below + 6)
    lines = element(
        "g",
        grid_part(axis, below + 6 - below_lane),
        *line_parts(recording.marks, axis, below + 6 - below_lane),
        transform=f"translate(0 {below_lane:g})",
        class_="lines",
    )
    return [*first, *drawn, lines, *times], bottom + 2


def svg(recording: Recording) -> str:
    """An SVG file with all panels."""
    axis = axis_of(recording)
    panels = [panel for section in sections_of(recording, axis) for panel in section.panels]
    inner, height = _composed(panels, recording, axis)
    return file_of(recording.name, summary(recording, axis), recording.failure, inner, height)


def file_of(name: str, text: str, failure: str, inner: Sequence[Markup], height: float) -> str:
    """A picture with heading, as an SVG file."""
    heading = [
        element("text", short(name or "simulation", 80), x=0, y=16, class_="heading"),
        element("text", text, x=0, y=36, class_="subheading"),
    ]
    top = 46
    if failure:
        heading.append(element("text", f"✗ {short(failure.splitlines()[0], 150)}", x=0, y=54, class_="bad"))
        top = 64
    width, total = WIDTH + 2 * _MARGIN, top + height + 2 * _MARGIN
    moved = element("g", *inner, transform=f"translate(0 {top})")
    root = element(
        "svg",
        element("title", f"{short(name, LONGEST)}: {text}"),
        element("style", Markup(picture_css())),
        PATTERNS,
        element("rect", width=width, height=total, class_="page"),
        element("g", *heading, moved, transform=f"translate({_MARGIN} {_MARGIN})"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {total:g}",
        width=width,
        height=round(total),
        role="img",
    )
    return f"{root.text}\n"


def summary(recording: Recording, axis: Axis) -> str:
    """The most important facts, in one line."""
    seed = f"seed {recording.seed}"
    parts = [*([short(recording.variant, 80)] if recording.variant else []), seed]
    parts.append(f"{seconds_text(recording.seconds)} of virtual time")
    if axis.end < recording.seconds * 0.99:
        parts.append(f"at rest after {axis.label(last_change(recording))}")
    parts.append(count_text(recording.total_writes, "write"))
    parts.append(f"{number_text(recording.requests.total)} API requests")
    return " · ".join(parts)
