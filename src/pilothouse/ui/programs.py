"""The state of the plane's programs: the controllers' work queues each second, the scheduler's decisions, recent
errors.

The numbers are those of the manager's metrics. The encoded samples of the last ten minutes are kept for views of past
states. While no page is open, a sample is taken every ten seconds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

import msgspec

from pilothouse.env import Env
from pilothouse.machinery.metrics import Gauge, Histogram, Registry
from pilothouse.ui.live import Live, frame

SAMPLE_SECONDS, IDLE_SAMPLE_SECONDS = 1.0, 10.0
MAX_SAMPLES = 600
MAX_ERRORS = 200
_LONGEST = 500
COLUMNS = (
    "queue",
    "controller",
    "depth",
    "adds",
    "addsPerSecond",
    "syncs",
    "syncsPerSecond",
    "syncSeconds",
    "waitSeconds",
    "longestSeconds",
    "retries",
    "failures",
)
DECISION_COLUMNS = ("number", "at", "pod", "node", "feasible", "message", "nominated", "victims")
ERROR_COLUMNS = ("number", "at", "level", "component", "message", "error", "about")


class SchedulingDecision(Protocol):
    """One decision of the scheduler (``scheduler.decisions``)."""

    number: int
    at: float
    pod: str
    node: str
    feasible_nodes: int
    message: str
    nominated_node: str
    victims: int


class SchedulingDecisions(Protocol):
    """The last decisions of the scheduler."""

    def since(self, number: int) -> list[Any]:
        """Decisions after that number, oldest first."""
        ...


class Queues(Protocol):
    """The parts of the controller manager that are read here."""

    @property
    def metrics(self) -> Registry:
        """Its metrics."""
        ...

    @property
    def controllers(self) -> Mapping[str, Any]:
        """Its controllers by name."""
        ...


class RecentErrors(logging.Handler):
    """Logging handler with the last warnings and errors of the programs of this process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0
        self._last: deque[tuple[Any, ...]] = deque(maxlen=MAX_ERRORS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, without the traceback."""
        self.count += 1
        values: dict[str, Any] = getattr(record, "values", {})
        message = next((str(values[name]) for name in ("key", "pod", "node", "controller") if name in values), "")
        error = values.get("err", values.get("reason", record.exc_info[1] if record.exc_info else ""))
        message = getattr(record.msg, "message", None) or record.getMessage()
        self._last.append(
            (
                self.count,
                record.created,
                "error" if record.levelno >= logging.ERROR else "warning",
                record.name.removeprefix("pilothouse."),
                str(message)[:_LONGEST],
                str(error)[:_LONGEST],
                message[:_LONGEST],
            )
        )

    def since(self, number: int) -> list[tuple[Any, ...]]:
        """Errors after that number, oldest first."""
        return [error for error in self._last if error[0] > number]


class _Sample(msgspec.Struct):
    at: float
    totals: dict[str, tuple[float, float, float]]
    """By queue: adds, syncs, seconds of syncs."""


class Programs:
    """Samples and decisions. ``run`` until cancelled."""

    def __init__(
        self,
        env: Env,
        live: Live,
        errors: RecentErrors,
        *,
        manager: Queues | None = None,
        decisions: SchedulingDecisions | None = None,
    ) -> None:
        self._env = env
        self._live = live
        self._manager = manager
        self._decisions = decisions
        self._errors = errors
        self._previous = _Sample(0.0, {})
        self._samples: deque[tuple[float, bytes]] = deque(maxlen=MAX_SAMPLES)
        self._names: dict[str, str] = {}
        self._sent_decision = self._sent_error = 0

    async def run(self) -> None:
        """Take samples, and publish them with new decisions and errors."""
        sampled = float("-inf")
        while True:
            now = self._env.monotonic()
            if self._live.readers or now - sampled >= IDLE_SAMPLE_SECONDS:
                sampled = now
                self._samples.append((self._env.now().timestamp(), self._sample()))
            if self._live.readers:
                self._live.publish(self._samples[-1][1])
                for frame_ in self._news():
                    self._live.publish(frame_)
            await asyncio.sleep(SAMPLE_SECONDS)

    def first_frames(self) -> Iterable[bytes]:
        """For a new reader: the newest sample, and all decisions and errors."""
        columns = {"controllers": COLUMNS, "decisions": DECISION_COLUMNS, "errors": ERROR_COLUMNS}
        yield frame({"programs": columns, "manager": self._manager is not None, "scheduler": self._has_scheduler})
        if self._samples:
            yield self._samples[-1][1]
        yield self._decision_frame(0, float("inf"))
        yield self._error_frame(0, float("inf"))

    def past(self, at: float) -> Iterable[bytes]:
        """The same for a past time."""
        columns = {"controllers": COLUMNS, "decisions": DECISION_COLUMNS, "errors": ERROR_COLUMNS}
        yield frame({"programs": columns, "manager": self._manager is not None, "scheduler": self._has_scheduler})
        newest = None
        for sampled_at, sample in self._samples:
            if sampled_at <= at:
                newest = sample
        yield newest or frame({"controllers": None})
        yield self._decision_frame(0, at)
        yield self._error_frame(0, at)

    @property
    def _has_scheduler(self) -> bool:
        return self._decisions is not None

    def _news(self) -> Iterable[bytes]:
        decisions = self._decisions.since(self._sent_decision) if self._decisions is not None else []
        if decisions:
            yield self._decision_frame(self._sent_decision, float("inf"))
            self._sent_decision = decisions[-1].number
        if self._errors.count > self._sent_error:
            yield self._error_frame(self._sent_error, float("inf"))
            self._sent_error = self._errors.count

    def _decision_frame(self, after: int, until: float) -> bytes:
        decisions: list[SchedulingDecision] = [] if self._decisions is None else self._decisions.since(after)
        rows = [
            (decision.number, decision.at, decision.pod, decision.node, decision.feasible_nodes,
             decision.message[:1000], decision.nominated_node, decision.victims)
            for decision in decisions
            if decision.at <= until
        ]  # fmt: skip
        return frame({"decisions": rows})

    def _error_frame(self, after: int, until: float) -> bytes:
        return frame({"errors": [error for error in self._errors.since(after) if error[1] <= until]})

    def _sample(self) -> bytes:
        """One row for each queue that has been used, and for each controller without one."""
        if self._manager is None:
            return frame({"controllers": []})
        metrics = self._manager.metrics
        metrics.refresh()
        now = self._env.monotonic()
        seconds = now - self._previous.at or 1.0
        depths, longest = (_gauges(metrics, f"workqueue_{name}") for name in (
            "depth", "longest_running_processor_seconds",
        ))  # fmt: skip
        adds, retries = (_gauges(metrics, f"workqueue_{name}_total") for name in ("adds", "retries"))
        work = metrics.children("workqueue_work_duration_seconds")
        waits = metrics.children("workqueue_queue_duration_seconds")
        failures = self._failures(metrics)
        self._map_names()
        rows, totals = [], {}
        for (queue,), depth in sorted(depths.items()):
            syncs, sync_sum = _sums(work.get((queue,)))
            waited, wait_sum = _sums(waits.get((queue,)))
            added = adds.get((queue,), 0.0)
            old = self._previous.totals.get(queue, (added, syncs, sync_sum))
            totals[queue] = (added, syncs, sync_sum)
            recent = syncs - old[1]
            controller = self._names.get(queue, "")
            rows.append(
                (
                    queue,
                    controller,
                    int(depth),
                    int(added),
                    round((added - old[0]) / seconds, 2),
                    int(syncs),
                    round(recent / seconds, 2),
                    # The mean of the last second, or of all syncs if there was none.
                    round((sync_sum - old[2]) / recent if recent else sync_sum / syncs if syncs else 0.0, 6),
                    round(wait_sum / waited if waited else 0.0, 6),
                    round(longest.get((queue,), 0.0), 3),
                    int(retries.get((queue,), 0.0)),
                    int(failures.pop(controller, 0.0)) if controller else 0,
                )
            )
        rows += [("", name, 0, 0, 0, 0, 0, 0, 0, 0, 0, int(count)) for name, count in sorted(failures.items())]
        self._previous = _Sample(now, totals)
        return frame({"controllers": rows})

    def _failures(self, metrics: Registry) -> dict[str, float]:
        """The number of failed reconciles by controller."""
        metric: dict[str, float] = {}
        for (controller, _outcome), count in _gauges(metrics, "pilothouse_reconcile_errors_total").items():
            metric[controller] = metric.get(controller, 0.0) + count
        return metric

    def _map_names(self) -> None:
        """Map queues to controllers; they are created each time the manager becomes the leader."""
        assert self._manager is not None, "without a manager nothing is sampled"
        for name, controller in self._manager.controllers.items():
            for pool in getattr(controller, "pools", ()):
                self._names[pool.queue.name] = name


def _gauges(metrics: Registry, name: str) -> dict[tuple[str, ...], float]:
    return {labels: cast("Gauge", metric).value for labels, metric in metrics.children(name).items()}


def _sums(series: object) -> tuple[float, float]:
    """Count and sum of a histogram."""
    return (float(series.count), series.sum) if isinstance(series, Histogram) else (0.0, 0.0)
