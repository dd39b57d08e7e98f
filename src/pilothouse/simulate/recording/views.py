"""The fields of stored objects that a recorder decodes. All others are skipped, which is most of an object."""

import msgspec

from pilothouse.api.policy import PodDisruptionBudgetSpec


class _View(msgspec.Struct, rename="camel", gc=False):
    pass


class OwnerReference(_View):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(_View):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


def controller_of(metadata: Metadata) -> OwnerReference | None:
    """The controller reference, as ``metav1.GetControllerOf``."""
    return next((reference for reference in metadata.owner_references or () if reference.controller), None)


class Condition(_View):
    type: str = ""
    status: str = ""
    reason: str | None = None


class PodMetadata(_View):
    """Pod metadata, without annotations."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Container(_View):
    image: str | None = None


class ContainerStatus(_View):
    restart_count: int = 0


class PodSpec(_View):
    node_name: str | None = None
    containers: list[Container] | None = None


class PodStatus(_View):
    phase: str | None = None
    reason: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(_View):
    metadata: PodMetadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class RollingUpdate(_View):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class Strategy(_View):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class OwnerSpec(_View):
    """The fields of all workload kinds together."""

    replicas: int | None = None
    strategy: Strategy | None = None
    update_strategy: Strategy | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class OwnerStatus(_View):
    desired_number_scheduled: int | None = None
    succeeded: int | None = None
    conditions: list[Condition] | None = None


class Owner(_View):
    metadata: Metadata
    spec: OwnerSpec = msgspec.field(default_factory=OwnerSpec)
    status: OwnerStatus = msgspec.field(default_factory=OwnerStatus)


class ControllerRevision(_View):
    metadata: Metadata
    revision: int = 0


class Budget(_View):
    metadata: Metadata
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)


class NodeSpec(_View):
    unschedulable: bool | None = None


class NodeStatus(_View):
    conditions: list[Condition] | None = None


class Node(_View):
    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class InvolvedObject(_View):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(_View):
    count: int | None = None


class Event(_View):
    involved_object: InvolvedObject = msgspec.field(default_factory=InvolvedObject)
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    series: EventSeries | None = None
