"""Deletes pods whose devices have ``NoExecute`` taints that their claims do not tolerate, or no longer
tolerate.

Behaviour: a scheduled pod for which such a claim is reserved is deleted when the claim has tolerated the taint for its
toleration's time, or immediately without a toleration. Of several taints and claims the shortest time counts. If the
taint is removed before, or the claim is no longer reserved for the pod, the eviction is cancelled. The pod gets the
condition ``DisruptionTarget`` and is deleted with its own grace period, with its uid as precondition. A failed deletion
is retried.

Taints come from ResourceSlices and, with the gate ``DRADeviceTaintRules``, from DeviceTaintRules, whose status reports
the progress of their evictions.

Not guaranteed: that a taint that was just removed evicts no pod. Decisions are based on the caches.

docs/controllers/device_taint_eviction.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import PODS
from pilothouse.api.resource import DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch


class DeviceTaintEvictionOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: int = 8
    rules: bool = False
    """Whether DeviceTaintRules are evaluated, too. The API server must serve them."""


DESCRIPTOR = Descriptor(
    name="device-taint-eviction-controller",
    client_name="device-taint-eviction-controller",
    gates=("DynamicResourceAllocation", "DRADeviceTaints"),
    unsupported_gates=("DRAWorkloadResourceClaims",),
    gate_fields=(GateSpec(field="rules", gate="DRADeviceTaintRules"),),
    options=DeviceTaintEvictionOptions,
    flags=(
        flag_spec(
            "workers",
            "concurrent-device-taint-eviction-syncs",
            INT32,
            8,
            "The number of operations (deleting a pod, updating DeviceTaintRule status) which are allowed to run "
            "concurrently.",
        ),
    ),
    watches=(
        Watch(kind=PODS),
        Watch(kind=RESOURCE_CLAIMS),
        Watch(kind=RESOURCE_SLICES),
        Watch(kind=DEVICE_TAINT_RULES, option="rules"),
    ),
    package=__name__,
)
