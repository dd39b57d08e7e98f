"""Defaults of Services. After kubernetes' ``pkg/apis/core/v1/defaults.go`` (v1.36)."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.services.service_types import TYPES, is_externally_accessible


def set_defaults_service(obj: Object) -> None:
    spec: Object = obj.setdefault("spec", {})
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        client_ip: Object = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        if client_ip.get("timeoutSeconds") is None:
            client_ip["timeoutSeconds"] = 10800
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port")
    kind = spec["type"]
    if kind in TYPES and kind != "ExternalName" and not spec.get("internalTrafficPolicy"):
        spec["internalTrafficPolicy"] = "Cluster"
    if is_externally_accessible(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        load_balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        for ingress in load_balancer.get("ingress") or ():
            if ingress.get("ip") and ingress.get("ipMode") is None:
                ingress["ipMode"] = "VIP"
