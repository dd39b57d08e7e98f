"""The core group, ``v1``: pods, nodes, namespaces, events."""

import datetime

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class PodCondition(View, frozen=True):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_probe_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None


class ResourceRequirements(View, frozen=True):
    """Quantities by resource name, as written."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class ContainerPort(View, frozen=True):
    """A port of a container."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class Container(View, frozen=True):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()


class Toleration(View, frozen=True):
    """A taint that a pod can live with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(View, frozen=True):
    """One expression about a node's labels or fields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(View, frozen=True):
    """Expressions that must all hold. An empty term selects nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(View, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(View, frozen=True):
    """Which nodes a pod needs."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(View, frozen=True):
    """What a pod wants to be near."""

    node_affinity: NodeAffinity | None = None


class PodSchedulingGate(View, frozen=True):
    """What keeps the scheduler's hands off a pod."""

    name: str = ""


class PodReadinessGate(View, frozen=True):
    """A condition that must be True before the pod is ready."""

    condition_type: str = ""


class PodSpec(View, frozen=True):
    """What a pod should be."""

    node_name: str = ""
    scheduler_name: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    host_network: bool = False
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    affinity: Affinity | None = None
    resources: ResourceRequirements = ResourceRequirements()
    overhead: dict[str, str] = {}
    priority: int | None = None


class ContainerStatus(View, frozen=True):
    """What a container is."""

    name: str = ""
    restart_count: int = 0
    ready: bool = False


class PodStatus(View, frozen=True):
    """What a pod is."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: datetime.datetime | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    nominated_node_name: str = ""
    observed_generation: int = 0


class Pod(View, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(View, frozen=True):
    """What a pod is made from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Taint(View, frozen=True):
    """What keeps pods that do not tolerate it from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime.datetime | None = None


class NodeSpec(View, frozen=True):
    """What a node should be."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_cidr: str = msgspec.field(default="", name="podCIDR")


class NodeCondition(View, frozen=True):
    """A condition of a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None


class NodeStatus(View, frozen=True):
    """What a node is."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[NodeCondition, ...] = ()


class Node(View, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceSpec(View, frozen=True):
    """What still has to be cleaned up before a namespace may go."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(View, frozen=True):
    """``Active`` or ``Terminating``, and how far the deletion has come."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(View, frozen=True):
    """A namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ObjectReference(View, frozen=True):
    """Another object, or a part of it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(View, frozen=True):
    """Who saw it."""

    component: str = ""
    host: str = ""


class Event(View, frozen=True):
    """Something that happened to an object."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: datetime.datetime | None = None
    last_timestamp: datetime.datetime | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""


PODS = Kind("", "v1", "pods", "Pod", True, Pod)
NODES = Kind("", "v1", "nodes", "Node", False, Node)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", False, Namespace)
EVENTS = Kind("", "v1", "events", "Event", True, Event)
