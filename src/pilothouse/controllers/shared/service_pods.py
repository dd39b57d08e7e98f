"""The pods that a service selects, and the services that an event of a pod concerns.

Used by the controllers of Endpoints and of EndpointSlices. Upstream (v1.36
``staging/src/k8s.io/endpointslice/util/controller_utils.go``) lists all services of a namespace for every event of a
pod, and all pods for every sync of a service; here both are found by an index on labels.
"""

from collections.abc import Callable

from pilothouse.api.core import Pod, Service
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.pods_by_label import LABEL_INDEX, index_by_label, labelled
from pilothouse.runtime import Cache, SharedInformer, object_key
from pilothouse.semantics.pods import is_ready, is_terminal

SELECTOR_INDEX = "firstSelectorLabel"
"""Services by one of the labels that they ask for; see ``index_by_selector``."""


def index_by_selector(service: Service) -> tuple[str, ...]:
    """The index function of ``SELECTOR_INDEX``: a pod that matches has this label, among others."""
    if not service.spec.selector:
        return ()
    key, value = min(service.spec.selector.items())
    return (labelled(service.metadata.namespace, key, value),)


class ServicePods:
    """Both directions, on the caches of two informers.

    ``enqueue`` gets the key of every service that an event of a pod concerns. An event that cannot change endpoints is
    ignored: readiness, addresses, labels, names and terminal phases are compared.
    """

    def __init__(
        self, services: SharedInformer[Service], pods: SharedInformer[Pod], enqueue: Callable[[str], None]
    ) -> None:
        self._services: Cache[Service] = services.cache
        self._pods: Cache[Pod] = pods.cache
        self._enqueue = enqueue
        self._services.add_index(SELECTOR_INDEX, index_by_selector)
        self._pods.add_index(LABEL_INDEX, index_by_label)
        pods.add_handler(self._added, self._changed, self._gone)

    def selected_by(self, service: Service) -> list[Pod]:
        """The pods that carry every label of the selector, sorted by name."""
        selector = service.spec.selector
        assert selector, "who selects nothing is left alone"
        namespace = service.metadata.namespace
        # Start from the label with the fewest pods: one like ``tier=web`` may be on all of them.
        found = min(
            (
                self._pods.by_index(LABEL_INDEX, labelled(namespace, key, value))
                for key, value in sorted(selector.items())
            ),
            key=len,
        )
        desired = selector.items()
        return [pod for pod in found if desired <= pod.metadata.labels.items()]

    def selecting(self, meta: ObjectMeta) -> list[str]:
        """The keys of the services that select a pod with this metadata, sorted."""
        carried = meta.labels.items()
        keys: list[str] = []
        for key, value in carried:
            for service in self._services.by_index(SELECTOR_INDEX, labelled(meta.namespace, key, value)):
                if service.spec.selector and service.spec.selector.items() <= carried:
                    keys.append(object_key(service.metadata))
        return sorted(keys)

    def _added(self, pod: Pod, _initial: bool) -> None:
        for key in self.selecting(pod.metadata):
            self._enqueue(key)

    def _gone(self, pod: Pod, _unknown: bool) -> None:
        for key in self.selecting(pod.metadata):
            self._enqueue(key)

    def _changed(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        changed, renamed = _has_changed(old, new), _is_renamed(old, new)
        if not (changed or renamed):
            return
        after = self.selecting(new.metadata)
        if renamed:
            before = self.selecting(old.metadata)
            # An otherwise unchanged pod concerns services that gained or lost it. A changed hostname or subdomain also
            # concerns those that keep it; upstream leaves these out (docs/controllers/endpointslice.md).
            moved = old.metadata.labels == new.metadata.labels
            after = sorted({*before, *after} if changed or moved else {*before} ^ {*after})
        for key in after:
            self._enqueue(key)


def _has_changed(old: Pod, new: Pod) -> bool:
    """Upstream's ``podEndpointsChanged``; every update of a pod on its way out counts there, the pointers differ."""
    if new.metadata.deletion_timestamp is not None or old.metadata.deletion_timestamp is not None:
        return True
    if is_ready(old) != is_ready(new) or is_terminal(old) != is_terminal(new):
        return True
    return old.status.pod_ip != new.status.pod_ip or old.status.pod_ips != new.status.pod_ips


def _is_renamed(old: Pod, new: Pod) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or old.spec.hostname != new.spec.hostname
        or old.spec.subdomain != new.spec.subdomain
    )
