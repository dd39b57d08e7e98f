"""What the registry exposes, and what it leaves out."""

import pytest

from pilothouse.runtime.metrics import Registry


def test_disabled_metrics_are_counted_and_not_exposed() -> None:
    registry = Registry(disabled=("secret_total",))
    registry.counter("secret_total", "Not shown").labels().inc()
    registry.counter("open_total", "Shown").labels().inc()
    assert "secret_total" not in registry.exposition()
    assert "open_total 1" in registry.exposition()


def test_values_that_are_not_allowed_become_one() -> None:
    registry = Registry(allowed={"requests_total": {"code": {"200"}}})
    requests = registry.counter("requests_total", "Requests", ("code", "verb"))
    for code in ("200", "404", "500"):
        requests.labels(code, "get").inc()
    assert [line for line in registry.exposition().splitlines() if not line.startswith("#")] == [
        'requests_total{code="200",verb="get"} 1',
        'requests_total{code="unexpected",verb="get"} 2',
    ]


def test_unrestricted_labels_have_any_value() -> None:
    registry = Registry(allowed={"other_total": {"code": {"200"}}})
    registry.gauge("depth", "Depth", ("name",)).labels("anything").set(3)
    assert 'depth{name="anything"} 3' in registry.exposition()


def test_what_is_counted_anew_takes_the_place_of_what_was_shown() -> None:
    metrics = Registry()
    gauge = metrics.gauge("things", "Things", ("kind",))
    gauge.show({("a",): 1, ("b",): 2.0})
    gauge.show({("b",): 3.0, ("c",): 1.0})
    assert [metrics.value("things", kind) for kind in "abc"] == [0.0, 3.0, 1.0]
    assert 'kind="a"' not in metrics.exposition()


def test_labels_are_given_by_place_or_by_name() -> None:
    registry = Registry()
    requests = registry.counter("requests_total", "Requests", ("code", "verb"))
    requests.labels("200", "get").inc()
    requests.labels(verb="get", code=200).inc(2)
    assert registry.value("requests_total", "200", "get") == 3


@pytest.mark.parametrize(
    ("values", "by_name"),
    [(("200",), {}), ((), {"code": "200"}), (("200",), {"verb": "get"}), ((), {"cod": 1, "verb": 2})],
)
def test_wrong_labels_are_refused(values: tuple[str, ...], by_name: dict[str, str]) -> None:
    requests = Registry().counter("requests_total", "Requests", ("code", "verb"))
    with pytest.raises(ValueError, match=r"requests_total has labels \('code', 'verb'\), got"):
        requests.labels(*values, **by_name)


def test_without_labels_a_family_is_used_like_a_metric() -> None:
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
