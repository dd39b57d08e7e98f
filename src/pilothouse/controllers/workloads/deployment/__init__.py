"""Rolls the pods of a Deployment from one pod template to the next, by scaling up one ReplicaSet and scaling
down the others.

Behaviour: during a rolling update, the ReplicaSets together never have more than ``replicas`` + maxSurge desired pods,
and none is removed if fewer than ``replicas`` - maxUnavailable would remain available. Recreate starts no new pod while
an old one exists. Every template that was rolled out keeps its ReplicaSet, with its revision, within
``revisionHistoryLimit``. No decision is based on a cache that is older than this controller's last write for the
Deployment. Pods are only created and deleted by the ReplicaSet controller.

Not guaranteed: that a stuck rollout is ended. It is reported after its deadline; nothing is rolled back.

docs/controllers/deployment.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.apps import DEPLOYMENTS, REPLICA_SETS
from pilothouse.api.core import PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class DeploymentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. ``report_terminating`` is upstream's gate ``DeploymentReplicaSetTerminatingReplicas``."""

    workers: int = 5
    report_terminating: bool = True


DESCRIPTOR = Descriptor(
    name="deployment-controller",
    aliases=("deployment",),
    client_name="deployment-controller",
    options=DeploymentOptions,
    gate_fields=(GateSpec(field="report_terminating", gate="DeploymentReplicaSetTerminatingReplicas"),),
    flags=(
        flag_spec(
            "workers",
            "concurrent-deployment-syncs",
            INT32,
            5,
            "The number of deployment objects that are allowed to sync concurrently. Larger number = more "
            "responsive deployments, but more CPU (and network) load",
        ),
    ),
    watches=(
        Watch(kind=DEPLOYMENTS, keep_raw=True, predicate=any_object),
        Watch(kind=REPLICA_SETS, keep_raw=True),
        Watch(kind=PODS),
    ),
    package=__name__,
)
