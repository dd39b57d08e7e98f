"""What slices Endpoints get. Rows mirror v1.36 ``pkg/controller/endpointslicemirroring``: ``reconciler_test.go``
(TestReconcile), ``reconciler_helpers_test.go`` (TestRecycleSlices), ``utils_test.go`` (TestNewEndpointSlice,
TestAddressToEndpoint) and ``endpointslicemirroring_controller_test.go`` (TestShouldMirror)."""

import msgspec
import pytest
from msgspec.structs import replace

from pilothouse.api.core import EndpointAddress, Endpoints, EndpointsPort, EndpointSubset, ObjectReference
from pilothouse.api.discovery import LABEL_SKIP_MIRROR, Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.network.endpointslice_mirroring.decide import (
    LAST_APPLIED,
    MANAGER,
    Group,
    Plan,
    decide,
    endpoint_of,
    may_be_mirrored,
    new_slice,
    wanted_of,
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
    found = tuple(address(ip, number) for number, ip in enumerate(ips, 1))
    return EndpointSubset(ports=ports, addresses=found, not_ready_addresses=tuple(map(address, bad)))


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
    return decide(endpoints, slices, wanted_of(endpoints, most))


def writes(plan: Plan) -> tuple[int, int, int]:
    return len(plan.creates), len(plan.updates), len(plan.deletes)


def totals(plan: Plan) -> tuple[int, int, int]:
    return plan.added, plan.updated, plan.removed


@pytest.mark.parametrize(
    ("subsets", "slices", "most", "expected", "changed", "skipped"),
    [
        pytest.param((), (), 1000, (0, 0, 0), (0, 0, 0), 0, id="no subsets"),
        pytest.param((subset(HTTP),), (), 1000, (0, 0, 0), (0, 0, 0), 0, id="a subset without addresses"),
        pytest.param((subset(HTTP, "10.0.0.1"),), (), 1000, (1, 0, 0), (1, 0, 0), 0, id="one of each"),
        pytest.param((TWO_WEB,), (), 1000, (1, 0, 0), (2, 0, 0), 0, id="two ports, two addresses: one slice"),
        pytest.param((TWO_WEB, THREE_ADMIN), (), 1000, (2, 0, 0), (5, 0, 0), 0, id="two subsets: two slices"),
        pytest.param(
            (TWO_WEB, THREE_ADMIN), (existing("s", WEB),), 1000, (1, 1, 0), (5, 0, 0), 0, id="an empty slice is filled"
        ),
        pytest.param(
            (TWO_WEB, THREE_ADMIN),
            (existing("s", WEB, endpoint(2, "10.0.0.2", full=False), endpoint(1, "10.0.0.1", "10.0.0.3", full=False)),),
            1000,
            (1, 1, 0),
            (4, 1, 1),
            0,
            id="a slice with some addresses: one stays and says more, one goes",
        ),
        pytest.param(
            (TWO_WEB, THREE_ADMIN),
            (existing("s", WEB, endpoint(1, "10.0.0.1"), endpoint(2, "10.0.0.2")),),
            1000,
            (1, 0, 0),
            (3, 0, 0),
            0,
            id="a slice that says it all is left alone",
        ),
        pytest.param(
            (
                subset(WEB, "2001:db8:2222:3333:4444:5555:6666:7777", "10.0.0.2"),
                subset(ADMIN, "10.0.1.1", "10.0.1.2", "2001:db8:3333:4444:5555:6666:7777:8888"),
            ),
            (),
            1000,
            (4, 0, 0),
            (5, 0, 0),
            0,
            id="both families: a slice for each, of each subset",
        ),
        pytest.param(
            (subset(WEB, "2001:db8::1", "2001:db8::2"), subset(ADMIN, "2001:db8::3", "2001:db8::4", "2001:db8::5")),
            (),
            1000,
            (2, 0, 0),
            (5, 0, 0),
            0,
            id="IPv6 only",
        ),
        pytest.param(
            (
                subset(WEB, "2001:db8::1", "this-is-not-an-ip"),
                subset(ADMIN, "this-is-also-not-an-ip", "2001:db8::4", "2001:db8::5"),
            ),
            (),
            1000,
            (2, 0, 0),
            (3, 0, 0),
            2,
            id="some are no addresses",
        ),
        pytest.param(
            (subset(WEB, "no1", "no2"), subset(ADMIN, "no11", "no12", "no13")),
            (),
            1000,
            (0, 0, 0),
            (0, 0, 0),
            5,
            id="none is an address",
        ),
        pytest.param((TWO_WEB, THREE_ADMIN), (), 2, (2, 0, 0), (4, 0, 0), 1, id="one subset has more than may be"),
        pytest.param(
            (subset(HTTP, "10.0.0.1", "10.0.0.2", bad=("10.0.0.3",)),),
            (),
            2,
            (1, 0, 0),
            (2, 0, 0),
            1,
            id="those that are not ready are left out first",
        ),
        pytest.param(
            (subset(HTTP, "10.0.0.1"),),
            (existing("a", HTTP, endpoint(1, "10.0.0.1")), existing("b", HTTP, endpoint(2, "10.0.0.2"))),
            1000,
            (0, 0, 1),
            (0, 0, 0),
            0,
            id="a second slice of the same goes",
        ),
        pytest.param(
            (subset(HTTP),),
            (existing("a", HTTP, endpoint(1, "10.0.0.1")), existing("b", WEB, endpoint(2, "10.0.0.2"))),
            1000,
            (0, 0, 2),
            (0, 0, 0),
            0,
            id="without addresses slices go, and those of ports that are not there any more",
        ),
        pytest.param(
            (TWO_WEB, replace(TWO_WEB, ports=ADMIN)), (), 1000, (1, 0, 0), (2, 0, 0), 0, id="same addresses: one slice"
        ),
        pytest.param(
            (subset(HTTP, "10.0.0.1"), subset(HTTP, bad=("10.0.0.2",))),
            (),
            1000,
            (1, 0, 0),
            (2, 0, 0),
            0,
            id="same ports: one slice",
        ),
        pytest.param(
            (subset(HTTP, "10.0.0.1"),),
            (existing("v6", HTTP, endpoint(1, "2001:db8::1"), family="IPv6"),),
            1000,
            (1, 0, 1),
            (1, 0, 1),
            0,
            id="a family of which there are no addresses any more",
        ),
        pytest.param((subset((), "10.0.0.1"),), (), 1000, (1, 0, 0), (1, 0, 0), 0, id="no ports: a slice without any"),
    ],
)
def test_reconcile(
    subsets: tuple[EndpointSubset, ...],
    slices: tuple[EndpointSlice, ...],
    most: int,
    expected: tuple[int, int, int],
    changed: tuple[int, int, int],
    skipped: int,
) -> None:
    wanted = wanted_of(of(*subsets), most)
    plan = decide(of(*subsets), slices, wanted)
    assert writes(plan) == expected
    assert totals(plan) == changed
    assert wanted.skipped == skipped
    for each in (*plan.creates, *plan.updates):
        assert len(each.endpoints or ()) <= most


ONE = subset(HTTP, "10.0.0.1")
APPLIED = {LAST_APPLIED: '{"apiVersion":"v1","kind":"Endpoints","subsets":[]}'}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param(APPLIED, {}, id="what kubectl applied is not copied"),
        pytest.param({}, {}, id="nor made up"),
        pytest.param({LAST_APPLIED: ""}, {}, id="nor copied when it is empty"),
        pytest.param({**APPLIED, "foo": "bar"}, {"foo": "bar"}, id="others are copied"),
        pytest.param({TRIGGER_TIME: "date", "foo": "bar"}, {"foo": "bar"}, id="when it changed is not copied"),
    ],
)
def test_annotations(annotations: dict[str, str], expected: dict[str, str]) -> None:
    [made] = planned(of(ONE, annotations=annotations)).creates
    assert made.metadata.annotations == expected
    again = replace(made, metadata=replace(made.metadata, name="s"))
    assert writes(planned(of(ONE, annotations=annotations), again)) == (0, 0, 0)


FULL = endpoint(1, "10.0.0.1")


@pytest.mark.parametrize(
    ("endpoints", "existing_one", "rewritten"),
    [
        pytest.param(of(ONE), existing("s", HTTP, FULL, annotations=APPLIED), True, id="an annotation too many"),
        pytest.param(of(ONE, annotations={"a": "1"}), existing("s", HTTP, FULL), True, id="an annotation too few"),
        pytest.param(of(ONE, labels={"a": "1"}), existing("s", HTTP, FULL), True, id="a label too few"),
        pytest.param(of(ONE), existing("s", HTTP, FULL, labels={**LABELS, "a": "1"}), True, id="a label too many"),
        pytest.param(of(ONE, labels=LABELS), existing("s", HTTP, FULL), False, id="the labels of slices themselves"),
        pytest.param(of(ONE, annotations={TRIGGER_TIME: "x"}), existing("s", HTTP, FULL), False, id="a new time only"),
        pytest.param(
            of(ONE),
            existing("s", HTTP, FULL, ownerReferences=[{"kind": "Endpoints", "uid": "old", "controller": True}]),
            True,
            id="the slice of older Endpoints",
        ),
        pytest.param(
            of(ONE),
            existing("s", HTTP, FULL, ownerReferences=[{"kind": "Endpoints", "uid": "uid-ext", "controller": True}]),
            False,
            id="the slice of these Endpoints",
        ),
        pytest.param(of(ONE), existing("s", HTTP, replace(FULL, zone="a")), True, id="somebody wrote a zone"),
        pytest.param(of(ONE), existing("s", HTTP, FULL, FULL), True, id="twice the same"),
    ],
)
def test_what_else_makes_a_slice_be_written(endpoints: Endpoints, existing_one: EndpointSlice, rewritten: bool) -> None:
    plan = planned(endpoints, existing_one)
    assert writes(plan) == (0, int(rewritten), 0)
    for each in plan.updates:
        assert (each.metadata.name, each.metadata.generate_name, each.metadata.resource_version) == ("s", "", "")


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        pytest.param({}, {}, id="neither"),
        pytest.param({}, {"foo": "bar"}, id="annotations"),
        pytest.param({"foo": "bar"}, {}, id="labels"),
        pytest.param({"foo": "bar"}, {"foo2": "bar2"}, id="both"),
        pytest.param({SERVICE_NAME: "mine", MANAGED_BY: "me"}, {}, id="labels that are ours"),
    ],
)
def test_new_slices_are_the_endpoints_own(labels: dict[str, str], annotations: dict[str, str]) -> None:
    ports = (EndpointPort(name="foo", protocol="TCP"),)
    made = new_slice(of(labels=labels, annotations=annotations), "IPv4", Group(ports, {}))
    assert made == EndpointSlice(
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


@pytest.mark.parametrize(
    ("ip", "family", "written"),
    [
        pytest.param("10.1.2.3", "IPv4", "10.1.2.3", id="as it is"),
        pytest.param("010.001.002.003", "IPv4", "10.1.2.3", id="leading zeros"),
        pytest.param("::ffff:10.1.2.3", "IPv4", "10.1.2.3", id="IPv4 in IPv6's clothes"),
        pytest.param("2001:DB8:0:0::1", "IPv6", "2001:db8::1", id="the short form of IPv6"),
    ],
)
def test_an_address_as_an_endpoint(ip: str, family: str, written: str) -> None:
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


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        pytest.param({}, {}, True, id="usual ones"),
        pytest.param({LABEL_SKIP_MIRROR: "true"}, {}, False, id="to be skipped"),
        pytest.param({LABEL_SKIP_MIRROR: "invalid"}, {}, True, id="something else in the label"),
        pytest.param({}, {LEADER: ""}, False, id="a lock"),
    ],
)
def test_should_mirror(labels: dict[str, str], annotations: dict[str, str], expected: bool) -> None:
    assert may_be_mirrored(of(labels=labels, annotations=annotations)) is expected


V6 = "2001:db8::1"


@pytest.mark.parametrize(
    ("subsets", "slices", "created", "updated", "deleted"),
    [
        pytest.param((), (), 0, [], [], id="nothing"),
        pytest.param((ONE,), (existing("bar", ADMIN),), 0, ["bar"], [], id="one to create, one to delete"),
        pytest.param(
            (ONE, subset(ADMIN, "10.0.0.9")),
            (existing("bar", WEB), existing("baz", ADMIN)),
            0,
            ["bar", "baz"],
            [],
            id="one to create, update and delete",
        ),
        pytest.param(
            (ONE, subset(ADMIN, "10.0.0.9")), (existing("bar", WEB),), 1, ["bar"], [], id="two to create, one to delete"
        ),
        pytest.param(
            (ONE,),
            (existing("bar1", WEB), existing("bar2", ADMIN)),
            0,
            ["bar1"],
            ["bar2"],
            id="one to create, two to delete",
        ),
        pytest.param(
            (subset(HTTP, "10.0.0.1", V6),),
            (existing("bar-v4", WEB), existing("bar-v6", WEB, family="IPv6")),
            0,
            ["bar-v4", "bar-v6"],
            [],
            id="one of each family",
        ),
        pytest.param((ONE,), (existing("bar-v6", WEB, family="IPv6"),), 1, [], ["bar-v6"], id="families are not mixed"),
    ],
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
    assert sorted(each.metadata.name for each in plan.updates) == updated
    assert [each.metadata.name for each in plan.deletes] == deleted
    families = {each.metadata.name: each.address_type for each in slices}
    assert all(each.address_type == families[each.metadata.name] for each in plan.updates)


def test_the_same_state_gives_the_same_plan() -> None:
    slices = [existing(name, ports) for name, ports in (("a", WEB), ("b", HTTP), ("c", ADMIN))]
    endpoints = of(TWO_WEB, THREE_ADMIN)
    assert planned(endpoints, *slices) == planned(of(THREE_ADMIN, TWO_WEB), *reversed(slices))
