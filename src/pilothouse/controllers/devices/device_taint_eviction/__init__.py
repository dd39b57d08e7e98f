"""Deletes pods whose devices have ``NoExecute`` taints that their claims do not tolerate, or no longer
tolerate.

Behaviour: a pod with a node for which such a claim is reserved is deleted when the taint has been there for as long as
the claim tolerates it, at once if it does not. Of several taints and several claims the shortest time counts. A taint
that goes before that, a claim that is not the pod's any more, call the deletion off. Before it the pod gets the
condition ``DisruptionTarget``; it has its own grace period. A deletion that fails is tried again. Only that very pod is
deleted (its uid is a precondition).

Taints come from ResourceSlices, and, behind the gate ``DRADeviceTaintRules``, from DeviceTaintRules, whose status says
how far their evictions are.

Not guaranteed: that a taint which was just removed evicts no pod. Decisions are made on the caches.

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
