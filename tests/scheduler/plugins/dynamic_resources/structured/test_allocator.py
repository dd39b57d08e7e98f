"""What the allocator chooses, after upstream's ``allocatortesting/allocator_testing.go`` (v1.36)."""

from typing import Any

import msgspec
import pytest
from tests.scheduler.plugins.dynamic_resources.structured.allocation import (
    Doc,
    allocate,
    alternative,
    chosen,
    claim,
    device,
    devices,
    first_available,
    request,
    resource_slice,
    search,
    zone,
)
from tests.tables import cases

from pilothouse.scheduler.plugins.dynamic_resources.structured.types import AllocationError

TWO = [resource_slice(*devices("d1", "d2"))]
SIZES = [
    resource_slice(
        device("small", attributes={"size": 1}, capacity={"memory": "1Gi"}),
        device("big", attributes={"size": 2}, capacity={"memory": "4Gi"}),
    )
]
BIG = 'device.attributes["a"].size > 1'
NUMA = [
    resource_slice(
        device("d1", attributes={"numa": 0, "example.com/kind": "x"}),
        device("d2", attributes={"numa": 1, "example.com/kind": "x"}),
        device("d3", attributes={"numa": 1}),
    )
]
SAME_NUMA = [{"matchAttribute": "a/numa"}]
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
TAINTED = [resource_slice(device("d1", taints=[TAINT]))]
TOLERATION = {"key": "k", "operator": "Exists"}


@cases(
    "slices, claims, expected",
    {
        "no claims: nothing": (TWO, [], []),
        "no devices": ([], [claim(request())], None),
        "one device": (TWO, [claim(request())], [["r pool/d1"]]),
        "two devices": (TWO, [claim(request(count=2))], [["r pool/d1", "r pool/d2"]]),
        "too many devices": (TWO, [claim(request(count=3))], None),
        "two requests get different devices": (
            TWO,
            [claim(request("r1"), request("r2"))],
            [["r1 pool/d1", "r2 pool/d2"]],
        ),
        "two claims get different devices": (
            TWO,
            [claim(request(), name="c1"), claim(request(), name="c2")],
            [["r pool/d1"], ["r pool/d2"]],
        ),
        "pools in the order of their names, slices in theirs": (
            [
                resource_slice(*devices("d"), name="s3", pool="p2"),
                resource_slice(*devices("d2"), name="s2", pool="p1", slices=2),
                resource_slice(*devices("d1"), name="s1", pool="p1", slices=2),
            ],
            [claim(request(count=3))],
            [["r p1/d1", "r p1/d2", "r p2/d"]],
        ),
        "pools with binding conditions come last": (
            [
                resource_slice(device("d", bindingConditions=["x"]), name="s1", pool="p1"),
                resource_slice(*devices("d"), name="s2", pool="p2"),
            ],
            [claim(request(count=2))],
            [["r p2/d", "r p1/d"]],
        ),
        "a choice is revised for a later request": (
            SIZES,
            [claim(request("r1"), request("r2", "any", 1, 'device.attributes["a"].size < 2'))],
            [["r1 pool/big", "r2 pool/small"]],
        ),
        "a choice is revised for a later claim": (
            SIZES,
            [claim(request(), name="c1"), claim(request("r", "any", 1, 'device.attributes["a"].size < 2'), name="c2")],
            [["r pool/big"], ["r pool/small"]],
        ),
        "the selectors of class and request": (
            [*SIZES, resource_slice(device("d", attributes={"a/size": 3}), name="t", pool="q", driver="b")],
            [claim(request("r", "b", 1, BIG))],
            [["r q/d"]],
        ),
        "a selector of capacity": (
            SIZES,
            [claim(request("r", "a", 1, 'device.capacity["a"].memory.compareTo(quantity("2Gi")) >= 0'))],
            [["r pool/big"]],
        ),
        "a selector with a domain that devices lack": (
            SIZES,
            [claim(request("r", "a", 1, 'has(device.attributes["z"].size) || device.driver == "a"'))],
            [["r pool/small"]],
        ),
        "a selector that fails": (
            SIZES,
            [claim(request("r", "a", 1, 'device.attributes["a"].color == "red"'))],
            "claim ns/claim: selector #0: CEL runtime error: no such key: color",
        ),
        "a selector that is no bool": (
            [resource_slice(device("d", attributes={"color": "red"}))],
            [claim(request("r", "a", 1, "true", 'device.attributes["a"].color'))],
            "claim ns/claim: selector #1: CEL runtime error: CEL result of type string could not be converted to bool: "
            "unsupported native conversion from string to 'bool'",
        ),
        "an unknown class": (
            TWO,
            [claim(request("r", "z"))],
            'claim ns/claim, request r: could not retrieve device class z: deviceclass.resource.k8s.io "z" not found',
        ),
        "more devices than a result has": (
            TWO,
            [claim(request(count=33))],
            "claim ns/claim: number of requested devices 33 exceeds the claim limit of 32",
        ),
    },
)
def test_devices(slices: list[Doc], claims: list[Doc], expected: Any) -> None:
    assert chosen(allocate(slices, *claims)) == expected


@cases(
    "slices, claims, expected",
    {
        "all devices": (TWO, [claim(request(count=0))], [["r pool/d1", "r pool/d2"]]),
        "all that match": (SIZES, [claim(request("r", "a", 0, BIG))], [["r pool/big"]]),
        "at least one": (TWO, [claim(request("r", "b", 0))], None),
        "one is in use": (TWO, [claim(request(), name="c1"), claim(request(count=0), name="c2")], None),
        "a pool is incomplete": (
            [resource_slice(*devices("d1"), slices=2)],
            [claim(request(count=0))],
            "claim ns/claim, request r: asks for all devices, but resource pool a/pool is currently being updated",
        ),
        "a pool is invalid": (
            [resource_slice(*devices("d1"), slices=2), resource_slice(*devices("d1"), name="t", slices=2)],
            [claim(request(count=0))],
            "claim ns/claim, request r: asks for all devices, but resource pool a/pool is currently invalid",
        ),
        "a constraint prevents one": (
            NUMA,
            [claim(request(count=0), constraints=SAME_NUMA)],
            "claim ns/claim, request r: cannot add device a/pool/d2 because a claim constraint would not be satisfied",
        ),
        "more than a result has": (
            [resource_slice(*devices(*(f"d{number}" for number in range(33))))],
            [claim(request(count=0))],
            "claim ns/claim: number of requested devices 33 exceeds the claim limit of 32",
        ),
    },
)
def test_all_devices(slices: list[Doc], claims: list[Doc], expected: Any) -> None:
    assert chosen(allocate(slices, *claims)) == expected


@cases(
    "slices, claims, expected",
    {
        "the first alternative": (
            SIZES,
            [claim(first_available("r", alternative("x"), alternative("y")))],
            [["r/x pool/small"]],
        ),
        "the second, if the first needs too many": (
            SIZES,
            [claim(first_available("r", alternative("x", "any", 3), alternative("y", "any", 1, BIG)))],
            [["r/y pool/big"]],
        ),
        "the second, for a later request": (
            SIZES,
            [claim(first_available("r", alternative("x", "any", 2), alternative("y")), request("s"))],
            [["r/y pool/small", "s pool/big"]],
        ),
        "none": (SIZES, [claim(first_available("r", alternative("x", "b"), alternative("y", "any", 3)))], None),
        "all of the second": (
            SIZES,
            [claim(first_available("r", alternative("x", "b", 0), alternative("y", "any", 0)))],
            [["r/y pool/small", "r/y pool/big"]],
        ),
        "an alternative is skipped that exceeds the result": (
            [resource_slice(*devices(*(f"d{number:02}" for number in range(40))))],
            [claim(request("s", count=32 - 1), first_available("r", alternative("x", "a", 2), alternative("y")))],
            [[*(f"s pool/d{number:02}" for number in range(31)), "r/y pool/d31"]],
        ),
        "a constraint of one alternative": (
            NUMA,
            [
                claim(
                    first_available("r", alternative("x", "any", 3), alternative("y", "any", 2)),
                    constraints=[{"requests": ["r/x"], "matchAttribute": "a/numa"}],
                )
            ],
            [["r/y pool/d1", "r/y pool/d2"]],
        ),
    },
)
def test_first_available(slices: list[Doc], claims: list[Doc], expected: Any) -> None:
    assert chosen(allocate(slices, *claims)) == expected


@cases(
    "constraints, count, expected",
    {
        "the same value": (SAME_NUMA, 2, ["r pool/d2", "r pool/d3"]),
        "the same value of three": (SAME_NUMA, 3, None),
        "different values": ([{"distinctAttribute": "a/numa"}], 2, ["r pool/d1", "r pool/d2"]),
        "an attribute that some lack": ([{"matchAttribute": "example.com/kind"}], 2, ["r pool/d1", "r pool/d2"]),
        "an attribute that some lack, of three": ([{"matchAttribute": "example.com/kind"}], 3, None),
        "the domain of another driver": ([{"matchAttribute": "b/numa"}], 1, None),
        "both": ([*SAME_NUMA, {"matchAttribute": "example.com/kind"}], 1, ["r pool/d1"]),
        "of another request": ([{"requests": ["s"], "matchAttribute": "b/numa"}], 1, ["r pool/d1"]),
    },
)
def test_constraints(constraints: list[Doc], count: int, expected: list[str] | None) -> None:
    result = chosen(allocate(NUMA, claim(request(count=count), constraints=constraints)))
    assert result == ([expected] if expected is not None else None)


def test_a_distinct_attribute_is_compared_with_the_last_device_of_a_request() -> None:
    """As upstream: two of the three devices have the same value."""
    three = [resource_slice(*(device(f"d{n}", attributes={"numa": n % 2}) for n in range(3)))]
    constraints = [{"distinctAttribute": "a/numa"}]
    assert chosen(allocate(three, claim(request(count=3), constraints=constraints))) is not None
    requests = [request(f"r{n}") for n in range(3)]
    assert chosen(allocate(three, claim(*requests, constraints=constraints))) is None


@cases(
    "toleration, effect, expected",
    {
        "not tolerated": (None, "NoSchedule", None),
        "not tolerated, NoExecute": (None, "NoExecute", None),
        "without effect": (None, "None", [["r pool/d1"]]),
        "tolerated by its key": (TOLERATION, "NoSchedule", [["r pool/d1"]]),
        "tolerated by its value": ({"key": "k", "operator": "Equal", "value": "v"}, "NoSchedule", [["r pool/d1"]]),
        "another value": ({"key": "k", "operator": "Equal", "value": "w"}, "NoSchedule", None),
        "another effect": ({**TOLERATION, "effect": "NoExecute"}, "NoSchedule", None),
    },
)
def test_taints(toleration: Doc | None, effect: str, expected: Any) -> None:
    slices = [resource_slice(device("d1", taints=[{**TAINT, "effect": effect}]))]
    tolerations = [toleration] if toleration is not None else []
    assert chosen(allocate(slices, claim(request(tolerations=tolerations)))) == expected
    alternatives = first_available("r", alternative("x", "any", 1, tolerations=tolerations))
    assert (allocate(slices, claim(alternatives)) is None) == (expected is None)


@cases(
    "claims, expected",
    {
        "what is in use": ([claim(request(adminAccess=True, count=2))], [["r pool/d1", "r pool/d2"]]),
        "each device once in a claim": ([claim(request("r", adminAccess=True), request("s", adminAccess=True))],
            [["r pool/d1", "s pool/d2"]]),
        "and again in another": (
            [claim(request(adminAccess=True), name="c1"), claim(request(adminAccess=True), name="c2")],
            [["r pool/d1"], ["r pool/d1"]],
        ),
    },
)  # fmt: skip
def test_admin_access(claims: list[Doc], expected: Any) -> None:
    assert chosen(allocate(TWO, *claims, allocated=[{"device": "d1"}])) == expected


def test_allocated_devices_are_not_available() -> None:
    assert chosen(allocate(TWO, claim(request()), allocated=[{"device": "d1"}])) == [["r pool/d2"]]
    assert chosen(allocate(TWO, claim(request()), allocated=[{"device": "d1", "adminAccess": True}])) == [["r pool/d1"]]
    assert chosen(allocate(TWO, claim(request()), allocated=[{"device": "d1", "driver": "b"}])) == [["r pool/d1"]]


# Pools


@cases(
    "slices, expected",
    {
        "of the node": ([resource_slice(*devices("d"))], [["r pool/d"]]),
        "of another node": ([resource_slice(*devices("d"), nodeName="n2")], None),
        "of all nodes": ([resource_slice(*devices("d"), allNodes=True)], [["r pool/d"]]),
        "of nodes that a selector matches": ([resource_slice(*devices("d"), nodeSelector=zone("z1"))], [["r pool/d"]]),
        "of other nodes": ([resource_slice(*devices("d"), nodeSelector=zone("z2"))], None),
        "for no nodes: a newer API": ([resource_slice(*devices("d"), nodeName="")], None),
        "per device": (
            [
                resource_slice(
                    device("d1", nodeName="n2"),
                    device("d2", nodeSelector=zone("z2")),
                    device("d3", nodeSelector=zone("z1")),
                    perDeviceNodeSelection=True,
                )
            ],
            [["r pool/d3"]],
        ),
        "the newest generation": (
            [
                resource_slice(*devices("old")),
                resource_slice(*devices("new"), name="t", generation=2),
            ],
            [["r pool/new"]],
        ),
        "a newer generation without devices for the node": (
            [
                resource_slice(*devices("old"), slices=2),
                resource_slice(*devices("new"), name="t", generation=2, nodeName="n2"),
            ],
            None,
        ),
        "incomplete": ([resource_slice(*devices("d"), slices=2)], None),
        "complete with a slice of another node": (
            [resource_slice(*devices("d"), slices=2), resource_slice(*devices("e"), name="t", slices=2, nodeName="n2")],
            [["r pool/d"]],
        ),
        "invalid": (
            [resource_slice(*devices("d"), slices=2), resource_slice(*devices("d"), name="t", slices=2)],
            "invalid resource pools were encountered",
        ),
        "invalid beside a valid one": (
            [
                resource_slice(*devices("d"), slices=2),
                resource_slice(*devices("d"), name="t", slices=2),
                resource_slice(*devices("e"), name="u", pool="q"),
            ],
            [["r q/e"]],
        ),
    },
)
def test_pools(slices: list[Doc], expected: Any) -> None:
    assert chosen(allocate(slices, claim(request()))) == expected


# Partitionable devices


def partitions(*names: str, **of_counters: Any) -> list[Doc]:
    """A card with 8 units: as a whole, in halves, and in quarters."""
    units = {"whole": "8", "half1": "4", "half2": "4", "quarter": "2"}
    return [
        resource_slice(name="counters", slices=2, counters={"card": {"units": "8"}}, **of_counters),
        resource_slice(*(device(name, consumes={"card": {"units": units[name]}}) for name in names), slices=2),
    ]


@cases(
    "names, count, allocated, expected",
    {
        "both halves": (["half1", "half2"], 2, [], [["r pool/half1", "r pool/half2"]]),
        "the whole excludes the rest": (["whole", "half1"], 2, [], None),
        "the choice is revised": (["half1", "whole", "half2"], 2, [], [["r pool/half1", "r pool/half2"]]),
        "the whole is not available if a part is allocated": (
            ["half1", "whole", "quarter"],
            1,
            [{"device": "half1"}],
            [["r pool/quarter"]],
        ),
        "nothing is left": (["whole", "quarter"], 1, [{"device": "whole"}], None),
    },
)
def test_counters(names: list[str], count: int, allocated: list[Doc], expected: Any) -> None:
    assert chosen(allocate(partitions(*names), claim(request(count=count)), allocated=allocated)) == expected


@cases(
    "slices",
    {
        "an unknown counter set": [resource_slice(device("d", consumes={"z": {"units": "1"}}))],
        "an unknown counter": [
            resource_slice(name="c", slices=2, counters={"card": {"other": "8"}}),
            resource_slice(device("d", consumes={"card": {"units": "1"}}), slices=2),
        ],
        "counter sets of one name": [
            resource_slice(name="c1", slices=3, counters={"card": {"units": "8"}}),
            resource_slice(name="c2", slices=3, counters={"card": {"units": "8"}}),
            resource_slice(*devices("d"), slices=3),
        ],
    },
)
def test_invalid_counters(slices: list[Doc]) -> None:
    assert allocate(slices, claim(request())) == "invalid resource pools were encountered"


def test_counters_that_devices_of_other_nodes_have_consumed() -> None:
    slices = [
        resource_slice(name="counters", slices=3, counters={"card": {"units": "8"}}, allNodes=True),
        resource_slice(device("here", consumes={"card": {"units": "4"}}), slices=3),
        resource_slice(device("there", consumes={"card": {"units": "6"}}), name="t", slices=3, nodeName="n2"),
    ]
    assert chosen(allocate(slices, claim(request()))) == [["r pool/here"]]
    assert chosen(allocate(slices, claim(request()), allocated=[{"device": "there"}])) is None


def test_counters_of_a_tainted_device_remain_consumed() -> None:
    """As upstream: the whole card is tainted, and its parts cannot be allocated either."""
    slices = partitions("whole", "half1")
    slices[1]["spec"]["devices"][0]["taints"] = [TAINT]
    assert chosen(allocate(slices, claim(request()))) is None


# Consumable capacity

SHARED: Doc = {"allowMultipleAllocations": True}
POLICY = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "3Gi", "step": "512Mi"}}


def memory(amount: str) -> Doc:
    return {"capacity": {"requests": {"memory": amount}}}


@cases(
    "capacity, requests, expected",
    {
        "several allocations of one device": ("4Gi", [request("r", **memory("1Gi")), request("s", **memory("3Gi"))],
            [["r pool/d", "s pool/d"]]),
        "more than there is": ("4Gi", [request("r", **memory("2Gi")), request("s", **memory("3Gi"))], None),
        "all of it without a request": ("4Gi", [request("r"), request("s", **memory("1"))], None),
        "a capacity that the device lacks": ("4Gi", [request("r", capacity={"requests": {"z": "1"}})], None),
        "the default of a policy": ({"value": "2Gi", "requestPolicy": POLICY}, [request("r"), request("s")],
            [["r pool/d", "s pool/d"]]),
        "a policy with a maximum": ({"value": "8Gi", "requestPolicy": POLICY}, [request("r", **memory("4Gi"))], None),
        "a policy with values": (
            {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}},
            [request("r", **memory("3Gi"))], None),
    },
)  # fmt: skip
def test_consumable_capacity(capacity: Any, requests: list[Doc], expected: Any) -> None:
    slices = [resource_slice(device("d", capacity={"memory": capacity}, **SHARED))]
    assert chosen(allocate(slices, claim(*requests))) == expected


def test_consumed_capacity_is_rounded_up_and_recorded() -> None:
    slices = [resource_slice(device("d", capacity={"memory": {"value": "4Gi", "requestPolicy": POLICY}}, **SHARED))]
    result = allocate(slices, claim(request(**memory("1200Mi"))))
    assert isinstance(result, list)
    [one] = result[0].devices.results
    assert (one.share_id, one.consumed_capacity) == ("share", {"memory": "1536Mi"})
    taken = [{"device": "d", "shareID": "x", "consumedCapacity": {"memory": "3Gi"}}]
    assert chosen(allocate(slices, claim(request(**memory("1200Mi"))), allocated=taken)) is None
    assert chosen(allocate(slices, claim(request(**memory("1Gi"))), allocated=taken)) == [["r pool/d"]]


# Results


def as_json(view: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(view))


def test_configuration() -> None:
    """Of the classes once each, then of the claim for requests that got devices."""
    classes: dict[str, Doc] = {
        name: {"config": [{"opaque": {"driver": name, "parameters": {"of": name}}}]} for name in ("x", "y", "z")
    }
    config = [
        {"opaque": {"driver": "claim", "parameters": {"number": number}}, "requests": requests}
        for number, requests in enumerate(([], ["r1"], ["r2/one"], ["r2/two"], ["r2"]))
    ]
    alternatives = first_available("r2", alternative("one", "z", 5), alternative("two", "x"))
    whole = claim(request("r1", "x"), alternatives, request("r3", "y"), config=config)
    result = allocate([resource_slice(*devices("d1", "d2", "d3"))], whole, classes=classes)
    assert isinstance(result, list)
    found = [(one.source, one.requests, one.opaque and one.opaque.parameters) for one in result[0].devices.config]
    assert found == [
        ("FromClass", ("r1", "r2/two"), {"of": "x"}),
        ("FromClass", ("r3",), {"of": "y"}),
        ("FromClaim", (), {"number": 0}),
        ("FromClaim", ("r1",), {"number": 1}),
        ("FromClaim", ("r2/two",), {"number": 3}),
        ("FromClaim", ("r2",), {"number": 4}),
    ]


LOCAL = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}


@cases(
    "slices, expected",
    {
        "a device of the node": ([resource_slice(*devices("d"))], LOCAL),
        "a device for every node": ([resource_slice(*devices("d"), allNodes=True)], None),
        "a device of selected nodes": ([resource_slice(*devices("d"), nodeSelector=zone("z1"))], zone("z1")),
        "a device that binds to the node": ([resource_slice(device("d", bindsToNode=True), allNodes=True)], LOCAL),
        "several": (
            [
                resource_slice(*devices("d"), allNodes=True),
                resource_slice(*devices("d"), name="t", pool="q", nodeSelector=zone("z1")),
                resource_slice(*devices("d"), name="u", pool="r", nodeSelector=zone("z1")),
                resource_slice(device("d", nodeSelector=zone("r1", "rack")), name="v", pool="s",
                               perDeviceNodeSelection=True),
            ],
            {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["z1"]}, {"key": "rack", "operator": "In", "values": ["r1"]}
            ]}]},
        ),
        "several, one of the node": (
            [resource_slice(*devices("d"), allNodes=True), resource_slice(*devices("d"), name="t", pool="q")],
            LOCAL,
        ),
    },
)  # fmt: skip
def test_node_selector(slices: list[Doc], expected: Doc | None) -> None:
    result = allocate(slices, claim(request(count=len(slices))))
    assert isinstance(result, list)
    assert as_json(result[0].node_selector) == expected


def test_details_of_devices() -> None:
    slices = [resource_slice(device("d", bindingConditions=["ready"], bindingFailureConditions=["failed"]))]
    result = allocate(slices, claim(request(adminAccess=True, tolerations=[TOLERATION])))
    assert isinstance(result, list)
    assert as_json(result[0].devices.results[0]) == {
        "request": "r",
        "driver": "a",
        "pool": "pool",
        "device": "d",
        "adminAccess": True,
        "tolerations": [TOLERATION],
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
    }


# Bounds


def test_a_search_that_takes_too_long_is_stopped() -> None:
    """Of 30 devices with different values any 15 are tried for a constraint that no two satisfy."""
    slices = [resource_slice(*(device(f"d{n}", attributes={"odd": n % 2, "n": n}) for n in range(30)))]
    constraints = [{"matchAttribute": "a/odd", "requests": ["r"]}, {"matchAttribute": "a/n", "requests": ["s"]}]
    hopeless = claim(request(count=8), request("s", count=2), constraints=constraints)
    with pytest.raises(AllocationError, match="node n1: timed out trying to allocate devices"):
        search(slices, [hopeless], limit=100_000).run(10_000_000)


def test_a_search_pauses() -> None:
    slices = [resource_slice(*(device(f"d{n}") for n in range(100)), name=f"s{m}", pool=f"p{m}") for m in range(20)]
    running = search(slices, [claim(request("r", "b"))])
    pauses = 0
    while not running.done:
        assert running.run(100) is None
        pauses += 1
    assert running.result is None
    assert pauses > 100


def test_more_devices_than_the_stack_has_frames() -> None:
    claims = [claim(request(count=32), name=f"c{n}") for n in range(64)]
    slices = [resource_slice(*(device(f"d{n}") for n in range(2048)))]
    result = allocate(slices, *claims)
    assert isinstance(result, list)
    assert len({one.device for allocation in result for one in allocation.devices.results}) == 2048
