"""Keeps the number of a ReplicaSet's pods at ``spec.replicas``, and updates its status.

Behaviour: only pods that are neither finished nor being deleted count, so a terminating pod is replaced immediately. A
sync creates or deletes at most 500 pods, creates in growing batches (1, 2, 4, …, until a batch has an error), and does
nothing before the caches have the writes of earlier syncs. Matching pods without a controller are adopted, own pods
that no longer match are released; a pod never has two controllers. New pods are created from the stored template,
including fields that this program does not know. The status has the generation to which it belongs.

Not guaranteed: the exact number of pods at every moment. After a create without a response the pods are listed before
another one is sent; if the server carries it out even later, the excess pod is deleted.

docs/controllers/replicaset.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.apps import REPLICA_SETS
from pilothouse.api.core import PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class ReplicaSetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. The last three are upstream's gates ``DeploymentReplicaSetTerminatingReplicas``,
    ``StaleControllerConsistencyReplicaSet`` and ``PodDeletionCost``, all on in v1.36."""

    workers: int = 5
    burst: int = 500
    """At most this many creates or deletes in one sync. Not a flag, as upstream."""
    report_terminating: bool = True
    wait_for_own_writes: bool = True
    use_deletion_cost: bool = True


DESCRIPTOR = Descriptor(
    name="replicaset-controller",
    aliases=("replicaset",),
    client_name="replicaset-controller",
    options=ReplicaSetOptions,
    gate_fields=(
        GateSpec(field="report_terminating", gate="DeploymentReplicaSetTerminatingReplicas"),
        GateSpec(field="wait_for_own_writes", gate="StaleControllerConsistencyReplicaSet"),
        GateSpec(field="use_deletion_cost", gate="PodDeletionCost"),
    ),
    flags=(
        flag_spec(
            "workers",
            "concurrent-replicaset-syncs",
            INT32,
            5,
            "The number of replica sets that are allowed to sync concurrently. Larger number = more responsive "
            "replica management, but more CPU (and network) load",
        ),
    ),
    watches=(
        Watch(kind=REPLICA_SETS, keep_raw=True, predicate=any_object),
        Watch(kind=PODS),
    ),
    package=__name__,
)
