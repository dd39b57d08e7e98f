"""Which changes of an object still hold, and which fields make its controller do something. Pure.

What was changed and changed back is no reason of what is so now, and neither is the change that took it back.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.machinery.differences import ABSENT, Difference
from pilothouse.machinery.times import TimeError, parse_time

_OF_RECORDS = {
    "cronjobs.batch": ("spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit"),
    "daemonsets.apps": ("spec.revisionHistoryLimit",),
    "deployments.apps": ("spec.revisionHistoryLimit", "spec.progressDeadlineSeconds"),
    "jobs.batch": ("spec.ttlSecondsAfterFinished",),
    "statefulsets.apps": ("spec.revisionHistoryLimit", "spec.persistentVolumeClaimRetentionPolicy"),
}
"""Fields that say how long records of the past are kept: nothing is started, and no pod is deleted, because of them."""
_ACTING_METADATA = {
    "namespaces": ("metadata.labels",),
    "nodes": ("metadata.labels",),
    "pods": ("metadata.labels", "metadata.ownerReferences"),
    "storageclasses.storage.k8s.io": ("metadata.annotations",),
    "ingressclasses.networking.k8s.io": ("metadata.annotations",),
}
"""Of other kinds of Kubernetes labels and annotations only describe."""


class Edit(msgspec.Struct, frozen=True):
    """What one change changed."""

    time: str
    differences: tuple[Difference, ...]


def acts(resource: str, path: str, *, keeps_records: bool = False) -> bool:
    """Whether a field of an object makes a controller do something. ``keeps_records`` is whether it is asked for the
    deletion of a record, such as a finished Job."""
    if path.startswith("metadata."):
        group = resource.partition(".")[2]
        if "." in group and not group.endswith(".k8s.io"):
            return path.startswith(
                ("metadata.labels", "metadata.annotations")
            )  # what custom resources use is not known
        return path.startswith(_ACTING_METADATA.get(resource, ("metadata.finalizers",)))
    if path.startswith("status") or path in ("metadata", "kind", "apiVersion"):
        return False
    return keeps_records or not path.startswith(_OF_RECORDS.get(resource, ("status",)))


def last_standing(edits: Sequence[Edit], born: str = "") -> int | None:
    """The place of the last of the edits, oldest first, of which something still holds; None if nothing does.

    A value that was changed back sooner than it had been there before counts as never changed: with A for 50 s, B for
    7 s and A again neither change holds. If B was there for an hour, it was what is usual, and the last change holds.
    ``born`` is when the object was created.
    """
    values: dict[str, list[tuple[int, str, Any]]] = {}
    for place, edit in enumerate(edits):
        for difference in edit.differences:
            values.setdefault(difference.path, [(-1, born, difference.before)]).append(
                (place, edit.time, difference.after)
            )
    last = max((_standing(value) for value in values.values()), default=-1)
    return None if last < 0 else last


def _standing(values: list[tuple[int, str, Any]]) -> int:
    last = len(values) - 1
    while last > 0:
        same = next((k for k in range(last - 2, -1, -1) if _same(values[k][2], values[last][2])), None)
        if same is None or not _is_detour(values[same][1], values[same + 1][1], values[last][1]):
            break
        last = same
    return values[last][0]


def _same(one: Any, other: Any) -> bool:
    return one is other if one is ABSENT or other is ABSENT else bool(one == other)


def _is_detour(since: str, left: str, back: str) -> bool:
    try:
        first, second, third = (parse_time(each) for each in (since, left, back))
    except TimeError:
        return True  # from logs without times
    return third - second <= second - first
