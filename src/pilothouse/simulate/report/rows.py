"""Rows of small charts: requests, queues, events. Pure."""

from collections.abc import Sequence

from pilothouse.simulate.recording import Event, Rates, Recording, Steps
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.curves import Scale, area_path, rate_columns, rate_path
from pilothouse.simulate.report.markup import LONGEST, Markup, element, short
from pilothouse.simulate.report.panel import Panel, label_part, name_part, value_part
from pilothouse.simulate.report.texts import count_text, number_text

MAX_REQUESTS = 12
MAX_QUEUES = 8
MAX_EVENTS = 14
_ROW = 24
_TOP = 22


def request_panels(recording: Recording, axis: Axis) -> list[Panel]:
    """Request rates by client and verb, highest total first."""
    panel = _rates_panel("API requests", recording.requests, axis, MAX_REQUESTS, "requests")
    return [panel] if panel is not None else []


def queue_panels(recording: Recording, axis: Axis) -> list[Panel]:
    """Depths of the work queues, highest maximum first."""
    ordered = sorted(recording.queues.items(), key=lambda entry: (-entry[1].most, entry[0]))
    if not ordered:
        return []
    parts = [name_part("work queues, depth")]
    for number, (name, steps) in enumerate(ordered[:MAX_QUEUES]):
        y = _TOP + number * _ROW
        parts += _queue_row(name, steps, axis, y)
    height = _TOP + min(len(ordered), MAX_QUEUES) * _ROW
    if len(ordered) > MAX_QUEUES:
        parts.append(label_part(f"and {count_text(len(ordered) - MAX_QUEUES, 'queue')} with less", height + 10))
        height += 16
    return [Panel(height, parts, has_name=True)]


def _queue_row(name: str, steps: Steps, axis: Axis, y: float) -> list[Markup]:
    scale = Scale(y + _ROW - 4, _ROW - 8, steps.most)
    title = element("title", f"{short(name, LONGEST)}: at most {steps.most}")
    path = element("path", title, d=area_path(steps, axis, scale), class_="queue")
    return [*_row_ground(name, f"max {steps.most:,}", axis, y), path]


def _row_ground(name: str, value: str, axis: Axis, y: float) -> list[Markup]:
    base = element("path", d=f"M{axis.left:g} {y + _ROW - 4:g}H{axis.right:g}", class_="base")
    return [label_part(name, y + _ROW - 7), base, value_part(value, y + _ROW - 7)]


def _rates_panel(name: str, rates: Rates, axis: Axis, most: int, unit: str) -> Panel | None:
    ordered = sorted(rates.counts.items(), key=lambda entry: (-sum(entry[1]), entry[0]))
    if not ordered:
        return None
    top, others = ordered[:most], ordered[most:]
    rows = [(key, counts) for key, counts in top]
    if others:
        length = max(len(counts) for _key, counts in others)
        summed = [sum(counts[i] for _key, counts in others if i < len(counts)) for i in range(length)]
        rows.append((f"{len(others)} others", summed))
    parts = [name_part(f"{name}, {number_text(rates.total)} in all")]
    for number, (key, counts) in enumerate(rows):
        y = _TOP + number * _ROW
        columns = rate_columns(rates, counts, axis)
        peak = max((value for _x, _width, value in columns), default=0.0)
        total = sum(counts)
        parts += _row_ground(key, number_text(total), axis, y)
        if columns:
            scale = Scale(y + _ROW - 4, _ROW - 7, peak)
            title = element("title", f"{short(key, LONGEST)}: {total:,} {unit}, at most {number_text(peak)} a second")
            parts.append(element("path", title, d=rate_path(columns, scale), class_="rate"))
    return Panel(_TOP + len(rows) * _ROW, parts, has_name=True)


def event_panels(recording: Recording, axis: Axis) -> list[Panel]:
    """Warnings and the most frequent groups of Events, each from first to last."""
    ordered = shown_events(recording.events)
    if not ordered:
        return []
    parts = [name_part(f"Events, {number_text(recording.event_rates.total)} in all")]
    for number, event in enumerate(sorted(ordered[:MAX_EVENTS], key=lambda event: event.first)):
        parts += _event_row(event, axis, _TOP + number * (_ROW - 5))
    height = _TOP + min(len(ordered), MAX_EVENTS) * (_ROW - 5)
    if len(ordered) > MAX_EVENTS:
        more = count_text(len(ordered) - MAX_EVENTS, "more group") + " in the table"
        parts.append(label_part(f"and {more}", height + 12))
        height += 16
    return [Panel(height, parts, has_name=True)]


def shown_events(events: Sequence[Event]) -> list[Event]:
    """Warnings first, then by count."""
    return sorted(events, key=lambda event: (event.type != "Warning", -event.count, event.first))


def _event_row(event: Event, axis: Axis, y: float) -> list[Markup]:
    warning = event.type == "Warning"
    class_ = "event warning" if warning else "event"
    middle = y + 9
    left, right = axis.x(event.first), axis.x(event.last)
    title = element(
        "title",
        f"{event.type} {short(event.reason, LONGEST)} {short(event.object, LONGEST)}: {short(event.message, LONGEST)}",
    )
    spots = []
    for x in sorted({left, right}):
        if warning:
            spots.append(element("path", d=f"M{x:g} {middle - 5:g}l5 9h-10Z", class_=class_))
        else:
            spots.append(element("circle", cx=x, cy=middle, r=3.5, class_=class_))
    line = element("path", d=f"M{left:g} {middle:g}H{right:g}", class_=f"{class_} span")
    label = f"{event.reason} {event.object}" if event.objects == 1 else f"{event.reason} {_kind(event)}"
    return [
        label_part(f"{'⚠ ' if warning else ''}{label}", y + 13),
        element("g", title, line, *spots),
        value_part(f"× {event.count:,}", y + 13),
    ]


def _kind(event: Event) -> str:
    kind, _slash, _name = event.object.partition("/")
    return f"({event.objects:,} {kind}s)"
