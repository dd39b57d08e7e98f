"""Compares runs: ready pods of each variant on one time axis, and measures with medians and ranges. Pure."""

import bisect
import statistics
from collections.abc import Callable, Iterator, Sequence

import msgspec

from pilothouse.simulate.recording import Recording, Steps, Workload
from pilothouse.simulate.report import page, tables
from pilothouse.simulate.report.axis import WIDTH, Axis
from pilothouse.simulate.report.curves import Scale, area_path, line_path
from pilothouse.simulate.report.markup import LONGEST, Markup, element, short
from pilothouse.simulate.report.panel import (
    Key,
    Panel,
    axis_panel,
    frame_part,
    grid_part,
    label_part,
    legend_parts,
    name_part,
    placed,
    scale_parts,
    value_part,
)
from pilothouse.simulate.report.plot import axis_of, file_of, last_change
from pilothouse.simulate.report.texts import count_text, number_text, seconds_text
from pilothouse.simulate.report.workloads import shown_workloads, workload_title
from pilothouse.simulate.result import BudgetResult, ExpectationResult

MAX_VARIANTS = 40
"""Maximum number of variants in pictures; the table has all."""
MAX_WORKLOADS = 3
_SAMPLES = 400
_HEIGHT = 52
_ROW = 22
_CHART = 540
_CHART_LABEL = 190
_CHART_VALUE = 200


class Measure(msgspec.Struct, frozen=True):
    """A measure of a run."""

    name: str
    of: Callable[[Recording], float | None]
    is_time: bool = False

    def text(self, value: float) -> str:
        """Format a value."""
        return seconds_text(value) if self.is_time else number_text(value)


class Group(msgspec.Struct, frozen=True):
    """The runs of one variant."""

    title: str
    runs: list[Recording]

    def values(self, measure: Measure) -> list[float]:
        """The values of the finished runs that have the measure."""
        return [value for run in self.runs if _is_complete(run) and (value := measure.of(run)) is not None]


def _is_complete(run: Recording) -> bool:
    """Whether the run finished. Budgets are checked at the end; any other failure ends the run."""
    return not run.failure or run.failure.startswith("budget ")


def groups_of(recordings: Sequence[Recording]) -> list[Group]:
    """Group recordings by variant, in order of appearance."""
    by_variant: dict[str, list[Recording]] = {}
    for recording in recordings:
        by_variant.setdefault(recording.variant, []).append(recording)
    return [Group(title or "all runs", runs) for title, runs in by_variant.items()]


def _longest_rollout(run: Recording) -> float | None:
    times = [
        rollout.finished - rollout.began
        for workload in run.workloads
        for rollout in workload.rollouts
        if rollout.finished is not None and rollout.began > 0
    ]
    return max(times, default=None)


def _to_ready(share: str) -> Callable[[Recording], float | None]:
    return lambda run: float(getattr(run.time_to_ready, share)) if run.time_to_ready.count else None


def _below(run: Recording) -> float:
    return max((bound.seconds_below for workload in run.workloads for bound in workload.bounds), default=0.0)


MEASURES = (
    Measure(
        "Max unavailable pods", lambda run: max((workload.most_unavailable for workload in run.workloads), default=0)
    ),
    Measure("Longest below a bound", _below, is_time=True),
    Measure("Longest rollout", _longest_rollout, is_time=True),
    Measure("Time to ready, p50", _to_ready("p50"), is_time=True),
    Measure("Time to ready, p99", _to_ready("p99"), is_time=True),
    Measure("Time to ready, longest", _to_ready("most"), is_time=True),
    Measure("Last change at", lambda run: last_change(run) - run.zero, is_time=True),
    Measure("Evictions", lambda run: sum(workload.evictions for workload in run.workloads)),
    Measure("Writes", lambda run: run.total_writes),
    Measure("API requests", lambda run: run.requests.total),
)


def worst(recordings: Sequence[Recording]) -> int:
    """The index of the run whose report is included: a failure, else the run with the most unavailable pods, else the
    longest."""
    return max(
        range(len(recordings)),
        key=lambda number: (
            bool(recordings[number].failure),
            max((workload.most_unavailable for workload in recordings[number].workloads), default=0),
            recordings[number].seconds,
            -number,
        ),
    )


def comparison_html(
    recordings: Sequence[Recording],
    *,
    runs: int,
    replay: str = "",
    budgets: Sequence[BudgetResult] = (),
    expectations: Sequence[ExpectationResult] = (),
) -> str:
    """The page. ``runs`` is the number of all runs, including those that were not recorded. It includes the report of
    the ``worst`` run: ``replay`` is the command that repeats that run, ``budgets`` and ``expectations`` are its
    results."""
    groups, name = groups_of(recordings), recordings[0].name
    failed = sum(bool(recording.failure) for recording in recordings)
    pairs = [("Variants", str(len(groups))), ("Runs compared", number_text(len(recordings)))]
    if runs > len(recordings):
        pairs.append(("All runs", number_text(runs)))
    pairs += [("Seeds", _seeds(recordings)), ("Failed", number_text(failed))]
    outcome = element(
        "p", f"✗ {count_text(failed, 'run')} failed" if failed else "✓ All runs passed",
        class_=f"outcome {'bad' if failed else 'good'}",
    )  # fmt: skip
    content = [
        element(
            "header", element("h1", short(name or "Simulation", LONGEST)), outcome, page.facts(pairs)
        ),
        _table(groups),
        _failures(groups),
        page.figure("ready", "Pods over time", _picture(recordings, groups), _CAPTION),
        element("h2", "Measures"),
        element("p", "Median, minimum and maximum of all runs of a variant.", class_="quiet"),
        element("div", *(_chart(measure, groups) for measure in _used(groups)), class_="charts"),
        *_worst_run(recordings[worst(recordings)], budgets, expectations, replay),
    ]  # fmt: skip
    return page.document(f"{short(name or 'simulation', LONGEST)}: comparison", content)


def _worst_run(
    run: Recording, budgets: Sequence[BudgetResult], expectations: Sequence[ExpectationResult], replay: str
) -> list[Markup]:
    variant = f" with {run.variant}" if run.variant else ""
    return [
        element("h2", short(f"The worst run: seed {run.seed}{variant}", LONGEST), id="worst"),
        element("p", short(run.failure or "The run passed.", 2000), class_="bad" if run.failure else "good"),
        page.facts(page.run_facts(run, axis_of(run))),
        *page.body(run, budgets, expectations),
        *([element("p", "Repeat this run: ", element("code", replay))] if replay else []),
    ]


_CAPTION = (
    "Ready pods of each variant, all on the same axes: the median of its runs, and the range from the minimum to the "
    "maximum. Below, the maximum number of unavailable pods in any run."
)


def comparison_svg(recordings: Sequence[Recording]) -> str:
    """An SVG file with the pods over time."""
    groups = groups_of(recordings)
    inner, height = _composed(recordings, groups)
    summary = f"{count_text(len(groups), 'variant')} · {count_text(len(recordings), 'run')}"
    return file_of(recordings[0].name, summary, "", inner, height)


def _seeds(recordings: Sequence[Recording]) -> str:
    seeds = sorted({recording.seed for recording in recordings})
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


def _used(groups: Sequence[Group]) -> list[Measure]:
    return [measure for measure in MEASURES if any(any(group.values(measure)) for group in groups)]


def spread_text(measure: Measure, values: Sequence[float]) -> str:
    """``3.5s (3s to 9s)``."""
    if not values:
        return "–"
    low, high = measure.text(min(values)), measure.text(max(values))
    middle = measure.text(statistics.median(values))
    return middle if low == high else f"{middle} ({low} to {high})"


def _spread_cell(measure: Measure, values: Sequence[float]) -> Markup | str:
    """The median, with the range in a second line."""
    middle, parenthesis, rest = spread_text(measure, values).partition(" (")
    if not parenthesis:
        return middle
    return Markup(f"{middle}<br/>{element('span', rest[:-1], class_='quiet')}")


def _table(groups: Sequence[Group]) -> Markup:
    measures = _used(groups)
    rows = [
        [
            group.title,
            f"{sum(bool(run.failure) for run in group.runs)} of {len(group.runs)}",
            *(_spread_cell(measure, group.values(measure)) for measure in measures),
        ]
        for group in groups
    ]
    heads = ["Variant", "Failed", *(measure.name for measure in measures)]
    return tables.table("Medians and ranges", heads, rows)


def _failures(groups: Sequence[Group]) -> Markup:
    rows = []
    for group in groups:
        kinds: dict[str, list[int]] = {}
        for run in group.runs:
            if run.failure:
                kinds.setdefault(run.failure.partition("\n")[0], []).append(run.seed)
        for failure, seeds in list(kinds.items())[:10]:
            rows.append([group.title, failure, number_text(len(seeds)), str(seeds[0])])
    return tables.table("Failures", ["Variant", "Failure", "Runs", "First seed"], rows[:200], texts=2)


# Pods over time


def _picture(recordings: Sequence[Recording], groups: Sequence[Group]) -> Markup:
    inner, height = _composed(recordings, groups)
    axis = _axis(recordings)
    return element(
        "svg", *inner, viewBox=f"-1 0 {WIDTH + 2} {height:g}", role="img",
        aria_label="ready pods of each variant; the numbers are in the table",
        data_begin=round(axis.begin - axis.zero, 3), data_end=round(axis.end - axis.zero, 3),
    )  # fmt: skip


def _axis(recordings: Sequence[Recording]) -> Axis:
    end = max(min(recording.seconds, last_change(recording) * 1.1) for recording in recordings)
    return Axis(0.0, max(end, 1.0), max(recording.zero for recording in recordings))


def _composed(recordings: Sequence[Recording], groups: Sequence[Group]) -> tuple[list[Markup], float]:
    axis = _axis(recordings)
    panels: list[Panel] = []
    for key in _workloads(recordings):
        panels += _workload_panels(key, groups, axis)
    first, top = placed([axis_panel(axis, above=True)], 6)
    drawn, bottom = placed(panels, top + 10, gap=10)
    times, end = placed([axis_panel(axis)], bottom + 6)
    lines = element("g", grid_part(axis, bottom + 6 - top), transform=f"translate(0 {top:g})", class_="lines")
    return [*first, *drawn, lines, *times], end + 2


def _workloads(recordings: Sequence[Recording]) -> list[tuple[str, str, str]]:
    """The workloads that are shown for most runs."""
    counts: dict[tuple[str, str, str], int] = {}
    for recording in recordings:
        for workload in shown_workloads(recording, MAX_WORKLOADS):
            key = (workload.kind, workload.namespace, workload.name)
            counts[key] = counts.get(key, 0) + 1
    return sorted(counts, key=lambda key: -counts[key])[:MAX_WORKLOADS]


def _find(recording: Recording, key: tuple[str, str, str]) -> Workload | None:
    return next(
        (workload for workload in recording.workloads if (workload.kind, workload.namespace, workload.name) == key),
        None,
    )


def _workload_panels(key: tuple[str, str, str], groups: Sequence[Group], axis: Axis) -> Iterator[Panel]:
    workloads_of = [(group, [run for recording in group.runs if (run := _find(recording, key))]) for group in groups]
    workloads_of = [(group, runs) for group, runs in workloads_of if runs]
    missing = max(run.most_unavailable for _group, runs in workloads_of for run in runs)
    most = max(max(1, run.ready.most, run.desired.most) for _group, runs in workloads_of for run in runs)
    heading = [name_part(workload_title(workloads_of[0][1][0]))]
    keys = [Key("range of ready pods", "range"), Key("median", "ready", "line"), Key("unavailable", "unavailable")]
    for number, panel_key in enumerate(keys):
        parts = legend_parts([panel_key], 12)
        heading.append(element("g", *parts, transform=f"translate({axis.left + 150 * number:g} 0)"))
    yield Panel(20, heading, has_name=True)
    for group, workloads in workloads_of[:MAX_VARIANTS]:
        ends = [run.seconds for run in group.runs if _find(run, key) is not None]
        yield _variant_panel(group.title, workloads, ends, (most, missing), axis)
    if len(workloads_of) > MAX_VARIANTS:
        text = f"and {count_text(len(workloads_of) - MAX_VARIANTS, 'more variant')} in the table"
        yield Panel(20, [label_part(text, 14)])


def _variant_panel(
    title: str, workloads: Sequence[Workload], ends: Sequence[float], scales: tuple[int, int], axis: Axis
) -> Panel:
    most, most_missing = scales
    scale, missing = Scale(_HEIGHT, _HEIGHT - 6, most), Scale(_HEIGHT + 16, 12, most_missing)
    low, middle, high = spread([workload.ready for workload in workloads], ends, axis)
    end = max(ends)
    worst, its_end = max(zip(workloads, ends, strict=True), key=lambda entry: entry[0].most_unavailable)
    parts = [frame_part(axis, 4, _HEIGHT), scale_parts(most, scale.y(most)), *_title_parts(title)]
    if len(workloads) > 1:
        parts.append(element("path", d=_range_path(low, high, axis, scale, end), class_="range"))
    parts.append(element("path", d=line_path(middle, axis, scale, until=end), class_="ready"))
    if worst.most_unavailable:
        path = area_path(_ended(worst.unavailable, its_end), axis, missing)
        parts.append(element("path", d=path, class_="unavailable"))
        parts.append(value_part(f"max {worst.most_unavailable:,}", _HEIGHT + 14))
    return Panel(_HEIGHT + 24, parts)


def _ended(steps: Steps, at: float) -> Steps:
    """The series, ended at the end of its run."""
    return Steps([*steps.at, at], [*steps.last, 0], [*steps.low, 0], [*steps.high, 0])


def _title_parts(title: str) -> list[Markup]:
    """One line per setting."""
    return [label_part(part, 16 + 14 * number) for number, part in enumerate(title.split(", ")[:4])]


def spread(series: Sequence[Steps], ends: Sequence[float], axis: Axis) -> tuple[Steps, Steps, Steps]:
    """Minimum, median and maximum of several series, sampled at some hundred times. Each series counts until its
    end."""
    width = (axis.end - axis.begin) / _SAMPLES
    instants = [at for number in range(_SAMPLES + 1) if (at := axis.begin + number * width) <= max(ends)]
    rows = []
    for at in instants:
        values = sorted(_value(steps, at) for steps, end in zip(series, ends, strict=True) if at <= end)
        rows.append((values[0], int(statistics.median_low(values)), values[-1]))
    low, middle, high = ([row[column] for row in rows] for column in range(3))
    return Steps(instants, low, low, low), Steps(instants, middle, middle, middle), Steps(instants, high, high, high)


def _value(steps: Steps, at: float) -> int:
    index = bisect.bisect_right(steps.at, at) - 1
    return steps.last[index] if index >= 0 else 0


def _range_path(low: Steps, high: Steps, axis: Axis, scale: Scale, end: float) -> str:
    xs = [axis.x(at) for at in low.at]
    upper = "".join(f"V{scale.y(value):g}H{x:g}" for value, x in zip(high.last, [*xs[1:], axis.x(end)], strict=True))
    lower = "".join(
        f"V{scale.y(value):g}H{x:g}" for value, x in zip(reversed(low.last), reversed(xs), strict=True)
    )  # fmt: skip
    return f"M{xs[0]:g} {scale.y(low.last[0]):g}{upper}{lower}Z"


# Measures


def _chart(measure: Measure, groups: Sequence[Group]) -> Markup:
    groups_shown = groups[:MAX_VARIANTS]
    most = max((max(values) for group in groups_shown if (values := group.values(measure))), default=0.0) or 1.0
    right = _CHART - _CHART_VALUE
    parts = []
    for number, group in enumerate(groups_shown):
        values = group.values(measure)
        y = 14 + number * _ROW
        parts.append(label_part(group.title, y + 4, max_characters=40))
        parts.append(element("path", d=f"M{_CHART_LABEL} {y}H{right}", class_="grid"))
        if not values:
            continue
        low, middle, high = (
            _CHART_LABEL + value / most * (right - _CHART_LABEL)
            for value in (min(values), statistics.median(values), max(values))
        )
        whisker = f"M{low:.1f} {y}H{high:.1f}M{low:.1f} {y - 4}v8M{high:.1f} {y - 4}v8"
        parts.append(element("path", d=whisker, class_="whisker"))
        parts.append(element("circle", cx=round(middle, 1), cy=y, r=4.5, class_="median"))
        text = spread_text(measure, values)
        parts.append(element("text", text, x=_CHART, y=y + 4, class_="value", text_anchor="end"))
    label = f"{measure.name}: the numbers are in the table"
    box = f"0 0 {_CHART} {len(groups_shown) * _ROW + 8}"
    drawn = element("svg", *parts, viewBox=box, role="img", aria_label=label)
    return element("figure", element("figcaption", measure.name, class_="strong"), drawn)
