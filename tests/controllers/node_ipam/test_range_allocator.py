"""Allocation of CIDRs to nodes: rows of kubernetes v1.36 ``pkg/controller/nodeipam/ipam/range_allocator_test.go`` that
need no server, and others."""

import pytest
from tests.tables import cases

from pilothouse.controllers.node.node_ipam.cidr_set import CidrSet
from pilothouse.controllers.node.node_ipam.metrics import SetMetrics
from pilothouse.controllers.node.node_ipam.range_allocator import (
    CIDRRangeNoCIDRsRemaining,
    InvalidPodCIDRs,
    RangeAllocator,
)
from pilothouse.machinery.cidrs import parse_cidr
from pilothouse.runtime import Registry


def allocator(
    *clusters: tuple[str, int], services: tuple[str, ...] = (), metrics: Registry | None = None
) -> RangeAllocator:
    sets = [CidrSet(parse_cidr(cluster), mask) for cluster, mask in clusters]
    set_metrics = [SetMetrics(metrics or Registry(), str(blocks.cluster), blocks.size) for blocks in sets]
    return RangeAllocator(sets, set_metrics, [parse_cidr(service) for service in services])


def give(books: RangeAllocator, name: str, uid: str = "") -> tuple[str, ...]:
    return books.reserve(name, uid or f"uid-{name}", "1").ranges


def enter(books: RangeAllocator, name: str, *ranges: str) -> list[str]:
    return books.occupy_cidrs(name, f"uid-{name}", "1", ranges)


V4, V6 = ("10.10.0.0/16", 24), ("ace:cab:deca::/8", 24)


@cases(
    "clusters, ranges, error",
    {
        "one family, no podCIDRs (TestOccupyPreExistingCIDR)": ([V4], [], ""),
        "two families, no podCIDRs": ([V4, V6], [], ""),
        "one family, valid podCIDR": ([V4], ["10.10.0.1/24"], ""),
        "two families, valid podCIDRs": ([V4, V6], ["10.10.0.1/24", "a00::/86"], ""),
        "two families, podCIDR of the first only": ([V4, V6], ["10.10.0.1/24"], ""),
        "outside the cluster CIDR": ([V4], ["172.10.0.1/24"], "is out the range of cluster cidr 10.10.0.0/16"),
        "more podCIDRs than families": (
            [V4],
            ["10.10.0.1/24", "a00::/86"],
            "allocated cidr: a00::/86 at index:1 that does not exist",
        ),
        "IPv4 outside the cluster CIDR": ([V4, V6], ["172.10.0.1/24", "a00::/86"], "cidr[172.10.0.0/24] at idx [0]"),
        "IPv6 outside the cluster CIDR": ([V4, V6], ["10.10.0.1/24", "cdd::/86"], "cidr[cdd::/86] at idx [1]"),
        "invalid podCIDR": ([V4], ["nonsense"], "failed to parse node node0, CIDR nonsense"),
    },
)
def test_occupy_cidrs(clusters: list[tuple[str, int]], ranges: list[str], error: str) -> None:
    books = allocator(*clusters)
    if error:
        with pytest.raises(InvalidPodCIDRs) as caught:
            enter(books, "node0", *ranges)
        assert error in str(caught.value)
    else:
        assert enter(books, "node0", *ranges) == []


def test_valid_cidrs_of_a_node_with_invalid_ones_are_occupied() -> None:
    books = allocator(("10.10.0.0/23", 24), ("2001:db8::/63", 64))
    with pytest.raises(InvalidPodCIDRs):
        enter(books, "a", "10.10.0.0/24", "cdd::/64")
    assert give(books, "b") == ("10.10.1.0/24", "2001:db8::/64")


@cases(
    "clusters, services, occupied, expected",
    {
        "the first of the range": ([("127.123.234.0/24", 30)], (), [], ("127.123.234.0/30",)),
        "the first after services": ([("127.123.234.0/24", 30)], ("127.123.234.0/26",), [], ("127.123.234.64/30",)),
        "first free block": (
            [("127.123.234.0/24", 30)],
            ("127.123.234.0/26",),
            ["127.123.234.64/30", "127.123.234.68/30", "127.123.234.72/30", "127.123.234.80/30"],
            ("127.123.234.76/30",),
        ),
        "dual-stack": (
            [("127.123.234.0/8", 24), ("ace:cab:deca::/84", 98)],
            ("127.123.234.0/26",),
            [],
            ("127.0.0.0/24", "ace:cab:deca::/98"),
        ),
        "dual-stack, order of the flag": (
            [("ace:cab:deca::/84", 98), ("127.123.234.0/8", 24)],
            ("127.123.234.0/26",),
            [],
            ("ace:cab:deca::/98", "127.0.0.0/24"),
        ),
        "gaps are used": ([("10.10.0.0/22", 24)], (), ["10.10.0.0/24", "10.10.2.0/24"], ("10.10.1.0/24",)),
        "services of both families": (
            [("10.0.0.0/22", 24), ("2001:db8::/62", 64)],
            ("10.0.0.0/23", "2001:db8::/64"),
            [],
            ("10.0.2.0/24", "2001:db8:0:1::/64"),
        ),
        "service CIDR outside the cluster CIDR": ([("10.0.0.0/22", 24)], ("192.168.0.0/16",), [], ("10.0.0.0/24",)),
    },
)
def test_allocate_or_occupy_cidr(
    clusters: list[tuple[str, int]], services: tuple[str, ...], occupied: list[str], expected: tuple[str, ...]
) -> None:
    """TestAllocateOrOccupyCIDRSuccess."""
    books = allocator(*clusters, services=services)
    for number, text in enumerate(occupied):
        enter(books, f"old{number}", text)
    assert give(books, "node0") == expected
    assert give(books, "node0") == expected, "it is asked again and has it already"


def test_exhausted_range_allocates_again_after_a_release() -> None:
    """TestAllocateOrOccupyCIDRFailure, TestReleaseCIDRSuccess."""
    books = allocator(("127.123.234.0/28", 30))
    for number in range(4):
        enter(books, f"old{number}", f"127.123.234.{4 * number}/30")
    with pytest.raises(
        CIDRRangeNoCIDRsRemaining, match="failed to allocate cidr from cluster cidr at idx:0: CIDR allocation failed"
    ):
        give(books, "node0")
    assert books.release("old1")
    assert books.free == 1
    assert give(books, "node0") == ("127.123.234.4/30",)
    assert books.release("node0")
    assert give(books, "node0") == ("127.123.234.4/30",)


def test_service_cidr_covering_the_cluster_cidr_leaves_nothing() -> None:
    with pytest.raises(CIDRRangeNoCIDRsRemaining):
        give(allocator(("10.0.0.0/24", 26), services=("0.0.0.0/0",)), "a")


def test_cidr_of_the_first_family_is_released_if_the_second_is_exhausted() -> None:
    books = allocator(("10.0.0.0/22", 24), ("2001:db8::/64", 64))
    give(books, "a")
    for _ in range(10):
        with pytest.raises(CIDRRangeNoCIDRsRemaining, match="idx:1"):
            give(books, "b")
    assert len(books) == 1
    books.release("a")
    assert give(books, "b")[1] == "2001:db8::/64"


def test_cidr_of_two_nodes_is_released_after_both_are_deleted() -> None:
    books = allocator(("10.0.0.0/24", 25))
    assert enter(books, "a", "10.0.0.0/25") == []
    assert enter(books, "b", "10.0.0.0/25") == ["a"], "somebody wrote it so"
    assert enter(books, "c", "10.0.0.0/24") == ["a", "b"]
    books.release("c")
    books.release("a")
    assert give(books, "d") == ("10.0.0.128/25",)
    books.release("b")
    assert give(books, "e") == ("10.0.0.0/25",)


def test_service_cidr_is_never_released() -> None:
    books = allocator(("10.0.0.0/24", 25), services=("10.0.0.0/30",))
    enter(books, "a", "10.0.0.0/25")
    books.release("a")
    assert give(books, "b") == ("10.0.0.128/25",)
    with pytest.raises(CIDRRangeNoCIDRsRemaining):
        give(books, "c")


def test_reservation_is_kept_until_the_node_is_observed_or_deleted() -> None:
    books = allocator(("10.0.0.0/24", 26))
    first = give(books, "a")
    occupied_block = books.get("a")
    assert occupied_block is not None
    assert not occupied_block.is_written
    enter(books, "a", *first)
    occupied_block = books.get("a")
    assert occupied_block is not None
    assert occupied_block.is_written
    assert not books.release("a", "uid-of-another")
    assert books.release("a", "uid-a")
    books.mark_written("a", "uid-a", "9")
    assert books.get("a") is None, "the answer came after the node had gone"


def test_cidr_of_an_undecided_write_is_kept_until_the_node_is_deleted() -> None:
    books = allocator(("10.0.0.0/24", 26))
    give(books, "a")
    assert books.release_rejected("a", "uid-a"), "it was refused, and never anything else"
    give(books, "a")
    books.mark_in_doubt("a", "uid-of-another")
    assert books.release_rejected("a", "uid-a")
    give(books, "a")
    books.mark_in_doubt("a", "uid-a")
    assert not books.release_rejected("a", "uid-a")
    assert books.release("a", "uid-a")


def test_pod_cidr_set_by_another_client_is_kept() -> None:
    books = allocator(("10.0.0.0/24", 26))
    assert give(books, "a") == ("10.0.0.0/26",)
    enter(books, "a", "10.0.0.192/26")
    assert [give(books, name) for name in "bcd"] == [("10.0.0.64/26",), ("10.0.0.128/26",), ("10.0.0.0/26",)]


def test_recreated_node_is_a_new_node() -> None:
    books = allocator(("10.0.0.0/24", 25))
    assert give(books, "a", uid="1") == ("10.0.0.0/25",)
    assert give(books, "a", uid="2") == ("10.0.0.128/25",)
    assert give(books, "b") == ("10.0.0.0/25",)


@cases(
    "uid, version, expected",
    {
        "older version of the node": ("2", "5", False),
        "predecessor of the node": ("1", "5", True),
        "successor of the node": ("3", "30", False),
        "incomparable resourceVersions": ("1", "strange", False),
    },
)
def test_cached_predecessor_is_stale(uid: str, version: str, expected: bool) -> None:
    books = allocator(V4)
    books.occupy_cidrs("a", "2", "20", ["10.10.0.0/24"])
    assert books.has_newer("a", uid, version) is expected


def test_metrics_are_upstreams() -> None:
    """TestCidrSetMetrics, TestCidrSetMetricsDual (``cidr_set_test.go``)."""
    metrics = Registry()
    books = allocator(
        ("10.0.0.0/16", 24), ("2001:db8::/48", 64), services=("10.0.0.0/17", "2001:db8::/49"), metrics=metrics
    )

    def exposed(cluster: str) -> tuple[float, ...]:
        names = ("cidrset_cidrs_allocations_total", "cidrset_cidrs_releases_total", "cidrset_usage_cidrs",
                 "cirdset_max_cidrs", "cidrset_allocation_tries_per_request")  # fmt: skip
        return tuple(metrics.value(f"node_ipam_controller_{name}", cluster) for name in names)

    assert exposed("10.0.0.0/16") == (128, 0, 0.5, 256, 0)
    assert exposed("2001:db8::/48") == (32768, 0, 0.5, 65536, 0)
    give(books, "a")
    assert exposed("10.0.0.0/16") == (129, 0, 129 / 256, 256, 1)
    assert 'tries_per_request_bucket{clusterCIDR="10.0.0.0/16",le="125"} 0' in metrics.exposition()
    assert 'tries_per_request_bucket{clusterCIDR="10.0.0.0/16",le="625"} 1' in metrics.exposition()
    enter(books, "b", "10.0.0.0/16", "2001:db8::/48")
    assert exposed("10.0.0.0/16") == (256, 0, 1, 256, 1)
    books.release("b")
    books.release("a")
    assert exposed("10.0.0.0/16") == (256, 128, 0.5, 256, 1)
    assert exposed("2001:db8::/48") == (65536, 32768, 0.5, 65536, 1)
