"""What the registry exposes, and what it leaves out."""

from pilothouse.runtime.metrics import Registry


def test_disabled_metrics_are_counted_and_not_exposed() -> None:
    registry = Registry(disabled=("secret_total",))
    registry.counter("secret_total", "Not shown").labels_of().inc()
    registry.counter("open_total", "Shown").labels_of().inc()
    assert "secret_total" not in registry.exposition()
    assert "open_total 1" in registry.exposition()


def test_values_that_are_not_allowed_become_one() -> None:
    registry = Registry(allowed={"requests_total": {"code": {"200"}}})
    requests = registry.counter("requests_total", "Requests", ("code", "verb"))
    for code in ("200", "404", "500"):
        requests.labels_of(code, "get").inc()
    assert [line for line in registry.exposition().splitlines() if not line.startswith("#")] == [
        'requests_total{code="200",verb="get"} 1',
        'requests_total{code="unexpected",verb="get"} 2',
    ]


def test_unrestricted_labels_have_any_value() -> None:
    registry = Registry(allowed={"other_total": {"code": {"200"}}})
    registry.gauge("depth", "Depth", ("name",)).labels_of("anything").set(3)
    assert 'depth{name="anything"} 3' in registry.exposition()


def test_what_is_counted_anew_takes_the_place_of_what_was_shown() -> None:
    metrics = Registry()
    gauge = metrics.gauge("things", "Things", ("kind",))
    gauge.show({("a",): 1, ("b",): 2.0})
    gauge.show({("b",): 3.0, ("c",): 1.0})
    assert [metrics.value("things", kind) for kind in "abc"] == [0.0, 3.0, 1.0]
    assert 'kind="a"' not in metrics.exposition()
