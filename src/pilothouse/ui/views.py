"""The fields of stored objects that the page reads. All others are skipped while decoding."""

from typing import Any, TypedDict

import msgspec

Texts = dict[str, str]


class OwnerReference(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int | None = None
    labels: Texts | None = None
    owner_references: list[OwnerReference] | None = None


class AnnotatedMetadata(Metadata, rename="camel"):
    annotations: Texts | None = None


class Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Taint(msgspec.Struct):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(msgspec.Struct):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(msgspec.Struct):
    allocatable: Texts | None = None
    conditions: list[Condition] | None = None


class Node(msgspec.Struct):
    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class _Container(TypedDict, total=False):
    name: str
    restartPolicy: str | None


class _ContainerStatus(TypedDict, total=False):
    name: str
    ready: bool
    started: bool | None
    restartCount: int
    state: dict[str, Any] | None


class _PodCondition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None


class PodSpec(TypedDict, total=False):
    nodeName: str | None
    containers: list[_Container] | None
    initContainers: list[_Container] | None


class PodStatus(TypedDict, total=False):
    phase: str | None
    reason: str | None
    message: str | None
    conditions: list[_PodCondition] | None
    containerStatuses: list[_ContainerStatus] | None
    initContainerStatuses: list[_ContainerStatus] | None


class Pod(msgspec.Struct):
    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class WorkloadSpec(msgspec.Struct, rename="camel"):
    """The fields of all workload kinds; each kind has some of them."""

    replicas: int | None = None
    paused: bool | None = None
    completions: int | None = None
    parallelism: int | None = None
    suspend: bool | None = None
    schedule: str | None = None


class WorkloadStatus(msgspec.Struct, rename="camel"):
    observed_generation: int | None = None
    replicas: int | None = None
    updated_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    current_number_scheduled: int | None = None
    desired_number_scheduled: int | None = None
    updated_number_scheduled: int | None = None
    number_ready: int | None = None
    number_available: int | None = None
    update_revision: str | None = None
    active: Any = None
    """A number in Jobs, references in CronJobs."""
    ready: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    last_schedule_time: str | None = None
    conditions: list[Condition] | None = None


class Workload(msgspec.Struct):
    metadata: AnnotatedMetadata
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class Involved(msgspec.Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(msgspec.Struct):
    component: str | None = None


class EventSeries(msgspec.Struct, rename="camel"):
    count: int | None = None
    last_observed_time: str | None = None


class Event(msgspec.Struct, rename="camel"):
    metadata: Metadata
    involved_object: Involved = msgspec.field(default_factory=Involved)
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    reporting_component: str | None = None
