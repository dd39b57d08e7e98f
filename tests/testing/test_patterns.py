"""Systematic faults: the points of a run, and that a correct operator converges under all of them."""

import re
from typing import Any, Literal

import pytest
from tests.tables import cases
from tests.testing.test_exploration import ALONE, correct, three_things

from pilothouse.api.wire import Request
from pilothouse.client.interceptor import Sent
from pilothouse.client.request_info import describe
from pilothouse.sim.faults import Crash, DownDuringChange, FailWrite, MissedChange, StaleCache, StaleRestart
from pilothouse.sim.run_log import Origin
from pilothouse.sim.simulation import SimulationOptions
from pilothouse.storage import Change
from pilothouse.testing import explore
from pilothouse.testing.exploration_runs import announcement, spread
from pilothouse.testing.patterns import (
    DOWN_SECONDS,
    PATTERNS,
    RESTART_SECONDS,
    STALE_SECONDS,
    Reference,
    patterns_of,
    perturbations,
)

MAP, POD = "/configmaps/default/a", "/pods/default/a"
CHANGES: tuple[tuple[Literal["ADDED", "MODIFIED", "DELETED"], str, bool], ...] = (
    ("ADDED", MAP, True),
    ("ADDED", POD, True),
    ("MODIFIED", MAP, False),
    ("ADDED", "/events/default/e", False),
    ("DELETED", MAP, True),
)
"""Type and key of each, and whether it was the user's."""


class _Process:
    name = "op#1"


def recorded() -> Reference:
    """A program that watches ConfigMaps; a user creates one, the program changes it, the user deletes it."""
    process: Any = _Process()
    reference = Reference()
    reference.started(process)
    get = Request("GET", "/api/v1/configmaps?watch=true")
    patch = Request("PATCH", "/api/v1/namespaces/default/configmaps/a")
    event = Request("POST", "/api/v1/namespaces/default/events")
    by_program, by_user = Origin("op#1", "", describe(patch)), Origin("admin", "", describe(patch))
    reference.observed(process, Sent(describe(get), get))
    reference.committed(Change(1, "/configmaps/default/before", "ADDED", b"{}", None), by_user)
    reference.begin()
    for revision, (type_, key, user) in enumerate(CHANGES, 2):
        reference.committed(Change(revision, key, type_, b"{}", None), by_user if user else by_program)
    reference.observed(process, Sent(describe(patch), patch))
    reference.observed(process, Sent(describe(event), event))
    return reference


@cases(
    "pattern, expected",
    {
        "intermediate: crash after each write": (
            "intermediate",
            (
                Crash(at=0.0, nth=1, when="after", down=DOWN_SECONDS, stale=False),
                FailWrite(at=0.0, failure="answer lost", nth=1),
            ),
        ),
        "stale: hidden writes and restarts with old state": (
            "stale",
            (
                StaleRestart(key=MAP, nth=1, seconds=RESTART_SECONDS),
                StaleCache(key=MAP, nth=2, seconds=STALE_SECONDS),
                StaleRestart(key=MAP, nth=2, seconds=RESTART_SECONDS),
                StaleRestart(key=MAP, nth=3, seconds=RESTART_SECONDS),
            ),
        ),
        "unobserved: hidden changes, or changes while the program is down": (
            "unobserved",
            (
                DownDuringChange(key=MAP, nth=1, down=DOWN_SECONDS),
                MissedChange(key=MAP, nth=2, until=3),
                DownDuringChange(key=MAP, nth=3, down=DOWN_SECONDS),
            ),
        ),
    },
)
def test_there_is_a_fault_for_each_point(pattern: Any, expected: tuple[Any, ...]) -> None:
    assert perturbations(recorded(), (pattern,)) == expected


@cases(
    "pattern, expected",
    {
        "sieve: all patterns": ("sieve", PATTERNS),
        "one pattern": ("stale", ("stale",)),
        "patterns in a string": ("unobserved,stale", ("stale", "unobserved")),
        "list of patterns": (["stale", "intermediate"], ("stale", "intermediate")),
    },
)
def test_patterns_have_names(pattern: Any, expected: tuple[str, ...]) -> None:
    assert patterns_of(pattern) == expected


@cases("pattern", {"unknown": ("sieves",), "empty list": ([],), "empty": ("",)})
def test_other_names_are_rejected(pattern: Any) -> None:
    with pytest.raises(ValueError, match=r"faults is a number, 'sieve', or some of stale, intermediate, unob"):
        explore(correct(), three_things, faults=pattern, **ALONE)


def test_a_correct_operator_passes(capsys: pytest.CaptureFixture[str]) -> None:
    result = explore(correct(), three_things, faults="sieve", **ALONE)
    assert list(result.digests) == [0]
    assert result.faults == {
        "Crash": 3,
        "DownDuringChange": 3,
        "FailWrite": 3,
        "StaleCache": 3,
        "StaleRestart": 6,
    }
    assert result.runs == 1 + sum(result.faults.values())
    output = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"explore: seed 0: 18 runs, with a fault at every point, about \d+ s", output[0])
    assert output[1:] == [f"explore: seed 0: run {number} of 18" for number in range(1, 19)]


@cases(
    "pattern, text",
    {
        "short": ((18, 18, 0.4, ("*",), 1), "18 runs, with a fault at every point, about 1 s"),
        "long": (
            (315, 315, 420.0, ("*",), 1),
            "315 runs, with a fault at every point, about 7 min; cheaper with most_points=, controllers=, nodes=0",
        ),
        "few controllers": (
            (500, 900, 90.0, ("deployment-controller",), 0),
            "500 runs, with a fault at 500 of 900 points (most_points=), about 2 min; cheaper with most_points=",
        ),
    },
)
def test_what_is_said_before_it_starts(pattern: tuple[int, int, float, tuple[str, ...], int], text: str) -> None:
    runs, points, seconds, controllers, nodes = pattern
    assert announcement(runs, points, seconds, SimulationOptions(nodes=nodes, controllers=controllers)) == text


def test_points_can_be_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    result = explore(correct(), three_things, faults="sieve", most_points=2, **ALONE)
    assert result.runs == 1 + 2
    assert capsys.readouterr().err.startswith(
        "explore: seed 0: 2 runs, with a fault at 2 of 18 points (most_points=), about "
    )
    with pytest.raises(ValueError, match="most_points must be at least 1, got 0"):
        explore(correct(), three_things, faults="sieve", most_points=0, **ALONE)


@cases(
    "most, expected",
    {"all points": (9, [0, 1, 2, 3, 4, 5, 6]), "some points": (3, [0, 2, 4]), "one point": (1, [0])},
)
def test_points_are_spread_evenly(most: int, expected: list[int]) -> None:
    assert spread(range(7), most) == expected
    assert spread((), most) == []


def test_a_fault_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_SEEDS", "0:2")
    assert explore(correct(), three_things, faults="sieve", **ALONE).faults == {"StaleRestart": 1}
