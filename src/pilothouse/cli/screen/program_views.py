"""Views of controllers and scheduler: their metrics and events."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from pilothouse.cli.screen.metrics import MANAGER, SCHEDULER, Programs, Queue
from pilothouse.cli.screen.model import Model
from pilothouse.cli.screen.views import Cell, event_line, pod_line
from pilothouse.ui.rows import TABLES

_EVENT = next({name: index for index, name in enumerate(table.columns)} for table in TABLES if table.name == "events")
_SCHEDULER_REASONS = ("Scheduled", "FailedScheduling", "Preempted", "Nominated", "FailedBinding")
_MAX_LINES = 200
_SORTS: tuple[Callable[[Queue], tuple[float | str, ...]], ...] = (
    lambda queue: (queue.name,),
    lambda queue: (-queue.depth, queue.name),
    lambda queue: (-queue.syncs, queue.name),
    lambda queue: (-queue.sync_seconds, queue.name),
    lambda queue: (-queue.failures, queue.name),
)


class _Lines(ABC):
    """A short view that is rebuilt at each change."""

    title = ""
    columns: tuple[str, ...] = ()
    sorting: tuple[str, ...] = ()

    def __init__(self, model: Model, programs: Programs, now: Callable[[], float]) -> None:
        self._model = model
        self._programs = programs
        self._now = now
        self._lines: list[tuple[str, Sequence[Cell]]] = []
        self._words: list[str] = []
        self._namespace = ""
        self._sort, self._reverse = 0, False

    def __len__(self) -> int:
        return len(self._lines)

    def key(self, index: int) -> str:
        return self._lines[index][0]

    def index(self, key: str) -> int:
        return next((index for index, line in enumerate(self._lines) if key and line[0] == key), -1)

    def cells(self, index: int) -> Sequence[Cell]:
        return self._lines[index][1]

    def show(self, *, search: str, namespace: str, sort: int, reverse: bool) -> None:
        self._words, self._namespace = search.lower().split(), namespace
        self._sort, self._reverse = sort, reverse
        self.update({})

    def update(self, changes: Mapping[str, Iterable[str]]) -> None:
        self._lines = [line for line in self.lines() if self._matches(line[1])]

    @abstractmethod
    def lines(self) -> Iterable[tuple[str, Sequence[Cell]]]:
        """All lines with their keys."""

    def _matches(self, cells: Sequence[Cell]) -> bool:
        text = " ".join(cell.text for cell in cells).lower()
        return all(word in text for word in self._words)

    def _events(self, chosen: Callable[[str, str], bool]) -> list[tuple[str, Sequence[Cell]]]:
        rows = self._model.tables["events"]
        matching = [
            (row[_EVENT["at"]], key)
            for key, row in rows.items()
            if chosen(row[_EVENT["type"]], row[_EVENT["reason"]])
            and (not self._namespace or row[_EVENT["namespace"]] == self._namespace)
        ]
        newest = sorted(matching, reverse=True)[:_MAX_LINES]
        return [(key, event_line(rows[key], self._now())) for _at, key in newest]


class ControllersView(_Lines):
    """The work queues and the newest warnings."""

    title = "Controllers"
    columns = ("QUEUE", "DEPTH", "ADDS/S", "SYNCS/S", "SYNC TIME", "WAIT", "LONGEST", "RETRIES", "FAILED")
    sorting = ("name", "depth", "syncs", "sync time", "failures")

    def lines(self) -> Iterable[tuple[str, Sequence[Cell]]]:
        error = self._programs.errors.get(MANAGER)
        if error:
            yield "", (Cell(error, "pending"),)
        for queue in sorted(self._programs.queues, key=_SORTS[self._sort], reverse=self._reverse):
            yield f"queue {queue.name}", _queue_line(queue)
        warnings = self._events(lambda type_, _reason: type_ == "Warning")
        if warnings:
            yield "", (Cell(""),)
            yield "", (Cell("Last warnings, in events", "bold"),)
            yield from ((key, (Cell("  ".join(cell.text for cell in cells), "failing"),)) for key, cells in warnings)


def _queue_line(queue: Queue) -> Sequence[Cell]:
    return (
        Cell(queue.name),
        Cell(str(queue.depth), "pending" if queue.depth else ""),
        Cell(f"{queue.adds:.1f}"),
        Cell(f"{queue.syncs:.1f}"),
        Cell(duration(queue.sync_seconds)),
        Cell(duration(queue.wait_seconds)),
        Cell(duration(queue.longest_seconds)),
        Cell(str(queue.retries)),
        Cell(str(queue.failures), "failing" if queue.failures else ""),
    )


class SchedulerView(_Lines):
    """Pending pods with the reasons, the scheduler's counts, and its last decisions."""

    title = "Scheduler"
    columns = ("", "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "NODE", "WAITS FOR")

    def lines(self) -> Iterable[tuple[str, Sequence[Cell]]]:
        error = self._programs.errors.get(SCHEDULER)
        if error:
            yield "", (Cell(error, "pending"),)
        samples = self._programs.scheduler
        attempts = samples.get("scheduler_schedule_attempts_total", {})
        by_result: dict[str, float] = {}
        for labels, value in attempts.items():
            result = dict(labels).get("result", "")
            by_result[result] = by_result.get(result, 0.0) + value
        if by_result:
            results = ", ".join(f"{int(value)} {result}" for result, value in sorted(by_result.items()))
            yield "", (Cell(f"Attempts: {results}", "bold"),)
        pending = samples.get("scheduler_pending_pods", {})
        if pending:
            results = ", ".join(
                f"{int(value)} {dict(labels).get('queue', '')}" for labels, value in sorted(pending.items())
            )
            yield "", (Cell(f"Queues: {results}", "bold"),)
        pods = self._model.tables["pods"]
        waiting = sorted(
            key
            for key in self._model.pods_of_node.get("", ())
            if pods[key][4] == "pending" and (not self._namespace or key.startswith(f"/pods/{self._namespace}/"))
        )
        without = f"Pods without a node: {len(waiting)}" if waiting else "All pods have a node"
        yield "", (Cell(without, "bold"),)
        yield from ((key, pod_line(key, pods[key], self._now())) for key in waiting[:_MAX_LINES])
        if len(waiting) > _MAX_LINES:
            yield "", (Cell(f"and {len(waiting) - _MAX_LINES} more; see the pods", "dim"),)
        decisions = self._events(lambda _type, reason: reason in _SCHEDULER_REASONS)
        yield "", (Cell(""),)
        yield "", (Cell("Last decisions, in events", "bold"),)
        yield from ((key, (Cell("  ".join(cell.text for cell in cells)),)) for key, cells in decisions)


def duration(seconds: float) -> str:
    """``4.2ms``."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f}µs"
    return f"{seconds * 1000:.1f}ms" if seconds < 1 else f"{seconds:.1f}s"
