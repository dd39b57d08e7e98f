"""Keeps the number of a ReplicationController's pods at ``spec.replicas``, and updates its status.

The controller is that of ReplicaSets (``workloads/replicaset``) for another kind, with the same guarantees.
Differences: the selector is a map of labels, terminating pods are not reported, and there is no consistency store, so a
create without a response is retried immediately. Upstream uses an adapter (v1.36 ``pkg/controller/replication``).
"""

from pilothouse.api.core import PODS, REPLICATION_CONTROLLERS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.controllers.workloads.replicaset import ReplicaSetOptions
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class ReplicationControllerOptions(ReplicaSetOptions, frozen=True, kw_only=True):
    report_terminating: bool = False
    wait_for_own_writes: bool = False


DESCRIPTOR = Descriptor(
    name="replicationcontroller-controller",
    aliases=("replicationcontroller",),
    client_name="replication-controller",
    options=ReplicationControllerOptions,
    gate_fields=(GateSpec(field="use_deletion_cost", gate="PodDeletionCost"),),
    flags=(
        flag_spec(
            "workers",
            "concurrent_rc_syncs",
            INT32,
            5,
            "The number of replication controllers that are allowed to sync concurrently. Larger number = more "
            "responsive replica management, but more CPU (and network) load",
        ),
    ),
    watches=(
        Watch(kind=REPLICATION_CONTROLLERS, keep_raw=True, predicate=any_object),
        Watch(kind=PODS),
    ),
    package=__name__,
)
