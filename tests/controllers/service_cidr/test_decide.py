"""Overlapping ServiceCIDRs, the CIDRs of an address, and which can be deleted.

Rows mirror v1.36 ``pkg/controller/servicecidrs/servicecidrs_controller_test.go`` and
``pkg/api/servicecidr/servicecidr_test.go``, by the test that each table names.
"""

import ipaddress
from collections.abc import Sequence

from msgspec.structs import replace
from tests.tables import cases

from pilothouse.api.meta import ObjectMeta
from pilothouse.api.networking import IPAddress, ServiceCIDR, ServiceCIDRSpec
from pilothouse.controllers.network.service_cidr.decide import (
    FAMILY,
    FINALIZER,
    MANAGED_BY,
    MANAGER,
    address_of,
    containing_service_cidrs,
    orphaned_address,
    overlapping_service_cidrs,
)
from pilothouse.machinery.cidrs import contains, parse_cidr, prefix_contains_ip
from pilothouse.machinery.times import parse_time

NOW = parse_time("2026-01-01T00:00:00Z")


def cidr(name: str, *ranges: str) -> ServiceCIDR:
    return ServiceCIDR(metadata=ObjectMeta(name=name, finalizers=(FINALIZER,)), spec=ServiceCIDRSpec(cidrs=ranges))


def going(name: str, *ranges: str) -> ServiceCIDR:
    return replace(cidr(name, *ranges), metadata=ObjectMeta(name=name, deletion_timestamp=NOW))


def ip(text: str, manager: str = MANAGER) -> IPAddress:
    family = "IPv6" if ":" in text else "IPv4"
    return IPAddress(metadata=ObjectMeta(name=text, labels={FAMILY: family, MANAGED_BY: manager}))


DEFAULT = cidr("kubernetes", "192.168.0.0/24", "2001:db2::/64")
SAME = cidr("overlapping", "192.168.0.0/24", "2001:db2::/64")
UNRELATED = (cidr("unrelated", "10.0.0.0/24"), cidr("unrelated2", "10.0.0.0/16"))


@cases(
    "others, addresses, blocked_by",
    {
        "no other ServiceCIDRs and no addresses": ((), (), ""),
        "an address": ((), ("192.168.0.24",), "192.168.0.24"),
        "address of another range": ((), ("192.168.1.24",), ""),
        "network address": ((), ("192.168.0.0",), ""),
        "broadcast address": ((), ("192.168.0.255",), ""),
        "last address of IPv6": ((), ("2001:db2::ffff:ffff:ffff:ffff",), "2001:db2::ffff:ffff:ffff:ffff"),
        "another ServiceCIDR of the same range": ((SAME,), ("192.168.0.23",), ""),
        "smaller ServiceCIDR contains the address": (
            (cidr("overlapping", "192.168.0.0/26", "2001:db2::/64"),),
            ("192.168.0.23",),
            "",
        ),
        "smaller ServiceCIDR does not contain the address": (
            (cidr("overlapping", "192.168.0.0/28", "2001:db2::/64"),),
            ("192.168.0.23",),
            "192.168.0.23",
        ),
        "larger ServiceCIDR": ((cidr("overlapping", "192.168.0.0/16", "2001:db2::/64"),), ("192.168.0.23",), ""),
    },
)
def test_can_delete_cidr(others: Sequence[ServiceCIDR], addresses: Sequence[str], blocked_by: str) -> None:
    """``TestController_canDeleteCIDR``."""
    assert orphaned_address(DEFAULT, (DEFAULT, *others), list(map(ip, addresses))) == blocked_by


@cases(
    "other, address, blocked",
    {
        "IPv4": (None, "192.168.0.1", True),
        "IPv4, another of the same range": (SAME, "192.168.0.1", False),
        "IPv4, a larger one": (cidr("o", "192.168.0.0/16", "2001:db2::/64"), "192.168.0.1", False),
        "IPv4, disjoint": (cidr("o", "192.168.255.0/26", "2001:db2::/64"), "192.168.0.1", True),
        "IPv6": (None, "2001:db2::1", True),
        "IPv6, another of the same range": (SAME, "2001:db2::1", False),
        "IPv6, a larger one": (cidr("o", "192.168.0.0/16", "2001:db2::/48"), "2001:db2::1", False),
        "IPv6, disjoint": (cidr("o", "192.168.255.0/26", "2001:db2:a:b::/64"), "2001:db2::1", True),
    },
)
def test_sync_of_a_terminating_cidr(other: ServiceCIDR | None, address: str, blocked: bool) -> None:
    """``TestControllerSync``, its rows with addresses."""
    deleted = going("deleted-cidr", "192.168.0.0/24", "2001:db2::/64")
    known = (deleted,) if other is None else (deleted, other)
    assert bool(orphaned_address(deleted, known, [ip(address)])) is blocked


def test_two_terminating_cidrs_do_not_replace_each_other() -> None:
    """Upstream removes both finalizers, and the address is in no ServiceCIDR."""
    first, second = going("a", "10.0.0.0/24"), going("b", "10.0.0.0/24")
    used = [ip("10.0.0.5")]
    assert orphaned_address(first, (first, second), used) == "10.0.0.5"
    assert orphaned_address(second, (first, second), used) == "10.0.0.5"
    assert orphaned_address(second, (first, second, cidr("c", "10.0.0.0/16")), used) == ""


def test_cidr_without_the_finalizer_is_not_a_replacement() -> None:
    """When deleted, it would be removed immediately. Upstream accepts it."""
    first, second = going("a", "10.0.0.0/24"), cidr("b", "10.0.0.0/24")
    loose = replace(second, metadata=replace(second.metadata, finalizers=()))
    assert orphaned_address(first, (first, loose), [ip("10.0.0.5")]) == "10.0.0.5"
    assert orphaned_address(first, (first, second), [ip("10.0.0.5")]) == ""


@cases(
    "address, expected",
    {
        "managed by another controller": (ip("10.0.0.5", "somebody"), ""),
        "no family label": (IPAddress(metadata=ObjectMeta(name="10.0.0.5", labels={MANAGED_BY: MANAGER})), ""),
        "invalid address": (ip("nonsense"), ""),
        "IPv6": (ip("2001:db8::5"), ""),
    },
)
def test_addresses_not_managed_by_the_allocator_are_ignored(address: IPAddress, expected: str) -> None:
    only = going("a", "10.0.0.0/24")
    assert orphaned_address(only, (only,), [address]) == expected


OVERLAPPING = cidr("overlapping", "192.168.0.0/24", "2001:db2::/96")
OVERLAPPING2 = cidr("overlapping2", "192.168.0.0/26", "2001:db2::/96")
THREE = (DEFAULT, SAME, OVERLAPPING2, *UNRELATED)


@cases(
    "cidrs, address, expected",
    {
        "none": ((), "192.168.0.23", []),
        "one": ((DEFAULT, *UNRELATED), "192.168.0.23", ["kubernetes"]),
        "two equal": ((DEFAULT, OVERLAPPING, *UNRELATED), "192.168.0.23", ["kubernetes", "overlapping"]),
        "two equal, one smaller": (THREE, "192.168.0.23", ["kubernetes", "overlapping", "overlapping2"]),
        "the first of IPv4": (THREE, "192.168.0.0", []),
        "the last of the smaller one": (THREE, "192.168.0.63", ["kubernetes", "overlapping"]),
        "the first of IPv6": (THREE, "2001:db2::", []),
        "the last of the larger IPv6": (THREE, "2001:db2::ffff:ffff:ffff:ffff", ["kubernetes", "overlapping"]),
    },
)
def test_ip_to_cidrs(cidrs: Sequence[ServiceCIDR], address: str, expected: list[str]) -> None:
    """``TestController_ipToCidrs``."""
    result = address_of(ip(address))
    assert result is not None
    assert [item.metadata.name for item in containing_service_cidrs(result, cidrs)] == expected


@cases(
    "cidrs, expected",
    {
        "none": ((), []),
        "one": ((DEFAULT, *UNRELATED), ["kubernetes"]),
        "two equal": ((DEFAULT, OVERLAPPING, *UNRELATED), ["kubernetes", "overlapping"]),
        "two equal, one smaller": (THREE, ["kubernetes", "overlapping", "overlapping2"]),
    },
)
def test_cidr_to_cidrs(cidrs: Sequence[ServiceCIDR], expected: list[str]) -> None:
    """``TestController_cidrToCidrs``."""
    assert overlapping_service_cidrs(DEFAULT, cidrs) == expected


@cases(
    "network, address, expected",
    {
        "IPv4": ("192.168.0.0/24", "192.168.0.1", True),
        "IPv4, outside": ("192.168.0.0/24", "192.168.1.1", False),
        "IPv4, the first": ("192.168.0.0/24", "192.168.0.0", False),
        "IPv4, the last": ("192.168.0.0/24", "192.168.0.255", False),
        "IPv6": ("2001:db2::/96", "2001:db2::1", True),
        "IPv6, outside": ("2001:db2::/96", "2001:db3::1", False),
        "IPv6, the first": ("2001:db2::/96", "2001:db2::", False),
        "IPv6, the last": ("2001:db2::/96", "2001:db2::ffff:ffff", True),
        "another family": ("192.168.0.0/24", "2001:db2::1", False),
        "a range of one, which is its first": ("10.0.0.1/32", "10.0.0.1", False),
    },
)
def test_prefix_contains_ip(network: str, address: str, expected: bool) -> None:
    """``TestPrefixContainsIP``."""
    assert prefix_contains_ip(parse_cidr(network), ipaddress.ip_address(address)) is expected


@cases(
    "outer, inner, expected",
    {
        "larger": ("10.0.0.0/16", "10.0.0.0/24", True),
        "the same": ("10.0.0.0/24", "10.0.0.0/24", True),
        "smaller": ("10.0.0.0/24", "10.0.0.0/16", False),
        "elsewhere": ("10.1.0.0/16", "10.0.0.0/24", False),
        "another family": ("::/0", "10.0.0.0/24", False),
    },
)
def test_contains_prefix(outer: str, inner: str, expected: bool) -> None:
    """``TestContainsPrefix``."""
    assert contains(parse_cidr(outer), parse_cidr(inner)) is expected
