"""The parts of ``pilothouse top`` that need no screen."""

import random

import msgspec
from tests.tables import cases

from pilothouse.cli.screen.metrics import Queue, _queues, parse_metrics
from pilothouse.cli.screen.model import Model
from pilothouse.cli.screen.ordered import Ordered
from pilothouse.cli.screen.views import PodsView, age, bar
from pilothouse.client import Client
from pilothouse.env import Env
from pilothouse.testing import async_plane
from pilothouse.ui.rows import MAX_EVENTS


def test_incremental_order_equals_a_full_sort() -> None:
    rng = random.Random(1)
    rows: dict[str, int] = {}

    def place(key: str) -> tuple[int] | None:
        return (rows[key],) if rows.get(key, 9) < 9 else None

    kept = Ordered(place)
    for _ in range(500):
        keys = [f"k{rng.randrange(30)}" for _ in range(rng.randrange(5))]
        for key in keys:
            if rng.random() < 0.3:
                rows.pop(key, None)
            else:
                rows[key] = rng.randrange(10)
        kept.update(keys)
        fresh = Ordered(place)
        fresh.rebuild(rows)
        order = [fresh[index] for index in range(len(fresh))]
        assert [kept[index] for index in range(len(kept))] == order
        assert [kept.index(key) for key in order] == list(range(len(order)))
    assert kept.index("none") == -1


METRICS = """# HELP workqueue_depth x
# TYPE workqueue_depth gauge
workqueue_depth{name="deployment"} 3
workqueue_depth{name="unused"} 0
workqueue_adds_total{name="deployment"} %d
workqueue_retries_total{name="deployment"} 4
workqueue_work_duration_seconds_bucket{name="deployment",le="1"} 10
workqueue_work_duration_seconds_sum{name="deployment"} %f
workqueue_work_duration_seconds_count{name="deployment"} %d
workqueue_queue_duration_seconds_sum{name="deployment"} 1
workqueue_queue_duration_seconds_count{name="deployment"} 10
workqueue_longest_running_processor_seconds{name="deployment"} 0.5
pilothouse_reconcile_errors_total{controller="deployment-controller",outcome="retry"} 2
pilothouse_reconcile_errors_total{controller="token\\"s",outcome="retry"} 1
workqueue_broken{name="a"
scheduler_nan{queue="a"} NaNs
"""


async def test_two_samples_of_metrics_give_rates() -> None:
    first = await parse_metrics(METRICS % (10, 1.0, 10), ("workqueue_", "pilothouse_", "scheduler_"))
    second = await parse_metrics(METRICS % (30, 2.0, 20), ("workqueue_", "pilothouse_", "scheduler_"))
    assert next(iter(_queues((0.0, {}), (5.0, first)))) == Queue("deployment", 3, 0.0, 0.0, 0.1, 0.1, 0.5, 4, 2)
    queue, other = _queues((5.0, first), (10.0, second))
    assert queue == Queue("deployment", 3, 4.0, 2.0, 0.1, 0.1, 0.5, 4, 2)
    assert (other.name, other.failures) == ('token\\"s', 1)


async def test_only_the_newest_events_are_kept(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        model = Model(cluster.client, env, lambda: None)
        for number in range(MAX_EVENTS * 3):
            at = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            document = {"metadata": {"name": f"e{number}"}, "lastTimestamp": at, "involvedObject": {"kind": "Pod"}}
            model.put(f"/events/default/e{number}", msgspec.json.encode(document))
        rows = model.tables["events"]
        assert len(rows) <= MAX_EVENTS * 1.2
        assert set(rows) >= {f"/events/default/e{MAX_EVENTS * 3 - 1 - item}" for item in range(MAX_EVENTS)}


async def test_undecodable_object_does_not_affect_others(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        client: Client = cluster.client
        model = Model(client, env, lambda: None)
        view = PodsView(model, lambda: 0.0)
        model.put("/pods/a/good", b'{"metadata":{"name":"good"}}')
        model.put("/pods/a/bad", b'{"metadata":{"name":"bad"},"spec":7}')
        view.show(search="", namespace="", sort=0, reverse=False)
        assert [view.key(index) for index in range(len(view))] == ["/pods/a/good"]
        assert list(model.errors()) == ["1 objects can't be read, such as /pods/a/bad"]
        model.drop("/pods/a/good")
        assert model.pods_by_state == {"pending": 0}
        assert list(view.cells(0)) == []
        view.update(model.take_changes())
        assert len(view) == 0


@cases(
    "seconds, text",
    {
        text: (seconds, text)
        for seconds, text in (
        (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (121, "2m1s"), (600, "10m"), (3600 * 3, "3h"),
        (3600 * 3 + 60, "3h1m"), (3600 * 9, "9h"), (86400 * 2, "2d"), (86400 * 3 + 3600, "3d1h"), (86400 * 100, "100d"),
        (86400 * 800, "2y70d"), (86400 * 365 * 9, "9y"),
        )
    },
)  # fmt: skip
def test_ages_are_written_as_kubectl_does(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_a_bar_is_full_only_if_nothing_is_missing() -> None:
    assert [bar(0, 3), bar(1, 3), bar(999, 1000), bar(3, 3), bar(0, 0)] == [
        "░░░░░░░░░░",
        "███░░░░░░░",
        "█████████░",
        "██████████",
        "░░░░░░░░░░",
    ]
