"""Selects the runs of a report: a failure, the only run, or all runs for a comparison."""

from collections.abc import Sequence

import msgspec

from pilothouse.simulate import report
from pilothouse.simulate.outputs.replay import Replay
from pilothouse.simulate.recording import Recording
from pilothouse.simulate.report import comparison
from pilothouse.simulate.result import Result
from pilothouse.simulate.search import Search
from pilothouse.simulate.variants import Variant


class One(msgspec.Struct, frozen=True):
    """A report of one run."""

    recording: Recording
    result: Result
    replay: str


class All(msgspec.Struct, frozen=True):
    """A comparison of runs."""

    recordings: list[Recording]
    runs: int
    """The number of runs, including those that were not recorded."""
    worst: Result | None
    replay: str
    """The command for a report of the worst run."""


def chosen(searched: Search, variants: Sequence[Variant], replay: Replay) -> One | All:
    """Select the first shrunk failure, unless variants are compared; else the only run; else all."""
    recorded = [(job, result) for job, result in searched.finished if result.recording is not None]
    if len(variants) == 1:
        for failure in searched.failures:
            if failure.result.recording is not None:
                parts = [part.number for part in failure.parts]
                command = replay.command(failure.job.seed, parts if failure.runs else None)
                return One(failure.result.recording, failure.result, command)
        if len(recorded) == 1:
            job, result = recorded[0]
            assert result.recording is not None, "recorded has recordings only"
            return One(result.recording, result, replay.command(job.seed, None))
    named = [
        msgspec.structs.replace(result.recording, variant=variants[job.variant].title)
        for job, result in recorded
        if result.recording is not None
    ]
    if not named:
        return All(named, len(searched.finished), None, "")
    worst, result = recorded[comparison.worst(named)]
    command = replay.command(worst.seed, None, variants[worst.variant].settings)
    return All(named, len(searched.finished), result, f"{command} --report report.html")


def page(html_report: One | All) -> str:
    """Render as HTML."""
    if isinstance(html_report, One):
        result = html_report.result
        return report.html(
            html_report.recording, budgets=result.budgets, expectations=result.expectations, replay=html_report.replay
        )
    return report.comparison_html(
        html_report.recordings,
        runs=html_report.runs,
        replay=html_report.replay,
        budgets=html_report.worst.budgets if html_report.worst is not None else (),
        expectations=html_report.worst.expectations if html_report.worst is not None else (),
    )


def plot(html_report: One | All) -> str:
    """Render as SVG."""
    return (
        report.svg(html_report.recording)
        if isinstance(html_report, One)
        else report.comparison_svg(html_report.recordings)
    )
