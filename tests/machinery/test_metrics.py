"""The metrics registry and its exposition."""

import asyncio
import re
from typing import Any

import pytest

from pilothouse.env import Env
from pilothouse.machinery.metrics import Registry


def test_disabled_metrics_are_counted_and_not_exposed() -> None:
    registry = Registry(disabled=("secret_total",))
    registry.counter("secret_total", "Not shown").labels().inc()
    registry.counter("open_total", "Shown").labels().inc()
    assert "secret_total" not in registry.exposition()
    assert "open_total 1" in registry.exposition()


def test_disallowed_label_values_become_unexpected() -> None:
    registry = Registry(allowed={"requests_total": {"code": {"200"}}})
    requests = registry.counter("requests_total", "Requests", ("code", "verb"))
    for code in ("200", "404", "500"):
        requests.labels(code, "get").inc()
    assert [line for line in registry.exposition().splitlines() if not line.startswith("#")] == [
        'requests_total{code="200",verb="get"} 1',
        'requests_total{code="unexpected",verb="get"} 2',
    ]


def test_unrestricted_labels_accept_any_value() -> None:
    registry = Registry(allowed={"other_total": {"code": {"200"}}})
    registry.gauge("depth", "Depth", ("name",)).labels("anything").set(3)
    assert 'depth{name="anything"} 3' in registry.exposition()


def test_collected_values_replace_previous_ones() -> None:
    metrics = Registry()
    gauge = metrics.gauge("things", "Things", ("kind",))
    gauge.show({("a",): 1, ("b",): 2.0})
    gauge.show({("b",): 3.0, ("c",): 1.0})
    assert [metrics.value("things", kind) for kind in "abc"] == [0.0, 3.0, 1.0]
    assert 'kind="a"' not in metrics.exposition()


def test_labels_by_position_or_by_name() -> None:
    registry = Registry()
    requests = registry.counter("requests_total", "Requests", ("code", "verb"))
    requests.labels("200", "get").inc()
    requests.labels(verb="get", code=200).inc(2)
    assert registry.value("requests_total", "200", "get") == 3


@pytest.mark.parametrize(
    ("values", "by_name"),
    [(("200",), {}), ((), {"code": "200"}), (("200",), {"verb": "get"}), ((), {"cod": 1, "verb": 2})],
)
def test_wrong_labels_are_rejected(values: tuple[str, ...], by_name: dict[str, str]) -> None:
    requests = Registry().counter("requests_total", "Requests", ("code", "verb"))
    with pytest.raises(ValueError, match=r"requests_total has labels \('code', 'verb'\), got"):
        requests.labels(*values, **by_name)


def test_family_without_labels_is_a_metric() -> None:
    registry = Registry()
    registry.counter("done_total", "Done").inc(2)
    depth = registry.gauge("depth", "Depth")
    depth.set(5)
    depth.inc()
    depth.dec(2)
    registry.histogram("seconds", "Seconds", buckets=(1.0,)).observe(0.5)
    assert [registry.value(name) for name in ("done_total", "depth", "seconds")] == [2, 4, 1]
    with pytest.raises(ValueError, match="has labels"):
        registry.counter("named_total", "Named", ("code",)).inc()


class Clumsy(Exception):
    pass


async def test_blocks_and_functions_are_measured(env: Env) -> None:
    registry = Registry()
    seconds = registry.histogram("call_seconds", "Seconds", ("to",), buckets=(1.0, 10.0, float("inf")))
    failures = registry.counter("failures_total", "Failures")
    running = registry.gauge("running", "Running")
    inside = []

    @seconds.labels(to="there").time()
    @failures.count_exceptions(Clumsy)
    @running.track_inprogress()
    async def call(after: float) -> float:
        inside.append(registry.value("running"))
        await asyncio.sleep(after)
        if after > 5:
            raise Clumsy
        return after

    *done, failed = await asyncio.gather(call(2), call(3), call(7), return_exceptions=True)
    assert done == [2, 3]
    assert isinstance(failed, Clumsy)
    with seconds.labels("there").time():
        await asyncio.sleep(0.5)
    assert inside == [1, 2, 3]
    assert (registry.value("running"), registry.value("failures_total")) == (0, 1)
    lines = registry.exposition().splitlines()
    assert [line for line in lines if line.startswith("call_seconds_")] == [
        'call_seconds_bucket{to="there",le="1"} 1',
        'call_seconds_bucket{to="there",le="10"} 4',
        'call_seconds_bucket{to="there",le="+Inf"} 4',
        'call_seconds_sum{to="there"} 12.5',
        'call_seconds_count{to="there"} 4',
    ]


def test_functions_without_a_loop_are_measured() -> None:
    registry = Registry()
    seconds = registry.histogram("call_seconds", "Seconds")

    @seconds.time()
    def call() -> str:
        return "done"

    assert call() == "done"
    assert registry.value("call_seconds") == 1


@pytest.mark.parametrize(
    ("name", "labels", "buckets"),
    [
        ("two words", (), ()),
        ("line\nbreak 1", (), ()),
        ("1st", (), ()),
        ("a", ("le gal",), ()),
        ("a", ("__name__",), ()),
        ("a", ("le",), (1.0,)),
        ("a", (), (2.0, 1.0)),
        ("a", "code", ()),
    ],
)
def test_invalid_prometheus_names_are_rejected(name: str, labels: Any, buckets: tuple[float, ...]) -> None:
    registry = Registry()
    with pytest.raises((ValueError, TypeError), match=re.escape(repr(name)) if name != "a" else "metric a"):
        registry.histogram(name, "?", labels, buckets) if buckets else registry.counter(name, "?", labels)
    assert registry.exposition() == ""


def test_non_finite_numbers_are_exposed() -> None:
    registry = Registry()
    gauge = registry.gauge("ratio", "Ratio", ("of",))
    for number, value in enumerate((float("nan"), float("inf"), float("-inf"), 0.5)):
        gauge.labels(number).set(value)
    gauge.remove(3)
    assert re.findall(r'of="(\d)"} (\S+)', registry.exposition()) == [("0", "NaN"), ("1", "+Inf"), ("2", "-Inf")]
    gauge.clear()
    assert registry.exposition() == ""


def test_counter_cannot_decrease() -> None:
    with pytest.raises(ValueError, match="only grows"):
        Registry().counter("a_total", "A").inc(-1)


def test_metrics_of_other_libraries_are_exposed() -> None:
    registry = Registry()
    registry.counter("ours_total", "Ours").inc()
    registry.include(lambda: b"# TYPE theirs gauge\ntheirs 1.0\n")
    assert registry.exposition().endswith("ours_total 1\n# TYPE theirs gauge\ntheirs 1.0\n")
