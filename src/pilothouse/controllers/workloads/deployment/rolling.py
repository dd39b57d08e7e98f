"""The rolling update: how far the new ReplicaSet grows and the old ones shrink in one sync. Pure.

Upstream: v1.36 ``pkg/controller/deployment/rolling.go``, ``NewRSNewReplicas`` of ``util/deployment_util.go``.
"""

from collections.abc import Sequence

from pilothouse.api.apps import Deployment, ReplicaSet
from pilothouse.controllers.workloads.deployment.bounds import bounds_of, desired_replicas, is_rolling
from pilothouse.controllers.workloads.deployment.sizes import Resize, by_age, size_of


def new_rs_new_replicas(deployment: Deployment, total: int, new: int) -> int:
    """The size that the new ReplicaSet, which has ``new`` desired pods, may have now if all ReplicaSets have ``total``
    (``NewRSNewReplicas``).

    With 10 replicas and a surge of 3: with 10 old pods it gets 3, with 8 old ones and 3 new ones it gets 5.
    """
    replicas = desired_replicas(deployment)
    if not is_rolling(deployment):
        return replicas
    max_scaled_down = replicas + bounds_of(deployment).surge - total
    if max_scaled_down <= 0:
        return new
    return new + min(max_scaled_down, replicas - new)


def reconcile_new_replica_set(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Scale the new ReplicaSet towards its final size."""
    replicas, size = desired_replicas(deployment), size_of(new)
    if size == replicas:
        return []
    if size > replicas:
        return [Resize(new.metadata.name, replicas, reason=f"it is to have {replicas}")]
    total = size + sum(map(size_of, old))
    allowed = new_rs_new_replicas(deployment, total, size)
    if allowed == size:
        return []
    reason = f"{replicas} replicas are wanted"
    if is_rolling(deployment):
        surge = bounds_of(deployment).surge
        reason += f", maxSurge {surge} allows {replicas + surge} pods in all, and the ReplicaSets have {total}"
    return [Resize(new.metadata.name, allowed, reason=reason)]


def reconcile_old_replica_sets(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Scale down the old ReplicaSets as far as the bounds allow.

    Unavailable pods first; pods that the new ReplicaSet still waits for count as unavailable. Example: 10 replicas,
    maxUnavailable 2; the old ReplicaSet has 8 desired pods, all available, the new one 5, none available. Then 13 - 8 -
    5 = 0 may be removed. If 4 of the 8 are unavailable, none of them may be removed either: the 5 new ones may never
    become available.

    Then by available pods, as long as enough remain. One ReplicaSet may be named twice.
    """
    active = [rs for rs in old if size_of(rs) > 0]
    if not active:
        return []
    all_pods_count = size_of(new) + sum(map(size_of, active))
    unavailable = bounds_of(deployment).unavailable
    min_available = desired_replicas(deployment) - unavailable
    new_unavailable = size_of(new) - min_available_replicas(new)
    max_scaled_down = all_pods_count - min_available - new_unavailable
    if max_scaled_down <= 0:
        return []
    bound = f"at least {min_available} of {desired_replicas(deployment)} must be (maxUnavailable {unavailable})"
    steps: list[Resize] = []
    sizes: dict[str, int] = {}
    ordered = sorted(active, key=by_age)
    for rs in ordered:
        size = sizes[rs.metadata.name] = size_of(rs)
        unhealthy = size - rs.status.available_replicas
        removed_pods = min(max_scaled_down, unhealthy)
        if removed_pods > 0:
            reason = f"{unhealthy} of its pods are not available; {bound}, so {max_scaled_down} may go"
            max_scaled_down -= removed_pods
            sizes[rs.metadata.name] = size - removed_pods
            steps.append(Resize(rs.metadata.name, size - removed_pods, reason=reason))
    available = sum(map(min_available_replicas, (new, *active)))
    removable = available - min_available
    for rs in ordered:
        size = sizes[rs.metadata.name]
        removed_pods = min(size, removable)
        if removed_pods > 0:
            removable -= removed_pods
            reason = f"{available} pods are available, {bound}"
            steps.append(Resize(rs.metadata.name, size - removed_pods, reason=reason))
    return steps


def min_available_replicas(replica_set: ReplicaSet) -> int:
    """The minimum of available pods of a ReplicaSet. A status from before it was scaled may count pods that are gone or
    about to be deleted."""
    if replica_set.status.observed_generation < replica_set.metadata.generation:
        return 0
    return min(size_of(replica_set), replica_set.status.available_replicas)
