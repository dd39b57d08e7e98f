"""How long to wait for a namespace's content, and what remains of it. Pure."""

import datetime
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.api.core import Pod
from pilothouse.api.meta import Object

FINALIZER_ESTIMATE_SECONDS = 15
"""The estimate for finalizers (namespaced_resources_deleter.go, v1.36)."""

KUBERNETES_FINALIZER = "kubernetes"


class Resource(msgspec.Struct, frozen=True, order=True, gc=False):
    """A resource, in the form that conditions and errors use."""

    group: str
    version: str
    name: str

    @property
    def path(self) -> str:
        """``<group>/<version>, Resource=<name>``: Go's form, which is part of an error message."""
        return f"{self.group}/{self.version}, Resource={self.name}"

    @property
    def is_pods(self) -> bool:
        """Pods are deleted first."""
        return self.name == "pods" and not self.group


class RemainingContent(msgspec.Struct, frozen=True):
    """The remaining objects of one resource. ``estimate_seconds`` 0: there is no estimate, even if objects remain."""

    count: int = 0
    finalizers: Mapping[str, int] = {}
    estimate_seconds: int = 0


GONE = RemainingContent()


class UnexpectedContent(Exception):
    """Objects that remain although they were deleted and have neither finalizers nor a grace period. They count as
    remaining."""

    def __init__(self, message: str, remaining: RemainingContent) -> None:
        super().__init__(message)
        self.remaining = remaining


def estimate_graceful_termination_for_pods(
    pods: Iterable[Pod], deleted_at: datetime.datetime, now: datetime.datetime
) -> int:
    """The longest grace period of pods that still run, or 0 once that much time has passed since the deletion."""
    estimate = max(
        (
            pod.spec.termination_grace_period_seconds or 0
            for pod in pods
            if pod.status.phase not in ("Succeeded", "Failed")
        ),
        default=0,
    )
    return max(estimate, 0) if (now - deleted_at).total_seconds() < estimate else 0


def remaining_content(
    resource: Resource, namespace: str, items: Iterable[Object], estimate_seconds: int
) -> RemainingContent:
    """Evaluate the objects that a list after the deletion still contains.

    Raises ``UnexpectedContent`` when there is no reason for them to exist; the next sync retries.
    """
    count = 0
    finalizers: dict[str, int] = {}
    for item in items:
        count += 1
        for finalizer in item.metadata.finalizers:
            finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    if count == 0:
        return GONE
    if estimate_seconds > 0:
        return RemainingContent(count, finalizers, estimate_seconds)
    if finalizers:
        return RemainingContent(count, finalizers, FINALIZER_ESTIMATE_SECONDS)
    message = f"unexpected items still remain in namespace: {namespace} for gvr: {resource.path}"
    raise UnexpectedContent(message, RemainingContent(count))


class Totals:
    def __init__(self) -> None:
        self.counts: dict[Resource, int] = {}
        self.finalizers: dict[str, int] = {}
        self.estimate_seconds = 0

    def add(self, resource: Resource, remaining: RemainingContent) -> None:
        self.estimate_seconds = max(self.estimate_seconds, remaining.estimate_seconds)
        if remaining.count > 0:
            self.counts[resource] = remaining.count
            for finalizer, count in remaining.finalizers.items():
                self.finalizers[finalizer] = self.finalizers.get(finalizer, 0) + count


_LONGEST_PAUSE = 3600


def pause_seconds(estimate_seconds: int) -> int:
    """The requeue delay: half of ``estimate_seconds``, and one second; at most an hour, since a grace period may be
    anything up to 292 billion years."""
    return min(estimate_seconds // 2 + 1, _LONGEST_PAUSE)


def finalizers_without_kubernetes(finalizers: Iterable[str]) -> list[str]:
    """``spec.finalizers`` without ``kubernetes``: sorted, without duplicates."""
    return sorted({name for name in finalizers if name != KUBERNETES_FINALIZER})
