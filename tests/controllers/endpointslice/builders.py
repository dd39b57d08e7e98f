"""Builders of Services, pods, nodes and slices, and the resulting plan."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.api.core import (
    Container,
    ContainerPort,
    Node,
    Pod,
    PodCondition,
    PodIP,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
)
from pilothouse.api.discovery import EndpointSlice
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.network.endpointslice.decide import Plan, decide, new_slice
from pilothouse.controllers.network.endpointslice.desired import desired_endpoints

HTTP = ServicePort(name="http", protocol="TCP", port=80, target_port=8080)


def service(**spec: Any) -> Service:
    """A service ``web`` with an IPv4 cluster IP."""
    labels = spec.pop("labels", {})
    whole = {"selector": {"app": "web"}, "cluster_ip": "10.0.0.1", "ip_families": ("IPv4",), "ports": (HTTP,), **spec}
    return Service(
        metadata=ObjectMeta(name="web", namespace="ns", uid="uid-web", labels=labels), spec=ServiceSpec(**whole)
    )


def pod(
    number: int, *, ready: bool = True, node: str = "n1", ips: Iterable[str] = (), port: int = 8080, **spec: Any
) -> Pod:
    """A pod ``p<number>`` of ``web`` with an IPv4 address."""
    name = f"p{number:04}"
    containers = (Container(name="main", ports=(ContainerPort(name="http", container_port=port, protocol="TCP"),)),)
    addresses = tuple(PodIP(ip=ip) for ip in ips) or (PodIP(ip=f"10.1.{number // 250}.{number % 250 + 1}"),)
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", labels={"app": "web"}),
        spec=PodSpec(**{"node_name": node, "containers": containers, **spec}),
        status=PodStatus(
            phase="Running",
            pod_ip=addresses[0].ip,
            pod_ips=addresses,
            conditions=(PodCondition(type="Ready", status=str(ready)),),
        ),
    )


def node(name: str) -> Node | None:
    """A node in zone ``a`` (n1), ``b`` (n2) or none; the node ``gone`` does not exist."""
    zone = {"n1": "a", "n2": "b"}.get(name, "")
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return None if name == "gone" else Node(metadata=ObjectMeta(name=name, labels=labels))


def planned(
    owner: Service,
    pods: Sequence[Pod],
    existing: Sequence[EndpointSlice] = (),
    *,
    most: int = 100,
    address_type: str = "IPv4",
) -> Plan:
    """The plan for these pods and slices."""
    return decide(owner, existing, desired_endpoints(owner, pods, address_type, node), address_type, most)


def written(plan: Plan, before: Sequence[EndpointSlice] = ()) -> list[EndpointSlice]:
    """The slices after the plan, named and sorted."""
    slices = {endpoint_slice.metadata.name: endpoint_slice for endpoint_slice in before}
    for item in plan.deletes:
        del slices[item.metadata.name]
    for item in (*plan.updates, *plan.replacements):
        slices[item.metadata.name] = item
    for item in plan.creates:
        number = 0
        while (name := f"web-{number:03}") in slices:
            number += 1
        slices[name] = replace(item, metadata=replace(item.metadata, name=name))
    return [slices[name] for name in sorted(slices)]


def slices_of(owner: Service, *groups: Sequence[Pod]) -> list[EndpointSlice]:
    """One slice per group of pods, as if written one after the other."""
    result = []
    for number, pods in enumerate(groups):
        desired = desired_endpoints(owner, pods, "IPv4", node)
        [group] = desired.groups.values()
        endpoint_slice = replace(new_slice(owner, "IPv4", group.ports), endpoints=tuple(group.endpoints.values()))
        result.append(replace(endpoint_slice, metadata=replace(endpoint_slice.metadata, name=f"web-{number:03}")))
    return result


def sizes(slices: Iterable[EndpointSlice]) -> list[int]:
    """The number of endpoints of each slice."""
    return [len(endpoint_slice.endpoints or ()) for endpoint_slice in slices]
