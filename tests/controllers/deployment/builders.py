"""Builders of minimal Deployments and ReplicaSets for tables."""

import datetime
from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.api.apps import (
    Deployment,
    DeploymentCondition,
    DeploymentSpec,
    DeploymentStatus,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.deployment.annotations import DESIRED_REPLICAS, MAX_REPLICAS, REVISION
from pilothouse.controllers.workloads.deployment.sizes import Resize

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def at(seconds: float) -> datetime.datetime:
    """The instant this long after the start."""
    return START + datetime.timedelta(seconds=seconds)


def sized(steps: Iterable[Resize]) -> list[Resize]:
    """The actions without their reasons. Asserts that each has one."""
    steps = list(steps)
    assert all(step.reason for step in steps)
    return [msgspec.structs.replace(step, reason="") for step in steps]


def template(image: str = "a", labels: dict[str, str] | None = None, **more: Any) -> msgspec.Raw:
    """A pod template."""
    spec = {"containers": [{"name": "main", "image": image}], **more}
    return msgspec.Raw(msgspec.json.encode({"metadata": {"labels": labels or {"app": "web"}}, "spec": spec}))


def deployment(
    replicas: int | None = 10,
    surge: int | str | None = 0,
    unavailable: int | str | None = 0,
    *,
    strategy: str = "RollingUpdate",
    annotations: dict[str, str] | None = None,
    status: DeploymentStatus | None = None,
    generation: int = 0,
    deleted: bool = False,
    **spec: Any,
) -> Deployment:
    """A Deployment named web."""
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    return Deployment(
        metadata=ObjectMeta(
            name="web",
            namespace="default",
            uid="uid-web",
            generation=generation,
            annotations=annotations or {},
            deletion_timestamp=START if deleted else None,
        ),
        spec=DeploymentSpec(
            **{
                "replicas": replicas,
                "strategy": DeploymentStrategy(
                    type=strategy, rolling_update=rolling if strategy == "RollingUpdate" else None
                ),
                "template": template(),
                **spec,
            }
        ),
        status=status or DeploymentStatus(),
    )


def replica_set(
    name: str,
    size: int | None = 0,
    *,
    age: float = 0.0,
    available: int = 0,
    desired: int | None = None,
    most: int | None = None,
    revision: str | None = None,
    annotations: dict[str, str] | None = None,
    generation: int = 0,
    deleted: bool = False,
    of: msgspec.Raw | None = None,
    **status: Any,
) -> ReplicaSet:
    """A ReplicaSet created ``age`` seconds before the start."""
    noted = dict(annotations or {})
    for key, value in ((DESIRED_REPLICAS, desired), (MAX_REPLICAS, most), (REVISION, revision)):
        if value is not None:
            noted[key] = str(value)
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            annotations=noted,
            generation=generation,
            creation_timestamp=at(-age),
            deletion_timestamp=START if deleted else None,
        ),
        spec=ReplicaSetSpec(replicas=size, template=template() if of is None else of),
        status=ReplicaSetStatus(available_replicas=available, **status),
    )


def progressing(
    reason: str, status: str = "True", *, updated: float = 0.0, since: float = 0.0, message: str = ""
) -> DeploymentCondition:
    """A Progressing condition."""
    return DeploymentCondition(
        type="Progressing",
        status=status,
        reason=reason,
        message=message,
        last_update_time=at(updated),
        last_transition_time=at(since),
    )
