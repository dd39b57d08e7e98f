"""Work queues and scheduler, from the metrics of the programs in the API server's process.

Rates are computed from two samples. Other API servers ignore the parameter ``component``: they return their own
metrics, or an error.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import NamedTuple

from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.client.requests import with_query
from pilothouse.env import Env

MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
_SIZE = 32 * 1024 * 1024
_LINES_PER_TURN = 2000
_line = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_label = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_API_SERVER = "apiserver_request_total"

Labels = tuple[tuple[str, str], ...]
Samples = dict[str, dict[Labels, float]]


class Queue(NamedTuple):
    """A work queue, or a controller without one."""

    name: str
    depth: int
    adds: float
    """Per second."""
    syncs: float
    sync_seconds: float
    """Since the previous sample, or in total for the first one."""
    wait_seconds: float
    longest_seconds: float
    retries: int
    failures: int


async def parse_metrics(text: str, prefixes: tuple[str, ...]) -> Samples:
    """Parse Prometheus' text format; only metric families that start with one of ``prefixes``."""
    samples: Samples = {}
    for count, line in enumerate(text.splitlines(), 1):
        if line.startswith(prefixes) and "_bucket{" not in line:
            matched = _line.match(line)
            if matched:
                name, labels, value = matched.groups()
                try:
                    samples.setdefault(name, {})[tuple(_label.findall(labels or ""))] = float(value)
                except ValueError:
                    continue
        if count % _LINES_PER_TURN == 0:
            await asyncio.sleep(0)
    return samples


class Programs:
    """Samples the metrics of controllers and scheduler. ``errors`` has the errors by component."""

    def __init__(self, client: Client, env: Env) -> None:
        self._client = client
        self._env = env
        self._previous: tuple[float, Samples] = (0.0, {})
        self.queues: list[Queue] = []
        self.scheduler: Samples = {}
        self.errors: dict[str, str] = {}

    async def sample(self, component: str) -> None:
        """Take a sample."""
        self.errors.pop(component, None)
        prefixes = ("workqueue_", "pilothouse_reconcile_errors_total", "scheduler_", _API_SERVER)
        try:
            response = await self._client.request("GET", with_query("/metrics", component=component))
        except (ApiError, OSError) as error:
            self.errors[component] = f"the metrics of {component} can't be read: {error}"
            return
        if len(response.body) > _SIZE:
            self.errors[component] = f"the metrics of {component} are larger than {_SIZE // 1024**2} MiB"
            return
        samples = await parse_metrics(response.body.decode(errors="replace"), prefixes)
        if _API_SERVER in samples:
            self.errors[component] = f"this API server does not serve the metrics of {component}, which runs elsewhere"
            samples = {}
        if component == MANAGER:
            old, self._previous = self._previous, (self._env.monotonic(), samples)
            self.queues = list(_queues(old, self._previous))
        else:
            self.scheduler = samples


def _queues(previous: tuple[float, Samples], now: tuple[float, Samples]) -> Iterator[Queue]:
    samples, old = now[1], previous[1]
    seconds = max(now[0] - previous[0], 0.001)
    failures = _failures(samples)
    for labels, depth in sorted(samples.get("workqueue_depth", {}).items()):
        name = dict(labels).get("name", "")

        def of(family: str, source: Samples, labels: Labels = labels) -> float:
            return source.get(f"workqueue_{family}", {}).get(labels, 0.0)

        adds, syncs, spent = (
            of(family, samples) for family in ("adds_total", "work_duration_seconds_count", "work_duration_seconds_sum")
        )
        if not adds:
            continue
        is_known = labels in old.get("workqueue_depth", {})
        new_adds, new_syncs, new_spent = (
            (value - of(family, old)) if is_known else 0.0
            for family, value in (
                ("adds_total", adds),
                ("work_duration_seconds_count", syncs),
                ("work_duration_seconds_sum", spent),
            )
        )
        waited = of("queue_duration_seconds_count", samples)
        yield Queue(
            name,
            int(depth),
            max(new_adds, 0.0) / seconds,
            max(new_syncs, 0.0) / seconds,
            new_spent / new_syncs if new_syncs > 0 else spent / syncs if syncs else 0.0,
            of("queue_duration_seconds_sum", samples) / waited if waited else 0.0,
            of("longest_running_processor_seconds", samples),
            int(of("retries_total", samples)),
            int(failures.pop(name, failures.pop(f"{name}-controller", 0.0))),
        )
    for name, count in sorted(failures.items()):
        yield Queue(name, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, int(count))


def _failures(samples: Samples) -> dict[str, float]:
    failures: dict[str, float] = {}
    for labels, count in samples.get("pilothouse_reconcile_errors_total", {}).items():
        name = dict(labels).get("controller", "")
        failures[name] = failures.get(name, 0.0) + count
    return failures
