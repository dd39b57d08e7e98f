"""Builders of pods, budgets and workloads."""

import datetime
from typing import Any

from pilothouse.api.core import Pod, PodCondition, PodStatus
from pilothouse.api.meta import LabelSelector, ObjectMeta, OwnerReference
from pilothouse.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from pilothouse.runtime import Cache, object_key

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LABELS = {"foo": "bar"}


def ago(seconds: float) -> datetime.datetime:
    """The instant this long before now."""
    return NOW - datetime.timedelta(seconds=seconds)


def owner(kind: str, uid: str, api_version: str = "apps/v1", name: str = "foobar") -> OwnerReference:
    """A controller reference."""
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid, controller=True)


def pod(
    name: str,
    *owners: OwnerReference,
    ready: bool = True,
    terminating: bool = False,
    phase: str = "Running",
    conditions: tuple[PodCondition, ...] = (),
    labels: dict[str, str] = LABELS,
    **meta: Any,
) -> Pod:
    """A pod with this readiness."""
    listed = (PodCondition(type="Ready", status="True"),) if ready else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            labels=labels,
            deletion_timestamp=NOW if terminating else None,
            owner_references=owners,
            **meta,
        ),
        status=PodStatus(phase=phase, conditions=(*listed, *conditions)),
    )


def budget(status: PodDisruptionBudgetStatus | None = None, *, generation: int = 0, **spec: Any) -> PodDisruptionBudget:
    """A budget of the pods above."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="foobar", namespace="default", uid="uid-budget", generation=generation),
        spec=PodDisruptionBudgetSpec(**{"selector": LabelSelector(match_labels=LABELS), **spec}),
        status=status or PodDisruptionBudgetStatus(),
    )


def cache_of(kind: str, *objects: Any) -> Cache[Any]:
    """A cache with these objects."""
    cache: Cache[Any] = Cache(kind)
    for obj in objects:
        cache.put(object_key(obj.metadata), obj)
    return cache


def meta(uid: str, *owners: OwnerReference) -> ObjectMeta:
    """A controller reference to a workload named foobar."""
    return ObjectMeta(name="foobar", namespace="default", uid=uid, owner_references=owners)
