"""Load balancer decisions for Services and nodes: tables.

Cases of ``TestNeedsUpdate``, ``TestNeedsCleanup``, ``Test_getNodeConditionPredicate`` and others of
k8s.io/cloud-provider v0.36 ``controllers/service/controller_test.go`` have their words in the ids.
"""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import LoadBalancerIngress, LoadBalancerStatus, Node, PortStatus, Service
from pilothouse.controllers.cloud.service_lb import DESCRIPTOR, ServiceLBOptions
from pilothouse.controllers.cloud.service_lb.decide import (
    FINALIZER,
    affects_load_balancers,
    ingress_of,
    is_eligible,
    load_balanced_node_names,
    needs_cleanup,
    needs_update,
    nodes_sufficiently_equal,
    wants_load_balancer,
)

Doc = dict[str, Any]
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"


def service(type_: str = "LoadBalancer", *, finalizer: bool = False, deleted: bool = False, **more: Any) -> Service:
    """A Service; other arguments are fields of its spec."""
    metadata: Doc = {"name": "web", "namespace": "default", "uid": "u1", **more.pop("metadata", {})}
    if finalizer:
        metadata["finalizers"] = [FINALIZER]
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: Doc = {"type": type_, "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}], **more}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Service)


@cases(
    "obj, wanted",
    {
        "LoadBalancer": (service(), True),
        "ClusterIP": (service("ClusterIP"), False),
        "with loadBalancerClass": (service(loadBalancerClass="example.com/lb"), False),
    },
)
def test_wants_load_balancer(obj: Service, wanted: bool) -> None:
    assert wants_load_balancer(obj) is wanted


@cases(
    "obj, needed",
    {
        "ClusterIP without finalizer": (service("ClusterIP"), False),
        "being deleted without finalizer": (service(deleted=True), False),
        "being deleted with finalizer": (service(deleted=True, finalizer=True), True),
        "ClusterIP with finalizer": (service("ClusterIP", finalizer=True), True),
        "LoadBalancer with finalizer": (service(finalizer=True), False),
        "LoadBalancer with finalizer and loadBalancerClass": (service(finalizer=True, loadBalancerClass="x"), False),
    },
)
def test_needs_cleanup(obj: Service, needed: bool) -> None:
    assert needs_cleanup(obj) is needed


PORT = {"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}


@cases(
    "old, new, needed",
    {
        "ClusterIP, no change": (service("ClusterIP"), service("ClusterIP"), False),
        "LoadBalancer, no change": (service(), service(), False),
        "from ClusterIP to LoadBalancer": (service("ClusterIP"), service(), True),
        "from LoadBalancer to ClusterIP": (service(), service("ClusterIP"), True),
        "source ranges": (service(), service(loadBalancerSourceRanges=["10.0.0.0/8"]), True),
        "a port": (service(), service(ports=[{**PORT, "port": 81}]), True),
        "a node port": (service(), service(ports=[{**PORT, "nodePort": 30081}]), True),
        "additional port": (service(), service(ports=[PORT, {**PORT, "name": "b"}]), True),
        "app protocol": (service(), service(ports=[{**PORT, "appProtocol": "http"}]), True),
        "affinity": (service(), service(sessionAffinity="ClientIP"), True),
        "the time of the affinity": (
            service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 1}}),
            service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 2}}),
            True,
        ),
        "loadBalancerIP": (service(), service(loadBalancerIP="192.0.2.1"), True),
        "external addresses": (service(externalIPs=["1.1.1.1"]), service(externalIPs=["1.1.1.2"]), True),
        "annotations": (service(), service(metadata={"annotations": {"a": "b"}}), True),
        "labels": (service(), service(metadata={"labels": {"a": "b"}}), False),
        "different uid": (service(), service(metadata={"uid": "u2"}), True),
        "traffic policy": (service(), service(externalTrafficPolicy="Local"), True),
        "health check": (service(), service(healthCheckNodePort=30000), True),
        "a second family": (service(ipFamilies=["IPv4"]), service(ipFamilies=["IPv4", "IPv6"]), True),
        "whom it selects is of no interest": (service(), service(selector={"a": "b"}), False),
    },
)
def test_needs_update(old: Service, new: Service, needed: bool) -> None:
    assert needs_update(old, new) is needed


def node(
    name: str = "n",
    *,
    taints: Any = (),
    provider_id: str = "",
    excluded: str | None = None,
    ready: str = "True",
    labels: Any = None,
    **more: Any,
) -> Node:
    """A node; ``ready`` is the status of its condition, "" for no condition."""
    metadata: Doc = {"name": name, "labels": dict(labels or {}), **more}
    if excluded is not None:
        metadata["labels"][EXCLUDE] = excluded
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    spec = {"taints": msgspec.to_builtins(list(taints)), "providerID": provider_id}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}, Node)


TO_BE_DELETED_TAINT = node(taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])


@cases(
    "obj, expected",
    {
        "any node": (node(), True),
        "excluded": (node(excluded=""), False),
        "excluded, true": (node(excluded="true"), False),
        "excluded, false": (node(excluded="false"), True),
        "a value that is no truth value": (node(excluded="nonsense"), False),
        "about to be deleted by the autoscaler": (TO_BE_DELETED_TAINT, False),
        "being deleted": (node(deletionTimestamp="2026-01-01T00:00:00Z"), False),
        "other taints": (node(taints=[{"key": "other", "effect": "NoExecute"}]), True),
    },
)
def test_node_predicates(obj: Node, expected: bool) -> None:
    assert is_eligible(obj) is expected


@cases(
    "old, new, expected",
    {
        "no change": (node(), node(), False),
        "excluded": (node(), node(excluded="true"), True),
        "excluded as before": (node(excluded="true"), node(excluded="yes"), False),
        "providerID set": (node(), node(provider_id="x://1"), True),
        "ToBeDeleted taint": (node(), TO_BE_DELETED_TAINT, False),
    },
)
def test_node_updates_that_enqueue(old: Node, new: Node, expected: bool) -> None:
    assert affects_load_balancers(old, new) is expected


@cases(
    "also",
    {
        "tainted": {"taints": TO_BE_DELETED_TAINT.spec.taints},
        "excluded": {"excluded": ""},
        "not ready": {"ready": "False"},
        "without providerID": {"provider_id": ""},
    },
)
@cases(
    "before, after, expected",
    {
        "excluded": ({}, {"excluded": ""}, True),
        "different providerID": ({}, {"provider_id": "x://2"}, True),
        "providerID set": ({"provider_id": ""}, {"provider_id": "x://1"}, True),
        "tainted": ({}, {"taints": TO_BE_DELETED_TAINT.spec.taints}, False),
        "not ready": ({}, {"ready": "False"}, False),
        "Ready unknown": ({"ready": "False"}, {"ready": ""}, False),
        "a label": ({}, {"labels": {"other": ""}}, False),
        "marked for deletion": ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    },
)
def test_irrelevant_node_fields_do_not_enqueue(also: Doc, before: Doc, after: Doc, expected: bool) -> None:
    """Whether a change is relevant does not depend on unchanged fields or its direction."""
    changed = before.keys() | after.keys()
    stays = {name: value for name, value in ({"provider_id": "x://1"} | also).items() if name not in changed}
    usual = {"provider_id": "x://1"} if "provider_id" in changed else {}
    old, new = node(**{**usual, **stays, **before}), node(**{**usual, **stays, **after})
    assert affects_load_balancers(old, new) is expected
    assert affects_load_balancers(new, old) is expected


def test_nodes_are_compared_by_name_and_provider_id() -> None:
    assert nodes_sufficiently_equal([node("a"), node("b")], [node("b"), node("a")])
    assert not nodes_sufficiently_equal([node("a")], [node("b")])
    assert not nodes_sufficiently_equal([node("a")], [node("a"), node("b")])
    assert not nodes_sufficiently_equal([node("a")], [node("a", provider_id="x://1")])


def test_log_names_the_first_twenty_nodes() -> None:
    assert load_balanced_node_names([node("b"), node("a")]) == "[a b]"
    many = [node(f"n{number:02}") for number in range(22)]
    assert load_balanced_node_names(many).endswith("n19 <2 more>]")


def test_load_balancer_status_keeps_addresses() -> None:
    ports = (PortStatus(port=80, protocol="TCP", error="x"), PortStatus(port=81, protocol="UDP"))
    status = LoadBalancerStatus(
        ingress=(LoadBalancerIngress(ip="192.0.2.1", ip_mode="Proxy", ports=ports), LoadBalancerIngress(hostname="lb"))
    )
    assert ingress_of(status) == [
        {
            "ip": "192.0.2.1",
            "ipMode": "Proxy",
            "ports": [{"port": 80, "protocol": "TCP", "error": "x"}, {"port": 81, "protocol": "UDP"}],
        },
        {"hostname": "lb"},
    ]
    assert ingress_of(LoadBalancerStatus()) is None


def test_unknown_cloud_provider_is_an_error() -> None:
    assert ServiceLBOptions().validate() == []
    assert ServiceLBOptions(provider="simulated").validate() == []
    (problem,) = ServiceLBOptions(provider="acme").validate()
    assert problem.startswith("--cloud-loops: no cloud provider 'acme' is installed, there are ")
    assert DESCRIPTOR.switch == "provider"
