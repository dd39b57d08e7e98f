"""Topology hints by ``trafficDistribution``, by the share of zones, or none. Pure. Upstream: v1.36
``staging/src/k8s.io/endpointslice/trafficdist`` and ``topologycache/{sliceinfo,utils}.go``."""

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from pilothouse.api.discovery import Endpoint, EndpointHints, EndpointSlice, ForTopology
from pilothouse.controllers.network.endpointslice.decide import Plan

PREFER_CLOSE = "PreferClose"
PREFER_SAME_ZONE = "PreferSameZone"
PREFER_SAME_NODE = "PreferSameNode"
DISTRIBUTIONS = (PREFER_CLOSE, PREFER_SAME_ZONE, PREFER_SAME_NODE)

_MODE = "service.kubernetes.io/topology-mode"
_DEPRECATED_MODE = "service.kubernetes.io/topology-aware-hints"

OVERLOAD = 0.2
"""The share by which a zone's endpoints may be overloaded."""


def is_topology_enabled(annotations: Mapping[str, str]) -> bool:
    """Whether hints follow the share of zones. The older annotation takes precedence."""
    return annotations.get(_DEPRECATED_MODE, annotations.get(_MODE)) in ("Auto", "auto")


def _is_ready(endpoint: Endpoint) -> bool:
    return endpoint.conditions.ready is True


def without_hints(plan: Plan) -> Plan:
    """Remove all hints; slices that only lose their hints are written, too."""
    return _with_desired_hints(plan, lambda endpoint: endpoint.hints is not None, lambda _endpoint: None)


def reconcile_by_distribution(plan: Plan, distribution: str) -> Plan:
    """Ready endpoints get their own zone, with ``PreferSameNode`` also their own node, as hints."""

    def desired(endpoint: Endpoint) -> EndpointHints | None:
        if not _is_ready(endpoint):
            return endpoint.hints
        zones = (ForTopology(name=endpoint.zone),) if endpoint.zone is not None else ()
        by_node = distribution == PREFER_SAME_NODE and endpoint.node_name is not None
        nodes = (ForTopology(name=endpoint.node_name or ""),) if by_node else ()
        return EndpointHints(for_zones=zones, for_nodes=nodes) if zones or nodes else None

    def needs_update(endpoint: Endpoint) -> bool:
        return (endpoint.hints or EndpointHints()) != (desired(endpoint) or EndpointHints())

    return _with_desired_hints(plan, needs_update, desired)


def _with_desired_hints(
    plan: Plan, needs_update: Callable[[Endpoint], bool], desired: Callable[[Endpoint], EndpointHints | None]
) -> Plan:
    changed = tuple(
        endpoint_slice
        for endpoint_slice in plan.unchanged
        if any(needs_update(endpoint) for endpoint in endpoint_slice.endpoints or ())
    )
    names = {endpoint_slice.metadata.name for endpoint_slice in changed}

    def rewritten(slices: Iterable[EndpointSlice]) -> tuple[EndpointSlice, ...]:
        return tuple(
            replace(
                endpoint_slice, endpoints=tuple(replace(e, hints=desired(e)) for e in endpoint_slice.endpoints or ())
            )
            for endpoint_slice in slices
        )

    return replace(
        plan,
        creates=rewritten(plan.creates),
        updates=rewritten((*plan.updates, *changed)),
        unchanged=tuple(
            endpoint_slice for endpoint_slice in plan.unchanged if endpoint_slice.metadata.name not in names
        ),
    )


# By the share of zones


class Allocation(msgspec.Struct, frozen=True):
    """How many endpoints a zone should have: minimum, maximum, and its exact share (the minimum if that is larger)."""

    minimum: int
    maximum: int
    desired: float


NOT_ENOUGH_NODE_INFO = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
NOT_ENOUGH_ENDPOINTS = "Insufficient number of endpoints"
OVERLOADED = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
NO_ZONE = "One or more endpoints do not have a zone specified"
NO_HINTS = "No hints allocated for zones"


def allocate(ratios: Mapping[str, float], count: int) -> dict[str, Allocation] | str:
    """How many of ``count`` endpoints each zone should have, or why that cannot be achieved.

    Example: zones with 1/3 and 2/3 of the CPU. With 4 endpoints their shares are 1.33 and 2.67 and the minimums 2 and
    3, which is more than 4. With 6 endpoints the shares are 2 and 4, and so are the minimums.
    """
    if not ratios:
        return NOT_ENOUGH_NODE_INFO
    numbers = f"({count} endpoints, {len(ratios)} zones)"
    if len(ratios) > count:
        return f"{NOT_ENOUGH_ENDPOINTS} {numbers}"
    least = {zone: math.ceil(ratios[zone] * count * (1 / (1 + OVERLOAD))) for zone in sorted(ratios)}
    total = sum(least.values())
    if total > count:
        return f"{OVERLOADED} {numbers}"
    return {
        zone: Allocation(minimum, minimum + count - total, max(ratios[zone] * count, float(minimum)))
        for zone, minimum in least.items()
    }


def ready_count(plan: Plan) -> int:
    return sum(
        1
        for endpoint_slice in (*plan.creates, *plan.updates, *plan.unchanged)
        for e in endpoint_slice.endpoints or ()
        if _is_ready(e)
    )


def add_hints(plan: Plan, allocations: Mapping[str, Allocation]) -> tuple[Plan, dict[str, int]] | str:
    """Hints by each zone's share, and the resulting number of endpoints per zone; or the reason why there are none.

    Correct slices are not changed. In the others each endpoint gets its own zone first, then zones with too many
    endpoints give some to zones with too few.
    """
    hinted_endpoints: dict[str, int] = {}
    unchanged: list[EndpointSlice] = []
    changed: list[EndpointSlice] = []
    for endpoint_slice in plan.unchanged:
        counts = _get_hints_by_zone(endpoint_slice, hinted_endpoints, allocations)
        if counts is None:
            changed.append(endpoint_slice)
        else:
            unchanged.append(endpoint_slice)
            for zone, number in counts.items():
                hinted_endpoints[zone] = hinted_endpoints.get(zone, 0) + number
    updates = (*plan.updates, *changed)
    for endpoint_slice in (*plan.creates, *updates):
        for endpoint in endpoint_slice.endpoints or ():
            if _is_ready(endpoint):
                if not endpoint.zone:
                    return NO_ZONE
                hinted_endpoints[endpoint.zone] = hinted_endpoints.get(endpoint.zone, 0) + 1
    giving, receiving = _get_giving_and_receiving_zones(allocations, hinted_endpoints)

    def desired(endpoint: Endpoint) -> EndpointHints | None:
        if not _is_ready(endpoint):
            return endpoint.hints
        zone = endpoint.zone or ""
        if giving.get(zone) and receiving:
            receiver = next(iter(receiving))
            for zones, name, step in ((giving, zone, -1), (receiving, receiver, 1)):
                hinted_endpoints[name] = hinted_endpoints.get(name, 0) + step
                zones[name] -= 1
                if not zones[name]:
                    del zones[name]
            zone = receiver
        return EndpointHints(for_zones=(ForTopology(name=zone),))

    def rewritten(slices: Iterable[EndpointSlice]) -> tuple[EndpointSlice, ...]:
        return tuple(
            replace(
                endpoint_slice, endpoints=tuple([replace(e, hints=desired(e)) for e in endpoint_slice.endpoints or ()])
            )
            for endpoint_slice in slices
        )

    creates = rewritten(plan.creates)
    updates = rewritten(updates)
    if not hinted_endpoints:
        return NO_HINTS
    return replace(plan, creates=creates, updates=updates, unchanged=tuple(unchanged)), hinted_endpoints


def _get_hints_by_zone(
    endpoint_slice: EndpointSlice, hinted_endpoints: Mapping[str, int], allocations: Mapping[str, Allocation]
) -> dict[str, int] | None:
    """The number of endpoints per zone in the slice's hints; None if it must be rewritten."""
    counts: dict[str, int] = {}
    for endpoint in endpoint_slice.endpoints or ():
        if not _is_ready(endpoint):
            continue
        if endpoint.hints is None or not endpoint.hints.for_zones:
            return None
        for zone in endpoint.hints.for_zones:
            if zone.name not in allocations:
                return None
            counts[zone.name] = counts.get(zone.name, 0) + 1
    if any(number + hinted_endpoints.get(zone, 0) > allocations[zone].maximum for zone, number in counts.items()):
        return None
    return counts


def _get_giving_and_receiving_zones(
    allocations: Mapping[str, Allocation], hinted_endpoints: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """The number of endpoints that each zone gives and receives: one at a time from the largest surplus to the largest
    deficit, as long as it is at least half an endpoint for both and a whole one for either."""
    differences = {zone: hinted_endpoints.get(zone, 0) - allocations[zone].desired for zone in sorted(allocations)}
    to_give = {zone: amount for zone, amount in differences.items() if amount > 0}
    to_receive = {zone: -amount for zone, amount in differences.items() if amount < 0}
    giving: dict[str, int] = {}
    receiving: dict[str, int] = {}
    while to_give and to_receive:
        giving_zone, receiving_zone = max(to_give, key=to_give.__getitem__), max(to_receive, key=to_receive.__getitem__)
        surplus, deficit = to_give[giving_zone], to_receive[receiving_zone]
        if surplus < 0.5 or deficit < 0.5 or (surplus < 1 and deficit < 1):
            break
        giving[giving_zone] = giving.get(giving_zone, 0) + 1
        receiving[receiving_zone] = receiving.get(receiving_zone, 0) + 1
        to_give[giving_zone] -= 1
        to_receive[receiving_zone] -= 1
    return giving, receiving
