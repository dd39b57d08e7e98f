"""The annotations of Deployments and ReplicaSets: revisions, and the replicas that a size was computed for. Pure.

Upstream: ``SetNewReplicaSetAnnotations``, ``SetReplicasAnnotations`` and their like, v1.36
``pkg/controller/deployment/util/deployment_util.go``.
"""

import re
from collections.abc import Iterable, Mapping

from pilothouse.api.apps import ReplicaSet

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

NOT_COPIED = frozenset({LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO})
"""What belongs to the Deployment or to the ReplicaSet alone."""

HISTORY_LIMIT = 2000
"""Characters of ``REVISION_HISTORY``."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)
_INT32_MAX = 2**31 - 1


def integer(text: str) -> int | None:
    """What Go's ``ParseInt(text, 10, 64)`` makes of it; ``None`` for an error."""
    if _INTEGER.fullmatch(text) is None or int(text) not in _INT64:
        return None
    return int(text)


def revision_of(annotations: Mapping[str, str]) -> int | None:
    """The revision: 0 if there is none, ``None`` if it is not a number."""
    text = annotations.get(REVISION)
    return 0 if text is None else integer(text)


def max_revision(sets: Iterable[ReplicaSet]) -> int:
    """The highest revision; what is not a number is ignored."""
    return max((revision_of(each.metadata.annotations) or 0 for each in sets), default=0)


def last_revision(sets: Iterable[ReplicaSet]) -> int:
    """The one before the highest one, 0 if there is none."""
    highest = second = 0
    for each in sets:
        revision = revision_of(each.metadata.annotations)
        if revision is None:
            continue
        if revision >= highest:
            second, highest = highest, revision
        elif revision > second:
            second = revision
    return second


def replicas_note(annotations: Mapping[str, str], name: str) -> int | None:
    """``DESIRED_REPLICAS`` or ``MAX_REPLICAS`` of a ReplicaSet; ``None`` where there is no number that makes sense."""
    text = annotations.get(name, "")
    if not text.isascii() or not text.isdecimal() or int(text) > _INT32_MAX:
        return None
    return int(text)


def replicas_notes(replicas: int, surge: int) -> dict[str, str]:
    """Annotations that are set with a size: by them it is later seen that the Deployment was scaled."""
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + surge)}


def next_annotations(deployment: Mapping[str, str], own: Mapping[str, str], revision: int) -> dict[str, str] | None:
    """The annotations of the newest ReplicaSet; ``None`` if they are right as they are.

    The Deployment's are copied, none is removed. The revision only grows: after a rollback the old ReplicaSet gets the
    next number, and its former number goes into the history.
    """
    noted = dict(own)
    for name, value in deployment.items():
        if name not in NOT_COPIED:
            noted[name] = value
    text = own.get(REVISION)
    before = 0 if not text else integer(text)
    if before is None:
        return None  # not a number: edited by hand; upstream changes nothing either
    if before < revision:
        noted[REVISION] = str(revision)
        if text is not None:
            history = longer_history(own.get(REVISION_HISTORY, ""), text)
            if history is not None:
                noted[REVISION_HISTORY] = history
    return None if noted == own else noted


def longer_history(history: str, revision: str) -> str | None:
    """The history with one more entry, without its oldest ones when it gets too long; ``None`` when nothing helps."""
    if not history.split(",", 1)[0]:
        return revision
    entries = history.split(",")
    length = len(history) + len(revision) + 1
    start = 0
    while length > HISTORY_LIMIT and start < len(entries):
        length -= len(entries[start]) + 1
        start += 1
    return ",".join([*entries[start:], revision]) if length <= HISTORY_LIMIT else None


def rolled_back(deployment: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    """The Deployment's annotations after going back: its own special ones, and otherwise the ReplicaSet's."""
    kept = {name: value for name, value in deployment.items() if name in NOT_COPIED}
    return kept | {name: value for name, value in target.items() if name not in NOT_COPIED}
