"""Flags of the range allocator and their validation.

Rows mirror kubernetes v1.36 ``cmd/kube-controller-manager/app/core_test.go`` (Test_setNodeCIDRMaskSizes and its like),
``app/options/options_test.go`` and ``pkg/controller/nodeipam/node_ipam_controller_test.go``.
"""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllers.node.node_ipam import DESCRIPTOR, NodeIpamOptions
from pilothouse.controllers.node.node_ipam.settings import settings_from, validate_options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.cidrs import parse_cidr, prefixes_overlap
from pilothouse.machinery.flags import FlagError


def options(**changes: Any) -> NodeIpamOptions:
    return NodeIpamOptions(**{"allocate": True, "cluster_cidr": "10.0.0.0/16", **changes})


V6, BOTH = "2001:db8::/48", "10.0.0.0/16,2001:db8::/48"


@cases(
    "changes, clusters, masks",
    {
        "IPv4: /24": ({}, ["10.0.0.0/16"], [24]),
        "IPv6: /64": ({"cluster_cidr": V6}, ["2001:db8::/48"], [64]),
        "dual-stack": ({"cluster_cidr": BOTH}, ["10.0.0.0/16", "2001:db8::/48"], [24, 64]),
        "dual-stack, IPv6 first": (
            {"cluster_cidr": "2001:db8::/48,10.0.0.0/16"},
            ["2001:db8::/48", "10.0.0.0/16"],
            [64, 24],
        ),
        "a size for IPv4": ({"mask_size": 19}, ["10.0.0.0/16"], [19]),
        "--node-cidr-mask-size for IPv6": ({"cluster_cidr": V6, "mask_size": 62}, ["2001:db8::/48"], [62]),
        "the flag of IPv4 alone": ({"mask_size_ipv4": 20}, ["10.0.0.0/16"], [20]),
        "the flag of IPv6 alone": ({"cluster_cidr": V6, "mask_size_ipv6": 60}, ["2001:db8::/48"], [60]),
        "a mask size for each family": (
            {"cluster_cidr": BOTH, "mask_size_ipv4": 25, "mask_size_ipv6": 56},
            ["10.0.0.0/16", "2001:db8::/48"],
            [25, 56],
        ),
        "spaces around the list: upstream trims the list": ({"cluster_cidr": " 10.0.7.1/16 "}, None, [24]),
        "IPv4 has no limit": ({"cluster_cidr": "10.0.0.0/8", "mask_size": 32}, ["10.0.0.0/8"], [32]),
    },
)
def test_node_cidr_mask_sizes(changes: dict[str, Any], clusters: list[str] | None, masks: list[int]) -> None:
    settings = settings_from(options(**changes))
    assert list(settings.masks) == masks
    if clusters is not None:
        assert [str(cluster) for cluster in settings.clusters] == clusters


@cases(
    "changes, message",
    {
        "no --cluster-cidr": ({"cluster_cidr": ""}, "Must specify --cluster-cidr if --allocate-node-cidrs is set"),
        "an address": (
            {"cluster_cidr": "10.0.0.0"},
            'failed to parse cidr value:"10.0.0.0" with error:invalid CIDR address: 10.0.0.0',
        ),
        "one of two is invalid": ({"cluster_cidr": "10.0.0.0/16,x"}, 'failed to parse cidr value:"x"'),
        "two ranges of one family": (
            {"cluster_cidr": "10.0.0.0/16,10.1.0.0/16"},
            "len of ClusterCIDRs==2 and they are not configured as dual stack",
        ),
        "three": ({"cluster_cidr": f"{BOTH},10.1.0.0/16"}, "length of clusterCIDRs is:3 more than max allowed of 2"),
        "--node-cidr-mask-size for two families": (
            {"cluster_cidr": BOTH, "mask_size": 24},
            "usage of --node-cidr-mask-size is not allowed with dual-stack clusters",
        ),
        "two flags for one family": (
            {"mask_size": 24, "mask_size_ipv4": 24},
            "is not allowed if --node-cidr-mask-size is set",
        ),
        "IPv4 with a size for IPv6": (
            {"mask_size_ipv6": 64},
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster",
        ),
        "IPv6 with a size for IPv4": (
            {"cluster_cidr": V6, "mask_size_ipv4": 24},
            "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster",
        ),
        "a block is larger than the range": (
            {"cluster_cidr": "10.0.0.0/25"},
            "mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size",
        ),
        "smaller than an address": ({"mask_size": 33}, "node CIDR mask size 33 is larger than 32 bits"),
        "below nothing": ({"mask_size": -1}, "mask size of cluster CIDR must be less"),
        "IPv6 has at most 65536 blocks (TestCIDRSetv6)": (
            {"cluster_cidr": "beef:1234::/32", "mask_size": 49},
            "New CIDR set failed; the node CIDR size is too big",
        ),
        "CloudAllocator without cloud provider": (
            {"allocator_type": "CloudAllocator"},
            "--cidr-allocator-type is set to 'CloudAllocator' but cloud provider is not configured",
        ),
        "synced with a cloud": ({"allocator_type": "IPAMFromCloud"}, "invalid CIDR allocator type: IPAMFromCloud"),
        "two service CIDRs of one family": (
            {"service_ranges": "10.96.0.0/12,10.112.0.0/12"},
            "serviceCIDR and secondaryServiceCIDR are not dualstack",
        ),
        "three service ranges": (
            {"service_ranges": "10.0.0.0/16,244.0.0.0/16,3000::/108"},
            "--service-cluster-ip-range can not contain more than two entries",
        ),
    },
)
def test_rejected_settings(changes: dict[str, Any], message: str) -> None:
    (error,) = validate_options(options(**changes))
    assert message in error


def test_invalid_service_cidr_is_ignored_with_a_warning() -> None:
    settings = settings_from(options(service_ranges="10.96.0.0/12,nonsense"))
    assert [str(network) for network in settings.services] == ["10.96.0.0/12"]
    assert "invalid CIDR address: nonsense" in settings.warnings[0]


def parse(*words: str) -> NodeIpamOptions:
    flags = flag_set("pilothouse manager", DESCRIPTORS)
    result = options_from(flags.parse(words), DESCRIPTORS).controller_options[DESCRIPTOR.name]
    assert isinstance(result, NodeIpamOptions)
    return result


def test_flags_have_upstreams_names_and_defaults() -> None:
    assert parse() == NodeIpamOptions()
    assert parse(
        "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16", "--service-cluster-ip-range=10.96.0.0/12",
        "--node-cidr-mask-size-ipv4=20", "--cidr-allocator-type=RangeAllocator",
    ) == options(service_ranges="10.96.0.0/12", mask_size_ipv4=20)  # fmt: skip
    text = flag_set("pilothouse manager", DESCRIPTORS).help(120)
    generic = text[text.index("Generic flags") : text.index("Secure serving flags")]
    assert "--allocate-node-cidrs" in generic
    assert "--cluster-cidr string" in generic
    assert "--node-cidr-mask-size-ipv6 int32" not in generic


def test_settings_are_validated_at_startup_only_if_used() -> None:
    with pytest.raises(FlagError, match="Must specify --cluster-cidr"):
        parse("--allocate-node-cidrs")
    assert parse("--allocate-node-cidrs", "--controllers=*,-nodeipam").allocate
    assert parse("--cluster-cidr=nonsense").cluster_cidr == "nonsense"


@cases(
    "text, expected",
    {
        "host bits are cleared": ("10.1.2.3/16", "10.1.0.0/16"),
        "leading zeros": ("010.001.0.0/16", "10.1.0.0/16"),
        "IPv6 in its short form": ("2001:0db8::1/32", "2001:db8::/32"),
        "0.0.0.0/0": ("0.0.0.0/0", "0.0.0.0/0"),
        "too long": ("10.0.0.0/33", None),
        "netmask": ("10.0.0.0/255.0.0.0", None),
        "missing prefix length": ("10.0.0.0/", None),
        "zone": ("fe80::1%eth0/64", None),
        "three parts": ("10.0.0/8", None),
        "empty": ("", None),
    },
)
def test_cidrs_are_parsed_as_in_go(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="invalid CIDR address"):
            parse_cidr(text)
    else:
        assert str(parse_cidr(text)) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("10.0.0.0/8", "10.1.0.0/16", True),
        ("10.0.0.0/16", "10.1.0.0/16", False),
        ("0.0.0.0/0", "10.1.0.0/16", True),
        ("::/0", "10.1.0.0/16", False),
        ("2001:db8::/32", "2001:db8:1::/48", True),
    ],
)
def test_overlapping_cidrs(a: str, b: str, expected: bool) -> None:
    assert prefixes_overlap(parse_cidr(a), parse_cidr(b)) == prefixes_overlap(parse_cidr(b), parse_cidr(a)) == expected
