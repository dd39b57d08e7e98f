"""The indexed cache: sorted listings, indexes, and the metrics registry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.core import Pod, PodSpec
from pilothouse.api.meta import ObjectMeta
from pilothouse.runtime import Registry, object_key, split_key
from pilothouse.runtime.cache import Cache


def pod(namespace: str, name: str, node: str) -> Pod:
    return Pod(metadata=ObjectMeta(namespace=namespace, name=name, resource_version="1"), spec=PodSpec(node_name=node))


def by_node(obj: Pod) -> tuple[str, ...]:
    return (obj.spec.node_name,) if obj.spec.node_name else ()


def by_node_too(obj: Pod) -> tuple[str, ...]:
    return by_node(obj)


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "read", "replace"]),
        st.sampled_from(["ns-a", "ns-b", ""]),
        st.sampled_from(["p1", "p2", "p3", "p4"]),
        st.sampled_from(["", "n1", "n2"]),
    ),
    max_size=60,
)


@given(steps)
def test_listings_and_indexes_agree_with_a_dictionary(changes: list[tuple[str, str, str, str]]) -> None:
    cache: Cache[Pod] = Cache("pods")
    cache.add_index("node", by_node)
    model: dict[str, Pod] = {}
    for change, namespace, name, node in changes:
        obj = pod(namespace, name, node)
        key = object_key(obj.metadata)
        if change == "put":
            assert cache.put(key, obj) is model.get(key)
            model[key] = obj
        elif change == "drop":
            assert cache.drop(key) is model.pop(key, None)
        elif change == "replace":
            model = {k: v for k, v in model.items() if k > key} | {key: obj}
            cache.replace(model, {}, "5")
            assert cache.resource_version == "5"
        else:
            check(cache, model)
    check(cache, model)
    cache.add_index("node again", by_node_too)
    assert cache.index_values("node again") == cache.index_values("node")


def check(cache: Cache[Pod], model: dict[str, Pod]) -> None:
    ordered = [model[key] for key in sorted(model)]
    assert cache.list() == ordered
    assert cache.keys() == sorted(model)
    assert len(cache) == len(model)
    for namespace in ("ns-a", "ns-b", "ns-c"):
        assert cache.list(namespace) == [obj for obj in ordered if obj.metadata.namespace == namespace]
    for node in ("n1", "n2", "n3"):
        assert cache.by_index("node", node) == [obj for obj in ordered if obj.spec.node_name == node]
    assert cache.index_values("node") == sorted({obj.spec.node_name for obj in ordered} - {""})


def test_cached_listing_releases_deleted_objects() -> None:
    cache: Cache[Pod] = Cache("pods")
    cache.add_index("node", by_node)
    for name in ("a", "b"):
        cache.put(f"ns/{name}", pod("ns", name, "n1"))
    assert len(cache.list()) == len(cache.list("ns")) == len(cache.by_index("node", "n1")) == 2
    for number in range(10_000):
        cache.put(f"ns/p{number}", pod("ns", f"p{number}", "n1"))
        cache.drop(f"ns/p{number}")
    assert cache._namespaces is not None
    buckets = [cache._all, cache._namespaces["ns"], cache._indexes["node"].buckets["n1"]]
    assert all(len(bucket._order or ()) < 500 and len(bucket._removed) < 500 for bucket in buckets)
    assert [item.metadata.name for item in cache.list()] == ["a", "b"]


def test_object_keys_are_one_string_for_all_programs() -> None:
    assert object_key(ObjectMeta(namespace="ns", name="a")) is object_key(ObjectMeta(namespace="ns", name="a"))
    assert object_key(ObjectMeta(name="a")) == "a"


def test_listings_are_copies_and_index_names_are_unique() -> None:
    cache: Cache[Pod] = Cache("pods")
    cache.put("ns/a", pod("ns", "a", ""))
    cache.put("ns/b", pod("ns", "b", ""))
    cache.list().clear()
    cache.list("ns").clear()
    assert len(cache.list("ns")) == 2
    assert "ns/a" in cache
    cache.add_index("node", by_node)
    cache.add_index("node", by_node)
    with pytest.raises(ValueError, match="another index"):
        cache.add_index("node", by_node_too)
    with pytest.raises(KeyError):
        cache.by_index("no such index", "x")


def test_split_key_is_the_inverse_of_join() -> None:
    assert split_key("ns/name") == ("ns", "name")
    assert split_key("node-0") == ("", "node-0")
    assert object_key(ObjectMeta(name="node-0")) == "node-0"


def test_exposition_format() -> None:
    registry = Registry()
    requests = registry.counter("requests_total", 'Requests, with "quotes"\nand lines', ("code", "path"))
    requests.labels("200", 'a"b\\c\nd').inc()
    requests.labels("200", 'a"b\\c\nd').inc(1.5)
    registry.gauge("depth", "Depth").labels().set(7)
    seconds = registry.histogram("seconds", "Seconds", (), (0.1, 1.0))
    for value in (0.1, 0.5, 3.0):
        seconds.labels().observe(value)
    registry.counter("never_touched", "Nothing")
    registry.counter("never_touched_total", "Nothing of any code", ("code",))
    assert registry.exposition() == (
        "# HELP depth Depth\n"
        "# TYPE depth gauge\n"
        "depth 7\n"
        "# HELP never_touched Nothing\n"
        "# TYPE never_touched counter\n"
        "never_touched 0\n"
        '# HELP requests_total Requests, with "quotes"\\nand lines\n'
        "# TYPE requests_total counter\n"
        'requests_total{code="200",path="a\\"b\\\\c\\nd"} 2.5\n'
        "# HELP seconds Seconds\n"
        "# TYPE seconds histogram\n"
        'seconds_bucket{le="0.1"} 1\n'
        'seconds_bucket{le="1"} 2\n'
        'seconds_bucket{le="+Inf"} 3\n'
        "seconds_sum 3.6\n"
        "seconds_count 3\n"
    )
    assert registry.counter("requests_total", "again", ("code", "path")) is requests
    with pytest.raises(ValueError, match="already registered"):
        registry.gauge("requests_total", "as a gauge", ("code", "path"))
    with pytest.raises(ValueError, match="has labels"):
        requests.labels("200")
