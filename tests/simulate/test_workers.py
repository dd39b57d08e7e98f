"""Runs in several processes: a crash or timeout fails one run, and the order of processes does not matter."""

import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pilothouse.env.clock import stopwatch_seconds
from pilothouse.simulate.jobs import Job
from pilothouse.simulate.result import Failure, Result
from pilothouse.simulate.scenario import Scenario, ScenarioError, load
from pilothouse.simulate.search import Search
from pilothouse.simulate.workers import ProcessRunner
from pilothouse.testing.shrinking import FailedRun

PROGRAM = """
import os, signal, time
from pilothouse.api.core import CONFIG_MAPS
from pilothouse.operator import App, Context

app = App("misbehaving")

@app.controller(CONFIG_MAPS)
async def maps(found, ctx: Context) -> None:
    print("nobody mistakes this for the result")
    match found.metadata.name:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "hang":
            while True:
                time.sleep(0.1)
"""
HEAD = """apiVersion: simulate.pilothouse.io/v1alpha1
kind: Scenario
metadata: {name: test}
spec:
  cluster: {nodeGroups: []}
  manager: {controllers: [serviceaccount-controller]}
"""


def scenario(folder: Path, name: str) -> Scenario:
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    path = folder / f"{name}.yaml"
    kind = "Widget" if name == "rejected" else "ConfigMap"
    path.write_text(
        f"{HEAD}  programs: [{{operator: program.py}}]\n"
        f"  objects: [{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}}}}}]\n"
        "  until: {time: 10s}\n",
        encoding="utf-8",
    )
    return load(str(path))


class Silent:
    def finished(self, result: Result) -> None:
        pass

    def shrinking(self, failed: "FailedRun[int, Result]") -> None:
        pass


def runner(scenarios: Sequence[Scenario], processes: int = 2, timeout: float = 60.0) -> ProcessRunner:
    return ProcessRunner(scenarios, processes, timeout=timeout, tick=lambda _running: None)


def test_a_crashed_process_fails_only_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurried = itertools.count(step=20)
    results: dict[int, Failure | None] = {}

    def stopwatch() -> float:
        """Real time; twenty seconds pass at each reading once only the run is left that hangs."""
        return time.monotonic() + (next(hurried) if len(results) == 3 else 0)

    monkeypatch.setattr("pilothouse.simulate.workers.stopwatch_seconds", stopwatch)
    scenarios = [scenario(tmp_path, name) for name in ("kill", "fine", "exit", "hang")]
    workers = runner(scenarios, timeout=30.0)
    try:
        jobs = [Job(number=number, variant=number, seed=5) for number in range(4)]
        for job, result in workers.run(jobs):
            results[job.number] = result.failure
    finally:
        workers.close()
    assert results[1] is None
    killed, ended, hung = results[0], results[2], results[3]
    assert killed is not None and ended is not None and hung is not None
    assert killed.summary == (
        "crash process: the process of the run has terminated: SIGKILL; perhaps the machine has run out of memory"
    )
    assert ended.summary == "crash process: the process of the run has terminated: exit code 7"
    assert hung.summary == "timeout process: it took longer than 30s of real time (--timeout)"


def test_progress_reports_do_not_delay_the_timeout(tmp_path: Path) -> None:
    workers = runner([scenario(tmp_path, "fine")], timeout=1.0)
    ends: list[bool] = []
    reporting: Any = SimpleNamespace(
        job=Job(number=0, seed=5),
        connection=SimpleNamespace(recv=lambda: ("at", 3.0)),
        began=stopwatch_seconds() - 2.0,
        at=0.0,
        end=lambda kill: ends.append(kill),
    )
    workers._workers.append(reporting)
    finished = workers._step(reporting, is_ready=True)
    assert finished is not None and finished[1].failure is not None
    assert finished[1].failure.kind == "timeout"
    assert (finished[1].failure.at, ends) == (3.0, [True])


def test_two_runs_that_exceed_the_timeout_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one ends the search, which ends the second one before its own timeout is noticed."""
    late: list[float] = []

    def stopwatch() -> float:
        """Real time; a minute passes once both runs have begun."""
        if len(workers._workers) == 2 and all(worker.began for worker in workers._workers):
            late[:] = [60.0]
        return time.monotonic() + sum(late)

    workers = runner([scenario(tmp_path, "hang")], timeout=30.0)
    monkeypatch.setattr("pilothouse.simulate.workers.stopwatch_seconds", stopwatch)
    search = Search(workers, Silent(), keep_going=False, shrink_runs=0)
    try:
        search.run([Job(number=number, seed=number) for number in range(2)])
    finally:
        workers.close()
    [failure] = search.failures
    assert (failure.job.seed, [result.failure is not None for _job, result in search.finished]) == (0, [True])


def test_an_error_of_the_scenario_ends_the_search(tmp_path: Path) -> None:
    workers = runner([scenario(tmp_path, "rejected")])
    with pytest.raises(ScenarioError, match='no matches for kind "Widget"'):
        list(workers.run([Job(number=0, seed=0)]))
    workers.close()


def test_spawned_processes_import_nothing_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.simulate.workers.threading.active_count", lambda: 2)  # so that it does not fork
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for module in ("socket", "tempfile"):
        Path(f"{module}.py").write_text("raise SystemExit(3)")
    workers = runner([scenario(tmp_path, "fine")])
    [(_job, result)] = workers.run([Job(number=0, seed=0)])
    workers.close()
    assert result.failure is None
    assert "PYTHONSAFEPATH" not in os.environ


FAULTS = """
  objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]
  faults: {count: 3, within: 8s, resources: [configmaps]}
  timeline: [{at: 4s, patch: {object: configmap/c, merge: {data: {a: b}}}}]
  until: {time: 10s}
  expect: {atEnd: [{cel: "!('default/c' in objects.configmaps) || !has(objects.configmaps['default/c'].data)"}]}
"""


def test_results_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + FAULTS, encoding="utf-8")
    outcomes = []
    for processes in (1, 2):
        workers = runner([load(str(path))], processes)
        search = Search(workers, Silent(), keep_going=False, shrink_runs=20)
        search.run([Job(number=number, seed=seed) for number, seed in enumerate(range(10, 20))])
        workers.close()
        digests = [(job.seed, result.digest) for job, result in search.finished]
        outcomes.append((digests, [(failure.job.seed, failure.parts, failure.runs) for failure in search.failures]))
    assert outcomes[0] == outcomes[1]
    digests, [(seed, parts, _runs)] = outcomes[0]
    assert (seed, [part.number for part in parts]) == (10, [0])
    assert [count for count, _digest in digests] == [10]
