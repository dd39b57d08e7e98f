"""The desired slices of Endpoints.

Rows mirror v1.36 ``pkg/controller/endpointslicemirroring``: ``reconciler_test.go`` (TestReconcile),
``reconciler_helpers_test.go`` (TestRecycleSlices), ``utils_test.go`` (TestNewEndpointSlice, TestAddressToEndpoint) and
``endpointslicemirroring_controller_test.go`` (TestShouldMirror).
"""

import msgspec
from msgspec.structs import replace
from tests.tables import cases

from pilothouse.api.core import EndpointAddress, Endpoints, EndpointsPort, EndpointSubset, ObjectReference
from pilothouse.api.discovery import LABEL_SKIP_MIRROR, Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.network.endpointslice_mirroring.decide import (
    LAST_APPLIED,
    MANAGER,
    Plan,
    PortGroup,
    decide,
    desired_endpoints,
    endpoint_of,
    new_slice,
    should_mirror,
)
from pilothouse.controllers.shared.slices import MANAGED_BY, SERVICE_NAME
from pilothouse.semantics.services import TRIGGER_TIME
from pilothouse.semantics.subsets import LEADER

LABELS = {SERVICE_NAME: "ext", MANAGED_BY: MANAGER}
WEB = (EndpointsPort(name="http", port=80, protocol="TCP"), EndpointsPort(name="https", port=443, protocol="UDP"))
ADMIN = (EndpointsPort(name="http", port=3000, protocol="TCP"), EndpointsPort(name="https", port=3001, protocol="UDP"))
HTTP = WEB[:1]


def address(ip: str, number: int = 0) -> EndpointAddress:
    if not number:
        return EndpointAddress(ip=ip)
    return EndpointAddress(ip=ip, hostname=f"pod-{number}", node_name=f"node-{number % 10}")


def subset(ports: tuple[EndpointsPort, ...], *ips: str, bad: tuple[str, ...] = ()) -> EndpointSubset:
    result = tuple(address(ip, number) for number, ip in enumerate(ips, 1))
    return EndpointSubset(ports=ports, addresses=result, not_ready_addresses=tuple(map(address, bad)))


def of(
    *subsets: EndpointSubset, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> Endpoints:
    meta = ObjectMeta(name="ext", namespace="ns", uid="uid-ext", labels=labels or {}, annotations=annotations or {})
    return Endpoints(metadata=meta, subsets=subsets)


TWO_WEB = subset(WEB, "10.0.0.1", "10.0.0.2")
THREE_ADMIN = subset(ADMIN, "10.0.1.1", "10.0.1.2", "10.0.1.3")


def existing(
    name: str, ports: tuple[EndpointsPort, ...], *endpoints: Endpoint, family: str = "IPv4", **meta: object
) -> EndpointSlice:
    """A slice without an owner, as upstream's rows have them."""
    whole = {"labels": LABELS, **meta}
    return EndpointSlice(
        metadata=msgspec.convert({"name": name, "namespace": "ns", **whole}, ObjectMeta),
        address_type=family,
        ports=tuple(EndpointPort(name=port.name, port=port.port, protocol=port.protocol) for port in ports),
        endpoints=endpoints,
    )


def endpoint(number: int, *ips: str, full: bool = True) -> Endpoint:
    return Endpoint(
        addresses=ips,
        hostname=f"pod-{number}",
        node_name=f"node-{number}" if full else None,
        conditions=EndpointConditions(ready=True) if full else EndpointConditions(),
    )


def planned(endpoints: Endpoints, *slices: EndpointSlice, most: int = 1000) -> Plan:
    return decide(endpoints, slices, desired_endpoints(endpoints, most))


def writes(plan: Plan) -> tuple[int, int, int]:
    return len(plan.creates), len(plan.updates), len(plan.deletes)


def totals(plan: Plan) -> tuple[int, int, int]:
    return plan.added, plan.updated, plan.removed


@cases(
    "subsets, slices, most, expected, changed, skipped",
    {
        "no subsets": ((), (), 1000, (0, 0, 0), (0, 0, 0), 0),
        "a subset without addresses": ((subset(HTTP),), (), 1000, (0, 0, 0), (0, 0, 0), 0),
        "one port, one address": ((subset(HTTP, "10.0.0.1"),), (), 1000, (1, 0, 0), (1, 0, 0), 0),
        "two ports, two addresses: one slice": ((TWO_WEB,), (), 1000, (1, 0, 0), (2, 0, 0), 0),
        "two subsets: two slices": ((TWO_WEB, THREE_ADMIN), (), 1000, (2, 0, 0), (5, 0, 0), 0),
        "an empty slice is filled": ((TWO_WEB, THREE_ADMIN), (existing("s", WEB),), 1000, (1, 1, 0), (5, 0, 0), 0),
        "existing slice is updated, another deleted": (
            (TWO_WEB, THREE_ADMIN),
            (existing("s", WEB, endpoint(2, "10.0.0.2", full=False), endpoint(1, "10.0.0.1", "10.0.0.3", full=False)),),
            1000,
            (1, 1, 0),
            (4, 1, 1),
            0,
        ),
        "unchanged slice is not written": (
            (TWO_WEB, THREE_ADMIN),
            (existing("s", WEB, endpoint(1, "10.0.0.1"), endpoint(2, "10.0.0.2")),),
            1000,
            (1, 0, 0),
            (3, 0, 0),
            0,
        ),
        "dual-stack: a slice per family and subset": (
            (
                subset(WEB, "2001:db8:2222:3333:4444:5555:6666:7777", "10.0.0.2"),
                subset(ADMIN, "10.0.1.1", "10.0.1.2", "2001:db8:3333:4444:5555:6666:7777:8888"),
            ),
            (),
            1000,
            (4, 0, 0),
            (5, 0, 0),
            0,
        ),
        "IPv6 only": (
            (subset(WEB, "2001:db8::1", "2001:db8::2"), subset(ADMIN, "2001:db8::3", "2001:db8::4", "2001:db8::5")),
            (),
            1000,
            (2, 0, 0),
            (5, 0, 0),
            0,
        ),
        "some invalid addresses": (
            (
                subset(WEB, "2001:db8::1", "this-is-not-an-ip"),
                subset(ADMIN, "this-is-also-not-an-ip", "2001:db8::4", "2001:db8::5"),
            ),
            (),
            1000,
            (2, 0, 0),
            (3, 0, 0),
            2,
        ),
        "all addresses invalid": (
            (subset(WEB, "no1", "no2"), subset(ADMIN, "no11", "no12", "no13")),
            (),
            1000,
            (0, 0, 0),
            (0, 0, 0),
            5,
        ),
        "subset above the limit": ((TWO_WEB, THREE_ADMIN), (), 2, (2, 0, 0), (4, 0, 0), 1),
        "addresses not ready are dropped first": (
            (subset(HTTP, "10.0.0.1", "10.0.0.2", bad=("10.0.0.3",)),),
            (),
            2,
            (1, 0, 0),
            (2, 0, 0),
            1,
        ),
        "duplicate slice is deleted": (
            (subset(HTTP, "10.0.0.1"),),
            (existing("a", HTTP, endpoint(1, "10.0.0.1")), existing("b", HTTP, endpoint(2, "10.0.0.2"))),
            1000,
            (0, 0, 1),
            (0, 0, 0),
            0,
        ),
        "slices of removed addresses and ports are deleted": (
            (subset(HTTP),),
            (existing("a", HTTP, endpoint(1, "10.0.0.1")), existing("b", WEB, endpoint(2, "10.0.0.2"))),
            1000,
            (0, 0, 2),
            (0, 0, 0),
            0,
        ),
        "same addresses: one slice": ((TWO_WEB, replace(TWO_WEB, ports=ADMIN)), (), 1000, (1, 0, 0), (2, 0, 0), 0),
        "same ports: one slice": (
            (subset(HTTP, "10.0.0.1"), subset(HTTP, bad=("10.0.0.2",))),
            (),
            1000,
            (1, 0, 0),
            (2, 0, 0),
            0,
        ),
        "slice of a removed family is deleted": (
            (subset(HTTP, "10.0.0.1"),),
            (existing("v6", HTTP, endpoint(1, "2001:db8::1"), family="IPv6"),),
            1000,
            (1, 0, 1),
            (1, 0, 1),
            0,
        ),
        "no ports": ((subset((), "10.0.0.1"),), (), 1000, (1, 0, 0), (1, 0, 0), 0),
    },
)
def test_reconcile(
    subsets: tuple[EndpointSubset, ...],
    slices: tuple[EndpointSlice, ...],
    most: int,
    expected: tuple[int, int, int],
    changed: tuple[int, int, int],
    skipped: int,
) -> None:
    wanted = desired_endpoints(of(*subsets), most)
    plan = decide(of(*subsets), slices, wanted)
    assert writes(plan) == expected
    assert totals(plan) == changed
    assert wanted.skipped == skipped
    for item in (*plan.creates, *plan.updates):
        assert len(item.endpoints or ()) <= most


ONE = subset(HTTP, "10.0.0.1")
APPLIED = {LAST_APPLIED: '{"apiVersion":"v1","kind":"Endpoints","subsets":[]}'}


@cases(
    "annotations, expected",
    {
        "last-applied-configuration is not copied": (APPLIED, {}),
        "no annotations": ({}, {}),
        "empty last-applied-configuration is not copied": ({LAST_APPLIED: ""}, {}),
        "other annotations are copied": ({**APPLIED, "foo": "bar"}, {"foo": "bar"}),
        "when it changed is not copied": ({TRIGGER_TIME: "date", "foo": "bar"}, {"foo": "bar"}),
    },
)
def test_annotations(annotations: dict[str, str], expected: dict[str, str]) -> None:
    [creates] = planned(of(ONE, annotations=annotations)).creates
    assert creates.metadata.annotations == expected
    again = replace(creates, metadata=replace(creates.metadata, name="s"))
    assert writes(planned(of(ONE, annotations=annotations), again)) == (0, 0, 0)


FULL = endpoint(1, "10.0.0.1")


@cases(
    "endpoints, existing_one, rewritten",
    {
        "additional annotation": (of(ONE), existing("s", HTTP, FULL, annotations=APPLIED), True),
        "missing annotation": (of(ONE, annotations={"a": "1"}), existing("s", HTTP, FULL), True),
        "missing label": (of(ONE, labels={"a": "1"}), existing("s", HTTP, FULL), True),
        "additional label": (of(ONE), existing("s", HTTP, FULL, labels={**LABELS, "a": "1"}), True),
        "the labels of slices themselves": (of(ONE, labels=LABELS), existing("s", HTTP, FULL), False),
        "a new time only": (of(ONE, annotations={TRIGGER_TIME: "x"}), existing("s", HTTP, FULL), False),
        "the slice of older Endpoints": (
            of(ONE),
            existing("s", HTTP, FULL, ownerReferences=[{"kind": "Endpoints", "uid": "old", "controller": True}]),
            True,
        ),
        "the slice of these Endpoints": (
            of(ONE),
            existing("s", HTTP, FULL, ownerReferences=[{"kind": "Endpoints", "uid": "uid-ext", "controller": True}]),
            False,
        ),
        "additional zone": (of(ONE), existing("s", HTTP, replace(FULL, zone="a")), True),
        "duplicate endpoint": (of(ONE), existing("s", HTTP, FULL, FULL), True),
    },
)
def test_label_and_annotation_changes_update_slices(
    endpoints: Endpoints, existing_one: EndpointSlice, rewritten: bool
) -> None:
    plan = planned(endpoints, existing_one)
    assert writes(plan) == (0, int(rewritten), 0)
    for item in plan.updates:
        assert (item.metadata.name, item.metadata.generate_name, item.metadata.resource_version) == ("s", "", "")


@cases(
    "labels, annotations",
    {
        "neither": ({}, {}),
        "annotations": ({}, {"foo": "bar"}),
        "labels": ({"foo": "bar"}, {}),
        "both": ({"foo": "bar"}, {"foo2": "bar2"}),
        "labels that are ours": ({SERVICE_NAME: "mine", MANAGED_BY: "me"}, {}),
    },
)
def test_new_slices_are_owned_by_the_endpoints(labels: dict[str, str], annotations: dict[str, str]) -> None:
    ports = (EndpointPort(name="foo", protocol="TCP"),)
    endpoint_slice = new_slice(of(labels=labels, annotations=annotations), "IPv4", PortGroup(ports, {}))
    assert endpoint_slice == EndpointSlice(
        metadata=ObjectMeta(
            generate_name="ext-",
            namespace="ns",
            labels={**labels, **LABELS},
            annotations=annotations,
            owner_references=(
                OwnerReference(
                    api_version="v1",
                    kind="Endpoints",
                    name="ext",
                    uid="uid-ext",
                    controller=True,
                    block_owner_deletion=True,
                ),
            ),
        ),
        address_type="IPv4",
        ports=ports,
    )


TARGET = ObjectReference(api_version="v1", kind="Pod", namespace="default", name="foo")


@cases(
    "ip, family, written",
    {
        "IPv4": ("10.1.2.3", "IPv4", "10.1.2.3"),
        "leading zeros": ("010.001.002.003", "IPv4", "10.1.2.3"),
        "IPv4 in IPv6's clothes": ("::ffff:10.1.2.3", "IPv4", "10.1.2.3"),
        "the short form of IPv6": ("2001:DB8:0:0::1", "IPv6", "2001:db8::1"),
    },
)
def test_address_to_endpoint(ip: str, family: str, written: str) -> None:
    known = EndpointAddress(ip=ip, hostname="foo", node_name="node-abc", target_ref=TARGET)
    for ready in (True, False):
        assert endpoint_of(known, ready) == (
            family,
            Endpoint(
                addresses=(written,),
                hostname="foo",
                conditions=EndpointConditions(ready=ready),
                target_ref=TARGET,
                node_name="node-abc",
            ),
        )


@cases(
    "labels, annotations, expected",
    {
        "usual ones": ({}, {}, True),
        "skip-mirror label": ({LABEL_SKIP_MIRROR: "true"}, {}, False),
        "invalid skip-mirror label": ({LABEL_SKIP_MIRROR: "invalid"}, {}, True),
        "a lock": ({}, {LEADER: ""}, False),
    },
)
def test_should_mirror(labels: dict[str, str], annotations: dict[str, str], expected: bool) -> None:
    assert should_mirror(of(labels=labels, annotations=annotations)) is expected


V6 = "2001:db8::1"


@cases(
    "subsets, slices, created, updated, deleted",
    {
        "no changes": ((), (), 0, [], []),
        "one created, one deleted": ((ONE,), (existing("bar", ADMIN),), 0, ["bar"], []),
        "one created, updated and deleted": (
            (ONE, subset(ADMIN, "10.0.0.9")),
            (existing("bar", WEB), existing("baz", ADMIN)),
            0,
            ["bar", "baz"],
            [],
        ),
        "two created, one deleted": ((ONE, subset(ADMIN, "10.0.0.9")), (existing("bar", WEB),), 1, ["bar"], []),
        "one created, two deleted": (
            (ONE,),
            (existing("bar1", WEB), existing("bar2", ADMIN)),
            0,
            ["bar1"],
            ["bar2"],
        ),
        "one of each family": (
            (subset(HTTP, "10.0.0.1", V6),),
            (existing("bar-v4", WEB), existing("bar-v6", WEB, family="IPv6")),
            0,
            ["bar-v4", "bar-v6"],
            [],
        ),
        "families are not mixed": ((ONE,), (existing("bar-v6", WEB, family="IPv6"),), 1, [], ["bar-v6"]),
    },
)
def test_slices_are_recycled(
    subsets: tuple[EndpointSubset, ...],
    slices: tuple[EndpointSlice, ...],
    created: int,
    updated: list[str],
    deleted: list[str],
) -> None:
    plan = planned(of(*subsets), *slices)
    assert len(plan.creates) == created
    assert sorted(item.metadata.name for item in plan.updates) == updated
    assert [item.metadata.name for item in plan.deletes] == deleted
    families = {endpoint_slice.metadata.name: endpoint_slice.address_type for endpoint_slice in slices}
    assert all(item.address_type == families[item.metadata.name] for item in plan.updates)


def test_only_recycled_slices_keep_a_generate_name() -> None:
    """v1.36.2 names a slice that it would create; an updated slice is new, with a name only (``newEndpointSlice``)."""
    [recycled] = planned(of(ONE), existing("bar", ADMIN)).updates
    [updated] = planned(of(ONE), existing("bar", HTTP)).updates
    assert (recycled.metadata.name, recycled.metadata.generate_name) == ("bar", "ext-")
    assert (updated.metadata.name, updated.metadata.generate_name) == ("bar", "")


def test_plan_is_deterministic() -> None:
    slices = [existing(name, ports) for name, ports in (("a", WEB), ("b", HTTP), ("c", ADMIN))]
    endpoints = of(TWO_WEB, THREE_ADMIN)
    assert planned(endpoints, *slices) == planned(of(THREE_ADMIN, TWO_WEB), *reversed(slices))
