"""The default selector of a pod: Services are found by one pair of their selectors, however many exist."""

import random
from types import SimpleNamespace
from typing import Any

import msgspec

from pilothouse.api.core import Pod
from pilothouse.runtime.cache import Cache
from pilothouse.scheduler.plugins.default_selector import DefaultSelectors, MapSelectorObject, _merged


class Informers:
    """A cache for each kind, filled by the test."""

    def __init__(self) -> None:
        self.caches: dict[str, Cache[Any]] = {}

    def informer(self, kind: Any) -> Any:
        return SimpleNamespace(cache=self.caches.setdefault(kind.resource, Cache(kind.resource)))

    def put(self, namespace: str, name: str, selector: dict[str, str]) -> None:
        obj = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}
        self.caches["services"].put(f"{namespace}/{name}", msgspec.convert(obj, MapSelectorObject))


def pod(namespace: str, labels: dict[str, str]) -> Pod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": namespace, "labels": labels}}, Pod)


def test_it_is_that_of_all_services_that_select_the_pod() -> None:
    rng, informers = random.Random(1), Informers()
    selectors = DefaultSelectors(informers)  # type: ignore[arg-type]  # has what is asked for
    labels = [{key: rng.choice("xy") for key in rng.sample("abc", rng.randrange(4))} for _ in range(60)]
    services = [(rng.choice(("one", "two")), f"s{number:02}", label) for number, label in enumerate(labels)]
    for service in services:
        informers.put(*service)
    for label in labels:
        expected = _merged(label, [selector for namespace, _name, selector in services if namespace == "one"])
        result = selectors.default_selector(pod("one", label))
        assert (
            {need.key: need.values for need in result.requirements}
            if result
            else {key: (value,) for key, value in expected.items()} == {}
        )


def test_a_service_that_selects_something_else_now_is_not_found() -> None:
    informers = Informers()
    selectors = DefaultSelectors(informers)  # type: ignore[arg-type]  # has what is asked for
    informers.put("one", "s", {"app": "web"})
    assert str(selectors.default_selector(pod("one", {"app": "web"}))) == "app=web"
    assert selectors.default_selector(pod("two", {"app": "web"})) is None
    informers.put("one", "s", {"app": "db"})
    assert selectors.default_selector(pod("one", {"app": "web"})) is None
