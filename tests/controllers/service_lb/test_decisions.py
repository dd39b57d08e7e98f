"""What a Service needs of its load balancer, and which nodes serve: tables.

Cases of ``TestNeedsUpdate``, ``TestNeedsCleanup``, ``Test_getNodeConditionPredicate`` and others of
k8s.io/cloud-provider v0.36 ``controllers/service/controller_test.go`` have their words in the ids.
"""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import LoadBalancerIngress, LoadBalancerStatus, Node, PortStatus, Service
from pilothouse.controllers.cloud.service_lb import DESCRIPTOR, ServiceLBOptions
from pilothouse.controllers.cloud.service_lb.decide import (
    FINALIZER,
    are_the_same,
    ingress_of,
    is_news,
    needs_cleanup,
    needs_update,
    serves,
    shown_names,
    wants_load_balancer,
)

Doc = dict[str, Any]
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"


def service(type_: str = "LoadBalancer", *, finalizer: bool = False, deleted: bool = False, **more: Any) -> Service:
    """A Service; what is not named is part of its spec."""
    metadata: Doc = {"name": "web", "namespace": "default", "uid": "u1", **more.pop("metadata", {})}
    if finalizer:
        metadata["finalizers"] = [FINALIZER]
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: Doc = {"type": type_, "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}], **more}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Service)


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        pytest.param(service(), True, id="LoadBalancer"),
        pytest.param(service("ClusterIP"), False, id="another type"),
        pytest.param(service(loadBalancerClass="example.com/lb"), False, id="somebody else's class"),
    ],
)
def test_which_services_want_a_load_balancer(seen: Service, wanted: bool) -> None:
    assert wants_load_balancer(seen) is wanted


@pytest.mark.parametrize(
    ("seen", "needed"),
    [
        pytest.param(service("ClusterIP"), False, id="without finalizer"),
        pytest.param(service(deleted=True), False, id="being deleted without finalizer"),
        pytest.param(service(deleted=True, finalizer=True), True, id="being deleted with finalizer"),
        pytest.param(service("ClusterIP", finalizer=True), True, id="with finalizer, and wants none"),
        pytest.param(service(finalizer=True), False, id="with finalizer, and wants one"),
        pytest.param(service(finalizer=True, loadBalancerClass="x"), False, id="the type alone counts, not the class"),
    ],
)
def test_which_services_need_cleaning_up(seen: Service, needed: bool) -> None:
    assert needs_cleanup(seen) is needed


PORT = {"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}


@pytest.mark.parametrize(
    ("old", "new", "needed"),
    [
        pytest.param(service("ClusterIP"), service("ClusterIP"), False, id="neither wants one"),
        pytest.param(service(), service(), False, id="nothing has changed"),
        pytest.param(service("ClusterIP"), service(), True, id="from ClusterIP to LoadBalancer"),
        pytest.param(service(), service("ClusterIP"), True, id="and back"),
        pytest.param(service(), service(loadBalancerSourceRanges=["10.0.0.0/8"]), True, id="source ranges"),
        pytest.param(service(), service(ports=[{**PORT, "port": 81}]), True, id="a port"),
        pytest.param(service(), service(ports=[{**PORT, "nodePort": 30081}]), True, id="a node port"),
        pytest.param(service(), service(ports=[PORT, {**PORT, "name": "b"}]), True, id="one more port"),
        pytest.param(service(), service(ports=[{**PORT, "appProtocol": "http"}]), True, id="app protocol"),
        pytest.param(service(), service(sessionAffinity="ClientIP"), True, id="affinity"),
        pytest.param(
            service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 1}}),
            service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 2}}),
            True,
            id="the time of the affinity",
        ),
        pytest.param(service(), service(loadBalancerIP="192.0.2.1"), True, id="the wished-for address"),
        pytest.param(service(externalIPs=["1.1.1.1"]), service(externalIPs=["1.1.1.2"]), True, id="external addresses"),
        pytest.param(service(), service(metadata={"annotations": {"a": "b"}}), True, id="annotations"),
        pytest.param(service(), service(metadata={"labels": {"a": "b"}}), False, id="labels do not matter"),
        pytest.param(service(), service(metadata={"uid": "u2"}), True, id="another Service of its name"),
        pytest.param(service(), service(externalTrafficPolicy="Local"), True, id="traffic policy"),
        pytest.param(service(), service(healthCheckNodePort=30000), True, id="health check"),
        pytest.param(service(ipFamilies=["IPv4"]), service(ipFamilies=["IPv4", "IPv6"]), True, id="a second family"),
        pytest.param(service(), service(selector={"a": "b"}), False, id="whom it selects is of no interest"),
    ],
)
def test_which_changes_the_cloud_must_hear_of(old: Service, new: Service, needed: bool) -> None:
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
    """A node; ``ready`` as its condition says it, "" for no condition."""
    metadata: Doc = {"name": name, "labels": dict(labels or {}), **more}
    if excluded is not None:
        metadata["labels"][EXCLUDE] = excluded
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    spec = {"taints": msgspec.to_builtins(list(taints)), "providerID": provider_id}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}, Node)


GOING = node(taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(node(), True, id="any node, ready or not"),
        pytest.param(node(excluded=""), False, id="excluded"),
        pytest.param(node(excluded="true"), False, id="excluded, true"),
        pytest.param(node(excluded="false"), True, id="not excluded"),
        pytest.param(node(excluded="nonsense"), False, id="a value that is no truth value"),
        pytest.param(GOING, False, id="about to be deleted by the autoscaler"),
        pytest.param(node(deletionTimestamp="2026-01-01T00:00:00Z"), False, id="being deleted"),
        pytest.param(node(taints=[{"key": "other", "effect": "NoExecute"}]), True, id="other taints do not matter"),
    ],
)
def test_which_nodes_serve(seen: Node, expected: bool) -> None:
    assert serves(seen) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(node(), node(), False, id="nothing has changed"),
        pytest.param(node(), node(excluded="true"), True, id="excluded"),
        pytest.param(node(excluded="true"), node(excluded="yes"), False, id="excluded as before"),
        pytest.param(node(), node(provider_id="x://1"), True, id="its machine is known"),
        pytest.param(node(), GOING, False, id="tainted: connections may come to their end"),
    ],
)
def test_which_changes_of_nodes_matter(old: Node, new: Node, expected: bool) -> None:
    assert is_news(old, new) is expected


@pytest.mark.parametrize(
    "also",
    [
        pytest.param({"taints": GOING.spec.taints}, id="tainted"),
        pytest.param({"excluded": ""}, id="excluded"),
        pytest.param({"ready": "False"}, id="not ready"),
        pytest.param({"provider_id": ""}, id="without a machine"),
    ],
)
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {"excluded": ""}, True, id="excluded"),
        pytest.param({}, {"provider_id": "x://2"}, True, id="another machine"),
        pytest.param({"provider_id": ""}, {"provider_id": "x://1"}, True, id="its machine is known"),
        pytest.param({}, {"taints": GOING.spec.taints}, False, id="tainted"),
        pytest.param({}, {"ready": "False"}, False, id="not ready"),
        pytest.param({"ready": "False"}, {"ready": ""}, False, id="nobody knows any more"),
        pytest.param({}, {"labels": {"other": ""}}, False, id="a label"),
        pytest.param({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, False, id="marked for deletion"),
    ],
)
def test_what_else_a_node_is_changes_nothing(also: Doc, before: Doc, after: Doc, expected: bool) -> None:
    """Whether a change matters does not depend on what stays as it is; and it matters in both directions."""
    changed = before.keys() | after.keys()
    stays = {name: value for name, value in ({"provider_id": "x://1"} | also).items() if name not in changed}
    usual = {"provider_id": "x://1"} if "provider_id" in changed else {}
    old, new = node(**{**usual, **stays, **before}), node(**{**usual, **stays, **after})
    assert is_news(old, new) is expected
    assert is_news(new, old) is expected


def test_nodes_are_compared_by_name_and_machine() -> None:
    assert are_the_same([node("a"), node("b")], [node("b"), node("a")])
    assert not are_the_same([node("a")], [node("b")])
    assert not are_the_same([node("a")], [node("a"), node("b")])
    assert not are_the_same([node("a")], [node("a", provider_id="x://1")])


def test_of_many_nodes_the_first_twenty_are_named() -> None:
    assert shown_names([node("b"), node("a")]) == "[a b]"
    many = [node(f"n{number:02}") for number in range(22)]
    assert shown_names(many).endswith("n19 <2 more>]")


def test_addresses_are_written_as_they_are() -> None:
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


def test_a_provider_must_be_installed() -> None:
    assert ServiceLBOptions().validate() == []
    assert ServiceLBOptions(provider="simulated").validate() == []
    (problem,) = ServiceLBOptions(provider="acme").validate()
    assert problem.startswith("--cloud-loops: no cloud provider 'acme' is installed, there are ")
    assert DESCRIPTOR.switch == "provider"
