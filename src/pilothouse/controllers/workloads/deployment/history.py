"""Old ReplicaSets: which one to roll back to, and which to delete. Pure.

Upstream: ``cleanupDeployment`` of v1.36 ``pkg/controller/deployment/sync.go``, ``rollback.go``.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.api.apps import Deployment, ReplicaSet
from pilothouse.controllers.workloads.deployment.annotations import (
    ROLLBACK_TO,
    annotations_for_rollback,
    last_revision,
    parse_int,
    revision_of,
)
from pilothouse.controllers.workloads.deployment.sizes import by_age, size_of
from pilothouse.controllers.workloads.deployment.template import equal_ignore_hash, without_hash

UNLIMITED = 2**31 - 1


def replica_sets_to_clean_up(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The old ReplicaSets over the limit, lowest revision first.

    A ReplicaSet with existing or desired pods, or whose size was not observed by its controller, is kept; no other is
    deleted instead.
    """
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == UNLIMITED:
        return []
    cleanable = [rs for rs in old if rs.metadata.deletion_timestamp is None]
    excess = len(cleanable) - limit
    if excess <= 0:
        return []
    cleanable.sort(key=lambda rs: (revision_of(rs.metadata.annotations) or 0, by_age(rs)))
    return [rs for rs in cleanable[:excess] if _can_be_deleted(rs)]


def _can_be_deleted(replica_set: ReplicaSet) -> bool:
    is_observed = replica_set.metadata.generation <= replica_set.status.observed_generation
    return is_observed and replica_set.status.replicas == 0 and size_of(replica_set) == 0


class Rollback(msgspec.Struct, frozen=True):
    """The event about a requested rollback, and the template and annotations to roll back to, if any."""

    type: str
    reason: str
    message: str
    template: bytes | None = None
    annotations: dict[str, str] | None = None


def rollback_revision(deployment: Deployment) -> int | None:
    """The revision of the annotation that requests a rollback, 0 for the last one. (``kubectl rollout undo`` does not
    set it, it changes the template.)"""
    text = deployment.metadata.annotations.get(ROLLBACK_TO)
    return parse_int(text) if text else None


def roll_back(deployment: Deployment, sets: Sequence[ReplicaSet], revision: int) -> Rollback:
    if revision == 0:
        revision = last_revision(sets)
        if revision == 0:
            return _not_found("Unable to find last revision.")
    target = next((rs for rs in sets if revision_of(rs.metadata.annotations) == revision), None)
    if target is None:
        return _not_found("Unable to find the revision to rollback to.")
    name = deployment.metadata.name
    if equal_ignore_hash(deployment.spec.template, target.spec.template):
        message = f'The rollback revision contains the same template as current deployment "{name}"'
        return Rollback("Warning", "DeploymentRollbackTemplateUnchanged", message)
    return Rollback(
        "Normal",
        "DeploymentRollback",
        f'Rolled back deployment "{name}" to revision {revision}',
        without_hash(target.spec.template),
        annotations_for_rollback(deployment.metadata.annotations, target.metadata.annotations),
    )


def _not_found(message: str) -> Rollback:
    return Rollback("Warning", "DeploymentRollbackRevisionNotFound", message)
