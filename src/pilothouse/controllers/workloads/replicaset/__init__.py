"""Keeps the number of a ReplicaSet's pods at ``spec.replicas``, and updates its status.

Behaviour: pods that count are neither finished nor being deleted, so a pod on its way out is replaced at once. One sync
creates or deletes at most 500 pods, creates in growing batches (1, 2, 4, …, stopping at the first batch with an
error), and does nothing before the caches have shown what earlier syncs did. Matching pods without a controller are
adopted, own pods that no longer match are released; no pod ever has two owners. New pods are the template as stored,
also what this program does not know of it. The status names the generation that it is about.

Not guaranteed: an exact number of pods at every instant. After a create whose response was lost, the pods are listed
before another one is sent; if the server carries it out even later, the surplus pod is deleted.

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
    """What can be set. The last three are upstream's gates ``DeploymentReplicaSetTerminatingReplicas``,
    ``StaleControllerConsistencyReplicaSet`` and ``PodDeletionCost``, all on in v1.36."""

    workers: int = 5
    burst: int = 500
    """At most so many creates or deletes in one sync. Not a flag, as upstream."""
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
