"""Warnings about Services. After kubernetes' ``pkg/api/service/warnings.go`` (v1.36)."""

from collections.abc import Iterator

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_cidr, warnings_for_ip

_HINTS, _TOPOLOGY_MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


def warnings_for_service(obj: Object) -> Iterator[str]:
    """``GetWarningsForService``."""
    spec = obj["spec"]
    is_external_name, cluster_ip = spec.get("type") == "ExternalName", spec.get("clusterIP") or ""
    external_ips, load_balancer_ip = spec.get("externalIPs") or (), spec.get("loadBalancerIP")
    if _HINTS in (obj["metadata"].get("annotations") or ()):
        yield f"annotation {_HINTS} is deprecated, please use {_TOPOLOGY_MODE} instead"
    if cluster_ip not in ("", "None"):
        for position, ip in enumerate(spec.get("clusterIPs") or ()):
            yield from warnings_for_ip(ip, f"spec.clusterIPs[{position}]")
    is_headless = spec.get("type") == "ClusterIP" and cluster_ip == "None"
    if is_headless:
        ignored = (
            ("loadBalancerIP", load_balancer_ip),
            ("externalIPs", external_ips),
            ("SessionAffinity", spec.get("sessionAffinity") != "None"),
        )
        yield from (f"spec.{field} is ignored for headless services" for field, is_set in ignored if is_set)
    for position, ip in enumerate(external_ips):
        yield from warnings_for_ip(ip, f"spec.externalIPs[{position}]")
    if external_ips and not is_headless and not is_external_name:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if load_balancer_ip:
        yield from warnings_for_ip(load_balancer_ip, "spec.loadBalancerIP")
    for position, cidr in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from warnings_for_cidr(cidr, f"spec.loadBalancerSourceRanges[{position}]")
    if is_external_name and external_ips:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if not is_external_name and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'
