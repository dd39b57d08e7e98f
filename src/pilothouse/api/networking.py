"""``networking.k8s.io/v1``: ServiceCIDRs, and the IPAddresses that are allocated from them."""

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, LabelSelector, ObjectMeta, View


class ServiceCIDRSpec(View, frozen=True):
    cidrs: tuple[str, ...] = ()


class ServiceCIDRStatus(View, frozen=True):
    """``Ready``: whether addresses are allocated from it."""

    conditions: tuple[Condition, ...] = ()


class ServiceCIDR(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceCIDRSpec = ServiceCIDRSpec()
    status: ServiceCIDRStatus = ServiceCIDRStatus()


class IPAddress(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class TypedLocalObjectReference(View, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class ServiceBackendPort(View, frozen=True):
    name: str = ""
    number: int = 0


class IngressServiceBackend(View, frozen=True):
    name: str = ""
    port: ServiceBackendPort | None = None


class IngressBackend(View, frozen=True):
    resource: TypedLocalObjectReference | None = None
    service: IngressServiceBackend | None = None


class HTTPIngressPath(View, frozen=True):
    backend: IngressBackend | None = None
    path: str = ""
    path_type: str = ""


class HTTPIngressRuleValue(View, frozen=True):
    paths: tuple[HTTPIngressPath, ...] = ()


class IngressRule(View, frozen=True):
    host: str = ""
    http: HTTPIngressRuleValue | None = None


class IngressTLS(View, frozen=True):
    hosts: tuple[str, ...] = ()
    secret_name: str = ""


class IngressSpec(View, frozen=True):
    default_backend: IngressBackend | None = None
    ingress_class_name: str = ""
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTLS, ...] = ()


class IngressPortStatus(View, frozen=True):
    error: str = ""
    port: int = 0
    protocol: str = ""


class IngressLoadBalancerIngress(View, frozen=True):
    hostname: str = ""
    ip: str = ""
    ports: tuple[IngressPortStatus, ...] = ()


class IngressLoadBalancerStatus(View, frozen=True):
    ingress: tuple[IngressLoadBalancerIngress, ...] = ()


class IngressStatus(View, frozen=True):
    load_balancer: IngressLoadBalancerStatus | None = None


class Ingress(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: IngressSpec = IngressSpec()
    status: IngressStatus = IngressStatus()


class IngressClassParametersReference(View, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    scope: str = ""


class IngressClassSpec(View, frozen=True):
    controller: str = ""
    parameters: IngressClassParametersReference | None = None


class IngressClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: IngressClassSpec = IngressClassSpec()


class NetworkPolicyPort(View, frozen=True):
    end_port: int = 0
    port: int | str | None = None
    protocol: str = ""


class IPBlock(View, frozen=True):
    cidr: str = ""
    except_: tuple[str, ...] = msgspec.field(default=(), name="except")


class NetworkPolicyPeer(View, frozen=True):
    ip_block: IPBlock | None = None
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class NetworkPolicyEgressRule(View, frozen=True):
    ports: tuple[NetworkPolicyPort, ...] = ()
    to: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicyIngressRule(View, frozen=True):
    from_: tuple[NetworkPolicyPeer, ...] = msgspec.field(default=(), name="from")
    ports: tuple[NetworkPolicyPort, ...] = ()


class NetworkPolicySpec(View, frozen=True):
    egress: tuple[NetworkPolicyEgressRule, ...] = ()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    pod_selector: LabelSelector | None = None
    policy_types: tuple[str, ...] = ()


class NetworkPolicy(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkPolicySpec = NetworkPolicySpec()


SERVICE_CIDRS = Kind("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False, ServiceCIDR)
IP_ADDRESSES = Kind("networking.k8s.io", "v1", "ipaddresses", "IPAddress", False, IPAddress)
INGRESSES = Kind("networking.k8s.io", "v1", "ingresses", "Ingress", True, Ingress)
INGRESS_CLASSES = Kind("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False, IngressClass)
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True, NetworkPolicy)
