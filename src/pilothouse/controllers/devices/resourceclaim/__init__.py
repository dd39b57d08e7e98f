"""Creates ResourceClaims from the templates that pods refer to, and deallocates and deletes claims that no pod
uses any more.

Behaviour: each entry of a pod with a template gets a claim, whatever fails in between, and the pod's status names it;
it is never made to name another one because a cache was behind. A claim stays reserved for a pod as long as that pod
may run: a reservation is dropped only for a pod that has ended, was seen to go, or is unknown to the API server itself.
With the last reservation the allocation goes, in the same write, which is a conflict if the claim has changed; then the
finalizer. A claim that was made for a pod is deleted when that pod has ended, without waiting for the pod to go.

Not guaranteed: devices. Those are allocated by schedulers and prepared by drivers on the nodes.

docs/controllers/resourceclaim.md has what enqueues it and where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import PODS, Pod
from pilothouse.api.resource import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class ResourceClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The last is upstream's gate ``DRAPrioritizedList``, on in v1.36."""

    workers: int = 50
    prioritized_lists: bool = True
    """Whether claims are created from templates with prioritized alternatives."""


def has_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


DESCRIPTOR = Descriptor(
    name="resourceclaim-controller",
    aliases=("resource-claim-controller",),
    client_name="resource-claim-controller",
    gates=("DynamicResourceAllocation",),
    unsupported_gates=("DRAWorkloadResourceClaims",),
    options=ResourceClaimOptions,
    gate_fields=(GateSpec(field="prioritized_lists", gate="DRAPrioritizedList"),),
    flags=(
        flag_spec(
            "workers",
            "concurrent-resourceclaim-syncs",
            INT32,
            50,
            "The number of operations (creating or deleting a ResourceClaim, updating its status) which are "
            "allowed to run concurrently.",
        ),
    ),
    watches=(
        Watch(kind=PODS, predicate=has_claims),
        Watch(kind=RESOURCE_CLAIMS, keep_raw=True, predicate=any_object),
        Watch(kind=RESOURCE_CLAIM_TEMPLATES),
    ),
    package=__name__,
)
