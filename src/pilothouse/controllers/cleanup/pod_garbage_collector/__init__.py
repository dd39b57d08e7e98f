"""Deletes pods that no other controller deletes: finished pods above a threshold, pods of nodes that are gone or out of
service, and terminating pods that were never scheduled.

Behaviour: a pass every 20 seconds. Finished pods above the threshold go, evicted ones first, then the oldest. A pod of
a node that is gone goes once the node was missing for 40 seconds and the API server says that there is none. A pod that
is being deleted goes at once when it was never bound, or when its node is out of service and not ready. A pod that has
not ended is set to Failed before it is deleted, so that its controller can count it. No pod goes because of a node that
was not read live within the last second, and no pod goes for another one of the same name.

Not guaranteed: that the containers have ended. These are forced deletions; the taint
``node.kubernetes.io/out-of-service`` is an operator's word that nothing runs there any more.

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
