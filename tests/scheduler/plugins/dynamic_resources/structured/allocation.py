"""Claims, slices and classes for tests of the allocator, and running it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.api.core import Node
from pilothouse.api.resource import (
    AllocatedDevice,
    AllocationResult,
    DeviceAllocation,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from pilothouse.cel.limits import no_evaluator
from pilothouse.scheduler.plugins.dynamic_resources.allocated_devices import AllocatedDevices
from pilothouse.scheduler.plugins.dynamic_resources.selectors import CompiledSelectors, PodSelectors
from pilothouse.scheduler.plugins.dynamic_resources.structured.allocator import Allocator, Search
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import (
    AllocationError,
    FailedAllocationOnNode,
    Work,
)

Doc = dict[str, Any]
CLASSES = {"any": {}, "a": {"selectors": ['device.driver == "a"']}, "b": {"selectors": ['device.driver == "b"']}}
NODE = {"metadata": {"name": "n1", "labels": {"zone": "z1", "rack": "r1"}}}
_NODES = frozenset(("allNodes", "nodeSelector", "perDeviceNodeSelection", "nodeName"))
_COMPILED = CompiledSelectors(no_evaluator)


def cel(*expressions: str) -> list[Doc]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def request(name: str = "r", class_name: str = "any", count: int = 1, *expressions: str, **more: Any) -> Doc:
    """An exact request; all devices with the count 0."""
    return {"name": name, "exactly": _requested(class_name, count, expressions, more)}


def alternative(name: str, class_name: str = "any", count: int = 1, *expressions: str, **more: Any) -> Doc:
    return {"name": name, **_requested(class_name, count, expressions, more)}


def first_available(name: str, *alternatives: Doc) -> Doc:
    return {"name": name, "firstAvailable": list(alternatives)}


def _requested(class_name: str, count: int, expressions: Iterable[str], more: Doc) -> Doc:
    mode = {"allocationMode": "ExactCount", "count": count} if count else {"allocationMode": "All"}
    return {"deviceClassName": class_name, "selectors": cel(*expressions), **mode, **more}


def claim(*requests: Doc, name: str = "claim", **devices: Any) -> Doc:
    metadata = {"name": name, "namespace": "ns", "uid": name}
    return {"metadata": metadata, "spec": {"devices": {"requests": list(requests), **devices}}}


def device(name: str, **parts: Any) -> Doc:
    """A device. ``attributes`` are values by name, ``capacity`` amounts or whole capacities, ``consumes`` amounts of
    counters by counter set."""
    attributes = {key: {_type_of(value): value} for key, value in parts.pop("attributes", {}).items()}
    capacity = {
        key: value if isinstance(value, dict) else {"value": value} for key, value in parts.pop("capacity", {}).items()
    }
    consumes = [
        {"counterSet": name, "counters": {key: {"value": amount} for key, amount in counters.items()}}
        for name, counters in parts.pop("consumes", {}).items()
    ]
    return {"name": name, "attributes": attributes, "capacity": capacity, "consumesCounters": consumes, **parts}


def _type_of(value: object) -> str:
    return {bool: "bool", int: "int", str: "string"}[type(value)]


def devices(*names: str) -> list[Doc]:
    return [device(name) for name in names]


def resource_slice(*in_slice: Doc, name: str = "s", pool: str = "pool", driver: str = "a", **spec: Any) -> Doc:
    """A slice of the node n1, unless ``spec`` has other nodes; the only one of its pool."""
    pool_spec = {"name": pool, "generation": spec.pop("generation", 1), "resourceSliceCount": spec.pop("slices", 1)}
    nodes = (
        {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection", "nodeName"} & spec.keys() else {"nodeName": "n1"}
    )
    counters = [
        {"name": key, "counters": {counter: {"value": amount} for counter, amount in amounts.items()}}
        for key, amounts in spec.pop("counters", {}).items()
    ]
    whole = {
        "driver": driver,
        "pool": pool_spec,
        "devices": list(in_slice),
        "sharedCounters": counters,
        **nodes,
        **spec,
    }
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": whole}


def zone(value: str, key: str = "zone") -> Doc:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}


class Slices:
    """``SliceLister`` over a list."""

    def __init__(self, slices: Sequence[ResourceSlice]) -> None:
        self._slices = slices

    def on_node(self, node_name: str) -> Sequence[ResourceSlice]:
        return [one for one in self._slices if one.spec.node_name == node_name and not one.spec.shared_counters]

    def shared(self) -> Sequence[ResourceSlice]:
        return [one for one in self._slices if not one.spec.node_name or one.spec.shared_counters]

    def in_pool(self, driver: str, pool: str) -> Sequence[ResourceSlice]:
        return [one for one in self._slices if (one.spec.driver, one.spec.pool.name) == (driver, pool)]


def search(
    slices: Iterable[Doc],
    claims: Iterable[Doc],
    *,
    allocated: Iterable[Doc] = (),
    classes: Mapping[str, Doc] = CLASSES,
    node: Doc = NODE,
    limit: int = 10_000_000,
) -> Search:
    """A search that has not begun. ``allocated`` are results of other claims."""
    state = AllocatedDevices()
    for number, result in enumerate(allocated):
        one = msgspec.convert({"driver": "a", "pool": "pool", **result}, AllocatedDevice)
        state.put(str(number), AllocationResult(devices=DeviceAllocation(results=(one,))))
    selectors = PodSelectors(_COMPILED)
    claims, by_name = list(claims), {name: _class(name, one) for name, one in classes.items()}
    selectors.compiled = {one: _compiled(one) for one in _expressions([claims, list(classes.values())])}
    views = [msgspec.convert(one, ResourceSlice) for one in slices]
    allocator = Allocator(Slices(views), state, by_name.get, selectors, lambda: "share", Work(limit))
    return allocator.search(msgspec.convert(node, Node), [msgspec.convert(one, ResourceClaim) for one in claims])


def allocate(slices: Iterable[Doc], *claims: Doc, **context: Any) -> list[AllocationResult] | str | None:
    """The allocations, None if there is none, or the error."""
    running = search(slices, claims, **context)
    try:
        while not running.done:
            assert running.run(500) is None, "these selectors are short"
    except (AllocationError, FailedAllocationOnNode) as error:
        return str(error)
    return running.result


def chosen(result: list[AllocationResult] | str | None) -> list[list[str]] | str | None:
    """The devices of each claim: ``request pool/device``."""
    if result is None or isinstance(result, str):
        return result
    return [[f"{one.request} {one.pool}/{one.device}" for one in claim.devices.results] for claim in result]


def _class(name: str, spec: Doc) -> DeviceClass:
    selectors = cel(*spec.get("selectors", ()))
    return msgspec.convert({"metadata": {"name": name}, "spec": {**spec, "selectors": selectors}}, DeviceClass)


def _expressions(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key == "expression":
                yield member
            elif key == "selectors" and all(isinstance(one, str) for one in member):
                yield from member
            else:
                yield from _expressions(member)
    elif isinstance(value, list):
        for member in value:
            yield from _expressions(member)


@lru_cache
def _compiled(expression: str) -> Any:
    return asyncio.run(_COMPILED.compile(expression))
