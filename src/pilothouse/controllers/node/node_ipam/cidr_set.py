"""One range, divided into blocks of one size. Pure. Upstream: v1.36
``pkg/controller/nodeipam/ipam/cidrset/cidr_set.go``.

Upstream has one large integer with a bit for each block. Here it is a byte for each block, up to the highest that was
ever used: 64 kB at most with the usual 65,536 blocks (10.0.0.0/8 in /24, an IPv6 range). An integer would be copied
with each change (1 to 5 µs), and ``memchr`` finds the next free byte.
"""

import ipaddress
from typing import NamedTuple

from pilothouse.machinery.cidrs import Network, prefixes_overlap


class OutOfRange(ValueError):
    """A range that does not overlap with the set's."""


class Found(NamedTuple):
    """A free block. ``tries`` is how many used ones preceded it."""

    block: int
    tries: int


class CidrSet:
    """The blocks of ``cluster`` with prefixes of ``mask`` bits, counted from 0; ``used`` is how many are in use."""

    def __init__(self, cluster: Network, mask: int) -> None:
        self.cluster = cluster
        self.size = 1 << (mask - cluster.prefixlen)
        self.used = 0
        self._mask = mask
        self._shift = cluster.max_prefixlen - mask
        self._first = int(cluster.network_address)
        self._next = 0
        self._used = bytearray()  # 1 for a used block; bits beyond the end are 0

    def block(self, index: int) -> Network:
        address = self._first + (index << self._shift)
        if self.cluster.version == 4:
            return ipaddress.IPv4Network((address, self._mask))
        return ipaddress.IPv6Network((address, self._mask))

    def indices(self, network: Network) -> range:
        """The blocks that overlap with ``network``: all if it contains the whole range. Raises ``OutOfRange``."""
        if not prefixes_overlap(network, self.cluster):
            raise OutOfRange(f"cidr {network} is out the range of cluster cidr {self.cluster}")
        if network.prefixlen <= self.cluster.prefixlen:
            return range(self.size)
        # 127.0.0.0/15 in 126.0.0.0/7 with blocks of /16: addresses 1<<24 to (1<<24) + (1<<17) - 1 after the first,
        # which are blocks 256 and 257.
        offset = int(network.network_address) - self._first
        last = offset + (1 << (network.max_prefixlen - network.prefixlen)) - 1
        return range(offset >> self._shift, (last >> self._shift) + 1)

    def is_used(self, index: int) -> bool:
        return index < len(self._used) and self._used[index] == 1

    def occupy(self, blocks: range) -> int:
        """Mark these blocks as used; how many were free until now."""
        if blocks.stop > len(self._used):
            self._used.extend(bytes(blocks.stop - len(self._used)))
        fresh = self._used.count(0, blocks.start, blocks.stop)
        self._used[blocks.start : blocks.stop] = b"\1" * len(blocks)
        self.used += fresh
        return fresh

    def release(self, blocks: range) -> int:
        """Mark these blocks as free; how many were used until now."""
        stop = min(blocks.stop, len(self._used))
        stale = self._used.count(1, blocks.start, stop)
        self._used[blocks.start : stop] = bytes(max(0, stop - blocks.start))
        self.used -= stale
        return stale

    def allocate(self) -> Found | None:
        """Allocate the next free block after the last one allocated, wrapping around; None if there is none. So a
        released block is not reused soon if there are others."""
        if self.used == self.size:
            return None
        start = self._next
        index = self._free_from(start)
        if index == self.size:
            index = self._free_from(0)
        self._next = (index + 1) % self.size
        self.occupy(range(index, index + 1))
        return Found(index, (index - start) % self.size)

    def _free_from(self, start: int) -> int:
        """The first free block from there on; ``size`` if there is none."""
        index = self._used.find(0, start)
        return index if index >= 0 else max(start, len(self._used))
