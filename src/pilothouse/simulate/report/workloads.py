"""Panels of workloads: revisions as bands, ready pods with required bounds, missing pods. Pure."""

from collections.abc import Sequence

from pilothouse.simulate.recording import Recording, Revision, Steps, Workload
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.curves import Scale, area_path, line_path, stacked_paths
from pilothouse.simulate.report.markup import LONGEST, Markup, element, short
from pilothouse.simulate.report.panel import (
    LINE,
    Key,
    Panel,
    frame_part,
    label_part,
    legend_parts,
    name_part,
    scale_parts,
    value_part,
)
from pilothouse.simulate.report.texts import count_text, seconds_text

MAX_SHOWN = 10
"""Maximum number of workloads in pictures; the table has all that are recorded."""
COLORS = 6
_MAX_KEYS = 6
_MAX_BOUNDS = 3
_BANDS = 104
_MISSING = 34


def shown_workloads(recording: Recording, limit: int = MAX_SHOWN) -> list[Workload]:
    """The workloads in pictures: those below a bound, then those with the most activity; in the order of the
    recording."""

    def interest(workload: Workload) -> tuple[float, ...]:
        below = max((bound.seconds_below for bound in workload.bounds), default=0.0)
        return (below, workload.most_unavailable, len(workload.rollouts), workload.pods_created + workload.pods_deleted)

    with_pods = [
        candidate
        for candidate in recording.workloads
        if candidate.pods_created or candidate.ready.most or candidate.pending.most
    ]
    chosen = sorted(range(len(with_pods)), key=lambda number: interest(with_pods[number]), reverse=True)[:limit]
    return [with_pods[number] for number in sorted(chosen)]


def workload_title(workload: Workload) -> str:
    """``deployment/web``, with the namespace unless it is default."""
    if workload.kind == "Pods":
        return short(f"pods without owner in {workload.namespace}", LONGEST)
    title = workload.title if workload.namespace == "default" else f"{workload.title} in {workload.namespace}"
    return short(title, LONGEST)


def workload_panels(workload: Workload, axis: Axis) -> list[Panel]:
    """The panels of bands and of missing pods."""
    return [_bands_panel(workload, axis), _missing_panel(workload, axis)]


def revision_text(revision: Revision, number: int) -> str:
    """``revision 2: web:2``."""
    label = revision.number or (revision.name if revision.name else "")
    text = f"revision {label}" if label else ("pods" if number == 0 else f"pods {number + 1}")
    return short(f"{text}: {revision.image}" if revision.image else text, LONGEST)


def _bands_panel(workload: Workload, axis: Axis) -> Panel:
    revisions = workload.revisions
    bounds = [bound for bound in workload.bounds if bound.least.most][:_MAX_BOUNDS]
    top_of_stack = _max_concurrent([revision.pods for revision in revisions])
    most = max(1, top_of_stack, workload.desired.most, workload.ready.most, *(b.least.most for b in workload.bounds))
    scale = Scale(_BANDS, _BANDS - 8, most)
    parts = [name_part(workload_title(workload)), frame_part(axis, 8 - 4, _BANDS)]
    parts += [scale_parts(most, scale.y(most)), scale_parts(0, scale.y(0))]
    for number, path in enumerate(stacked_paths([revision.pods for revision in revisions], axis, scale)):
        if path:
            title = element("title", revision_text(revisions[number], number))
            parts.append(element("path", title, d=path, class_=f"band r{number % COLORS}"))
    parts += _line(workload.desired, axis, scale, "desired", "desired pods")
    parts += _line(workload.ready, axis, scale, "ready", "ready pods")
    for bound in bounds:
        parts += _line(
            bound.least, axis, scale, "bound", f"{short(bound.name, LONGEST)}: at least {bound.least.most} ready"
        )
    keys = [
        *(
            Key(revision_text(revision, number), f"band r{number % COLORS}")
            for number, revision in enumerate(revisions[:_MAX_KEYS])
        ),
        Key("ready", "ready", "line"),
        *(Key(f"≥ {bound.least.most}: {bound.name}", "bound", "line") for bound in bounds),
    ]
    parts += legend_parts(keys, 12 + LINE + 2)
    more = len(revisions) - _MAX_KEYS
    below = 12 + LINE + 2 + len(keys) * LINE
    if more > 0:
        parts.append(label_part(f"and {count_text(more, 'more revision')}", below, x=20))
        below += LINE
    parts.append(value_part(count_text(most, "pod"), 12))
    return Panel(max(_BANDS, below - LINE + 4), parts, has_name=True)


def _line(steps: Steps, axis: Axis, scale: Scale, class_: str, title: str) -> list[Markup]:
    path = line_path(steps, axis, scale)
    return [element("path", element("title", title), d=path, class_=class_)] if path and steps.most else []


def _max_concurrent(series: Sequence[Steps]) -> int:
    """The maximum sum of the series."""
    changes: list[tuple[float, int, int]] = []
    for number, steps in enumerate(series):
        changes += [(at, number, last) for at, last in zip(steps.at, steps.last, strict=True)]
    values, most = [0] * len(series), 0
    changes.sort()
    for position, (at, number, last) in enumerate(changes):
        values[number] = last
        if position + 1 == len(changes) or changes[position + 1][0] != at:
            most = max(most, sum(values))
    return most


def _missing_panel(workload: Workload, axis: Axis) -> Panel:
    """Unavailable, failed, pending and terminating pods."""
    series = [
        ("unavailable", workload.unavailable, "unavailable"),
        ("failed", workload.failed, "failed"),
        ("pending", workload.pending, "without a node"),
        ("terminating", workload.terminating, "terminating"),
    ]
    # States that end in the same instant are not shown: nearly every pod is pending in that way.
    used = [(class_, steps, text) for class_, steps, text in series if any(steps.last)]
    if not used:
        return Panel(0, [])
    # All pods are pending at the start; that must not determine the scale.
    most = max(workload.unavailable.most, workload.failed.most) or max(steps.most for _class, steps, _text in used)
    height = max(_MISSING, len(used) * LINE)
    scale = Scale(_MISSING + 6, _MISSING - 4, most)
    parts = [frame_part(axis, 6, _MISSING + 6), scale_parts(most, scale.y(most) + 2)]
    keys = []
    for class_, steps, text in used:
        title = element("title", f"{text}: at most {steps.most}")
        is_area = class_ in ("unavailable", "failed")
        path = area_path(steps, axis, scale) if is_area else line_path(steps, axis, scale)
        parts.append(element("path", title, d=path, class_=class_))
        keys.append(Key(f"{text}, at most {steps.most:,}", class_, "area" if is_area else "line"))
    parts += legend_parts(keys, 16)
    missed = max(workload.bounds, key=lambda bound: bound.seconds_below, default=None)
    if missed is not None and missed.seconds_below:
        parts.append(value_part(f"below {missed.least.most:,}", 16, "value bad"))
        parts.append(value_part(f"for {seconds_text(missed.seconds_below)}", 30, "value bad"))
    return Panel(height + 10, parts)
