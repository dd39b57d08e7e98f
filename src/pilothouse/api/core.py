"""The core group, ``v1``: pods, nodes, namespaces, events."""

import datetime
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, LabelSelector, ObjectMeta, View


class PodCondition(View, frozen=True):
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
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(View, frozen=True):
    action: str = ""


class Container(View, frozen=True):
    name: str = ""
    image: str = ""
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()


class Toleration(View, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(View, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(View, frozen=True):
    """Expressions that must all match. An empty term matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(View, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(View, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(View, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(View, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True):
    """Terms of pods to be co-located with, or for ``podAntiAffinity`` not to be."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(View, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(View, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(View, frozen=True):
    name: str = ""


class PodReadinessGate(View, frozen=True):
    condition_type: str = ""


class PersistentVolumeClaimVolumeSource(View, frozen=True):
    claim_name: str = ""


class EphemeralVolumeSource(View, frozen=True):
    """A claim that is created for the pod and deleted with it: its metadata and spec, as raw dicts."""

    volume_claim_template: Any = msgspec.field(default_factory=dict)


class ImageVolumeSource(View, frozen=True):
    reference: str = ""


class Volume(View, frozen=True):
    """A volume of a pod. ``persistent_volume_claim``, ``ephemeral`` and ``image`` are None for those of other kinds."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None


class PodResourceClaim(View, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(View, frozen=True):
    pod_group_name: str = ""


class PodSpec(View, frozen=True):
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
    exit_code: int = 0
    finished_at: datetime.datetime | None = None


class ContainerState(View, frozen=True):
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(View, frozen=True):
    name: str = ""
    restart_count: int = 0
    ready: bool = False
    state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str] = {}


class PodIP(View, frozen=True):
    ip: str = ""


class PodResourceClaimStatus(View, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodExtendedResourceClaimStatus(View, frozen=True):
    resource_claim_name: str = ""


class PodStatus(View, frozen=True):
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
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str] = {}


class Pod(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Taint(View, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime.datetime | None = None


class NodeSpec(View, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")


class NodeCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None


class AttachedVolume(View, frozen=True):
    name: str = ""


class NodeAddress(View, frozen=True):
    type: str = ""
    address: str = ""


class ContainerImage(View, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(View, frozen=True):
    """The state of a node. The attach/detach controller sets ``volumes_attached``, the kubelet ``volumes_in_use``."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[NodeCondition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceSpec(View, frozen=True):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(View, frozen=True):
    """``Active`` or ``Terminating``, and the progress of the deletion."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ObjectReference(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(View, frozen=True):
    """The component that reported the event."""

    component: str = ""
    host: str = ""


class Event(View, frozen=True):
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
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class Secret(View, frozen=True):
    """``repr`` and ``str`` omit the data."""

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: dict[str, bytes | None] = {}

    def __repr__(self) -> str:
        # Annotations are left out as well: kubectl keeps what was applied in one.
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, type={self.type!r})"


class SecretReference(View, frozen=True):
    name: str = ""


class ServiceAccount(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    secrets: tuple[SecretReference, ...] = ()


class ServicePort(View, frozen=True):
    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class ClientIPConfig(View, frozen=True):
    timeout_seconds: int | None = None


class SessionAffinityConfig(View, frozen=True):
    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(View, frozen=True):
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
    port: int = 0
    protocol: str = ""
    error: str | None = None


class LoadBalancerIngress(View, frozen=True):
    """One address of a load balancer. ``ip_mode``: whether nodes deliver its traffic themselves (``VIP``) or it
    arrives with the address of a node (``Proxy``)."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(View, frozen=True):
    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(View, frozen=True):
    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class EndpointAddress(View, frozen=True):
    ip: str = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointsPort(View, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = ""
    app_protocol: str | None = None


class EndpointSubset(View, frozen=True):
    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointsPort, ...] = ()


class PartialEndpoints(View, frozen=True):
    """Endpoints without their addresses, for caches: addresses need a third of their memory as JSON."""

    metadata: ObjectMeta = ObjectMeta()


class Endpoints(PartialEndpoints, frozen=True):
    subsets: tuple[EndpointSubset, ...] = ()


class PersistentVolumeClaimSpec(View, frozen=True):
    """The requested volume. ``storage_class_name`` is None if it is not set; the empty text is a value of its own."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(View, frozen=True):
    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(View, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str] = {}
    allocated_resources: dict[str, str] = {}
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(View, frozen=True):
    """Read completely, so that it can be written back."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ScopedResourceSelectorRequirement(View, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(View, frozen=True):
    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(View, frozen=True):
    hard: dict[str, str] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(View, frozen=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class ReplicationControllerSpec(View, frozen=True):
    """The desired state of a ReplicationController. The template stays raw, as in ``ReplicaSetSpec``."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: dict[str, str] = {}
    template: msgspec.Raw = msgspec.Raw(b"{}")


class ReplicationControllerCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime.datetime | None = None


class ReplicationControllerStatus(View, frozen=True):
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
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


class LimitRangeItem(View, frozen=True):
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}
    max: dict[str, str] = {}
    max_limit_request_ratio: dict[str, str] = {}
    min: dict[str, str] = {}
    type: str = ""


class LimitRangeSpec(View, frozen=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class PodTemplate(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec | None = None


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
PARTIAL_ENDPOINTS = ENDPOINTS.read_as(PartialEndpoints)
PERSISTENT_VOLUME_CLAIMS = Kind(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, PersistentVolumeClaim
)
REPLICATION_CONTROLLERS = Kind("", "v1", "replicationcontrollers", "ReplicationController", True, ReplicationController)
RESOURCE_QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", True, ResourceQuota)
LIMIT_RANGES = Kind("", "v1", "limitranges", "LimitRange", True, LimitRange)
POD_TEMPLATES = Kind("", "v1", "podtemplates", "PodTemplate", True, PodTemplate)

ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"
"""The ConfigMap of every namespace with the authority of the API server."""
