"""Runs compared: medians and ranges over the seeds of each variant."""

import xml.etree.ElementTree as ElementTree

import msgspec
from tests.simulate.report.recordings import HOSTILE, huge, small, steps
from tests.simulate.report.test_files import page_of

from pilothouse.simulate.recording import Recording, Steps
from pilothouse.simulate.report import comparison_html, comparison_svg
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.comparison import spread, worst
from pilothouse.simulate.result import ExpectationResult


def test_the_worst_run_is_a_failure_or_has_the_most_unavailable_pods() -> None:
    assert RUNS[worst(RUNS)].seed == 2
    assert RUNS[worst(RUNS[:3])].seed == 2
    assert RUNS[worst([RUNS[0], RUNS[0]])].seed == 1


def _run(variant: str, seed: int, unavailable: int, *, failure: str = "") -> Recording:
    run = small("compared", "web")
    workload = msgspec.structs.replace(run.workloads[0], most_unavailable=unavailable)
    return msgspec.structs.replace(run, variant=variant, seed=seed, failure=failure, workloads=[workload])


RUNS = [
    _run("surge=0", 1, 2),
    _run("surge=0", 2, 6),
    _run("surge=0", 3, 3),
    _run("surge=5", 1, 1),
    _run("surge=5", 2, 9, failure="always few: it does not hold"),
    _run("surge=5", 3, 1, failure="budget writes: 7, at most 3 is allowed"),
]


def test_medians_and_ranges() -> None:
    text = " ".join(page_of(comparison_html(RUNS, runs=6)).texts)
    for expected in (
        "✗ 2 runs failed",
        "Variants 2 Runs compared 6 Seeds 1 to 3",
        "surge=0 0 of 3 3 2 to 6 15s 25s",
        "surge=5 2 of 3 1 15s 25s",  # a run that a failure has cut short does not count
        "surge=5 always few: it does not hold 1 2",
        "surge=5 budget writes: 7, at most 3 is allowed 1 3",
    ):
        assert expected in text, expected


def test_the_worst_run_has_a_complete_report() -> None:
    few = ExpectationResult(kind="always", name="few", outcome="violated", at=40.0, message="it does not hold")
    text = " ".join(page_of(comparison_html(RUNS, runs=6, replay="again", expectations=[few])).texts)
    _before, _title, worst_run = text.partition("The worst run: seed 2 with surge=5 always few: it does not hold")
    for expected in ("few always ✗ violated it does not hold 40s", "Pods of each workload", "Repeat this run:  again"):
        assert expected in worst_run, expected


def test_runs_that_were_not_recorded_are_counted() -> None:
    assert "All runs 1,000" in " ".join(page_of(comparison_html(RUNS[:3], runs=1000)).texts)


def test_a_number_over_several_runs() -> None:
    axis = Axis(0.0, 100.0)
    low, middle, high = spread([steps((0, 1)), steps((0, 2)), steps((0, 5))], [100.0, 40.0, 100.0], axis)

    def at(series: Steps, seconds: float) -> int:
        return series.last[round(seconds * 4)]

    assert [at(steps, 20) for steps in (low, middle, high)] == [1, 2, 5]
    assert [at(steps, 80) for steps in (low, middle, high)] == [1, 1, 5]  # the second one has ended


def test_files_are_safe_and_bounded() -> None:
    hostile = [small(HOSTILE, HOSTILE), small(HOSTILE, f"{HOSTILE}2")]
    ElementTree.fromstring(comparison_svg(hostile))  # our own
    page = page_of(comparison_html(hostile, runs=2))
    assert sum(name == "script" for name, _attributes in page.elements) == 1
    assert not {name for name, _attributes in page.elements} & {"img", "a", "iframe", "object"}
    largest = msgspec.structs.replace(huge(), workloads=huge().workloads[:3])
    runs = [msgspec.structs.replace(largest, variant=f"{'<' * 1000}{number}") for number in range(100)]
    assert len(comparison_svg(runs)) < 4_000_000
    assert len(comparison_html(runs, runs=100)) < 8_000_000
