"""Which of the runs of a search a report is about: a failure, the only run, or all of them compared."""

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
    """One run is shown."""

    recording: Recording
    result: Result
    replay: str


class All(msgspec.Struct, frozen=True):
    """Runs are compared."""

    recordings: list[Recording]
    runs: int
    """With those that were not recorded."""
    replay: str
    """Makes a report of the worst run."""


def chosen(searched: Search, variants: Sequence[Variant], replay: Replay) -> One | All:
    """The first failure, with the fewest actions and faults, unless variants are compared; the only run; or all."""
    recorded = [(job, result) for job, result in searched.finished if result.recording is not None]
    if len(variants) == 1:
        for found in searched.found:
            if found.result.recording is not None:
                parts = [part.number for part in found.parts]
                command = replay.command(found.job.seed, parts if found.runs else None)
                return One(found.result.recording, found.result, command)
        if len(recorded) == 1:
            job, result = recorded[0]
            assert result.recording is not None, "only those are here"
            return One(result.recording, result, replay.command(job.seed, None))
    named = [
        msgspec.structs.replace(result.recording, variant=variants[job.variant].title)
        for job, result in recorded
        if result.recording is not None
    ]
    worst = recorded[comparison.worst(named)][0] if named else None
    command = "" if worst is None else replay.command(worst.seed, None, variants[worst.variant].settings)
    return All(named, len(searched.finished), f"{command} --report report.html" if command else "")


def page(shown: One | All) -> str:
    """As HTML."""
    if isinstance(shown, One):
        return report.html(shown.recording, budgets=shown.result.budgets, replay=shown.replay)
    return report.comparison_html(shown.recordings, runs=shown.runs, replay=shown.replay)


def plot(shown: One | All) -> str:
    """As SVG."""
    return report.svg(shown.recording) if isinstance(shown, One) else report.comparison_svg(shown.recordings)
