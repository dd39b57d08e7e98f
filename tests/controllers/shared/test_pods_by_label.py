"""Pods by selector: only the pods with the rarest of the required labels are compared."""

import pytest

from pilothouse.api.core import Pod
from pilothouse.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from pilothouse.controllers.shared.pods_by_label import LABEL_INDEX, index_by_label, pods_selected
from pilothouse.machinery.labels import selector_from
from pilothouse.runtime.cache import Cache

ON_WEB = LabelSelectorRequirement(key="app", operator="In", values=("web",))
NOT_CANARY = LabelSelectorRequirement(key="track", operator="NotIn", values=("canary",))


@pytest.fixture
def pods() -> Cache[Pod]:
    """1,000 pods of ten revisions of one application, and one of each revision in another namespace."""
    pods: Cache[Pod] = Cache("pods")
    pods.add_index(LABEL_INDEX, index_by_label)
    for number in range(1000):
        labels = {"app": "web", "revision": str(number % 10)}
        put(pods, f"default/web-{number:03}", labels)
        if number < 10:
            put(pods, f"other/web-{number}", labels)
    return pods


def put(pods: Cache[Pod], key: str, labels: dict[str, str]) -> None:
    namespace, _, name = key.partition("/")
    pods.put(key, Pod(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels)))


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        (LabelSelector(match_labels={"app": "web", "revision": "3"}), 100),
        (LabelSelector(match_labels={"revision": "3"}), 100),
        (LabelSelector(match_labels={"revision": "3"}, match_expressions=(ON_WEB, NOT_CANARY)), 100),
        (LabelSelector(match_labels={"revision": "10", "app": "web"}), 0),
        (LabelSelector(match_expressions=(NOT_CANARY,)), 1000),
        (LabelSelector(), 1000),
        (None, 0),
    ],
)
def test_selected_pods_of_the_namespace(pods: Cache[Pod], selector: LabelSelector | None, count: int) -> None:
    selected = pods_selected(pods, "default", selector_from(selector))
    expected = [pod for pod in pods.list("default") if selector_from(selector).matches(pod.metadata.labels)]
    assert selected == expected
    assert len(selected) == count


def test_only_pods_with_the_rarest_label_are_listed(pods: Cache[Pod], monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    by_index = pods.by_index

    def recorded(name: str, value: str) -> list[Pod]:
        listed.append(value)
        return by_index(name, value)

    monkeypatch.setattr(pods, "by_index", recorded)
    monkeypatch.delattr(Cache, "list")
    selector = selector_from(LabelSelector(match_labels={"app": "web", "revision": "3"}))
    assert len(pods_selected(pods, "default", selector)) == 100
    assert listed == ["default/revision=3"]
