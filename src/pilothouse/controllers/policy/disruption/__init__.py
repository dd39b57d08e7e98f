"""Maintains the status of PodDisruptionBudgets, which the eviction API (``kubectl drain``, node autoscalers,
descheduler) uses to decide whether a pod may be evicted.

Behaviour: ``disruptionsAllowed`` is what the caches say that the budget leaves: healthy pods without those that were
evicted and are not gone yet, less those that must stay. It never is written over an eviction that the controller has
not seen: such a write is a conflict, and is computed anew. A budget that cannot be computed allows nothing and says
why. An eviction that deleted nothing is forgotten after two minutes, and so is what it left on its pod, the condition
``DisruptionTarget``.

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
