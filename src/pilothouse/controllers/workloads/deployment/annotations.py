"""The annotations of Deployments and their ReplicaSets: revision, revision history, desired and maximum replicas. Pure.

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

ANNOTATIONS_TO_SKIP = frozenset({LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO})
"""Annotations that are not copied between Deployment and ReplicaSet (``annotationsToSkip``)."""

REVISION_HISTORY_LIMIT_IN_CHARS = 2000
"""Maximum length of ``REVISION_HISTORY`` (``maxRevHistoryLengthInChars``)."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)
_INT32_MAX = 2**31 - 1


def parse_int(text: str) -> int | None:
    """The value of Go's ``strconv.ParseInt(text, 10, 64)``; ``None`` for an error."""
    if _INTEGER.fullmatch(text) is None or int(text) not in _INT64:
        return None
    return int(text)


def revision_of(annotations: Mapping[str, str]) -> int | None:
    """The revision; 0 if there is no annotation, ``None`` if it is not a number."""
    text = annotations.get(REVISION)
    return 0 if text is None else parse_int(text)


def max_revision(sets: Iterable[ReplicaSet]) -> int:
    """The highest revision. Annotations that are not numbers are ignored (``MaxRevision``)."""
    return max((revision_of(rs.metadata.annotations) or 0 for rs in sets), default=0)


def last_revision(sets: Iterable[ReplicaSet]) -> int:
    """The second highest revision, 0 if there is none (``LastRevision``)."""
    highest = second_highest = 0
    for rs in sets:
        revision = revision_of(rs.metadata.annotations)
        if revision is None:
            continue
        if revision >= highest:
            second_highest, highest = highest, revision
        elif revision > second_highest:
            second_highest = revision
    return second_highest


def replicas_annotation(annotations: Mapping[str, str], name: str) -> int | None:
    """``DESIRED_REPLICAS`` or ``MAX_REPLICAS`` of a ReplicaSet; ``None`` if missing or not a non-negative int32."""
    text = annotations.get(name, "")
    if not text.isascii() or not text.isdecimal() or int(text) > _INT32_MAX:
        return None
    return int(text)


def replicas_annotations(replicas: int, surge: int) -> dict[str, str]:
    """The annotations that are set whenever a ReplicaSet is scaled (``SetReplicasAnnotations``). If they differ from
    the Deployment's replicas later, the Deployment was scaled."""
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + surge)}


def new_replica_set_annotations(
    deployment: Mapping[str, str], rs_annotations: Mapping[str, str], revision: int
) -> dict[str, str] | None:
    """The annotations of the new ReplicaSet (``SetNewReplicaSetAnnotations``); ``None`` if nothing has to change.

    The Deployment's annotations are copied, and none is removed. The revision only increases: after a rollback the old
    ReplicaSet gets the next revision, and its former one is appended to the history.
    """
    annotations = dict(rs_annotations)
    for name, value in deployment.items():
        if name not in ANNOTATIONS_TO_SKIP:
            annotations[name] = value
    text = rs_annotations.get(REVISION)
    old = 0 if not text else parse_int(text)
    if old is None:
        return None  # edited manually: as upstream, nothing is changed
    if old < revision:
        annotations[REVISION] = str(revision)
        if text is not None:
            history = append_revision_history(rs_annotations.get(REVISION_HISTORY, ""), text)
            if history is not None:
                annotations[REVISION_HISTORY] = history
    return None if annotations == rs_annotations else annotations


def append_revision_history(history: str, revision: str) -> str | None:
    """Append a revision to the history and drop the oldest entries beyond the limit; ``None`` if the revision alone
    exceeds it."""
    if not history.split(",", 1)[0]:
        return revision
    entries = history.split(",")
    length = len(history) + len(revision) + 1
    start = 0
    while length > REVISION_HISTORY_LIMIT_IN_CHARS and start < len(entries):
        length -= len(entries[start]) + 1
        start += 1
    return ",".join([*entries[start:], revision]) if length <= REVISION_HISTORY_LIMIT_IN_CHARS else None


def annotations_for_rollback(deployment: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    """The Deployment's annotations after a rollback: its own ``ANNOTATIONS_TO_SKIP``, and all others of the ReplicaSet
    (``SetDeploymentAnnotationsTo``)."""
    annotations = {name: value for name, value in deployment.items() if name in ANNOTATIONS_TO_SKIP}
    return annotations | {name: value for name, value in target.items() if name not in ANNOTATIONS_TO_SKIP}
