"""Which events enqueue which Deployment.

Table: docs/controllers/deployment.md. Upstream: the handlers of v1.36
``pkg/controller/deployment/deployment_controller.go``.
"""

from collections.abc import Callable

import msgspec

from pilothouse.api.apps import DEPLOYMENTS, REPLICA_SETS, Deployment, ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.workloads.deployment.bounds import RECREATE
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import Cache, ConsistencyStore, WorkQueue, controller_index_key, object_key
from pilothouse.runtime.claims import CONTROLLER_INDEX


class SetEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The handlers. ``forgotten`` is called with the key of each Deployment that is deleted."""

    deployments: Cache[Deployment]
    sets: Cache[ReplicaSet]
    pods: Cache[Pod]
    queue: WorkQueue[str]
    consistency_store: ConsistencyStore
    selector_of: Callable[[Deployment], Selector | None]
    forgotten: Callable[[str], None]

    # Deployments

    def add_deployment(self, deployment: Deployment, _initial: bool) -> None:
        self.queue.add(object_key(deployment.metadata))

    def update_deployment(self, old: Deployment, new: Deployment) -> None:
        """Enqueue it, also when only its status changed and at resyncs."""
        if old.metadata.uid != new.metadata.uid:
            self.delete_deployment(old, True)
        self.queue.add(object_key(new.metadata))

    def delete_deployment(self, deployment: Deployment, _final_state_unknown: bool) -> None:
        """Its recorded writes must not delay another one of its name."""
        key = object_key(deployment.metadata)
        self.consistency_store.clear(key, deployment.metadata.uid)
        self.forgotten(key)
        self.queue.add(key)

    # ReplicaSets

    def add_replica_set(self, replica_set: ReplicaSet, _initial: bool) -> None:
        """Enqueues the owner, or the Deployments that may adopt it."""
        meta = replica_set.metadata
        if meta.deletion_timestamp is not None:
            self.delete_replica_set(replica_set, False)
            return
        reference = controller_of(meta)
        if reference is not None:
            self._enqueue(meta, reference)
        else:
            self._enqueue_matching(meta)

    def update_replica_set(self, old: ReplicaSet, new: ReplicaSet) -> None:
        """Enqueues the owner, a former owner, or the Deployments that may adopt it."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        previous, after = controller_of(old.metadata), controller_of(new.metadata)
        if previous is not None and previous != after:
            self._enqueue(old.metadata, previous)
        if after is not None:
            self._enqueue(new.metadata, after)
        elif previous != after or old.metadata.labels != new.metadata.labels:
            self._enqueue_matching(new.metadata)

    def delete_replica_set(self, replica_set: ReplicaSet, _final_state_unknown: bool) -> None:
        reference = controller_of(replica_set.metadata)
        if reference is not None:
            self._enqueue(replica_set.metadata, reference)

    # Pods

    def delete_pod(self, pod: Pod, _final_state_unknown: bool) -> None:
        """Recreate waits for the last old pod. Upstream lists the Deployment's ReplicaSets from the server here."""
        reference = controller_of(pod.metadata)
        if reference is None or reference.kind != REPLICA_SETS.kind:
            return
        namespace = pod.metadata.namespace
        replica_set = self.sets.get(f"{namespace}/{reference.name}")
        if replica_set is None or replica_set.metadata.uid != reference.uid:
            return
        owner = controller_of(replica_set.metadata)
        deployment = None if owner is None else self._resolve_controller_ref(namespace, owner)
        if deployment is None or deployment.spec.strategy.type != RECREATE:
            return
        if not any(map(self._has_pods, self.sets.by_index(CONTROLLER_INDEX, index_key(deployment.metadata)))):
            self.queue.add(object_key(deployment.metadata))

    def _has_pods(self, replica_set: ReplicaSet) -> bool:
        return bool(self.pods.by_index(CONTROLLER_INDEX, index_key(replica_set.metadata, REPLICA_SETS.kind)))

    # Owners

    def _resolve_controller_ref(self, namespace: str, reference: OwnerReference) -> Deployment | None:
        if reference.kind != DEPLOYMENTS.kind:
            return None
        deployment = self.deployments.get(f"{namespace}/{reference.name}")
        return deployment if deployment is not None and deployment.metadata.uid == reference.uid else None

    def _enqueue(self, meta: ObjectMeta, reference: OwnerReference) -> None:
        owner = self._resolve_controller_ref(meta.namespace, reference)
        if owner is not None:
            self.queue.add(object_key(owner.metadata))

    def _enqueue_matching(self, meta: ObjectMeta) -> None:
        if not meta.labels:
            return
        for deployment in self.deployments.list(meta.namespace):
            selector = self.selector_of(deployment)
            if selector is not None and not selects_all(deployment) and selector.matches(meta.labels):
                self.queue.add(object_key(deployment.metadata))


def selects_all(deployment: Deployment) -> bool:
    selector = deployment.spec.selector
    return selector is not None and not selector.match_labels and not selector.match_expressions


def index_key(meta: ObjectMeta, kind: str = DEPLOYMENTS.kind) -> str:
    """The owner key in ``CONTROLLER_INDEX`` of the object."""
    return controller_index_key(meta.namespace, kind, meta.name, meta.uid)
