"""Maintains the status of PodDisruptionBudgets, which the eviction API (``kubectl drain``, node autoscalers,
descheduler) uses to decide whether a pod may be evicted.

Behaviour: ``disruptionsAllowed`` is computed from the caches: healthy pods without those that were evicted and still
exist, minus those that the budget requires. It never overwrites an eviction that the controller has not observed: that
is a conflict, and is computed again. A budget that cannot be computed allows no disruptions, and its condition has the
reason. An eviction that deleted no pod is dropped after two minutes, and so is the condition ``DisruptionTarget`` of
the pod.

Not guaranteed: that no pod is disrupted. Only evictions respect budgets; deletions, node failures and rollouts don't.

docs/controllers/disruption.md lists its triggers and its differences from upstream.
"""

from pilothouse.api.apps import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from pilothouse.api.core import PODS, REPLICATION_CONTROLLERS, Pod
from pilothouse.api.policy import POD_DISRUPTION_BUDGETS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object


def _has_condition(pod: Pod) -> bool:
    return any(condition.type == "DisruptionTarget" for condition in pod.status.conditions)


DESCRIPTOR = Descriptor(
    name="disruption-controller",
    aliases=("disruption",),
    client_name="disruption-controller",
    watches=(
        Watch(kind=POD_DISRUPTION_BUDGETS, keep_raw=True, predicate=any_object),
        Watch(kind=PODS, predicate=_has_condition),
        Watch(kind=REPLICATION_CONTROLLERS),
        Watch(kind=REPLICA_SETS),
        Watch(kind=DEPLOYMENTS),
        Watch(kind=STATEFUL_SETS),
    ),
    package=__name__,
)
