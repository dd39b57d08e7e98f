"""Makes the claims for devices that pods have templates for, and lets go of claims that no pod uses any more.

Promises: each entry of a pod with a template gets a claim, whatever fails in between, and the pod's status names it; it
is never made to name another one because a cache was behind. A claim stays reserved for a pod as long as that pod may
run: a reservation is dropped only for a pod that has ended, was seen to go, or is unknown to the API server itself.
With the last reservation the allocation goes, in the same write, which is refused if the claim has changed; then the
finalizer. A claim that was made for a pod is deleted when that pod has ended, without waiting for the pod to go.

Not promised: devices. Those are allocated by schedulers and prepared by drivers on the nodes.

Files: ``decide`` what pods and claims need, ``made`` the claims that the cache may not show yet, ``measures`` the
metrics, ``controller`` the wiring. docs/controllers/resourceclaim.md has what wakes it and where it differs from
upstream.
"""

import msgspec

from pilothouse.api.core import PODS, Pod
from pilothouse.api.resource import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from pilothouse.machinery.flags import INT32, Flag
from pilothouse.runtime.descriptor import Descriptor, FlagSpec, Watch, any_object


class ResourceClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set."""

    workers: int = 50

    def problems(self) -> list[str]:
        """Somebody has to do it."""
        if self.workers <= 0:
            return [f"concurrent-resourceclaim-syncs must be greater than 0, got {self.workers}"]
        return []


def has_claims(pod: Pod) -> bool:
    """Whether the pod is of interest at all."""
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


DESCRIPTOR = Descriptor(
    name="resourceclaim-controller",
    aliases=("resource-claim-controller",),
    client_name="resource-claim-controller",
    gates=("DynamicResourceAllocation",),
    options=ResourceClaimOptions,
    flags=(
        FlagSpec(
            field="workers",
            flag=Flag(
                "concurrent-resourceclaim-syncs",
                INT32,
                50,
                "The number of operations (creating or deleting a ResourceClaim, updating its status) which are "
                "allowed to run concurrently.",
            ),
        ),
    ),
    watches=(
        Watch(kind=PODS, indexes=("device claim", "device claim template"), wakes=has_claims),
        Watch(kind=RESOURCE_CLAIMS, indexes=("owning pod",), keep_raw=True, wakes=any_object),
        Watch(kind=RESOURCE_CLAIM_TEMPLATES),
    ),
    factory="pilothouse.controllers.devices.resourceclaim.controller:build",
)
