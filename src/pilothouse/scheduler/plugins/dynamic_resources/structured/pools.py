"""The resource pools whose devices are accessible from a node (``pools_incubating.go``)."""

from collections.abc import Generator, Iterable, Mapping, Sequence

import msgspec

from pilothouse.api.core import Node, NodeSelector
from pilothouse.api.resource import CounterSet, ResourceSlice
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import SliceLister, Work
from pilothouse.semantics.node_affinity import matches_node_selector

PoolID = tuple[str, str]
"""Driver and name."""
_SLICE_UNITS = 2
_SELECTOR_UNITS = 5
_DEVICE_UNITS = 2


class Pool(msgspec.Struct, frozen=True):
    """One pool as a node sees it. Nothing is allocated from pools that are incomplete or invalid.

    ``slices`` have devices for the node, ``other_slices`` devices that consume counters of the pool elsewhere.
    """

    driver: str
    name: str
    is_incomplete: bool = False
    is_invalid: bool = False
    slices: Sequence[ResourceSlice] = ()
    other_slices: Sequence[ResourceSlice] = ()
    counter_sets: Mapping[str, CounterSet] = {}

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


_BuiltFrom = tuple[tuple[str, str], ...]
"""Names and versions of slices, which determine a pool."""
PoolCache = dict[tuple[PoolID, _BuiltFrom], Pool]
"""Pools by the slices that they were built from: most nodes see the same part of a pool that is not local."""


def gather_pools(slices: SliceLister, node: Node, cache: PoolCache, work: Work) -> Generator[None, None, list[Pool]]:
    """The pools in the order in which devices are tried: by driver and name, those with binding conditions last.

    Pauses when ``work`` requires it. Outdated slices are ignored.
    """
    pools: dict[PoolID, list[ResourceSlice]] = {}
    for candidates in (slices.on_node(node.metadata.name), slices.shared()):
        for candidate in candidates:
            units = _SELECTOR_UNITS if candidate.spec.node_selector is not None else _SLICE_UNITS
            if candidate.spec.per_device_node_selection:
                units += _SELECTOR_UNITS * len(candidate.spec.devices)
            if work.charge(units):
                yield
            if _is_relevant(candidate, node):
                _add_slice(pools, candidate)
    gathered: list[Pool] = []
    with_binding_conditions: list[Pool] = []
    for (driver, name), in_pool in pools.items():
        if work.charge(_SLICE_UNITS * len(in_pool)):
            yield
        pool = yield from _pool(driver, name, in_pool, slices, cache, work)
        if pool is not None:
            (with_binding_conditions if _has_binding_conditions(pool) else gathered).append(pool)
    for some in (gathered, with_binding_conditions):
        some.sort(key=lambda pool: (pool.driver, pool.name))
    return [*gathered, *with_binding_conditions]


def node_matches(node: Node, node_name: str, all_nodes: bool, selector: NodeSelector | None) -> bool:
    if node_name:
        return node.metadata.name == node_name
    return all_nodes or (selector is not None and matches_node_selector(selector, node))


def _is_relevant(candidate: ResourceSlice, node: Node) -> bool:
    spec = candidate.spec
    # Counters are needed to use the pool at all.
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    return spec.per_device_node_selection and any(
        node_matches(node, device.node_name, device.all_nodes, device.node_selector) for device in spec.devices
    )


def _add_slice(pools: dict[PoolID, list[ResourceSlice]], added: ResourceSlice) -> None:
    pool = added.spec.pool
    pool_id = added.spec.driver, pool.name
    present = pools.get(pool_id)
    if present is None or pool.generation > present[0].spec.pool.generation:
        pools[pool_id] = [added]
    elif pool.generation == present[0].spec.pool.generation:
        present.append(added)


def _pool(
    driver: str, name: str, relevant: list[ResourceSlice], slices: SliceLister, cache: PoolCache, work: Work
) -> Generator[None, None, Pool | None]:
    """The pool with these slices for the node; None if a newer generation has none for it."""
    first = relevant[0].spec.pool
    everything = relevant
    if len(relevant) != first.resource_slice_count:
        # Slices that are not for the node decide whether the pool is complete.
        in_pool = slices.in_pool(driver, name)
        if work.charge(_SLICE_UNITS * len(in_pool)):
            yield
        if any(one.spec.pool.generation > first.generation for one in in_pool):
            return None
        everything = [one for one in in_pool if one.spec.pool.generation == first.generation]
        if len(everything) != first.resource_slice_count:
            return Pool(driver, name, is_incomplete=True)
    relevant.sort(key=lambda one: one.metadata.name)
    names = {one.metadata.name for one in relevant}
    others = [one for one in everything if one.metadata.name not in names] if everything is not relevant else []
    key = (driver, name), _versions(relevant, others)
    pool = cache.get(key)
    if pool is None:
        pool = cache[key] = yield from _build_pool(driver, name, relevant, others, work)
    return pool


def _versions(*groups: Iterable[ResourceSlice]) -> _BuiltFrom:
    return tuple((one.metadata.name, one.metadata.resource_version) for group in groups for one in (*group, _END))


_END = ResourceSlice()
"""Separates the groups in keys."""


def _build_pool(
    driver: str, name: str, relevant: Sequence[ResourceSlice], others: Sequence[ResourceSlice], work: Work
) -> Generator[None, None, Pool]:
    invalid = Pool(driver, name, is_invalid=True)
    with_devices = [one for one in relevant if not one.spec.shared_counters]
    names = set[str]()
    for one in with_devices:
        if work.charge(len(one.spec.devices)):
            yield
        for device in one.spec.devices:
            if device.name in names:
                return invalid
            names.add(device.name)
    counter_sets: dict[str, CounterSet] = {}
    for one in relevant:
        for counter_set in one.spec.shared_counters:
            if counter_set.name in counter_sets:
                return invalid
            counter_sets[counter_set.name] = counter_set
    for one in (*relevant, *others):
        if work.charge(_DEVICE_UNITS * len(one.spec.devices)):
            yield
        if not _has_all_counters(one, counter_sets):
            return invalid
    return Pool(driver, name, slices=with_devices, other_slices=others, counter_sets=counter_sets)


def _has_all_counters(one: ResourceSlice, counter_sets: Mapping[str, CounterSet]) -> bool:
    """Whether the counters that the devices of a slice consume exist."""
    return all(
        consumption.counter_set in counter_sets
        and consumption.counters.keys() <= counter_sets[consumption.counter_set].counters.keys()
        for device in one.spec.devices
        for consumption in device.consumes_counters
    )


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.binding_conditions for one in pool.slices for device in one.spec.devices)
