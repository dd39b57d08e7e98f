"""The fields of pods that a kubelet needs, in structs of their own: controllers decode fewer fields."""

import datetime

import msgspec

from pilothouse.api import core
from pilothouse.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View


class ProbedPort(View, frozen=True):
    """The port of an HTTP or TCP probe, by its number or name."""

    port: int | str = 0


class Probe(View, frozen=True):
    """A probe, of which only the initial delay and the port matter."""

    initial_delay_seconds: int = 0
    http_get: ProbedPort | None = None
    tcp_socket: ProbedPort | None = None


class KeyReference(View, frozen=True):
    """One key of a ConfigMap or Secret, or all of them if ``key`` is empty."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class FieldReference(View, frozen=True):
    """A field of the pod."""

    field_path: str = ""


class ValueSource(View, frozen=True):
    """The source of a variable's value."""

    field_ref: FieldReference | None = None
    config_map_key_ref: KeyReference | None = None
    secret_key_ref: KeyReference | None = None


class Variable(View, frozen=True):
    """A variable of a container."""

    name: str = ""
    value: str = ""
    value_from: ValueSource | None = None


class VariablesSource(View, frozen=True):
    """An object whose keys all become variables."""

    config_map_ref: KeyReference | None = None
    secret_ref: KeyReference | None = None


class KeyToPath(View, frozen=True):
    """A key of an object that becomes a file."""

    key: str = ""


class ObjectSource(View, frozen=True):
    """A ConfigMap or Secret in a volume. Secret volumes have ``secret_name``, all others ``name``."""

    name: str = ""
    secret_name: str = ""
    items: tuple[KeyToPath, ...] | None = ()
    optional: bool | None = None


class ProjectedSource(View, frozen=True):
    """One source of a projected volume."""

    config_map: ObjectSource | None = None
    secret: ObjectSource | None = None


class ProjectedVolume(View, frozen=True):
    """Several sources in one volume."""

    sources: tuple[ProjectedSource, ...] | None = ()


class NodeVolume(core.Volume, frozen=True):
    """A volume with its API objects."""

    config_map: ObjectSource | None = None
    secret: ObjectSource | None = None
    projected: ProjectedVolume | None = None


class SleepAction(View, frozen=True):
    """A hook that only takes time."""

    seconds: int = 0


class ExecAction(View, frozen=True):
    """A hook that executes a command in the container."""

    command: tuple[str, ...] = ()


class LifecycleHandler(View, frozen=True):
    """A hook; one that sends a request has neither."""

    sleep: SleepAction | None = None
    exec: ExecAction | None = None


class Lifecycle(View, frozen=True):
    """The hooks of a container that take time here."""

    pre_stop: LifecycleHandler | None = None


class NodeContainer(Container, frozen=True):
    """A container with its command and its probes."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    image_pull_policy: str = ""
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    env: tuple[Variable, ...] | None = ()
    env_from: tuple[VariablesSource, ...] | None = ()
    stdin: bool = False
    lifecycle: Lifecycle | None = None


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
    """The state of a container."""

    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    started: bool = False


class NodePodSpec(PodSpec, frozen=True):
    """A pod's spec, for its kubelet."""

    containers: tuple[NodeContainer, ...] = ()
    init_containers: tuple[NodeContainer, ...] = ()
    ephemeral_containers: tuple[NodeContainer, ...] = ()
    volumes: tuple[NodeVolume, ...] = ()
    active_deadline_seconds: int | None = None


class NodePodStatus(PodStatus, frozen=True):
    """A pod, for its kubelet."""

    container_statuses: tuple[NodeContainerStatus, ...] = ()
    init_container_statuses: tuple[NodeContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[NodeContainerStatus, ...] = ()
    qos_class: str = msgspec.field(default="", name="qosClass")


class NodePod(Pod, frozen=True):
    """A pod, for its kubelet."""

    spec: NodePodSpec = NodePodSpec()
    status: NodePodStatus = NodePodStatus()


NODE_PODS = Kind("", "v1", "pods", "Pod", True, NodePod)


class Contents(View, frozen=True):
    """The keys of a ConfigMap or Secret."""

    data: dict[str, msgspec.Raw] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


CONFIG_MAP_CONTENTS = Kind("", "v1", "configmaps", "ConfigMap", True, Contents)
SECRET_CONTENTS = Kind("", "v1", "secrets", "Secret", True, Contents)
