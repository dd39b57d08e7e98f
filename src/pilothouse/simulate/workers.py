"""Executes runs in several processes. If a process crashes or times out, only its run fails.

Each process executes one run at a time and reports its progress, so a crash is attributed to its seed. On Linux
processes are forked where that is safe, which saves a second of imports each.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from pilothouse.env.clock import stopwatch_seconds
from pilothouse.simulate.jobs import Job, perform
from pilothouse.simulate.result import Failure, Result
from pilothouse.simulate.run import Running, parts_of
from pilothouse.simulate.scenario import Scenario, ScenarioError
from pilothouse.simulate.scenario.scalars import shown_seconds

_REPORT_SECONDS = 0.5
_END_SECONDS = 5.0
_SAFE_PATH = "PYTHONSAFEPATH"
Tick = Callable[[Sequence[float]], None]
"""Called twice a second with the virtual time of each current run."""


class ProcessRunner:
    """Executes runs in up to ``processes`` processes, each within ``timeout`` seconds of real time (0: no limit)."""

    def __init__(self, scenarios: Sequence[Scenario], processes: int, *, timeout: float, tick: Tick) -> None:
        self._scenarios = scenarios
        self._processes = processes
        self._timeout = timeout
        self._tick = tick
        self._workers: list[_Worker] = []

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """As ``Runner.run``."""
        waiting = iter(jobs)
        ticked = stopwatch_seconds()
        while True:
            self._assign_jobs(waiting)
            busy = [worker for worker in self._workers if worker.job is not None]
            if not busy:
                return
            ready = wait([worker.connection for worker in busy], _REPORT_SECONDS)
            for worker in busy:
                finished = self._step(worker, is_ready=worker.connection in ready)
                if finished is not None:
                    yield finished
            if stopwatch_seconds() - ticked >= _REPORT_SECONDS:
                ticked = stopwatch_seconds()
                self._tick([worker.at for worker in self._workers if worker.job is not None])

    def abandon(self, after: int) -> None:
        """As ``Runner.abandon``."""
        for worker in list(self._workers):
            if worker.job is not None and worker.job.number > after:
                self._end(worker)

    def close(self) -> None:
        """As ``Runner.close``."""
        for worker in list(self._workers):
            self._end(worker)

    def _assign_jobs(self, waiting: Iterator[Job]) -> None:
        while True:
            worker = next((candidate for candidate in self._workers if candidate.job is None), None)
            if worker is None and len(self._workers) >= self._processes:
                return
            job = next(waiting, None)
            if job is None:
                return
            if worker is None:
                worker = _Worker(self._scenarios)
                self._workers.append(worker)
            worker.begin(job)

    def _step(self, worker: "_Worker", *, is_ready: bool) -> tuple[Job, Result] | None:
        job = worker.job
        if job is None:
            return None  # it was abandoned
        if is_ready:
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                code = self._end(worker, kill=False)
                return job, self._lost(
                    job, worker, "crash", f"the process of the run has terminated: {_shown_code(code)}"
                )
            match message:
                case ("begins", _):
                    # The time of imports is not part of the run.
                    worker.began = stopwatch_seconds()
                case ("at", at):
                    worker.at = at
                case ("result", result):
                    worker.job = None
                    return job, result
                case ("scenario", text):
                    raise ScenarioError(text)
                case (_, text):
                    return job, self._lost(self._free(worker), worker, "error", text)
        # Also after a message: a single run may report its progress each time before the wait for messages ends.
        if self._timeout and worker.began and stopwatch_seconds() - worker.began > self._timeout:
            self._end(worker)
            limit = f"it took longer than {shown_seconds(self._timeout)} of real time (--timeout)"
            return job, self._lost(job, worker, "timeout", limit)
        return None

    @staticmethod
    def _free(worker: "_Worker") -> Job:
        job, worker.job = worker.job, None
        assert job is not None, "it has just failed"
        return job

    def _lost(self, job: Job, worker: "_Worker", kind: Any, message: str) -> Result:
        scenario = self._scenarios[job.variant]
        parts = parts_of(scenario, job.seed)
        return Result(
            scenario=scenario.name,
            seed=job.seed,
            failure=Failure(kind=kind, name="process", message=message, at=worker.at),
            writes=0,
            digest="",
            seconds=worker.at,
            cpu=stopwatch_seconds() - worker.began if worker.began else 0.0,
            parts=tuple(part for part in parts if job.only is None or part.number in job.only),
        )

    def _end(self, worker: "_Worker", *, kill: bool = True) -> int | None:
        self._workers.remove(worker)
        worker.job = None  # of a run that is abandoned nothing is read any more
        return worker.end(kill=kill)


class _Worker:
    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        forks = sys.platform == "linux" and threading.active_count() == 1
        context: Any = multiprocessing.get_context("fork" if forks else "spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.connection, forks, scenarios), daemon=True)
        with _uninterrupted(), _safe_path():
            self._process.start()
        other.close()
        self.job: Job | None = None
        self.began = self.at = 0.0
        """Real time at the start of the run, 0 before that; virtual time of the run."""

    def begin(self, job: Job) -> None:
        self.job, self.at, self.began = job, 0.0, 0.0
        with contextlib.suppress(OSError):  # it crashed; the next read reports that
            self.connection.send(job)

    def end(self, *, kill: bool) -> int | None:
        if kill:
            self._process.kill()
        self._process.join(_END_SECONDS)
        code: int | None = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
        self.connection.close()
        return code


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Processes started within the block import nothing from the current directory before they get the path of this
    one, as with ``python -P``."""
    old_value = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if old_value is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = old_value


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore SIGINT in processes started within the block. A terminal sends Ctrl-C to all processes; the command stops
    them itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old_handler)


def _shown_code(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}" if code is not None else "it does not answer"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{name}; perhaps the machine has run out of memory" if name == "SIGKILL" else name


# The worker process


def _serve(connection: Connection, others: Connection, forked: bool, scenarios: Sequence[Scenario]) -> None:
    if forked:
        others.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Standard output is reserved for the result of the command.
    os.dup2(2, 1)
    reports = _Reports(connection)
    threading.Thread(target=reports.send_all, name="reports", daemon=True).start()
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        reports.send(("begins", None))
        reports.send(_message(scenarios, job, reports.running))


def _message(scenarios: Sequence[Scenario], job: Job, running: Running) -> tuple[str, Any]:
    try:
        return "result", perform(scenarios, job, running)
    except ScenarioError as error:
        return "scenario", str(error)
    except Exception:  # noqa: BLE001  # it is reported, with its traceback
        return "error", traceback.format_exc()


class _Reports:
    """Sends the progress of the run from a thread, without delaying it."""

    def __init__(self, connection: Connection) -> None:
        self.running = Running()
        self._connection = connection
        self._lock = threading.Lock()
        self._rest = threading.Event()

    def send_all(self) -> None:
        while not self._rest.wait(_REPORT_SECONDS):
            if self.running.simulation is not None:
                self.send(("at", self.running.seconds))

    def send(self, message: tuple[str, Any]) -> None:
        try:
            with self._lock:
                self._connection.send(message)
        except OSError:
            os._exit(1)  # the command has exited
