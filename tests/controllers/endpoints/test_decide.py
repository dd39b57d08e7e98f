"""The desired Endpoints of a Service.

Rows mirror v1.36 ``pkg/controller/endpoint/endpoints_controller_test.go`` and ``pkg/api/v1/endpoints/util_test.go``.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.controllers.endpointslice.builders import HTTP, pod, service
from tests.tables import cases

from pilothouse.api.core import (
    Container,
    ContainerPort,
    EndpointAddress,
    Endpoints,
    EndpointsPort,
    EndpointSubset,
    ObjectReference,
    Pod,
    Service,
    ServicePort,
)
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.network.endpoints.decide import (
    MANAGED_BY,
    OVER_CAPACITY,
    address_of,
    annotations_of,
    desired_endpoints,
    endpoint_subsets_equal_ignore_trigger_time,
    truncate,
)
from pilothouse.machinery.times import parse_time
from pilothouse.semantics.services import HEADLESS_LABEL, TRIGGER_TIME
from pilothouse.semantics.subsets import repack

NOW = parse_time("2026-01-01T00:00:00Z")


def in_phase(phase: str, ready: bool, going: bool) -> Pod:
    pod_in_phase = pod(0, ready=ready)
    meta = replace(pod_in_phase.metadata, deletion_timestamp=NOW if going else None)
    return replace(pod_in_phase, metadata=meta, status=replace(pod_in_phase.status, phase=phase))


@cases(
    "phase, ready, going, tolerant, expected",
    {
        "running": ("Running", True, False, False, (1, 0)),
        "running, terminating": ("Running", True, True, False, (0, 0)),
        "unknown, ready": ("Unknown", True, False, False, (1, 0)),
        "unknown, ready, terminating": ("Unknown", True, True, False, (0, 0)),
        "pending, ready": ("Pending", True, False, False, (1, 0)),
        "pending, ready, terminating": ("Pending", True, True, False, (0, 0)),
        "unknown, not ready": ("Unknown", False, False, False, (0, 1)),
        "pending, not ready": ("Pending", False, False, False, (0, 1)),
        "failed": ("Failed", False, False, False, (0, 0)),
        "succeeded": ("Succeeded", False, False, False, (0, 0)),
        "running, all are published": ("Running", False, False, True, (1, 0)),
        "running, terminating, publishNotReadyAddresses": ("Running", False, True, True, (1, 0)),
        "unknown, all are published": ("Unknown", False, False, True, (1, 0)),
        "unknown, terminating, publishNotReadyAddresses": ("Unknown", False, True, True, (1, 0)),
        "pending, all are published": ("Pending", False, False, True, (1, 0)),
        "pending, terminating, publishNotReadyAddresses": ("Pending", False, True, True, (1, 0)),
        "failed, all are published": ("Failed", False, False, True, (0, 0)),
        "succeeded, all are published": ("Succeeded", False, False, True, (0, 0)),
    },
)
def test_addresses_of_a_service(
    phase: str, ready: bool, going: bool, tolerant: bool, expected: tuple[int, int]
) -> None:
    """TestSyncServiceAddresses."""
    wanted = desired_endpoints(service(publish_not_ready_addresses=tolerant), [in_phase(phase, ready, going)])
    result = sum(len(s.addresses) for s in wanted.subsets), sum(len(s.not_ready_addresses) for s in wanted.subsets)
    assert result == expected


FOUR, SIX = "10.1.1.1", "2001:db8::1"


@cases(
    "spec, ips, expected",
    {
        "IPv4": ({"ip_families": ("IPv4",)}, [FOUR], FOUR),
        "IPv6": ({"ip_families": ("IPv6",)}, [SIX], SIX),
        "both: the first family": ({"ip_families": ("IPv4", "IPv6")}, [SIX, FOUR], FOUR),
        "both, IPv6 first": ({"ip_families": ("IPv6", "IPv4")}, [FOUR, SIX], SIX),
        "no pod IP of the family": ({"ip_families": ("IPv6",)}, [FOUR], None),
        "no families: as the cluster IP": ({"ip_families": (), "cluster_ip": "10.0.0.1"}, [SIX, FOUR], FOUR),
        "no families: as the IPv6 cluster IP": ({"ip_families": (), "cluster_ip": "fd00::1"}, [FOUR, SIX], SIX),
        "headless: that of the pod": ({"ip_families": (), "cluster_ip": "None"}, [SIX, FOUR], SIX),
        "written canonically": ({"ip_families": ("IPv4",)}, ["010.01.1.1"], FOUR),
    },
)
def test_pod_to_endpoint_address(spec: dict[str, Any], ips: list[str], expected: str | None) -> None:
    """TestPodToEndpointAddressForService."""
    result = address_of(service(**spec), pod(1, ips=ips))
    assert (result.ip if result is not None else None) == expected
    if result is not None:
        assert result.node_name == "n1"
        assert result.target_ref == ObjectReference(kind="Pod", namespace="ns", name="p0001", uid="uid-p0001")


def test_pod_without_a_node_has_an_address_without_node_name() -> None:
    unscheduled = replace(pod(1), spec=replace(pod(1).spec, node_name=""))
    result = address_of(service(), unscheduled)
    assert result is not None
    assert "nodeName" not in msgspec.to_builtins(result)


def subsets_of(wanted_service: Service, pods: Iterable[Pod]) -> list[tuple[list[str], list[str], list[int]]]:
    return [
        (
            [a.ip for a in subset.addresses],
            [a.ip for a in subset.not_ready_addresses],
            [port.port for port in subset.ports],
        )
        for subset in desired_endpoints(wanted_service, pods).subsets
    ]


NAMED = ServicePort(name="named", protocol="TCP", port=81, target_port="http")


def test_ports() -> None:
    """TestSyncEndpointsItems, TestSyncEndpointsHeadlessWithoutPort, TestEndpointPortFromServicePort; ``FindPort``."""
    assert subsets_of(service(), [pod(1), pod(0, ready=False)]) == [(["10.1.0.2"], ["10.1.0.1"], [8080])]
    assert subsets_of(service(ports=(HTTP, NAMED)), [pod(0)]) == [(["10.1.0.1"], [], [8080, 8080])]
    # A named port is another number in each pod: two subsets; where it is not there, that pod is left out.
    other = (Container(name="main", ports=(ContainerPort(name="else", container_port=1, protocol="TCP"),)),)
    pods = [pod(0), pod(1, port=9090), pod(2, containers=other)]
    assert subsets_of(service(ports=(NAMED,)), pods) == [(["10.1.0.1"], [], [8080]), (["10.1.0.2"], [], [9090])]
    assert subsets_of(service(ports=(), cluster_ip="None"), [pod(0)]) == [(["10.1.0.1"], [], [])]
    assert subsets_of(service(ports=()), [pod(0)]) == []
    protocol = replace(HTTP, app_protocol="http")
    [subset] = desired_endpoints(service(ports=(protocol,)), [pod(0)]).subsets
    assert [port.app_protocol for port in subset.ports] == ["http"]


@cases(
    "cluster_ip, labels, expected",
    {
        "labels of the service": ("10.0.0.1", {"a": "b"}, {"a": "b", MANAGED_BY: "endpoint-controller"}),
        "headless": ("None", {}, {MANAGED_BY: "endpoint-controller", HEADLESS_LABEL: ""}),
        "no cluster IP yet": ("", {}, {MANAGED_BY: "endpoint-controller", HEADLESS_LABEL: ""}),
        "headless no more": ("10.0.0.1", {HEADLESS_LABEL: ""}, {MANAGED_BY: "endpoint-controller"}),
    },
)
def test_labels(cluster_ip: str, labels: dict[str, str], expected: dict[str, str]) -> None:
    """TestSyncEndpointsItemsWithLabels, TestSyncEndpointsHeadlessServiceLabel."""
    assert desired_endpoints(service(cluster_ip=cluster_ip, labels=labels), []).labels == expected


def address(ip: str, uid: str = "") -> EndpointAddress:
    return EndpointAddress(ip=ip, target_ref=ObjectReference(uid=uid) if uid else None)


def subset(ready: Iterable[EndpointAddress], bad: Iterable[EndpointAddress], *ports: int) -> EndpointSubset:
    endpoint_ports = tuple(EndpointsPort(name=f"p{port}", port=port, protocol="TCP") for port in ports)
    return EndpointSubset(addresses=tuple(ready), not_ready_addresses=tuple(bad), ports=endpoint_ports)


A, B, C = address("1.2.3.4"), address("5.6.7.8"), address("1.2.3.4", "uid")


@cases(
    "unsorted, expected",
    {
        "no subsets": ([], []),
        "no addresses": ([subset([], [], 111)], []),
        "no ports": ([subset([A], [])], [subset([A], [])]),
        "one address": ([subset([A], [], 111)], [subset([A], [], 111)]),
        "one address not ready": ([subset([], [A], 111)], [subset([], [A], 111)]),
        "duplicate address": ([subset([A, A], [], 111)], [subset([A], [], 111)]),
        "not ready takes precedence": ([subset([A], [A], 111)], [subset([], [A], 111)]),
        "not ready takes precedence in another subset": (
            [subset([A], [], 111), subset([], [A], 111)],
            [subset([], [A], 111)],
        ),
        "addresses without targetRef are sorted last": ([subset([C, A], [], 111)], [subset([C, A], [], 111)]),
        "sorted": ([subset([B, A], [], 222, 111)], [subset([A, B], [], 111, 222)]),
        "ports of the same addresses": ([subset([A], [], 111), subset([A], [], 222)], [subset([A], [], 111, 222)]),
        "addresses of the same port": ([subset([A], [], 111), subset([B], [], 111)], [subset([A, B], [], 111)]),
        "different addresses and ports": (
            [subset([A], [], 222), subset([B], [], 111)],
            [subset([B], [], 111), subset([A], [], 222)],
        ),
        "ready for one port only": (
            [subset([A], [B], 111), subset([A, B], [], 222)],
            [subset([A], [B], 111), subset([A, B], [], 222)],
        ),
        "merged by address": (
            [subset([A, B], [], 111), subset([A], [], 222), subset([B], [], 222)],
            [subset([A, B], [], 111, 222)],
        ),
    },
)
def test_subsets_are_packed_and_sorted(unsorted: list[EndpointSubset], expected: list[EndpointSubset]) -> None:
    """TestPackSubsets, TestSortSubsets."""
    assert list(repack(unsorted)) == expected
    assert repack(reversed(unsorted)) == repack(unsorted)
    assert repack(repack(unsorted)) == repack(unsorted)


def many(ready: list[int], bad: list[int]) -> tuple[EndpointSubset, ...]:
    one = EndpointAddress(ip="10.0.0.1")
    return tuple(
        EndpointSubset(addresses=(one,) * count, not_ready_addresses=(one,) * rest)
        for count, rest in zip(ready, bad, strict=True)
    )


HUNDREDS = [100] * 5


@cases(
    "ready, bad, left_ready, left_bad",
    {
        "no addresses": ([], [], [], []),
        "fewer": ([50, *HUNDREDS[1:]], [50, *HUNDREDS[1:]], [50, *HUNDREDS[1:]], [50, *HUNDREDS[1:]]),
        "at the limit": (HUNDREDS, HUNDREDS, HUNDREDS, HUNDREDS),
        "ready addresses fit": (
            [90, 110, 50, 10, 20],
            [101, 200, 200, 201, 298],
            [90, 110, 50, 10, 20],
            [73, 144, 144, 145, 214],
        ),
        "too many ready addresses": (
            [205, 400, 402, 400, 693],
            [100, 200, 200, 200, 300],
            [98, 191, 192, 191, 328],
            [0] * 5,
        ),
    },
)
def test_truncate_endpoints(ready: list[int], bad: list[int], left_ready: list[int], left_bad: list[int]) -> None:
    """TestTruncateEndpoints."""
    kept, cut = truncate(many(ready, bad))
    assert [len(item.addresses) for item in kept] == left_ready
    assert [len(item.not_ready_addresses) for item in kept] == left_bad
    assert cut is (sum(ready) + sum(bad) > 1000)


@cases(
    "number, ready, expected",
    {
        "at the limit": (1000, 1000, (1000, 0, False)),
        "one above the limit": (1001, 1001, (1000, 0, True)),
        "some not ready": (1100, 600, (600, 400, True)),
        "fewer": (900, 500, (500, 400, False)),
    },
)
def test_service_over_capacity(number: int, ready: int, expected: tuple[int, int, bool]) -> None:
    """TestSyncServiceOverCapacity."""
    wanted = desired_endpoints(service(), [pod(item, ready=item < ready) for item in range(number)])
    [only] = wanted.subsets
    assert (len(only.addresses), len(only.not_ready_addresses), wanted.truncated) == expected
    assert annotations_of({OVER_CAPACITY: "truncated"}, wanted, "").get(OVER_CAPACITY) == (
        "truncated" if expected[2] else None
    )


def existing(wanted_service: Service, pods: list[Pod], **labels: str) -> Endpoints:
    wanted = desired_endpoints(wanted_service, pods)
    return Endpoints(metadata=ObjectMeta(labels={**wanted.labels, **labels}), subsets=wanted.subsets)


def test_identical_endpoints_are_not_updated() -> None:
    """TestSyncEndpointsItemsPreexistingIdentical, TestEndpointSubsetsEqualIgnoreResourceVersion and
    TestSyncEndpointsHeadlessServiceLabel."""
    web, pods = service(), [pod(0), pod(1, ready=False)]
    wanted, current = desired_endpoints(web, pods), existing(web, pods)
    assert endpoint_subsets_equal_ignore_trigger_time(current, wanted)
    assert endpoint_subsets_equal_ignore_trigger_time(existing(web, pods, **{HEADLESS_LABEL: ""}), wanted), (
        "whether it is headless does not count"
    )
    assert not endpoint_subsets_equal_ignore_trigger_time(existing(web, pods, other="label"), wanted)
    assert not endpoint_subsets_equal_ignore_trigger_time(existing(web, pods[:1]), wanted)
    [only] = current.subsets
    versioned = replace(
        only,
        addresses=tuple(
            replace(a, target_ref=replace(a.target_ref or ObjectReference(), resource_version="7"))
            for a in only.addresses
        ),
    )
    assert endpoint_subsets_equal_ignore_trigger_time(replace(current, subsets=(versioned,)), wanted), (
        "which version a pod was does not count"
    )
    # Another order, as another release sorts them.
    parts = (replace(only, addresses=()), replace(only, not_ready_addresses=()))
    assert endpoint_subsets_equal_ignore_trigger_time(replace(current, subsets=parts), wanted)


@pytest.mark.parametrize("number", [2, 1001])
@pytest.mark.parametrize("noted", [None, "truncated", "warning", ""])
def test_over_capacity_annotation_is_corrected(noted: str | None, number: int) -> None:
    """``capacityAnnotationSetCorrectly``; releases before v1.22 noted ``warning``."""
    pods = [pod(item) for item in range(number)]
    wanted, current = desired_endpoints(service(), pods), existing(service(), pods)
    annotations = {} if noted is None else {OVER_CAPACITY: noted}
    current = replace(current, metadata=replace(current.metadata, annotations=annotations))
    assert endpoint_subsets_equal_ignore_trigger_time(current, wanted) is (
        noted == ("truncated" if number > 1000 else None)
    )
    right = {OVER_CAPACITY: "truncated"} if number > 1000 else {}
    assert annotations_of(annotations, wanted, "") == right


def test_other_annotations_are_kept() -> None:
    """TestLastTriggerChangeTimeAnnotation and the following ones."""
    wanted = desired_endpoints(service(), [])
    before = {"mine": "1", TRIGGER_TIME: "old"}
    assert annotations_of(before, wanted, "new") == {"mine": "1", TRIGGER_TIME: "new"}
    assert annotations_of(before, wanted, "") == {"mine": "1"}
