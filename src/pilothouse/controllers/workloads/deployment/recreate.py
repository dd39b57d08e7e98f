"""The strategy Recreate: new pods only after all old ones are gone. Pure.

Upstream: v1.36 ``pkg/controller/deployment/recreate.go``.
"""

from collections.abc import Iterable, Sequence

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.deployment.sizes import Resize, is_in_use


def scale_down_old_replica_sets_for_recreate(old: Sequence[ReplicaSet]) -> list[Resize]:
    reason = "strategy Recreate: old pods go before new ones come"
    return [Resize(rs.metadata.name, 0, reason=reason) for rs in old if is_in_use(rs)]


def old_pods_running(old: Sequence[ReplicaSet], old_pods: Iterable[Pod]) -> bool:
    """Whether an old pod may still run; a terminating one counts until it is gone."""
    if any(rs.status.replicas > 0 for rs in old):
        return True
    return any(pod.status.phase not in ("Succeeded", "Failed") for pod in old_pods)
