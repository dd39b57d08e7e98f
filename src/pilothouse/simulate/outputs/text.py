"""The result of a search in lines for people."""

import statistics
from collections.abc import Iterable, Iterator, Sequence

from pilothouse.simulate.outputs.replay import Replay
from pilothouse.simulate.result import Result
from pilothouse.simulate.scenario.scalars import shown_seconds
from pilothouse.simulate.search import Finished, Found

_LOG_LINES = 20


def shown_measure(name: str, value: float) -> str:
    """A measure as people read it: ``3.55s``, ``1,672``."""
    if is_time(name):
        return shown_seconds(round(value, 2))
    return f"{value:,g}" if value < 1e6 else f"{value:,.0f}"


def is_time(name: str) -> bool:
    """Whether a measure is in seconds."""
    return name.startswith(("timeToReady", "time ")) or " timeToReady" in name


def run_lines(result: Result) -> Iterator[str]:
    """One run."""
    state = "failed" if result.failure is not None else "passed"
    rate = f"{result.seconds / result.cpu:,.0f}" if result.cpu else "?"
    yield (
        f"{result.scenario}, seed {result.seed}: {state}; {shown_seconds(round(result.seconds))} of virtual time "
        f"in {result.cpu:.1f}s ({rate} to one), {result.writes:,} writes"
    )
    yield from (f"  {line}" for line in _columns(_budget_rows([result])))
    yield from (f"  {line}" for line in _columns(_measure_rows([result])))


def search_lines(scenario: str, finished: Sequence[Finished], asked: int) -> Iterator[str]:
    """Many runs of one variant."""
    results = [result for _job, result in finished]
    failed = sum(result.failure is not None for result in results)
    more = f" of {asked:,}" if len(results) != asked else ""
    yield f"{scenario}: {len(results):,}{more} runs, {len(results) - failed:,} passed, {failed:,} failed"
    yield from (f"  {line}" for line in _columns(_budget_rows(results)))
    yield from (f"  {line}" for line in _columns(_measure_rows(results)))


def _budget_rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    for number, first in enumerate(results[0].budgets if results else ()):
        each = [result.budgets[number] for result in results if len(result.budgets) > number]
        exceeded = sum(not one.held for one in each)
        state = "kept" if not exceeded else "exceeded" + (f" in {exceeded} runs" if len(each) > 1 else "")
        yield (
            f"budget {first.name}",
            f"{spread([one.measured for one in each], first.name)} of {shown_measure(first.name, first.limit)}",
            state,
        )


def _measure_rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    names = dict.fromkeys(name for result in results for name in result.measures)
    for name in names:
        values = [result.measures[name] for result in results if name in result.measures]
        yield name, spread(values, name)


def spread(values: Sequence[float], name: str) -> str:
    """Median and range: ``3.5s (3s to 9s)``."""
    if not values:
        return ""
    middle = shown_measure(name, statistics.median(values))
    low, high = shown_measure(name, min(values)), shown_measure(name, max(values))
    return middle if low == high else f"{middle} ({low} to {high})"


def found_lines(found: Found, replay: Replay, settings: Sequence[str] = ()) -> Iterator[str]:
    """One failure: what, why, what is enough for it, and how to see it again."""
    failure = found.failure
    variant = f" with {', '.join(settings)}" if settings else ""
    yield f"seed {found.job.seed}{variant} fails after {shown_seconds(round(failure.at, 1))}: {failure.summary}"
    if failure.why:
        yield from (f"  {line}" for line in failure.why.splitlines())
    if found.result.log:
        yield "  the end of the log:"
        yield from (f"    {line}" for line in found.result.log.splitlines()[-_LOG_LINES:])
    if found.runs:
        yield f"  {len(found.parts)} of {found.of} actions and faults are enough, found in {found.runs} runs:"
    elif found.of:
        yield f"  actions and faults ({found.of}):"
    yield from (f"    [{part.number}] {part.text}" for part in found.parts)
    parts = [part.number for part in found.parts] if len(found.parts) < found.of or found.job.only is not None else None
    yield f"  replay: {replay.command(found.job.seed, parts, settings)}"


def _columns(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(max(map(len, table), default=0))]
    for row in table:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)).rstrip()
