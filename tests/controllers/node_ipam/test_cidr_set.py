"""The CIDR set. Rows mirror kubernetes v1.36 ``pkg/controller/nodeipam/ipam/cidrset/cidr_set_test.go``."""

import random

import pytest
from tests.tables import cases

from pilothouse.controllers.node.node_ipam.cidr_set import CidrSet, OutOfRange
from pilothouse.machinery.cidrs import parse_cidr


def blocks_of(cluster: str, mask: int) -> CidrSet:
    return CidrSet(parse_cidr(cluster), mask)


def allocate_all(blocks: CidrSet) -> list[str]:
    result = []
    while (next_one := blocks.allocate()) is not None:
        result.append(str(blocks.block(next_one.block)))
    return result


def used(blocks: CidrSet) -> list[int]:
    return [index for index in range(blocks.size) if blocks.is_used(index)]


@cases(
    "cluster",
    {
        "IPv4 of one block (TestCIDRSetFullyAllocated)": "127.123.234.0/30",
        "IPv6 of one block": "beef:1234::/30",
    },
)
def test_released_cidr_is_allocated_again(cluster: str) -> None:
    blocks = blocks_of(cluster, 30)
    for _ in range(2):
        assert allocate_all(blocks) == [str(parse_cidr(cluster))]
        assert blocks.allocate() is None
        assert blocks.release(blocks.indices(parse_cidr(cluster))) == 1


@cases(
    "cluster, mask, index, expected",
    {
        "IPv4, first: host bits are ignored": ("127.123.3.0/16", 24, 0, "127.123.0.0/24"),
        "IPv4, sixteenth": ("127.123.0.0/16", 24, 15, "127.123.15.0/24"),
        "IPv4, blocks of one address": ("192.168.5.219/28", 32, 5, "192.168.5.213/32"),
        "/48 to /64, first": ("2001:0db8:1234:3::/48", 64, 0, "2001:db8:1234::/64"),
        "/48 to /64, sixteenth": ("2001:0db8:1234::/48", 64, 15, "2001:db8:1234:f::/64"),
        "/50 to /63": ("2001:0db8:85a3::8a2e:0370:7334/50", 63, 6425, "2001:db8:85a3:3232::/63"),
        "/32 to /48, first": ("2001:0db8::/32", 48, 0, "2001:db8::/48"),
        "/32 to /48, sixteenth": ("2001:0db8::/32", 48, 15, "2001:db8:f::/48"),
        "/32 to /48, 6426th": ("2001:0db8:85a3::8a2e:0370:7334/32", 48, 6425, "2001:db8:1919::/48"),
        "/56 to /72, first": ("2001:0db8:1234:ff00::/56", 72, 0, "2001:db8:1234:ff00::/72"),
        "/56 to /72, sixteenth": ("2001:0db8:1234:ff00::/56", 72, 15, "2001:db8:1234:ff00:f00::/72"),
        "/56 to /72": ("2001:0db8:1234:ff00::0370:7334/56", 72, 6425, "2001:db8:1234:ff19:1900::/72"),
        "/80 to /96, first": ("2001:0db8:1234:0:1234::/80", 96, 0, "2001:db8:1234:0:1234::/96"),
        "/80 to /96, sixteenth": ("2001:0db8:1234:0:1234::/80", 96, 15, "2001:db8:1234:0:1234:f::/96"),
        "/80 to /96": ("2001:0db8:1234:ff00::0370:7334/80", 96, 6425, "2001:db8:1234:ff00:0:1919::/96"),
    },
)
def test_index_to_cidr_block(cluster: str, mask: int, index: int, expected: str) -> None:
    """TestIndexToCIDRBlock. And back: a block's index is its own."""
    blocks = blocks_of(cluster, mask)
    block = blocks.block(index)
    assert str(block) == expected
    assert blocks.indices(block) == range(index, index + 1)


@pytest.mark.parametrize("cluster", ["127.123.234.0/16", "beef:1234::/16"])
def test_all_cidrs_are_allocated_once_and_in_the_same_order_after_release(cluster: str) -> None:
    """TestCIDRSet_RandomishAllocation."""
    blocks = blocks_of(cluster, 24)
    first = allocate_all(blocks)
    assert len(set(first)) == len(first) == blocks.size == blocks.used == 256
    for text in first:
        blocks.release(blocks.indices(parse_cidr(text)))
    assert blocks.used == 0
    assert allocate_all(blocks) == first


@pytest.mark.parametrize("cluster", ["127.123.234.0/16", "beef:1234::/16"])
def test_occupied_cidrs_are_not_allocated(cluster: str) -> None:
    """TestCIDRSet_AllocationOccupied."""
    blocks = blocks_of(cluster, 24)
    everything = allocate_all(blocks)
    blocks.release(range(blocks.size))
    for text in [*everything[128:], everything[128]]:
        blocks.occupy(blocks.indices(parse_cidr(text)))
    assert allocate_all(blocks) == everything[:128]


def test_double_occupy_and_release() -> None:
    """TestDoubleOccupyRelease."""
    blocks = blocks_of("10.42.0.0/16", 24)
    for act, text, expected in (
        (blocks.occupy, "10.42.5.0/24", 1),
        (blocks.occupy, "10.42.9.0/24", 2),
        (blocks.occupy, "10.42.8.0/22", 5),
        (blocks.occupy, "10.42.9.0/24", 5),
        (blocks.release, "10.42.9.0/24", 4),
        (blocks.release, "10.42.9.0/24", 4),
        (blocks.release, "10.42.4.0/22", 3),
    ):
        act(blocks.indices(parse_cidr(text)))
        assert blocks.used == len(used(blocks)) == expected
    assert len(allocate_all(blocks)) == 256 - 3


@cases(
    "cluster, mask, text, expected",
    {
        "IPv4, first (TestGetBitforCIDR)": ("127.0.0.0/8", 16, "127.0.0.0/16", range(1)),
        "IPv6, first": ("be00::/8", 16, "be00::/16", range(1)),
        "IPv4, 124th": ("127.0.0.0/8", 16, "127.123.0.0/16", range(123, 124)),
        "IPv6, 0xef": ("be00::/8", 16, "beef::/16", range(0xEF, 0xF0)),
        "IPv4, 169th": ("127.0.0.0/8", 16, "127.168.0.0/16", range(168, 169)),
        "IPv6, 0x68": ("be00::/8", 16, "be68::/16", range(0x68, 0x69)),
        "IPv4, 225th": ("127.0.0.0/8", 16, "127.224.0.0/16", range(224, 225)),
        "IPv6, 0x24": ("be00::/8", 16, "be24::/16", range(0x24, 0x25)),
        "IPv4, 13th of /16": ("192.168.0.0/16", 24, "192.168.12.0/24", range(12, 13)),
        "IPv6, 0x12 of /16": ("beef::/16", 24, "beef:1200::/24", range(0x12, 0x13)),
        "IPv4, 152nd of /16": ("192.168.0.0/16", 24, "192.168.151.0/24", range(151, 152)),
        "IPv6, 0x97 of /16": ("beef::/16", 24, "beef:9700::/24", range(0x97, 0x98)),
        "IPv4, another range": ("192.168.0.0/16", 24, "127.168.224.0/24", None),
        "IPv6, another range": ("beef::/16", 24, "2001:db00::/24", None),
        "another family": ("192.168.0.0/16", 24, "beef::/24", None),
        "IPv4, the range itself (TestOccupy)": ("127.0.0.0/8", 16, "127.0.0.0/8", range(256)),
        "IPv6, the range itself": ("2001:beef:1200::/40", 48, "2001:beef:1200::/40", range(256)),
        "IPv4, more than the range": ("127.0.0.0/8", 16, "127.0.0.0/2", range(256)),
        "IPv6, more than the range": ("2001:beef:1200::/40", 48, "2001:beef:1234::/34", range(256)),
        "IPv6, one block": ("2001:beef:1200::/40", 48, "2001:beef:1200::/48", range(1)),
        "IPv4, 65536 blocks": ("127.0.0.0/8", 32, "127.0.0.0/16", range(65536)),
        "IPv6, 65536 blocks": ("2001:beef:1200::/48", 64, "2001:beef:1200::/48", range(65536)),
        "IPv4, two blocks in the middle": ("127.0.0.0/7", 16, "127.0.0.0/15", range(256, 258)),
        "IPv6, two blocks": ("2001:beef:7f00::/39", 48, "2001:beef:7f00::/47", range(256, 258)),
        "IPv4, the 129th": ("127.0.0.0/7", 15, "127.0.0.0/15", range(128, 129)),
        "IPv6, the 129th": ("2001:beef:7f00::/39", 47, "2001:beef:7f00::/47", range(128, 129)),
        "IPv4, eight blocks": ("127.0.0.0/7", 18, "127.0.0.0/15", range(1024, 1032)),
        "IPv6, eight blocks": ("2001:beef:7f00::/39", 50, "2001:beef:7f00::/47", range(1024, 1032)),
        "smaller than a block": ("10.0.0.0/16", 24, "10.0.3.64/26", range(3, 4)),
    },
)
def test_begin_and_end_index_of_a_cidr(cluster: str, mask: int, text: str, expected: range | None) -> None:
    blocks = blocks_of(cluster, mask)
    if expected is None:
        with pytest.raises(OutOfRange):
            blocks.indices(parse_cidr(text))
        return
    result = blocks.indices(parse_cidr(text))
    assert result == expected
    assert blocks.occupy(result) == blocks.used == len(expected)
    assert blocks.is_used(expected.start)
    assert not blocks.is_used(expected.stop)


@cases(
    "cluster, mask, expected",
    {
        "IPv4, /32 blocks": ("127.0.0.0/8", 32, ["127.0.0.0/32", "127.0.0.1/32"]),
        "IPv6, /64 blocks": ("2001:beef:1234:369b::/60", 64, ["2001:beef:1234:3690::/64", "2001:beef:1234:3691::/64"]),
    },
)
def test_first_two_ipv6_cidrs(cluster: str, mask: int, expected: list[str]) -> None:
    """TestCIDRSetv6."""
    blocks = blocks_of(cluster, mask)
    result = [blocks.allocate() for _ in range(2)]
    assert [str(blocks.block(item.block)) for item in result if item is not None] == expected


def test_allocation_tries_count_skipped_cidrs() -> None:
    """TestCidrSetMetricsHistogram: occupying a CIDR does not advance the next candidate."""
    blocks = blocks_of("10.0.0.0/16", 24)
    blocks.occupy(blocks.indices(parse_cidr("10.0.0.0/17")))
    assert [blocks.allocate(), blocks.allocate()] == [(128, 128), (129, 0)]
    blocks.occupy(range(130, 256))
    blocks.release(range(2, 3))
    assert blocks.allocate() == (2, 128)


def test_random_operations_agree_with_a_model() -> None:
    rng = random.Random(5)
    for _ in range(30):
        blocks, plain, candidate = blocks_of("10.0.0.0/24", rng.choice((27, 29, 30))), set[int](), 0
        for _ in range(200):
            start = rng.randrange(blocks.size)
            part = range(start, min(blocks.size, start + rng.randrange(1, 4)))
            match rng.randrange(3):
                case 0:
                    assert blocks.occupy(part) == len(set(part) - plain)
                    plain |= set(part)
                case 1:
                    assert blocks.release(part) == len(set(part) & plain)
                    plain -= set(part)
                case _:
                    result = blocks.allocate()
                    order = [(candidate + step) % blocks.size for step in range(blocks.size)]
                    free = [index for index in order if index not in plain]
                    assert (result.block if result else None) == (free[0] if free else None)
                    if result is not None:
                        plain.add(result.block)
                        candidate = (result.block + 1) % blocks.size
            assert used(blocks) == sorted(plain)
            assert blocks.used == len(plain)
