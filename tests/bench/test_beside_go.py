"""Shared parts of the benches beside kube-controller-manager: runs, phases, waiting."""

import os

import pytest
from bench.managers import comparisons, in_turn
from bench.rollouts import Phases, wait_until


def test_each_run_has_a_unique_name_and_its_manager(capsys: pytest.CaptureFixture[str]) -> None:
    observed: list[tuple[str, str]] = []

    def measure(side: str, name: str) -> dict[str, float]:
        observed.append((side, name))
        return {"up, wall s": float(len(observed))}

    runs = in_turn("small", ("pilothouse", "upstream", "upstream"), measure)
    assert observed == [("pilothouse", "bench-0"), ("upstream", "bench-1"), ("upstream", "bench-2")]
    assert runs == {"pilothouse": [{"up, wall s": 1.0}], "upstream": [{"up, wall s": 2.0}, {"up, wall s": 3.0}]}
    assert "small, upstream: up, wall s 3" in capsys.readouterr().err
    [figure] = comparisons("small", runs)
    assert (figure.name, figure.unit, figure.ratio) == ("small: up, wall", "s", 0.5)


def test_phases_measure_wall_time_cpu_per_pod_and_memory() -> None:
    phases = Phases(os.getpid(), 10)
    with phases.phase("creation", "created"):
        sum(range(10_000))
    phases.rest()
    phases.rest("after the roll")
    assert list(phases.figures) == [
        "creation, wall s",
        "CPU per pod created µs",
        "resident memory MB",
        "resident memory after the roll MB",
    ]
    assert all(value > 0 for value in phases.figures.values())


def test_wait_ends_when_complete_and_fails_with_the_missing_objects() -> None:
    remaining = [2, 1, 0]
    wait_until(lambda: remaining.pop(0), patience=60, look=0)
    assert remaining == []
    with pytest.raises(AssertionError, match="still missing: 1 pod"):
        wait_until(lambda: "1 pod", patience=0, look=0)
