"""Assignment of endpoints to slices.

Rows mirror ``k8s.io/endpointslice/reconciler_test.go`` and ``utils_test.go`` of v1.36, named in brackets.
"""

import datetime

import pytest
from msgspec.structs import replace
from tests.controllers.endpointslice.builders import node, planned, pod, service, sizes, slices_of, written
from tests.tables import cases

from pilothouse.api.core import Container, ContainerPort, PodStatus, Service, ServicePort
from pilothouse.api.discovery import EndpointSlice
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.network.endpointslice.decide import recycle_slices, slice_labels
from pilothouse.controllers.network.endpointslice.desired import desired_endpoints, endpoint_of, endpoint_ports
from pilothouse.controllers.shared.slices import MANAGED_BY, SERVICE_NAME
from pilothouse.semantics.services import address_types, canonical_ip, port_of

DELETED = ObjectMeta(
    name="p0001", namespace="ns", uid="u", deletion_timestamp=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
)


@cases(
    "ready, deleted, published, conditions",
    {
        "ready [TestPodToEndpoint]": (True, False, False, (True, True, False)),
        "not ready": (False, False, False, (False, False, False)),
        "not ready, publishNotReadyAddresses": (False, False, True, (True, False, False)),
        "terminating and serving": (True, True, False, (False, True, True)),
        "terminating and not serving": (False, True, False, (False, False, True)),
        "terminating, publishNotReadyAddresses": (True, True, True, (True, True, True)),
    },
)
def test_conditions(ready: bool, deleted: bool, published: bool, conditions: tuple[bool, bool, bool]) -> None:
    one = pod(1, ready=ready)
    if deleted:
        one = replace(one, metadata=DELETED)
    result = endpoint_of(one, node("n1"), service(publish_not_ready_addresses=published), "IPv4").conditions
    assert (result.ready, result.serving, result.terminating) == conditions


def test_endpoint_has_target_ref_node_and_zone() -> None:
    result = endpoint_of(pod(1, hostname="a", subdomain="web"), node("n1"), service(), "IPv4")
    assert (result.addresses, result.node_name, result.zone, result.hostname) == (("10.1.0.2",), "n1", "a", "a")
    assert result.target_ref is not None
    assert (result.target_ref.kind, result.target_ref.name, result.target_ref.uid) == ("Pod", "p0001", "uid-p0001")
    elsewhere = endpoint_of(pod(1, hostname="a", subdomain="other"), node("n3"), service(), "IPv4")
    assert (elsewhere.hostname, elsewhere.zone) == (None, None)


NAMED = ServicePort(name="x", protocol="TCP", port=80, target_port="http")
SIDECAR = Container(
    name="s", restart_policy="Always", ports=(ContainerPort(name="proxy", container_port=15, protocol="TCP"),)
)


@cases(
    "target, protocol, expected",
    {
        "a number is the number [TestFindPort]": (8080, "TCP", 8080),
        "named port": ("http", "TCP", 9090),
        "named port of another protocol": ("http", "UDP", None),
        "a name that the pod lacks": ("nothing", "TCP", None),
        "a sidecar's": ("proxy", "TCP", 15),
        "named port of an init container": ("once", "TCP", None),
    },
)
def test_ports(target: int | str, protocol: str, expected: int | None) -> None:
    once = replace(SIDECAR, restart_policy="", ports=(ContainerPort(name="once", container_port=16, protocol="TCP"),))
    one = pod(1, port=9090, init_containers=(once, SIDECAR))
    assert port_of(one, replace(NAMED, target_port=target, protocol=protocol)) == expected


def test_missing_named_port_is_omitted_and_headless_service_needs_no_ports() -> None:
    """[TestGetEndpointPorts]"""
    lacking = service(ports=(NAMED, replace(NAMED, name="y", target_port="nothing")))
    assert [(port.name, port.port) for port in endpoint_ports(lacking, pod(1))] == [("x", 8080)]
    assert endpoint_ports(service(ports=(), cluster_ip="None"), pod(1)) == ()


@cases(
    "families, cluster_ip, expected",
    {
        "IPv4 [TestGetAddressTypesForService]": (("IPv4",), "10.0.0.1", ("IPv4",)),
        "dual-stack": (("IPv6", "IPv4"), "fd00::1", ("IPv4", "IPv6")),
        "an older server's: the family of its address": ((), "10.0.0.1", ("IPv4",)),
        "an older server's of IPv6": ((), "fd00::1", ("IPv6",)),
        "an older server's headless one: both": ((), "None", ("IPv4", "IPv6")),
    },
)
def test_address_types(families: tuple[str, ...], cluster_ip: str, expected: tuple[str, ...]) -> None:
    assert address_types(service(ip_families=families, cluster_ip=cluster_ip)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("010.001.0.1", ("IPv4", "10.1.0.1")),
        ("FD00:0::1", ("IPv6", "fd00::1")),
        ("::ffff:1.2.3.4", ("IPv4", "1.2.3.4")),
        ("fe80::1%eth0", None),
        ("nonsense", None),
        ("", None),
    ],
)
def test_addresses_are_in_gos_canonical_form(text: str, expected: tuple[str, str] | None) -> None:
    assert canonical_ip(text) == expected


def test_pods_without_ip_and_terminal_pods_are_no_endpoints() -> None:
    """[TestShouldPodBeInEndpoints]"""
    ended = replace(pod(1), status=replace(pod(1).status, phase="Succeeded"))
    assert planned(service(), [ended, replace(pod(2), status=PodStatus(phase="Pending"))]).creates[0].endpoints == ()


def test_pod_on_an_unknown_node_is_skipped_unless_publishing_not_ready_addresses() -> None:
    """[TestReconcilerPodMissingNode]"""
    lost = [pod(1), pod(2, node="gone")]
    result = desired_endpoints(service(), lost, "IPv4", node)
    assert [item.metadata.name for item in result.without_node] == ["p0002"]
    assert [len(group.endpoints) for group in result.groups.values()] == [1]
    published = desired_endpoints(service(publish_not_ready_addresses=True), lost, "IPv4", node)
    assert published.without_node == []
    assert [len(group.endpoints) for group in published.groups.values()] == [2]


def test_service_without_pods_gets_a_placeholder_slice() -> None:
    """[TestReconcileEmpty, TestPlaceHolderSliceCompare]"""
    first = planned(service(), [])
    assert [(item.endpoints, item.ports) for item in first.creates] == [((), ())]
    existing = written(first)
    again = planned(service(), [], existing)
    assert (again.creates, again.updates, again.deletes) == ((), (), ())
    relabelled = recycle_slices(planned(service(labels={"a": "b"}), [], existing), service())
    assert [replacement.metadata.labels["a"] for replacement in relabelled.replacements] == ["b"]
    assert relabelled.creates == relabelled.deletes == ()


def test_placeholder_slice_is_updated_with_the_first_endpoint() -> None:
    """[TestReconcile1Pod, TestReconcile1EndpointSlice]"""
    existing = written(planned(service(), []))
    plan = recycle_slices(planned(service(), [pod(1)], existing), service())
    assert (plan.creates, plan.updates, plan.deletes) == ((), (), ())
    [only] = plan.replacements
    assert only.metadata.name == "web-000"
    assert (only.metadata.resource_version, sizes([only])) == ("", [1])


def test_250_pods_need_three_slices() -> None:
    """[TestReconcileManyPods]"""
    assert sizes(planned(service(), [pod(n) for n in range(250)]).creates) == [100, 100, 50]


@cases(
    "before, wanted, after, writes",
    {
        "a new slice and one filled up [TestReconcileEndpointSlicesSomePreexisting]": (
            [range(62), range(62, 123)],
            range(250),
            [89, 61, 100],
            (1, 1, 0),
        ),
        "two new slices rather than three writes [TestReconcileEndpointSlicesSomePreexistingWorse…]": (
            [range(74), range(74, 148)],
            range(300),
            [74, 74, 100, 52],
            (2, 0, 0),
        ),
        "ten more go to the fuller slice": ([range(50), range(50, 90)], range(100), [60, 40], (0, 1, 0)),
        "fifty more fill one of two equal ones": ([range(50), range(50, 100)], range(150), [100, 50], (0, 1, 0)),
        "new endpoints fill slices that are updated anyway": (
            [range(100), range(100, 190)],
            range(50, 195),
            [55, 90],
            (0, 1, 0),
        ),
        "an empty slice is deleted": ([range(100), range(100, 110)], range(100), [100], (0, 0, 1)),
        "half full slices are not merged": ([range(30), range(30, 60)], range(60), [30, 30], (0, 0, 0)),
        "one above the limit: a new slice": ([range(100)], range(101), [100, 1], (1, 0, 0)),
    },
)
def test_packing(before: list[range], wanted: range, after: list[int], writes: tuple[int, int, int]) -> None:
    owner = service()
    existing = slices_of(owner, *[[pod(n) for n in numbers] for numbers in before])
    plan = planned(owner, [pod(n) for n in wanted], existing)
    assert (len(plan.creates), len(plan.updates), len(plan.deletes)) == writes
    assert sizes(written(plan, existing)) == after


@pytest.mark.parametrize(
    ("most", "expected"),
    [(50, [50] * 5), (80, [80, 80, 80, 10]), (150, [150, 100]), (250, [250]), (500, [250])],
)
def test_max_endpoints_per_slice(most: int, expected: list[int]) -> None:
    """[TestReconcileMaxEndpointsPerSlice]"""
    assert sizes(planned(service(), [pod(n) for n in range(250)], most=most).creates) == expected


def test_new_endpoints_fill_the_best_fitting_slice() -> None:
    """[TestReconcileEndpointSlicesUpdatePacking]"""
    owner = service()
    existing = slices_of(owner, [pod(n) for n in range(80)], [pod(n) for n in range(100, 120)])
    pods = [pod(n, ready=n % 10 != 0) for n in (*range(80), *range(100, 120), *range(200, 215))]
    plan = planned(owner, pods, existing)
    assert [len(part) for part in (plan.creates, plan.updates, plan.deletes)] == [0, 2, 0]
    assert sizes(written(plan, existing)) == [95, 20]


def test_slices_are_merged_when_all_are_updated() -> None:
    """[TestReconcileEndpointSlicesRecycling]"""
    owner = service()
    existing = slices_of(owner, *[[pod(n) for n in range(first, first + 30)] for first in range(0, 300, 30)])
    pods = [pod(n) for n in range(300)]
    same = planned(owner, pods, existing)
    assert (same.creates, same.updates, same.deletes) == ((), (), ())
    other = service(ports=(replace(NAMED, target_port=81),))
    plan = recycle_slices(planned(other, pods, existing), other)
    assert [len(part) for part in (plan.creates, plan.updates, plan.replacements, plan.deletes)] == [0, 0, 3, 7]
    assert sizes(written(plan, existing)) == [100, 100, 100]


def test_existing_endpoints_stay_in_their_slice_and_are_updated() -> None:
    """[TestReconcileEndpointSlicesUpdatePacking]"""
    owner = service()
    existing = slices_of(owner, [pod(1), pod(2)])
    plan = planned(owner, [pod(1, ready=False), pod(2), pod(3)], existing)
    [changed] = plan.updates
    assert [(e.target_ref.name, e.conditions.ready) for e in changed.endpoints or () if e.target_ref] == [
        ("p0001", False),
        ("p0002", True),
        ("p0003", True),
    ]
    assert (plan.added, plan.removed) == (1, 0)


def test_different_ports_use_different_slices() -> None:
    """[TestReconcileEndpointSlicesNamedPorts]"""
    owner = service(ports=(NAMED,))
    plan = planned(owner, [pod(n, port=8080 + n % 5) for n in range(300)])
    assert [((item.ports or ())[0].port, len(item.endpoints or ())) for item in plan.creates] == [
        (8080 + n, 60) for n in range(5)
    ]


def test_changed_port_reuses_the_slice_name() -> None:
    """[TestReconcileEndpointSlicesReplaceDeprecated and Recycling]"""
    owner = service()
    existing = slices_of(owner, [pod(n) for n in range(100)], [pod(n) for n in range(100, 200)])
    other = service(ports=(replace(NAMED, target_port=81),))
    plan = recycle_slices(planned(other, [pod(n) for n in range(150)], existing), other)
    assert (plan.creates, plan.deletes) == ((), ())
    assert [replacement.metadata.name for replacement in plan.replacements] == ["web-000", "web-001"]
    assert sorted(sizes(plan.replacements)) == [50, 100]


def test_slices_of_a_previous_service_of_the_same_name_are_deleted() -> None:
    """[TestReconcile1EndpointSlicePublishNotReadyAddresses, TestOwnedBy]"""
    owner = service()
    [foreign] = slices_of(owner, [pod(1)])
    owners = (OwnerReference(api_version="v1", kind="Service", name="web", uid="older"),)
    foreign = replace(foreign, metadata=replace(foreign.metadata, owner_references=owners))
    plan = recycle_slices(planned(owner, [pod(1)], [foreign]), owner)
    assert [len(part) for part in (plan.creates, plan.updates, plan.replacements, plan.deletes)] == [1, 0, 0, 1]


@cases(
    "owner, expected",
    {
        "no labels [TestSetEndpointSliceLabels]": (service(), {}),
        "the service's": (service(labels={"a": "b"}), {"a": "b"}),
        "reserved labels are not copied": (service(labels={MANAGED_BY: "me", SERVICE_NAME: "x"}), {}),
        "headless": (service(cluster_ip="None"), {"service.kubernetes.io/headless": ""}),
    },
)
def test_labels(owner: Service, expected: dict[str, str]) -> None:
    own_labels = {MANAGED_BY: "endpointslice-controller.k8s.io", SERVICE_NAME: "web"}
    assert slice_labels(owner) == {**expected, **own_labels}


def test_service_labels_are_copied_except_reserved_ones() -> None:
    """[TestReconcileEndpointSlicesLabels]"""
    existing = slices_of(service(), [pod(1)], [pod(2)])
    both = [pod(1), pod(2)]
    assert [item.metadata.labels["a"] for item in planned(service(labels={"a": "b"}), both, existing).updates] == [
        "b",
        "b",
    ]
    assert planned(service(labels={MANAGED_BY: "me"}), both, existing).updates == ()


def test_address_families_have_separate_slices() -> None:
    """[TestReconcileDualStack]"""
    owner = service(ip_families=("IPv4", "IPv6"))
    pods = [pod(1, ips=("10.1.0.9", "fd00::9")), pod(2)]

    def addresses(address_type: str) -> list[tuple[str, ...]]:
        plan = planned(owner, pods, address_type=address_type)
        return [e.addresses for item in plan.creates for e in item.endpoints or ()]

    assert addresses("IPv4") == [("10.1.0.9",), ("10.1.0.3",)]
    assert addresses("IPv6") == [("fd00::9",)]


def test_null_endpoints_are_read_as_empty() -> None:
    assert planned(service(), [], [EndpointSlice(endpoints=None, ports=None)]).deletes
