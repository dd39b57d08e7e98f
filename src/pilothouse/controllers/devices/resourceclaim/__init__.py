"""Creates ResourceClaims from the templates that pods refer to, and deallocates and deletes claims that no pod
uses any more.

Behaviour: each entry of a pod with a template gets exactly one claim, whose name is in the pod's status, even if
requests fail or a cache is old. A claim stays reserved for a pod as long as the pod may run: a reservation is removed
only if the pod has finished, was observed to be deleted, or does not exist by a live read. With the last reservation
the claim is deallocated in the same write, which is a conflict if the claim has changed; then the finalizer is removed.
A claim that was created for a pod is deleted when the pod has finished.

Not guaranteed: devices. Those are allocated by schedulers and prepared by drivers on the nodes.

docs/controllers/resourceclaim.md has the triggers and the differences from upstream.
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
