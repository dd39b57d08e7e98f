"""Which PersistentVolumeClaims of a pod's generic ephemeral volumes to create. Pure.

Upstream: ``syncHandler`` and ``handleVolume``, v1.36 ``pkg/controller/volume/ephemeral/controller.go``.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, PersistentVolumeClaim, Pod, Volume
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.semantics.volumes import ephemeral_claim_name, is_claim_for_pod


class CreateClaim(msgspec.Struct, frozen=True):
    """Create this claim for the volume."""

    volume: str
    claim: dict[str, Any]

    @property
    def name(self) -> str:
        name: str = self.claim["metadata"]["name"]
        return name


class ClaimConflict(msgspec.Struct, frozen=True):
    """The claim's name is used by a claim of another owner."""

    volume: str
    reason: str


Step = CreateClaim | ClaimConflict


def has_ephemeral_volumes(pod: Pod) -> bool:
    """Whether the pod has ephemeral volumes and is not being deleted."""
    return pod.metadata.deletion_timestamp is None and any(volume.ephemeral is not None for volume in pod.spec.volumes)


def decide(pod: Pod, find: Callable[[str], PersistentVolumeClaim | None]) -> list[Step]:
    """The steps in the order of the volumes, up to the first conflict, as upstream. ``find`` returns the claim of that
    name in the pod's namespace."""
    steps: list[Step] = []
    if pod.metadata.deletion_timestamp is not None:
        return steps
    for volume in pod.spec.volumes:
        if volume.ephemeral is None:
            continue
        name = ephemeral_claim_name(pod, volume)
        claim = find(name)
        if claim is None:
            steps.append(CreateClaim(volume.name, new_claim(pod, volume)))
        elif not is_claim_for_pod(claim, pod):
            meta = pod.metadata
            pod_name = f"{meta.namespace}/{meta.name}"
            reason = f"PVC {meta.namespace}/{name} was not created for pod {pod_name} (pod is not owner)"
            return [*steps, ClaimConflict(volume.name, reason)]
    return steps


def new_claim(pod: Pod, volume: Volume) -> dict[str, Any]:
    """The claim of a volume. Only labels and annotations of the template's metadata are used."""
    assert volume.ephemeral is not None, "only for ephemeral volumes"
    template: dict[str, Any] = volume.ephemeral.volume_claim_template
    meta = template.get("metadata") or {}
    owner = new_controller_reference(pod.metadata, PODS)
    metadata: dict[str, Any] = {
        "name": ephemeral_claim_name(pod, volume),
        "ownerReferences": [msgspec.to_builtins(owner)],
    }
    for field in ("labels", "annotations"):
        if meta.get(field):
            metadata[field] = meta[field]
    kind = PERSISTENT_VOLUME_CLAIMS
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
