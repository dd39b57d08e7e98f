"""Finds autoscalers whose pods overlap.

Upstream: ``hpasControllingPodsUnderSelector`` of v1.36 ``pkg/controller/podautoscaler/horizontal.go``.
"""

from collections.abc import Iterable

from pilothouse.api.core import Pod
from pilothouse.controllers.shared.pods_by_label import label_index_value, required_label
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.names import split_key


class HpaSelectors:
    """The last known selectors of all autoscalers, found by a label that their pods carry.

    Only registered autoscalers have one: a sync that ends after its autoscaler was deleted stores nothing.
    """

    def __init__(self) -> None:
        self._selectors: dict[str, Selector | None] = {}
        self._by_label: dict[str, dict[str, Selector]] = {}

    def register(self, key: str) -> None:
        """Add an autoscaler. It selects nothing until ``put``."""
        self._selectors.setdefault(key, None)

    def put(self, key: str, selector: Selector) -> None:
        """The autoscaler selects these pods now, if it is still registered."""
        if key not in self._selectors or self._selectors[key] == selector:
            return
        self._unindex(key)
        self._selectors[key] = selector
        self._by_label.setdefault(_index_key(key, selector), {})[key] = selector

    def forget(self, key: str) -> None:
        self._unindex(key)
        self._selectors.pop(key, None)

    def _unindex(self, key: str) -> None:
        selector = self._selectors.get(key)
        if selector is not None:
            label = _index_key(key, selector)
            selectors = self._by_label[label]
            del selectors[key]
            if not selectors:
                del self._by_label[label]

    def selecting(self, namespace: str, pods: Iterable[Pod]) -> list[str]:
        """The keys of the autoscalers that select any of these pods, sorted."""
        keys: set[str] = set()  # sorted before it is handed out
        for pod in pods:
            labels = pod.metadata.labels
            values = [namespace, *(label_index_value(namespace, *label) for label in labels.items())]
            for selectors in filter(None, map(self._by_label.get, values)):
                keys.update(key for key, selector in selectors.items() if key not in keys and selector.matches(labels))
        return sorted(keys)


def _index_key(key: str, selector: Selector) -> str:
    namespace, _name = split_key(key)
    fixed = required_label(selector)
    return namespace if fixed is None else label_index_value(namespace, *fixed)
