"""Builders of pods and ReplicaSets for tables."""

import datetime

from pilothouse.api.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus
from pilothouse.api.core import Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus
from pilothouse.api.meta import LabelSelector, ObjectMeta, OwnerReference

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def ago(**duration: float) -> datetime.datetime:
    """An instant before ``NOW``."""
    return NOW - datetime.timedelta(**duration)


def owned_by(name: str = "web", uid: str = "owner-uid", kind: str = "ReplicaSet") -> tuple[OwnerReference, ...]:
    """A controller reference to ``name``."""
    return (
        OwnerReference(
            api_version="apps/v1", kind=kind, name=name, uid=uid, controller=True, block_owner_deletion=True
        ),
    )


def pod(
    name: str,
    *,
    uid: str = "",
    node: str = "node",
    phase: str = "Running",
    ready: bool = True,
    ready_since: datetime.datetime | None = None,
    created: datetime.datetime | None = None,
    restarts: tuple[int, ...] = (),
    sidecar_restarts: tuple[int, ...] = (),
    cost: str | None = None,
    labels: dict[str, str] | None = None,
    deleted: bool = False,
    owner: tuple[OwnerReference, ...] = (),
) -> Pod:
    """A pod of namespace default; running and ready by default."""
    conditions = (PodCondition(type="Ready", status="True", last_transition_time=ready_since),) if ready else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=uid or name,
            labels={"app": "web"} if labels is None else labels,
            annotations={} if cost is None else {"controller.kubernetes.io/pod-deletion-cost": cost},
            creation_timestamp=created,
            deletion_timestamp=NOW if deleted else None,
            owner_references=owner,
        ),
        spec=PodSpec(
            node_name=node,
            init_containers=tuple(
                Container(name=f"side-{index}", restart_policy="Always") for index in range(len(sidecar_restarts))
            ),
        ),
        status=PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=tuple(
                ContainerStatus(name=f"main-{index}", restart_count=count) for index, count in enumerate(restarts)
            ),
            init_container_statuses=tuple(
                ContainerStatus(name=f"side-{index}", restart_count=count)
                for index, count in enumerate(sidecar_restarts)
            ),
        ),
    )


def replica_set(
    replicas: int = 1,
    *,
    status: ReplicaSetStatus | None = None,
    conditions: tuple[ReplicaSetCondition, ...] = (),
    generation: int = 1,
    min_ready_seconds: int = 0,
) -> ReplicaSet:
    """The ReplicaSet default/web, selecting app=web."""
    return ReplicaSet(
        metadata=ObjectMeta(name="web", namespace="default", uid="owner-uid", generation=generation),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=min_ready_seconds,
            selector=LabelSelector(match_labels={"app": "web"}),
        ),
        status=status or ReplicaSetStatus(conditions=conditions),
    )
