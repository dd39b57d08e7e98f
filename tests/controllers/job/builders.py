"""Builders of Jobs and pods for tables."""

import datetime
from collections.abc import Mapping
from typing import Any

from pilothouse.api.batch import Job, JobSpec, JobStatus
from pilothouse.api.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.job import TRACKING
from pilothouse.controllers.workloads.job.indexes import INDEX

NO_NOTES: Mapping[str, str] = {}
T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def at(seconds: float) -> datetime.datetime:
    """The instant this many seconds after the start."""
    return T0 + datetime.timedelta(seconds=seconds)


def job(status: JobStatus | None = None, *, deleted: bool = False, **spec: Any) -> Job:
    """A Job."""
    meta = ObjectMeta(namespace="default", name="work", uid="job", deletion_timestamp=T0 if deleted else None)
    return Job(metadata=meta, spec=JobSpec(**spec), status=status or JobStatus())


def ended(name: str, code: int, *, seconds: float | None = None) -> ContainerStatus:
    """A terminated container."""
    finished = None if seconds is None else at(seconds)
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=code, finished_at=finished))
    return ContainerStatus(name=name, state=state)


def pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    deleted: float | None = None,
    tracked: bool = True,
    ready: bool | None = None,
    finished: float | None = None,
    containers: tuple[ContainerStatus, ...] = (),
    init_containers: tuple[ContainerStatus, ...] = (),
    conditions: tuple[PodCondition, ...] = (),
    node: str = "n",
    grace: int | None = None,
    sidecars: tuple[str, ...] = (),
    notes: Mapping[str, str] = NO_NOTES,
) -> Pod:
    """A pod of the Job; its uid is its name."""
    annotations = dict(notes)
    if index is not None:
        annotations[INDEX] = str(index)
    if ready is not None:
        conditions = (*conditions, PodCondition(type="Ready", status=str(ready), last_transition_time=T0))
    if finished is not None:
        containers = (ended("main", 0 if phase == "Succeeded" else 1, seconds=finished),)
    return Pod(
        metadata=ObjectMeta(
            namespace="default",
            name=name,
            uid=name,
            creation_timestamp=T0,
            deletion_timestamp=None if deleted is None else at(deleted),
            deletion_grace_period_seconds=grace,
            finalizers=(TRACKING,) if tracked else (),
            annotations=annotations,
        ),
        spec=PodSpec(
            node_name=node,
            init_containers=tuple(Container(name=name, restart_policy="Always") for name in sidecars),
        ),
        status=PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=containers,
            init_container_statuses=init_containers,
        ),
    )
