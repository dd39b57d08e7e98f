"""Which pod uses which claim, and when it may have stopped to. Pure.

Upstream: ``podUsesPVC``, ``podIsShutDown`` and ``enqueuePVCs``, v1.36
``pkg/controller/volume/pvcprotection/pvc_protection_controller.go``.
"""

from collections.abc import Iterable

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.semantics.volumes import ephemeral_claim_name, has_ended, is_made_for


def uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod keeps the claim. Both are of one namespace.

    One without a node does not: no kubelet knows of it, and none starts a pod whose claim is being deleted. One that
    has ended does: its volumes may still be mounted, and only its end as an object says that they are not.
    """
    if not pod.spec.node_name:
        return False
    name = claim.metadata.name
    return any(
        volume.persistent_volume_claim.claim_name == name
        if volume.persistent_volume_claim is not None
        else volume.ephemeral is not None
        and ephemeral_claim_name(pod, volume) == name
        and not is_shut_down(pod)
        and is_made_for(claim, pod)
        for volume in pod.spec.volumes
    )


def is_shut_down(pod: Pod) -> bool:
    """Whether the kubelet is done with the pod, or it was deleted by force: only finalizers keep it.

    Those may wait for the claims of its ephemeral volumes to go, which must not wait for the pod in turn.
    """
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds == 0


def may_let_go(pod: Pod) -> bool:
    """Whether an event of this pod enqueues its claims. All other pods still use them."""
    return not pod.spec.node_name or has_ended(pod) or is_shut_down(pod)


def unused(claims: Iterable[PersistentVolumeClaim], pods: Iterable[Pod]) -> list[PersistentVolumeClaim]:
    """Those of the claims that none of the pods uses. All are of one namespace."""
    scheduled = [pod for pod in pods if pod.spec.node_name and pod.spec.volumes]
    return [claim for claim in claims if not any(uses(pod, claim) for pod in scheduled)]
