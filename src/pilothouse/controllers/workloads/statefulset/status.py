"""What a StatefulSet reports. Pure: the counts and the revisions give the status.

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
    seen: Tally,
    *,
    current: str,
    update: str,
    collision_count: int,
    replaced: int = 0,
    report_available: bool = True,
) -> StatefulSetStatus | None:
    """The status to write, or ``None`` when the one that is there says the same.

    ``replaced`` current pods were deleted for the update after they had been counted. The update is over when all pods
    there should be, and no others, are ready and updated: then its revision is the current one. Without
    ``report_available`` the server keeps no ``availableReplicas``, so no difference is seen in them.
    """
    after = StatefulSetStatus(
        observed_generation=owner.metadata.generation,
        replicas=seen.replicas,
        ready_replicas=seen.ready,
        available_replicas=seen.available,
        current_replicas=seen.current - replaced,
        updated_replicas=seen.updated,
        current_revision=current,
        update_revision=update,
        collision_count=collision_count,
    )
    if rules.strategy == ROLLING_UPDATE and seen.updated == seen.ready == seen.replicas == rules.wanted:
        after = replace(after, current_replicas=after.updated_replicas, current_revision=update)
    before = owner.status
    comparable = replace(after, observed_generation=before.observed_generation, collision_count=before.collision_count)
    available = before.available_replicas or 0
    if not report_available:
        available = seen.available
    same = comparable == replace(before, available_replicas=available)
    return None if same and after.observed_generation <= before.observed_generation else after


_REQUIRED = ("replicas", "availableReplicas")
_NAMES = tuple(msgspec.structs.fields(StatefulSetStatus))


def encode(status: StatefulSetStatus, before: msgspec.Raw | bytes | None) -> bytes:
    """The status as JSON, with what else the one before had: conditions, and fields that this program does not know.

    Two numbers are sent also when they are 0, the others are left out then.
    """
    fields: dict[str, Any] = {} if before is None else msgspec.json.decode(before, type=dict[str, msgspec.Raw])
    for field in _NAMES:
        fields.pop(field.encode_name, None)
    new = msgspec.to_builtins(status)
    for name in _REQUIRED:
        fields[name] = new.pop(name, 0)
    return msgspec.json.encode({**fields, **new})
