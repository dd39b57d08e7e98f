"""Every known bug both ways: the guard holds; without it, the bug happens for the reason that is declared."""

import re
from pathlib import Path

import pytest

from pilothouse.simulate.bugs.catalogue import BUGS, UnknownBug, find, find_scenarios
from pilothouse.simulate.bugs.declaration import Bug, Scenario
from pilothouse.simulate.bugs.documentation import page
from pilothouse.simulate.bugs.running import NoUnguardedRun, run

PAIRS = [pytest.param(bug, declared, id=f"{bug.number} {declared.name}") for bug in BUGS for declared in bug.scenarios]
BOTH = [pytest.param(*pair.values, id=pair.id) for pair in PAIRS if pair.values[1].unguarded is not None]  # type: ignore[union-attr]
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("bug", "scenario"), PAIRS)
def test_the_guard_holds(bug: Bug, scenario: Scenario) -> None:
    outcome = run(bug, scenario)
    assert outcome.as_declared, f"{outcome.failure}\n" + "\n".join(outcome.log)
    assert not outcome.failure


@pytest.mark.parametrize(("bug", "scenario"), BOTH)
def test_without_the_guard_the_bug_happens(bug: Bug, scenario: Scenario) -> None:
    outcome = run(bug, scenario, unguarded=True)
    assert outcome.as_declared, f"expected {outcome.expected!r}, got {outcome.failure!r}\n" + "\n".join(outcome.log)
    assert outcome.log


def test_disabled_guards_are_restored() -> None:
    """A run with the guard has the same writes before and after a run without it."""
    bug = find("129795")
    scenario = bug.scenarios[1]
    first = run(bug, scenario)
    assert run(bug, scenario, unguarded=True).failure
    assert run(bug, scenario) == first


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.number)
def test_every_bug_can_happen(bug: Bug) -> None:
    assert any(scenario.unguarded is not None for scenario in bug.scenarios)
    assert all(re.fullmatch(r"(kubernetes|[\w-]+/[\w-]+)#\d+", thread) for thread in bug.threads)
    assert all(scenario.description for scenario in bug.scenarios)
    assert bug.mechanism.endswith((".", ".)"))
    assert bug.protection.endswith((".", ")"))


def test_numbers_are_unique() -> None:
    threads = [thread for bug in BUGS for thread in bug.threads]
    assert len(set(threads)) == len(threads)


def test_bugs_are_found_by_any_of_their_threads() -> None:
    assert find("129795") is find("kubernetes#129795")
    assert find("26673") is find("29735")
    with pytest.raises(UnknownBug, match="no known bug is called '1'"):
        find("1")
    bug = find("129795")
    assert [scenario.name for scenario in find_scenarios(bug, "lag")] == ["lag of more than five minutes"]
    with pytest.raises(UnknownBug, match="kubernetes#129795 has no scenario 'nothing', but 'lag of"):
        find_scenarios(bug, "nothing")


def test_a_variation_has_no_run_without_the_guard() -> None:
    bug = find("43948")
    (scenario,) = find_scenarios(bug, "ten changes")
    with pytest.raises(NoUnguardedRun, match="'ten changes within a second', has no run without the guard"):
        run(bug, scenario, unguarded=True)


def test_the_page_is_up_to_date() -> None:
    """``python -m pilothouse.simulate.bugs.documentation > docs/bugs.md`` writes it."""
    assert (ROOT / "docs" / "bugs.md").read_text(encoding="utf-8") == page()
