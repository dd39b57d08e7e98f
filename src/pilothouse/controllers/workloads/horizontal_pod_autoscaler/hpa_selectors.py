"""Whether the pods of an autoscaler are those of another one, too: then neither knows what it does.

Upstream: ``hpasControllingPodsUnderSelector`` of v1.36 ``pkg/controller/podautoscaler/horizontal.go``.
"""

from collections.abc import Iterable

from pilothouse.api.core import Pod
from pilothouse.controllers.shared.pods_by_label import fixed_label, labelled
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.names import split_key


class HpaSelectors:
    """The last known selectors of all autoscalers, found by a label that their pods carry.

    Only autoscalers that are registered have one: a sync that ends after its autoscaler was deleted stores nothing.
    """

    def __init__(self) -> None:
        self._selectors: dict[str, Selector | None] = {}
        self._by_label: dict[str, dict[str, Selector]] = {}

    def register(self, key: str) -> None:
        """There is such an autoscaler. It selects nothing until its selector is known."""
        self._selectors.setdefault(key, None)

    def put(self, key: str, selector: Selector) -> None:
        """The autoscaler selects these pods now, if it is still registered."""
        if key not in self._selectors or self._selectors[key] == selector:
            return
        self._take_off_shelf(key)
        self._selectors[key] = selector
        self._by_label.setdefault(_shelf(key, selector), {})[key] = selector

    def forget(self, key: str) -> None:
        self._take_off_shelf(key)
        self._selectors.pop(key, None)

    def _take_off_shelf(self, key: str) -> None:
        selector = self._selectors.get(key)
        if selector is not None:
            shelf = _shelf(key, selector)
            known = self._by_label[shelf]
            del known[key]
            if not known:
                del self._by_label[shelf]

    def selecting(self, namespace: str, pods: Iterable[Pod]) -> list[str]:
        """The keys of the autoscalers that select any of these pods, sorted."""
        found: set[str] = set()  # sorted before it is handed out
        nothing: dict[str, Selector] = {}
        anywhere = self._by_label.get(namespace, nothing)
        for pod in pods:
            labels = pod.metadata.labels
            shelves = [anywhere, *(self._by_label.get(labelled(namespace, *each), nothing) for each in labels.items())]
            for shelf in shelves:
                found.update(key for key, selector in shelf.items() if key not in found and selector.matches(labels))
        return sorted(found)


def _shelf(key: str, selector: Selector) -> str:
    namespace, _name = split_key(key)
    fixed = fixed_label(selector)
    return namespace if fixed is None else labelled(namespace, *fixed)
