"""The ranges and mask sizes of the flags. Pure. Upstream: v1.36 ``cmd/kube-controller-manager/app/core.go``,
``app/options/nodeipamcontroller.go``, ``pkg/controller/nodeipam/node_ipam_controller.go``."""

from typing import Protocol

import msgspec

from pilothouse.machinery.cidrs import Network, parse_cidr

RANGE_ALLOCATOR = "RangeAllocator"
CLOUD_ALLOCATOR = "CloudAllocator"
DEFAULT_MASK = {4: 24, 6: 64}
LARGEST_DIFFERENCE_IPV6 = 16
"""An IPv6 range has at most 65,536 blocks (kubernetes#44918)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``masks`` are a node's prefix lengths, in the order of ``clusters``. Warnings are for the log."""

    clusters: tuple[Network, ...]
    masks: tuple[int, ...]
    services: tuple[Network, ...] = ()
    warnings: tuple[str, ...] = ()


class IpamFlags(Protocol):
    """The options of ``NodeIpamOptions``."""

    @property
    def allocate(self) -> bool: ...
    @property
    def allocator_type(self) -> str: ...
    @property
    def cluster_cidr(self) -> str: ...
    @property
    def service_ranges(self) -> str: ...
    @property
    def mask_size(self) -> int: ...
    @property
    def mask_size_ipv4(self) -> int: ...
    @property
    def mask_size_ipv6(self) -> int: ...


def validate_options(options: IpamFlags) -> list[str]:
    """The first error of the options that are used, if any."""
    if len(options.service_ranges.split(",")) > 2:
        return ["--service-cluster-ip-range can not contain more than two entries"]
    if not options.allocate:
        return []
    try:
        settings_from(options)
    except ValueError as error:
        return [str(error)]
    return []


def settings_from(options: IpamFlags) -> Settings:
    """Raises ``ValueError`` with upstream's message."""
    if options.allocator_type == CLOUD_ALLOCATOR:
        raise ValueError("--cidr-allocator-type is set to 'CloudAllocator' but cloud provider is not configured")
    if options.allocator_type != RANGE_ALLOCATOR:
        raise ValueError(f"invalid CIDR allocator type: {options.allocator_type}")
    clusters = _clusters(options.cluster_cidr)
    services, warnings = _services(options.service_ranges)
    masks = _masks(options, clusters)
    for cluster, mask in zip(clusters, masks, strict=True):
        if cluster.prefixlen > mask:
            raise ValueError(
                "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to "
                "--node-cidr-mask-size configured for CIDR family"
            )
        if mask > cluster.max_prefixlen:
            raise ValueError(f"node CIDR mask size {mask} is larger than {cluster.max_prefixlen} bits of {cluster}")
        if cluster.version == 6 and mask - cluster.prefixlen > LARGEST_DIFFERENCE_IPV6:
            raise ValueError("New CIDR set failed; the node CIDR size is too big")
    return Settings(clusters=clusters, masks=masks, services=services, warnings=warnings)


def _clusters(text: str) -> tuple[Network, ...]:
    if not text.strip():
        raise ValueError("Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set")
    networks = []
    for part in text.strip().split(","):
        try:
            networks.append(parse_cidr(part))
        except ValueError as error:
            raise ValueError(f'failed to parse cidr value:"{part}" with error:{error}') from None
    if len(networks) > 1 and len({cluster.version for cluster in networks}) == 1:
        raise ValueError(
            f"len of ClusterCIDRs=={len(networks)} and they are not configured as dual stack (at least one from each "
            "IPFamily"
        )
    if len(networks) > 2:
        raise ValueError(f"length of clusterCIDRs is:{len(networks)} more than max allowed of 2")
    return tuple(networks)


def _services(text: str) -> tuple[tuple[Network, ...], tuple[str, ...]]:
    networks, warnings = [], []
    for part in text.split(","):
        if not part.strip():
            continue
        try:
            networks.append(parse_cidr(part))
        except ValueError as error:
            warnings.append(f"Unsuccessful parsing of service CIDR, nothing is kept free for it: {error}")
    if len(networks) == 2 and networks[0].version == networks[1].version:
        raise ValueError("serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)")
    return tuple(networks), tuple(warnings)


def _masks(options: IpamFlags, clusters: tuple[Network, ...]) -> tuple[int, ...]:
    mask_sizes = {4: options.mask_size_ipv4, 6: options.mask_size_ipv6}
    if len(clusters) > 1:
        if options.mask_size:
            raise ValueError("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
    elif options.mask_size:
        if any(mask_sizes.values()):
            raise ValueError(
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if "
                "--node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
            )
        mask_sizes = {4: options.mask_size, 6: options.mask_size}
    else:
        version = clusters[0].version
        absent = 6 if version == 4 else 4
        if mask_sizes[absent]:
            raise ValueError(
                f"usage of --node-cidr-mask-size-ipv{absent} is not allowed for a single-stack IPv{version} cluster"
            )
    return tuple(mask_sizes[cluster.version] or DEFAULT_MASK[cluster.version] for cluster in clusters)
