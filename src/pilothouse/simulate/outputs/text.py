"""The result of a search as text."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pilothouse.simulate.outputs.replay import Replay
from pilothouse.simulate.result import Result
from pilothouse.simulate.scenario.scalars import counted, shown_seconds
from pilothouse.simulate.search import Finished, ShrunkFailure
from pilothouse.simulate.variants import Variant, measures_of

_LOG_LINES = 20
_NOTICES = 20
_PODS_NAMED = 5
_WORKLOADS = 10
"""Maximum number of workloads."""


def shown_number(value: float, *, is_time: bool) -> str:
    """Format a number or a duration."""
    if is_time:
        return shown_seconds(round(value, 2))
    return f"{value:,g}" if value < 1e5 else f"{value:,.0f}"


def run_lines(result: Result) -> Iterator[str]:
    """The result of a single run."""
    state = "failed" if result.failure is not None else "passed"
    rate = f"{result.seconds / result.cpu:,.0f}" if result.cpu else "?"
    yield (
        f"{result.scenario}, seed {result.seed}: {state}; {shown_seconds(round(result.seconds))} of virtual time "
        f"in {result.cpu:.1f}s ({rate}x real time), {result.writes:,} writes"
    )
    yield from (f"  {line}" for line in _columns(_budget_rows([result])))
    yield from (f"  {line}" for line in _columns(_measure_rows([result])))
    if result.never_ready:
        yield f"  pods not ready at the end: {', '.join(result.never_ready)}"
    if result.deleted_unready:
        yield f"  pods that were deleted or failed before they were ready: {', '.join(result.deleted_unready)}"
    yield from _notice_lines([result])


def search_lines(scenario: str, finished: Sequence[Finished], requested: int) -> Iterator[str]:
    """The result of several runs of one variant."""
    results = [result for _job, result in finished]
    failed = sum(result.failure is not None for result in results)
    more = f" of {requested:,}" if len(results) != requested else ""
    runs = f"{len(results):,}{more} runs" if more else counted(len(results), "run")
    yield f"{scenario}: {runs}, {len(results) - failed:,} passed, {failed:,} failed"
    yield from (f"  {line}" for line in _columns(_budget_rows(results)))
    yield from (f"  {line}" for line in _columns(_measure_rows(results)))
    yield from _notice_lines(results)


def _notice_lines(results: Sequence[Result]) -> Iterator[str]:
    """Each distinct notice, with the number of its runs."""
    counts = Counter(notice for result in results for notice in result.notices)
    waiting = [result for result in results if result.never_ready]
    if waiting and len(results) > 1:
        first = waiting[0]
        named = ", ".join(first.never_ready[:_PODS_NAMED])
        more = ", …" if len(first.never_ready) > _PODS_NAMED else ""
        text = "pods not ready at the end, whose age counts in timeToReady (-o json has all)"
        counts[f"{text}, with seed {first.seed}: {named}{more}"] = len(waiting)
    for notice, count in list(counts.items())[:_NOTICES]:
        yield f"  notice: {notice}" + (f" (in {count:,} of {len(results):,} runs)" if len(results) > 1 else "")
    if len(counts) > _NOTICES:
        yield f"  and {len(counts) - _NOTICES} more notices (-o json has all)"


def _budget_rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    for number, first in enumerate(results[0].budgets if results else ()):
        budget_results = [result.budgets[number] for result in results if len(result.budgets) > number]
        exceeded = sum(not one.held for one in budget_results)
        result_text = "no such workload" if any(one.missing for one in budget_results) else "exceeded"
        state = (
            "kept"
            if not exceeded
            else result_text + (f" in {counted(exceeded, 'run')}" if len(budget_results) > 1 else "")
        )
        yield (
            f"budget {first.name}",
            f"{spread([one.measured for one in budget_results], is_time=first.is_time)} of "
            f"{spread([one.limit for one in budget_results], is_time=first.is_time)}",
            state,
        )


def _measure_rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    names = dict.fromkeys(name for result in results for name in result.measures)
    names_text, left = _shown_names(list(names), results)
    for name in names_text:
        yield name, spread(_values(results, name), is_time=is_time(name))
    if left:
        yield f"and {left} more workloads (-o json has all)", ""


def _shown_names(names: Sequence[str], results: Sequence[Result]) -> tuple[list[str], int]:
    """The names of the measures to show, and the number of omitted workloads. Of many workloads those with the most
    unavailable pods are shown."""
    workloads = [name for name in names if name.startswith("maxUnavailable ")]
    most = sorted(workloads, key=lambda name: -max(_values(results, name), default=0))[:_WORKLOADS]
    return [name for name in names if name not in workloads or name in most], len(workloads) - len(most)


def is_time(name: str) -> bool:
    """Whether a measure is in seconds."""
    return name.startswith("time")


def spread(values: Sequence[float], *, is_time: bool) -> str:
    """Median and range: ``3.5s (3s to 9s)``."""
    if not values:
        return ""
    middle = shown_number(statistics.median(values), is_time=is_time)
    low, high = shown_number(min(values), is_time=is_time), shown_number(max(values), is_time=is_time)
    return middle if low == high else f"{middle} ({low} to {high})"


def failure_lines(
    shrunk: ShrunkFailure, replay: Replay, settings: Sequence[str] = (), *, brief: bool = False
) -> Iterator[str]:
    """One failure: message, causes, shrunk parts and replay command."""
    failure = shrunk.failure
    reproduced = shrunk.result.failure or failure
    variant = f" with {', '.join(settings)}" if settings else ""
    yield f"seed {shrunk.job.seed}{variant} fails after {shown_seconds(round(failure.at, 1))}: {failure.summary}"
    if shrunk.runs:
        runs = counted(shrunk.runs, "run")
        if shrunk.parts:
            yield f"  {len(shrunk.parts)} of {shrunk.of} actions and faults reproduce the failure, found in {runs}:"
        else:
            yield f"  none of {shrunk.of} actions and faults is needed to reproduce the failure, found in {runs}"
        if not brief:
            yield from (f"    [{part.number}] {part.text}" for part in shrunk.parts)
        after = shown_seconds(round(reproduced.at, 1))
        if (after, reproduced.summary) != (shown_seconds(round(failure.at, 1)), failure.summary):
            yield f"  with {'these' if shrunk.parts else 'none'} it fails after {after}: {reproduced.summary}"
    if reproduced.why and not brief:
        yield from (f"  {line}" for line in reproduced.why.splitlines())
    if shrunk.result.log and not brief and failure.kind != "action":  # whose message is complete
        until = f"log until {shown_seconds(round(reproduced.at, 1))}"
        title = "end of the log" if shrunk.result.log_is_until_end else until
        omitted = " without the work of CronJobs" if shrunk.result.log_omits_scheduled else ""
        yield f"  the {title}{omitted}, in seconds since the creation of the cluster:"
        yield from (f"    {line}" for line in shrunk.result.log.splitlines()[-_LOG_LINES:])
    if not shrunk.runs and shrunk.of and not brief:
        yield f"  actions and faults ({shrunk.of}):"
        yield from (f"    [{part.number}] {part.text}" for part in shrunk.parts)
    parts = (
        [part.number for part in shrunk.parts] if len(shrunk.parts) < shrunk.of or shrunk.job.only is not None else None
    )
    yield f"  replay: {replay.command(shrunk.job.seed, parts, settings)}"


def _columns(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(max(map(len, table), default=0))]
    for row in table:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)).rstrip()


# Variants


def variant_lines(
    scenario: str, finished: Sequence[Finished], variants: Sequence[Variant], width: int
) -> Iterator[str]:
    """A table of variants and measures, in blocks that fit the width; measures without differences are listed once."""
    by_variant = [[result for job, result in finished if job.variant == number] for number in range(len(variants))]
    results = [result for variant_results in by_variant for result in variant_results]
    failed = sum(result.failure is not None for result in results)
    yield f"{scenario}: {counted(len(variants), 'variant')}, {counted(len(results), 'run')}, {failed:,} failed"
    names, left = _shown_names(list(measures_of(results)), results)
    same = [name for name in names if _is_constant(results, name)]
    columns: list[list[str]] = [["failed", *(_failed(variant_results) for variant_results in by_variant)]]
    for name in names:
        if name not in same:
            complete = [[result for result in variant_results if result.is_complete] for variant_results in by_variant]
            cells = [
                spread(_values(variant_results, name), is_time=is_time(name)) or "-" for variant_results in complete
            ]
            columns.append([name, *cells])
    yield from _blocks([["", *(variant.title for variant in variants)], *columns], width)
    if same:
        yield "the same in all runs:"
        yield from (
            f"  {line}"
            for line in _columns((name, spread(_values(results, name), is_time=is_time(name))) for name in same)
        )
    if left:
        yield f"{left} more workloads (-o json has all)"
    yield from _notice_lines(results)


def _failed(results: Sequence[Result]) -> str:
    failed = sum(result.failure is not None for result in results)
    return f"{failed} of {len(results)}"


def _values(results: Sequence[Result], name: str) -> list[float]:
    """Values of the finished runs, or of all runs if none finished."""
    complete = [result for result in results if result.is_complete] or results
    return [result.measures[name] for result in complete if name in result.measures]


def _is_constant(results: Sequence[Result], name: str) -> bool:
    complete = [result for result in results if result.is_complete]
    values = _values(complete, name)
    return bool(values) and len(values) == len(complete) and min(values) == max(values)


def _blocks(columns: list[list[str]], width: int) -> Iterator[str]:
    first, *others = columns
    while others:
        block, used = [first], max(map(len, first))
        while others and (len(block) == 1 or used + 2 + max(map(len, others[0])) <= width):
            used += 2 + max(map(len, others[0]))
            block.append(others.pop(0))
        yield ""
        yield from _columns(tuple(row) for row in zip(*block, strict=True))
    yield ""
