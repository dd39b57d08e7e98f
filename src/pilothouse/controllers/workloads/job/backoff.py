"""How long to wait before a failed pod is replaced. Pure. Upstream: v1.36 ``pkg/controller/job/backoff_utils.go``.

Consecutive failures are remembered in memory only, as upstream.
"""

import datetime
from collections.abc import Iterable

import msgspec

from pilothouse.api.core import ContainerStatus, Pod
from pilothouse.machinery.times import add_seconds
from pilothouse.semantics.pods import ready_condition

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 600.0


class BackoffRecord(msgspec.Struct, frozen=True):
    """How many pods have failed since the last that succeeded, and when the last of them did."""

    count: int = 0
    last_at: datetime.datetime | None = None


NONE = BackoffRecord()


def get_finished_time(pod: Pod) -> datetime.datetime | None:
    """When the pod finished: the end of its last container, else when it became unready, else its deletion, else its
    creation (``getFinishedTime``)."""
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    ended = _last_end(None, pod.status.container_statuses)
    # Sidecars end after the other containers. Their end is also used if one of the others has none.
    ended = _last_end(ended, (status for status in pod.status.init_container_statuses if status.name in sidecars))
    if ended is not None:
        return ended
    ready = ready_condition(pod)
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time
    meta = pod.metadata
    if meta.deletion_timestamp is not None:
        return add_seconds(meta.deletion_timestamp, -(meta.deletion_grace_period_seconds or 0))
    return meta.creation_timestamp


def _last_end(ended: datetime.datetime | None, statuses: Iterable[ContainerStatus]) -> datetime.datetime | None:
    """The latest of these ends and ``ended``; None if a container has not ended."""
    for status in statuses:
        terminated = status.state.terminated
        if terminated is None or terminated.finished_at is None:
            return None
        ended = terminated.finished_at if ended is None else max(ended, terminated.finished_at)
    return ended


def _latest(pods: Iterable[Pod]) -> datetime.datetime | None:
    return max((at for at in map(get_finished_time, pods) if at is not None), default=None)


def new_backoff_record(old: BackoffRecord, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> BackoffRecord:
    """The failure count after these pods have finished."""
    succeeded_pod, failed_pod = list(succeeded), list(failed)
    if not succeeded_pod and not failed_pod:
        return old
    if not succeeded_pod:
        return BackoffRecord(old.count + len(failed_pod), _latest(failed_pod))
    latest_good = _latest(succeeded_pod)
    later = [
        pod
        for pod in failed_pod
        if (at := get_finished_time(pod)) is not None and (latest_good is None or at > latest_good)
    ]
    return BackoffRecord(len(later), _latest(later)) if later else NONE


def get_remaining_time(failures: BackoffRecord, now: datetime.datetime) -> float:
    """Seconds until a pod may be created. Failures 1, 2, 3 … wait 10, 20, 40 …, at most 600 seconds."""
    if failures.count <= 0 or failures.last_at is None:
        return 0.0
    delay = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures.count - 1, 10))
    return max(0.0, delay - (now - failures.last_at).total_seconds())
