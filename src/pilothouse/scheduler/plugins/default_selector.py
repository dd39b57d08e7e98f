"""The default selector of a pod: the selectors of its Services and of its controller, in one.

PodTopologySpread uses it for the constraints of the system. As ``DefaultSelector`` of kube-scheduler v1.36
(``plugins/helper/spread.go``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilothouse.api.core import Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View
from pilothouse.machinery.labels import EVERYTHING, Selector
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import InformerFactory
from pilothouse.runtime.informer import SharedInformer
from pilothouse.scheduler.framework.types import selector_or_nothing


class MapSelectorSpec(View, frozen=True):
    """A selector that is a plain map."""

    selector: dict[str, str] = {}


class MapSelectorObject(View, frozen=True):
    """A Service or ReplicationController, as far as it selects pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MapSelectorSpec = MapSelectorSpec()


class LabelSelectorSpec(View, frozen=True):
    """A label selector."""

    selector: LabelSelector | None = None


class LabelSelectorObject(View, frozen=True):
    """A ReplicaSet or StatefulSet, as far as it selects pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LabelSelectorSpec = LabelSelectorSpec()


SERVICES = Kind("", "v1", "services", "Service", True, MapSelectorObject)
REPLICATION_CONTROLLERS = Kind("", "v1", "replicationcontrollers", "ReplicationController", True, MapSelectorObject)
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet", True, LabelSelectorObject)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet", True, LabelSelectorObject)


class DefaultSelectors:
    """Finds Services and controllers of pods in the caches of informers."""

    def __init__(self, informers: InformerFactory) -> None:
        self._services = informers.informer(SERVICES)
        self._services.cache.add_index(_PAIR_INDEX, _pair_of)
        self._controllers = informers.informer(REPLICATION_CONTROLLERS)
        self._sets = {
            ("apps", "ReplicaSet"): informers.informer(REPLICA_SETS),
            ("apps", "StatefulSet"): informers.informer(STATEFUL_SETS),
        }

    @property
    def informers(self) -> tuple[SharedInformer[Any], ...]:
        """What has to be synced before."""
        return self._services, self._controllers, *self._sets.values()

    def default_selector(self, pod: Pod) -> Selector | None:
        """The selector, or None for a pod without Services and controller."""
        meta = pod.metadata
        pairs = _merged(meta.labels, [service.spec.selector for service in self._candidates(meta)])
        owner = controller_of(meta)
        if owner is None:
            return _of_pairs(pairs) if pairs else None
        group = owner.api_version.rpartition("/")[0]
        key = f"{meta.namespace}/{owner.name}"
        if (group, owner.kind) == ("", "ReplicationController"):
            controller = self._controllers.cache.get(key)
            if controller is not None:
                pairs = {**pairs, **controller.spec.selector}
            return _of_pairs(pairs) if pairs else None
        informer = self._sets.get((group, owner.kind))
        owner_object = informer.cache.get(key) if informer is not None else None
        own = selector_or_nothing(owner_object.spec.selector) if owner_object is not None else EVERYTHING
        if own.empty or own.selects_nothing:
            return _of_pairs(pairs) if pairs else None
        return Selector((*_of_pairs(pairs).requirements, *own.requirements)) if pairs else own

    def _candidates(self, meta: ObjectMeta) -> list[MapSelectorObject]:
        """The Services that may select a pod, by name: upstream iterates over all Services of the namespace, for each
        pod."""
        by_index = self._services.cache.by_index
        services = [
            service for pair in meta.labels.items() for service in by_index(_PAIR_INDEX, _pair(meta.namespace, *pair))
        ]
        return sorted(services, key=lambda service: service.metadata.name)


_PAIR_INDEX = "pair of the selector"


def _pair_of(service: MapSelectorObject) -> Iterable[str]:
    """One pair that the pods of a Service have."""
    selector = service.spec.selector
    return (_pair(service.metadata.namespace, *min(selector.items())),) if selector else ()


def _pair(namespace: str, name: str, value: str) -> str:
    return f"{namespace}/{name}={value}"


def _merged(labels: Mapping[str, str], selectors: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The selectors that match the labels, in one. They cannot contradict each other, as the labels satisfy all."""
    merged: dict[str, str] = {}
    for selector in selectors:
        if selector and all(labels.get(name) == value for name, value in selector.items()):
            merged.update(selector)
    return merged


def _of_pairs(pairs: Mapping[str, str]) -> Selector:
    return selector_or_nothing(LabelSelector(match_labels=dict(pairs)))
