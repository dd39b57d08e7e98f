"""The fields of pods that a kubelet needs, in structs of their own: controllers decode fewer fields."""

import datetime

import msgspec

from pilothouse.api import core
from pilothouse.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View


class Probe(View, frozen=True):
    """A probe, of which only the time before the first one counts."""

    initial_delay_seconds: int = 0


class NodeContainer(Container, frozen=True):
    """A container with its command and its probes."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    image_pull_policy: str = ""
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None


class Waiting(View, frozen=True):
    """A container that does not run yet."""

    reason: str = ""
    message: str = ""


class Running(View, frozen=True):
    """A container that runs."""

    started_at: datetime.datetime | None = None


class Terminated(core.ContainerStateTerminated, frozen=True):
    """A container that ran."""

    reason: str = ""
    message: str = ""
    started_at: datetime.datetime | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(core.ContainerState, frozen=True):
    """One of three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class NodeContainerStatus(ContainerStatus, frozen=True):
    """What a container is doing."""

    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    started: bool = False


class NodePodSpec(PodSpec, frozen=True):
    """What a pod should be, for its kubelet."""

    containers: tuple[NodeContainer, ...] = ()
    init_containers: tuple[NodeContainer, ...] = ()
    ephemeral_containers: tuple[NodeContainer, ...] = ()
    active_deadline_seconds: int | None = None


class NodePodStatus(PodStatus, frozen=True):
    """What a pod is, for its kubelet."""

    container_statuses: tuple[NodeContainerStatus, ...] = ()
    init_container_statuses: tuple[NodeContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[NodeContainerStatus, ...] = ()
    qos_class: str = msgspec.field(default="", name="qosClass")


class NodePod(Pod, frozen=True):
    """A pod, for its kubelet."""

    spec: NodePodSpec = NodePodSpec()
    status: NodePodStatus = NodePodStatus()


NODE_PODS = Kind("", "v1", "pods", "Pod", True, NodePod)
