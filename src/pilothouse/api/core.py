"""The core group, ``v1``: pods, nodes, namespaces, events."""

import datetime
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, LabelSelector, ObjectMeta, View


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


class PreferredSchedulingTerm(View, frozen=True):
    """Nodes a pod likes better, and how much."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True):
    """Which nodes a pod needs, and which it likes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(View, frozen=True):
    """Other pods, and the label of nodes within whose equal values they count as near."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(View, frozen=True):
    """Pods to be near or far from rather than not, and how much."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True):
    """Pods to be near, or as ``podAntiAffinity`` pods to be far from."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(View, frozen=True):
    """What a pod wants to be near."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(View, frozen=True):
    """How evenly pods are to lie over the values of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(View, frozen=True):
    """What keeps the scheduler's hands off a pod."""

    name: str = ""


class PodReadinessGate(View, frozen=True):
    """A condition that must be True before the pod is ready."""

    condition_type: str = ""


class PersistentVolumeClaimVolumeSource(View, frozen=True):
    """A volume that a claim stands for."""

    claim_name: str = ""


class EphemeralVolumeSource(View, frozen=True):
    """A claim that is made for the pod and goes with it: its metadata and its spec, in a dict, as they came."""

    volume_claim_template: Any = msgspec.field(default_factory=dict)


class Volume(View, frozen=True):
    """A volume of a pod. ``persistent_volume_claim`` and ``ephemeral`` are None for those of other kinds."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodResourceClaim(View, frozen=True):
    """An entry of a pod for devices: the claim of that name, or one that is made for the pod from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(View, frozen=True):
    """With which other pods a pod is scheduled: those of a PodGroup of its namespace."""

    pod_group_name: str = ""


class PodSpec(View, frozen=True):
    """What a pod should be."""

    scheduling_group: PodSchedulingGroup | None = None

    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
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
    priority_class_name: str = ""
    active_deadline_seconds: int | None = None
    preemption_policy: str = ""
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class ContainerStateTerminated(View, frozen=True):
    """How and when a container ended."""

    exit_code: int = 0
    finished_at: datetime.datetime | None = None


class ContainerState(View, frozen=True):
    """What a container does now, as far as it has ended."""

    terminated: ContainerStateTerminated | None = None


class ContainerStatus(View, frozen=True):
    """What a container is."""

    name: str = ""
    restart_count: int = 0
    ready: bool = False
    state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str] = {}


class PodIP(View, frozen=True):
    """An address of a pod."""

    ip: str = ""


class PodResourceClaimStatus(View, frozen=True):
    """Which claim was made for an entry of the pod. Without a name: none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodExtendedResourceClaimStatus(View, frozen=True):
    """Which claim the scheduler made for extended resources of the pod that are devices."""

    resource_claim_name: str = ""


class PodStatus(View, frozen=True):
    """What a pod is."""

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: datetime.datetime | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    nominated_node_name: str = ""
    observed_generation: int = 0
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


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
    provider_id: str = msgspec.field(default="", name="providerID")
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")


class NodeCondition(View, frozen=True):
    """A condition of a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None


class AttachedVolume(View, frozen=True):
    """A volume that is attached to a node."""

    name: str = ""


class NodeAddress(View, frozen=True):
    """An address of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(View, frozen=True):
    """What a node is. ``volumes_attached`` the attach/detach controller says, ``volumes_in_use`` the kubelet."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[NodeCondition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


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


class ConfigMap(View, frozen=True):
    """Configuration as text, by key."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class Secret(View, frozen=True):
    """What nobody else is to read. Its text, in a log say, leaves everything out that could tell."""

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: dict[str, bytes | None] = {}

    def __repr__(self) -> str:
        # Annotations are left out as well: kubectl keeps what was applied in one.
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, type={self.type!r})"


class SecretReference(View, frozen=True):
    """A secret of the same namespace."""

    name: str = ""


class ServiceAccount(View, frozen=True):
    """Whom pods run as, and the secrets that were made for it: by releases before v1.24, or by hand."""

    metadata: ObjectMeta = ObjectMeta()
    secrets: tuple[SecretReference, ...] = ()


class ServicePort(View, frozen=True):
    """A port of a service, and the one behind it: a number, or the name of a container's port."""

    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class ClientIPConfig(View, frozen=True):
    """For how long a client stays with its endpoint."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(View, frozen=True):
    """How clients stay with their endpoints."""

    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(View, frozen=True):
    """What a service selects and under which addresses it is found. No selector: somebody else writes endpoints."""

    type: str = ""
    selector: dict[str, str] | None = None
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ip_families: tuple[str, ...] = msgspec.field(default=(), name="ipFamilies")
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    traffic_distribution: str = ""
    allocate_load_balancer_node_ports: bool | None = None
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    load_balancer_ip: str = msgspec.field(default="", name="loadBalancerIP")
    load_balancer_class: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()


class PortStatus(View, frozen=True):
    """A port of a load balancer, and what is wrong with it."""

    port: int = 0
    protocol: str = ""
    error: str | None = None


class LoadBalancerIngress(View, frozen=True):
    """One address of a load balancer. ``ip_mode``: whether nodes answer for it themselves (``VIP``) or not
    (``Proxy``)."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(View, frozen=True):
    """Where a load balancer is found."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(View, frozen=True):
    """What came of a service's wish for a load balancer."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(View, frozen=True):
    """A service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class EndpointAddress(View, frozen=True):
    """One address of an Endpoints."""

    ip: str = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointsPort(View, frozen=True):
    """One port of an Endpoints."""

    name: str = ""
    port: int = 0
    protocol: str = ""
    app_protocol: str | None = None


class EndpointSubset(View, frozen=True):
    """Addresses that have the same ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointsPort, ...] = ()


class Endpoints(View, frozen=True):
    """Where a service is reached, in the older form."""

    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[EndpointSubset, ...] = ()


class PersistentVolumeClaimSpec(View, frozen=True):
    """What a volume should be. ``storage_class_name`` is None where nothing was said, which the empty text is not."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(View, frozen=True):
    """To which class a volume is being changed."""

    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(View, frozen=True):
    """What the volume is."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str] = {}
    allocated_resources: dict[str, str] = {}
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(View, frozen=True):
    """A wish for a volume. Who writes one back needs it whole."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ScopedResourceSelectorRequirement(View, frozen=True):
    """One line of a scope selector."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(View, frozen=True):
    """Lines that must all hold."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(View, frozen=True):
    """What a namespace may use at most, of what is in all of the scopes."""

    hard: dict[str, str] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(View, frozen=True):
    """The limits that are in force, and what is used."""

    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(View, frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class ReplicationControllerSpec(View, frozen=True):
    """What a ReplicationController should be. Its template stays raw, as in ``ReplicaSetSpec``."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: dict[str, str] = {}
    template: msgspec.Raw = msgspec.Raw(b"{}")


class ReplicationControllerCondition(View, frozen=True):
    """A condition of a ReplicationController."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime.datetime | None = None


class ReplicationControllerStatus(View, frozen=True):
    """What a ReplicationController is."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[ReplicationControllerCondition, ...] = ()

    @property
    def terminating_replicas(self) -> int | None:
        """Not reported, unlike a ReplicaSet's."""
        return None


class ReplicationController(View, frozen=True):
    """A ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


PODS = Kind("", "v1", "pods", "Pod", True, Pod)
NODES = Kind("", "v1", "nodes", "Node", False, Node)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", False, Namespace)
EVENTS = Kind("", "v1", "events", "Event", True, Event)
EVENT_TYPE_NORMAL, EVENT_TYPE_WARNING = "Normal", "Warning"
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, ConfigMap)
SECRETS = Kind("", "v1", "secrets", "Secret", True, Secret)
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount", True, ServiceAccount)
SERVICES = Kind("", "v1", "services", "Service", True, Service)
ENDPOINTS = Kind("", "v1", "endpoints", "Endpoints", True, Endpoints)
PERSISTENT_VOLUME_CLAIMS = Kind(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, PersistentVolumeClaim
)
REPLICATION_CONTROLLERS = Kind("", "v1", "replicationcontrollers", "ReplicationController", True, ReplicationController)
RESOURCE_QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", True, ResourceQuota)

ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"
"""The ConfigMap of every namespace with the authority of the API server."""
