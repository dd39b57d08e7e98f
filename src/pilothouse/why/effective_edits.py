"""Finds the changes of an object that were not reverted, and the fields that its controller acts on. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.machinery.differences import ABSENT, Difference
from pilothouse.machinery.times import TimeError, parse_time

_HISTORY_FIELDS = {
    "cronjobs.batch": ("spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit"),
    "daemonsets.apps": ("spec.revisionHistoryLimit",),
    "deployments.apps": ("spec.revisionHistoryLimit", "spec.progressDeadlineSeconds"),
    "jobs.batch": ("spec.ttlSecondsAfterFinished",),
    "statefulsets.apps": ("spec.revisionHistoryLimit", "spec.persistentVolumeClaimRetentionPolicy"),
}
"""Fields that set how long finished objects are kept; pods are not created or deleted because of them."""
_EFFECTIVE_METADATA = {
    "namespaces": ("metadata.labels",),
    "nodes": ("metadata.labels",),
    "pods": ("metadata.labels", "metadata.ownerReferences"),
    "storageclasses.storage.k8s.io": ("metadata.annotations",),
    "ingressclasses.networking.k8s.io": ("metadata.annotations",),
}
"""Controllers do not act on labels and annotations of Kubernetes' other kinds."""


class Edit(msgspec.Struct, frozen=True):
    """The fields changed by one write."""

    time: str
    differences: tuple[Difference, ...]


def controller_acts_on(resource: str, path: str, *, keeps_records: bool = False) -> bool:
    """Whether a controller acts on a field of an object. With ``keeps_records`` fields of history limits count too: the
    question is then why a finished Job or an old ReplicaSet was deleted."""
    if path.startswith("metadata."):
        group = resource.partition(".")[2]
        if "." in group and not group.endswith(".k8s.io"):
            return path.startswith(("metadata.labels", "metadata.annotations"))  # an operator may act on any
        return path.startswith(_EFFECTIVE_METADATA.get(resource, ("metadata.finalizers",)))
    if path.startswith("status") or path in ("metadata", "kind", "apiVersion"):
        return False
    return keeps_records or not path.startswith(_HISTORY_FIELDS.get(resource, ("status",)))


def last_effective_edit(edits: Sequence[Edit], created_at: str = "") -> int | None:
    """The index of the last edit, oldest first, that was not reverted; None if all were. A value counts as reverted if
    it lasted no longer than the one before: with A for 50 s, B for 7 s and A again neither edit counts. If B lasted an
    hour, the last edit counts. ``created_at`` is when the object was created."""
    values: dict[str, list[tuple[int, str, Any]]] = {}
    for index, edit in enumerate(edits):
        for difference in edit.differences:
            values.setdefault(difference.path, [(-1, created_at, difference.before)]).append(
                (index, edit.time, difference.after)
            )
    last = max((_effective_index(history) for history in values.values()), default=-1)
    return None if last < 0 else last


def _effective_index(values: list[tuple[int, str, Any]]) -> int:
    last = len(values) - 1
    while last > 0:
        earlier = next((k for k in range(last - 2, -1, -1) if _same(values[k][2], values[last][2])), None)
        if earlier is None or not _is_reverted(values[earlier][1], values[earlier + 1][1], values[last][1]):
            break
        last = earlier
    return values[last][0]


def _same(left: Any, right: Any) -> bool:
    return left is right if left is ABSENT or right is ABSENT else bool(left == right)


def _is_reverted(first_set: str, changed_at: str, reverted_at: str) -> bool:
    try:
        first, second, third = (parse_time(text) for text in (first_set, changed_at, reverted_at))
    except TimeError:
        return True  # from logs without times
    return third - second <= second - first
