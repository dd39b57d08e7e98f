"""Which node has which blocks. Never waits: between two ``await``s of the controller it is consistent.

A node has blocks from the moment they are chosen for it, or observed on it, until it is deleted. A block is free if no
node has it and no service range overlaps it. Upstream only keeps the set of used blocks, and so releases a block of two
nodes when the first of them is deleted.
"""

from collections.abc import Callable, Sequence

import msgspec

from pilothouse.controllers.node.node_ipam.cidr_set import CidrSet
from pilothouse.controllers.node.node_ipam.metrics import SetMetrics
from pilothouse.machinery.cidrs import Network, parse_cidr, prefixes_overlap
from pilothouse.machinery.resource_versions import is_newer


class InvalidPodCIDRs(ValueError):
    """CIDRs of a node that cannot be occupied."""


class CIDRRangeNoCIDRsRemaining(Exception):
    """Every block is used."""


class NodeAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """The allocation of one node: ``ranges`` as on the node, and their blocks by family.

    ``is_written`` is False until the node was observed with them, ``in_doubt`` True once some write of them may have
    happened, or may yet. ``version`` is the node's when this was observed.
    """

    uid: str
    version: str
    ranges: tuple[str, ...]
    blocks: tuple[range, ...]
    is_written: bool
    in_doubt: bool = False


class RangeAllocator:
    """Which node has which blocks. ``sets`` and ``metrics`` are one for each family."""

    def __init__(self, sets: Sequence[CidrSet], metrics: Sequence[SetMetrics], services: Sequence[Network]) -> None:
        self._sets = tuple(sets)
        self._metrics = tuple(metrics)
        self._kept: list[list[range]] = [[] for _ in sets]  # for services, never allocated to a node
        self._holders: list[dict[int, int]] = [{} for _ in sets]  # how many nodes have a block
        self._holdings: dict[str, NodeAllocation] = {}
        for family, blocks in enumerate(self._sets):
            for service in services:
                if prefixes_overlap(service, blocks.cluster):
                    self._kept[family].append(blocks.indices(service))
                    self._occupy(family, blocks.indices(service))

    def __len__(self) -> int:
        return len(self._holdings)

    @property
    def free(self) -> int:
        return min(blocks.size - blocks.used for blocks in self._sets)

    def get(self, name: str) -> NodeAllocation | None:
        return self._holdings.get(name)

    def has_newer(self, name: str, uid: str, version: str) -> bool:
        """Whether a later node of the same name is known already: the caller's cache is stale."""
        allocation = self._holdings.get(name)
        return allocation is not None and allocation.uid != uid and is_newer(allocation.version, version)

    def occupy_cidrs(self, name: str, uid: str, version: str, ranges: Sequence[str]) -> list[str]:
        """The node was observed with these ranges. Returns the names of nodes that have some of them too, which cannot
        be corrected any more. Raises ``InvalidPodCIDRs`` if some cannot be occupied, after occupying the others."""
        allocation = self._holdings.get(name)
        if allocation is not None and allocation.uid == uid and allocation.ranges == tuple(ranges):
            if not allocation.is_written or is_newer(version, allocation.version):
                self._holdings[name] = msgspec.structs.replace(allocation, is_written=True, version=version)
            return []
        self.release(name)
        blocks, error = self._parse_blocks(name, ranges)
        conflicting = self._nodes_with_blocks(blocks)
        self._store(
            name, NodeAllocation(uid=uid, version=version, ranges=tuple(ranges), blocks=blocks, is_written=True)
        )
        if error:
            raise InvalidPodCIDRs(error)
        return conflicting

    def reserve(self, name: str, uid: str, version: str) -> NodeAllocation:
        """Choose a block of each family, or return the node's blocks. Raises ``CIDRRangeNoCIDRsRemaining``."""
        allocation = self._holdings.get(name)
        if allocation is not None and allocation.uid == uid:
            return allocation
        self.release(name)
        chosen: list[range] = []
        for family, blocks in enumerate(self._sets):
            free_block = blocks.allocate()
            if free_block is None:
                # Upstream keeps the block of the first family until a restart.
                for earlier, block in enumerate(chosen):
                    self._release(earlier, block)
                raise CIDRRangeNoCIDRsRemaining(
                    f"failed to allocate cidr from cluster cidr at idx:{family}: CIDR allocation failed; there are no "
                    "remaining CIDRs left to allocate in the accepted range"
                )
            self._metrics[family].allocated(1, blocks.used, tries=free_block.tries)
            chosen.append(range(free_block.block, free_block.block + 1))
        ranges = tuple(str(blocks.block(part.start)) for blocks, part in zip(self._sets, chosen, strict=True))
        new = NodeAllocation(uid=uid, version=version, ranges=ranges, blocks=tuple(chosen), is_written=False)
        self._store(name, new)
        return new

    def mark_written(self, name: str, uid: str, version: str) -> None:
        """The reserved blocks were written, in this version. Does nothing if the node was deleted."""
        allocation = self._holdings.get(name)
        if allocation is not None and allocation.uid == uid:
            self._holdings[name] = msgspec.structs.replace(allocation, is_written=True, version=version)

    def mark_in_doubt(self, name: str, uid: str) -> None:
        """A write of the reserved blocks had no conclusive response: a later rejection does not prove that this one
        failed."""
        allocation = self._holdings.get(name)
        if allocation is not None and allocation.uid == uid:
            self._holdings[name] = msgspec.structs.replace(allocation, in_doubt=True)

    def release_rejected(self, name: str, uid: str) -> bool:
        """Release reserved blocks that cannot be written, unless a write of them is in doubt. Returns whether they were
        released."""
        allocation = self._holdings.get(name)
        return allocation is not None and not allocation.in_doubt and self.release(name, uid)

    def release(self, name: str, uid: str = "") -> bool:
        """Release all that the node has: whether it had any. With ``uid`` only if it is that node."""
        allocation = self._holdings.get(name)
        if allocation is None or (uid and allocation.uid != uid):
            return False
        del self._holdings[name]
        for family, blocks in enumerate(allocation.blocks):
            holders, occupied = self._holders[family], self._kept[family]
            for index in blocks:
                holders[index] -= 1
                if not holders[index]:
                    del holders[index]
                    if not any(index in part for part in occupied):
                        self._release(family, range(index, index + 1))
        return True

    def forget_unless(self, exists: Callable[[str, NodeAllocation], bool]) -> int:
        """Release the blocks of deleted nodes, as far as the caller can determine them. Returns how many there were."""
        deleted = [name for name, allocation in self._holdings.items() if not exists(name, allocation)]
        for name in deleted:
            self.release(name)
        return len(deleted)

    def _parse_blocks(self, name: str, ranges: Sequence[str]) -> tuple[tuple[range, ...], str]:
        """Blocks by family, empty for invalid ones, and the first error."""
        blocks_by_family: list[range] = []
        first_error = ""
        for index, text in enumerate(ranges):
            error_text, blocks = "", range(0)
            if index >= len(self._sets):
                error_text = (
                    f"node:{name} has an allocated cidr: {text} at index:{index} that does not exist in cluster cidrs "
                    "configuration"
                )
            else:
                try:
                    network = parse_cidr(text)
                except ValueError:
                    error_text = f"failed to parse node {name}, CIDR {text}"
                else:
                    try:
                        blocks = self._sets[index].indices(network)
                    except ValueError as error:
                        error_text = (
                            f"failed to mark cidr[{network}] at idx [{index}] as occupied for node: {name}: {error}"
                        )
                blocks_by_family.append(blocks)
            first_error = first_error or error_text
        return tuple(blocks_by_family), first_error

    def _nodes_with_blocks(self, blocks: Sequence[range]) -> list[str]:
        """Nodes that have some of these blocks. Cheap as long as there are none."""
        if not any(index in self._holders[family] for family, part in enumerate(blocks) for index in part):
            return []
        return [
            name
            for name, allocation in self._holdings.items()
            if any(
                new.start < old.stop and old.start < new.stop
                for new, old in zip(blocks, allocation.blocks, strict=False)
            )
        ]

    def _store(self, name: str, new: NodeAllocation) -> None:
        self._holdings[name] = new
        for family, blocks in enumerate(new.blocks):
            holders = self._holders[family]
            for index in blocks:
                holders[index] = holders.get(index, 0) + 1
            self._occupy(family, blocks)

    def _occupy(self, family: int, blocks: range) -> None:
        fresh = self._sets[family].occupy(blocks)
        if fresh:
            self._metrics[family].allocated(fresh, self._sets[family].used)

    def _release(self, family: int, blocks: range) -> None:
        stale = self._sets[family].release(blocks)
        if stale:
            self._metrics[family].released(stale, self._sets[family].used)
