"""The pods that a Service selects, and the Services that must be reconciled after an event of a pod.

Used by the controllers of Endpoints and of EndpointSlices. Upstream (v1.36
``staging/src/k8s.io/endpointslice/util/controller_utils.go``) lists all services of a namespace for every event of a
pod, and all pods for every sync of a service; here both are found by an index on labels.
"""

from collections.abc import Callable

from pilothouse.api.core import Pod, Service
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.pods_by_label import LABEL_INDEX, index_by_label, label_index_value
from pilothouse.runtime import Cache, SharedInformer, object_key
from pilothouse.semantics.pods import is_ready, is_terminal

SELECTOR_INDEX = "firstSelectorLabel"
"""Index of Services by one label of their selector; see ``index_by_selector``."""


def index_by_selector(service: Service) -> tuple[str, ...]:
    """The index function of ``SELECTOR_INDEX``: the first label of the selector. Every pod that the Service selects has
    it."""
    if not service.spec.selector:
        return ()
    key, value = min(service.spec.selector.items())
    return (label_index_value(service.metadata.namespace, key, value),)


class ServicePods:
    """Finds pods of Services and Services of pods in the caches of two informers.

    ``enqueue`` is called with the key of every Service whose endpoints an event of a pod may change. An update that
    changes neither readiness, addresses, labels, hostname, subdomain nor a terminal phase is ignored.
    """

    def __init__(
        self, services: SharedInformer[Service], pods: SharedInformer[Pod], enqueue: Callable[[str], None]
    ) -> None:
        self._services: Cache[Service] = services.cache
        self._pods: Cache[Pod] = pods.cache
        self._enqueue = enqueue
        self._services.add_index(SELECTOR_INDEX, index_by_selector)
        self._pods.add_index(LABEL_INDEX, index_by_label)
        pods.add_handler(self._on_add, self._on_update, self._on_delete)

    def selected_by(self, service: Service) -> list[Pod]:
        """The pods that match the selector of the Service, sorted by name."""
        selector = service.spec.selector
        assert selector, "callers skip Services without a selector"
        namespace = service.metadata.namespace
        # Start from the label with the fewest pods: one like ``tier=web`` may be on all of them.
        candidates = min(
            (
                self._pods.by_index(LABEL_INDEX, label_index_value(namespace, key, value))
                for key, value in sorted(selector.items())
            ),
            key=len,
        )
        desired = selector.items()
        return [pod for pod in candidates if desired <= pod.metadata.labels.items()]

    def selecting(self, meta: ObjectMeta) -> list[str]:
        """The keys of the Services that select a pod with this metadata, sorted."""
        labels = meta.labels.items()
        keys: list[str] = []
        for key, value in labels:
            for service in self._services.by_index(SELECTOR_INDEX, label_index_value(meta.namespace, key, value)):
                if service.spec.selector and service.spec.selector.items() <= labels:
                    keys.append(object_key(service.metadata))
        return sorted(keys)

    def _on_add(self, pod: Pod, _initial: bool) -> None:
        for key in self.selecting(pod.metadata):
            self._enqueue(key)

    def _on_delete(self, pod: Pod, _unknown: bool) -> None:
        for key in self.selecting(pod.metadata):
            self._enqueue(key)

    def _on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        changed, relabeled = _pod_endpoints_changed(old, new), _selection_may_change(old, new)
        if not (changed or relabeled):
            return
        after = self.selecting(new.metadata)
        if relabeled:
            previous = self.selecting(old.metadata)
            # If only labels changed, Services that newly select the pod or no longer do are enqueued. After a change of
            # hostname or subdomain so are those that still select it; upstream omits these
            # (docs/controllers/endpointslice.md).
            moved = old.metadata.labels == new.metadata.labels
            after = sorted({*previous, *after} if changed or moved else {*previous} ^ {*after})
        for key in after:
            self._enqueue(key)


def _pod_endpoints_changed(old: Pod, new: Pod) -> bool:
    """Upstream's ``podEndpointsChanged``, which treats every update of a terminating pod as a change, because it
    compares pointers to the deletion timestamps."""
    if new.metadata.deletion_timestamp is not None or old.metadata.deletion_timestamp is not None:
        return True
    if is_ready(old) != is_ready(new) or is_terminal(old) != is_terminal(new):
        return True
    return old.status.pod_ip != new.status.pod_ip or old.status.pod_ips != new.status.pod_ips


def _selection_may_change(old: Pod, new: Pod) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or old.spec.hostname != new.spec.hostname
        or old.spec.subdomain != new.spec.subdomain
    )
