"""Deletes pods that no other controller deletes: finished pods above a threshold, pods of nodes that are gone or out of
service, and terminating pods that were never scheduled.

Behaviour: one pass every 20 seconds. Finished pods above the threshold are deleted, evicted ones first, then the
oldest. Pods of a missing node are deleted if it was missing for 40 seconds and a live read confirms that. A terminating
pod is force-deleted if it was never bound, or if its node is out of service and not ready. A pod that is not finished
is set to Failed before it is deleted, so that its controller counts it. Nodes are read live less than a second before
pods are deleted because of them, and the pod's uid is a precondition.

Not guaranteed: that the containers have ended. These are forced deletions; by the taint
``node.kubernetes.io/out-of-service`` an operator declares that nothing runs there any more.

docs/controllers/pod_garbage_collector.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import NODES, PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object


class PodGarbageCollectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The last two are no flags, as upstream."""

    terminated_threshold: int = 12500
    """Finished pods that may stay; 0 and below: all of them."""
    period: float = 20.0
    quarantine: float = 40.0


DESCRIPTOR = Descriptor(
    name="pod-garbage-collector-controller",
    aliases=("podgc",),
    client_name="pod-garbage-collector",
    options=PodGarbageCollectorOptions,
    flags=(
        flag_spec(
            "terminated_threshold",
            "terminated-pod-gc-threshold",
            INT32,
            12500,
            "Number of terminated pods that can exist before the terminated pod garbage collector starts deleting "
            "terminated pods. If <= 0, the terminated pod garbage collector is disabled.",
        ),
    ),
    watches=(Watch(kind=PODS, predicate=any_object), Watch(kind=NODES)),
    package=__name__,
)
