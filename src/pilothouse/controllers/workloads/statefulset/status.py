"""The status of a StatefulSet. Pure.

Upstream: ``updateStatefulSetStatus``, ``completeRollingUpdate`` and ``inconsistentStatus``, v1.36
``pkg/controller/statefulset``.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from pilothouse.api.apps import StatefulSet, StatefulSetStatus
from pilothouse.controllers.workloads.statefulset.replicas import ROLLING_UPDATE, Rules, Tally


def next_status(
    owner: StatefulSet,
    rules: Rules,
    tally: Tally,
    *,
    current: str,
    update: str,
    collision_count: int,
    replaced: int = 0,
    report_available: bool = True,
) -> StatefulSetStatus | None:
    """The status to write, or ``None`` if nothing changed.

    ``replaced`` current pods were deleted for the update after they had been counted. The update is complete when all
    replicas, and no other pods, are ready and updated: then its revision is the current one. Without
    ``report_available`` the server keeps no ``availableReplicas``, so they are not compared.
    """
    new = StatefulSetStatus(
        observed_generation=owner.metadata.generation,
        replicas=tally.replicas,
        ready_replicas=tally.ready,
        available_replicas=tally.available,
        current_replicas=tally.current - replaced,
        updated_replicas=tally.updated,
        current_revision=current,
        update_revision=update,
        collision_count=collision_count,
    )
    if rules.strategy == ROLLING_UPDATE and tally.updated == tally.ready == tally.replicas == rules.desired:
        new = replace(new, current_replicas=new.updated_replicas, current_revision=update)
    old = owner.status
    comparable = replace(new, observed_generation=old.observed_generation, collision_count=old.collision_count)
    available = old.available_replicas or 0
    if not report_available:
        available = tally.available
    same = comparable == replace(old, available_replicas=available)
    return None if same and new.observed_generation <= old.observed_generation else new


_REQUIRED = ("replicas", "availableReplicas")
_NAMES = tuple(msgspec.structs.fields(StatefulSetStatus))


def encode(status: StatefulSetStatus, old: msgspec.Raw | bytes | None) -> bytes:
    """The status as JSON. Other fields of the previous status are kept: conditions and unknown fields. Two counts are
    written even if they are 0."""
    fields: dict[str, Any] = {} if old is None else msgspec.json.decode(old, type=dict[str, msgspec.Raw])
    for field in _NAMES:
        fields.pop(field.encode_name, None)
    new = msgspec.to_builtins(status)
    for name in _REQUIRED:
        fields[name] = new.pop(name, 0)
    return msgspec.json.encode({**fields, **new})
