"""The example with five bugs: explored, each is found, with three faults at most."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.sim import run_log
from pilothouse.testing import ExplorationFailed, explore
from pilothouse.testing.exploration import FAULTS, Failure
from pilothouse.testing.patterns import Pattern

SETTINGS: dict[str, Any] = {"nodes": 0, "controllers": ("garbagecollector",)}
IN_CIRCLES = "there is an endless loop; the last write is example.com/databases/default/db-"


@pytest.fixture
def example() -> Iterator[ModuleType]:
    path = Path(__file__).parents[2] / "examples" / "buggy_operator.py"
    spec = importlib.util.spec_from_file_location("buggy_operator", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["buggy_operator"] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules["buggy_operator"]


def all_five(failures: tuple[Failure, ...], example: ModuleType) -> None:
    result = {failure.check: failure for failure in failures}
    assert result.keys() == {check.__name__ for check in example.CHECKS} | {""}, "and no other one"
    assert IN_CIRCLES in result[""].reason
    assert all(1 <= len(failure.faults) <= 3 for failure in failures)


@cases(
    "check, pattern, reason",
    {
        "stale read": ("no_port_is_given_twice", "stale", "ports: ['5432', '5432']"),
        "double create": ("no_job_runs_twice", "stale", "jobs of ['db-0', 'db-0']"),
        "lost finalizer": ("the_registry_forgets", "intermediate", "nobody deletes ['registry-db-0']"),
        "missed event": ("schemas_are_migrated", "unobserved", "db-1 has schema 1, and its version is 2"),
        "status fight": ("", "intermediate", IN_CIRCLES),
    },
)
def test_each_bug_is_found(
    example: ModuleType, check: str, pattern: Pattern, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "MAX_WRITES_PER_INSTANT", 500)
    checks = [function for function in example.CHECKS if function.__name__ == check]
    with pytest.raises(ExplorationFailed) as failed:
        explore(example.buggy(), example.scenario, checks, faults=[pattern], same_end=False, **SETTINGS)
    (failure,) = failed.value.failures
    assert failure.check == check
    assert reason in failure.reason
    assert len(failure.faults) == 1


def test_a_bug_is_found_without_a_check(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is compared with that of a run without faults."""
    monkeypatch.setenv(FAULTS, "intermediate")
    with pytest.raises(ExplorationFailed) as failed:
        explore(example.buggy(), example.scenario, **SETTINGS)
    (failure,) = failed.value.failures
    assert (
        "the final state differs from that without faults:\n  configmaps default/registry-db-0: 1, and"
        in failure.reason
    )
    assert failure.command.startswith(f"{FAULTS}=intermediate PILOTHOUSE_SEEDS=0:")


@pytest.mark.slow
def test_all_are_found_systematically(example: ModuleType, soak: bool) -> None:
    if not soak:
        pytest.skip("most of a minute of a processor: --soak; the tests above find each bug by one pattern")
    with pytest.raises(ExplorationFailed, match=r"5 failures in \d+ runs") as failed:
        explore(example.buggy(), example.scenario, example.CHECKS, faults="sieve", keep_going=True, **SETTINGS)
    all_five(failed.value.failures, example)


@pytest.mark.slow
def test_all_are_found_at_random(example: ModuleType, soak: bool) -> None:
    if not soak:
        pytest.skip("most of a minute of a processor: --soak; the tests above find each bug by one pattern")
    with pytest.raises(ExplorationFailed, match=r"5 failures in \d+ runs") as failed:
        explore(example.buggy(), example.scenario, example.CHECKS, seeds=100, keep_going=True, **SETTINGS)
    all_five(failed.value.failures, example)
