"""The event handlers of claims that are being deleted, and which pods use them: first by the cache, then by a live
list.

The cache can show that a claim is used; only a live list of the namespace's pods can show that it is unused. One list
serves all claims of the namespace whose deletion was known when it started (upstream's batches, kubernetes#125372).
Upstream: v1.36 ``pkg/controller/volume/pvcprotection/pvc_protection_controller.go``.
"""

from collections.abc import Iterable

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, PersistentVolumeClaim, Pod
from pilothouse.controllers.shared.in_use_protection import FinalizerAction, ProtectionController
from pilothouse.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim
from pilothouse.controllers.volumes.persistentvolumeclaim_protection import DESCRIPTOR
from pilothouse.runtime import ControllerContext, RetryLater, object_key
from pilothouse.semantics.volumes import ephemeral_claim_name, has_ended, is_claim_for_pod


def pod_uses_pvc(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod keeps the claim. Both are of one namespace.

    A pod that is not scheduled does not count: it is not scheduled while its claim is being deleted. A finished one
    does: its volumes may be mounted until the pod is gone.
    """
    if not pod.spec.node_name:
        return False
    name = claim.metadata.name
    return any(
        volume.persistent_volume_claim.claim_name == name
        if volume.persistent_volume_claim is not None
        else volume.ephemeral is not None
        and ephemeral_claim_name(pod, volume) == name
        and not pod_is_shut_down(pod)
        and is_claim_for_pod(claim, pod)
        for volume in pod.spec.volumes
    )


def pod_is_shut_down(pod: Pod) -> bool:
    """Whether the kubelet is done with the pod, or it was deleted by force: only finalizers keep it.

    Those may wait for the deletion of claims of its ephemeral volumes, which must not wait for the pod in turn.
    """
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds == 0


def may_stop_using(pod: Pod) -> bool:
    """Whether an event of this pod enqueues its claims. All other pods still use theirs."""
    return not pod.spec.node_name or has_ended(pod) or pod_is_shut_down(pod)


def unused(claims: Iterable[PersistentVolumeClaim], pods: Iterable[Pod]) -> list[PersistentVolumeClaim]:
    """The claims that none of the pods uses. All are in one namespace."""
    scheduled = [pod for pod in pods if pod.spec.node_name and pod.spec.volumes]
    return [claim for claim in claims if not any(pod_uses_pvc(pod, claim) for pod in scheduled)]


FINALIZER = "kubernetes.io/pvc-protection"


class ClaimProtectionController(ProtectionController[PersistentVolumeClaim]):
    def __init__(self, context: ControllerContext) -> None:
        pods = context.informer(PODS, indexes={CLAIM_INDEX: index_by_claim})
        super().__init__(
            DESCRIPTOR.name,
            context,
            PERSISTENT_VOLUME_CLAIMS,
            FINALIZER,
            queue_name="pvcprotection",
        )
        self._pods = pods.cache
        self._unused: dict[str, None] = {}
        """Uids of claims that a list has shown to be unused. That does not change: no pod starts to use a claim that is
        being deleted. An entry is used by one sync, so a retry after a failed write lists again."""
        pods.add_handler(
            lambda pod, _initial: self._pod_added_or_updated(pod),
            self._update_pod,
            lambda pod, _: self._enqueue_claims(pod),
        )

    def _pod_added_or_updated(self, pod: Pod) -> None:
        if may_stop_using(pod):
            self._enqueue_claims(pod)

    def _update_pod(self, old: Pod, new: Pod) -> None:
        self._pod_added_or_updated(new)
        if old.metadata.uid != new.metadata.uid:
            # A recreated pod is reported as an update; the old one releases its claims.
            self._enqueue_claims(old)

    def _enqueue_claims(self, pod: Pod) -> None:
        for key in index_by_claim(pod):
            self.enqueue(key)

    def on_delete(self, obj: PersistentVolumeClaim, _unknown: bool) -> None:
        self._unused.pop(obj.metadata.uid, None)

    async def is_being_used(self, obj: PersistentVolumeClaim) -> bool:
        """Whether a pod uses the claim. If only the live list has one, the cache is stale and the key is retried soon:
        if the pod is deleted before the cache has it, no event follows."""
        if any(pod_uses_pvc(pod, obj) for pod in self._pods.by_index(CLAIM_INDEX, object_key(obj.metadata))):
            return True
        uid, namespace = obj.metadata.uid, obj.metadata.namespace
        if uid not in self._unused:
            # The known deletions must be fixed before the list starts: it could miss a pod that was created before a
            # later deletion.
            being_deleted = [
                claim for claim in self.objects.list(namespace) if self.pending_action(claim) is FinalizerAction.REMOVE
            ]
            pods = await self.client.list(PODS, namespace)
            unused_claims = [claim.metadata for claim in unused(being_deleted, pods.items)]
            self._unused |= dict.fromkeys(meta.uid for meta in unused_claims if self.objects.still_has(meta))
        if uid not in self._unused:
            raise RetryLater(f"the cache does not have the pod that uses {object_key(obj.metadata)}")
        del self._unused[uid]
        return False


build = ClaimProtectionController
