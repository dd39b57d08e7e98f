"""The rate of evictions by how many nodes of a zone and of the cluster are down. Pure. Upstream: v1.36
``pkg/controller/nodelifecycle/node_lifecycle_controller.go``, ``handleDisruption`` and ``ComputeZoneState``."""

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from pilothouse.api.core import Node, NodeCondition
from pilothouse.controllers.node.node_lifecycle import NodeLifecycleOptions

EXCLUDED_LABEL = "node.kubernetes.io/exclude-disruption"


class ZoneState(Enum):
    """``INITIAL``: not determined yet. ``NORMAL``: most nodes are ready. ``PARTIAL``: at least three nodes, and too
    large a share, are not. ``FULL``: none is."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


class ZoneReport(msgspec.Struct, frozen=True):
    size: int
    unhealthy: int
    state: ZoneState


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a pass. ``rates`` are those to set, by zone. ``untaint_all``: remove the NoExecute taints of every
    node. ``reset_heartbeats``: restart the grace period of every node."""

    states: dict[str, ZoneState]
    rates: dict[str, float]
    removed_zones: tuple[str, ...] = ()
    untaint_all: bool = False
    reset_heartbeats: bool = False


def zone_of(node: Node) -> str:
    """The node's zone: region, ``:\0:``, zone; empty for a node without labels. The older labels come first, even if
    empty."""
    labels = node.metadata.labels
    region, zone = (
        labels.get(f"failure-domain.beta.kubernetes.io/{part}", labels.get(f"topology.kubernetes.io/{part}", ""))
        for part in ("region", "zone")
    )
    return f"{region}:\0:{zone}" if region or zone else ""


def describe_zone(zone: str) -> str:
    """A zone of ``zone_of`` for a sentence: ``a``, ``a of region eu``, ``(none)``."""
    region, _separator, name = zone.partition(":\0:")
    return f"{name or '(none)'} of region {region}" if region else name or "(none)"


def is_not_excluded(node: Node) -> bool:
    """Whether it is not excluded by label, whatever the label's value."""
    return EXCLUDED_LABEL not in node.metadata.labels


def compute_zone_state(
    conditions: Sequence[NodeCondition | None], threshold: float, *, more_ready: int = 0
) -> ZoneReport:
    """The state of a zone by the condition Ready of its nodes; None for a node without one. ``more_ready`` is the
    number of further ready nodes.

    Example, threshold 0.55: 3 of 5 down is 0.6, partial; 3 of 6 is 0.5, normal; 2 of 3 are less than three, normal.
    """
    size = len(conditions) + more_ready
    down = sum(1 for condition in conditions if condition is None or condition.status != "True")
    if down and down == size:
        state = ZoneState.FULL
    elif down > 2 and down / size >= threshold:
        state = ZoneState.PARTIAL
    else:
        state = ZoneState.NORMAL
    return ZoneReport(size, down, state)


def plan(old: Mapping[str, ZoneState], now: Mapping[str, ZoneReport], options: NodeLifecycleOptions) -> Plan:
    removed_zones = tuple(sorted(zone for zone in old if zone not in now))
    states = {zone: old.get(zone, ZoneState.INITIAL) for zone in sorted(now)}
    all_are_full = all(zone.state is ZoneState.FULL for zone in now.values())
    all_were_full = all(state is ZoneState.FULL for state in states.values())
    if all_are_full and all_were_full:
        return Plan(states=states, rates={}, removed_zones=removed_zones)
    new = {zone: now[zone].state for zone in states}
    if all_are_full:
        return Plan(states=new, rates=dict.fromkeys(states, 0.0), removed_zones=removed_zones, untaint_all=True)
    changed = [zone for zone in states if all_were_full or states[zone] is not new[zone]]
    rates = {zone: eviction_limiter_qps(now[zone], options) for zone in changed}
    return Plan(states=new, rates=rates, removed_zones=removed_zones, reset_heartbeats=all_were_full)


def eviction_limiter_qps(zone: ZoneReport, options: NodeLifecycleOptions) -> float:
    """Nodes a second. A single zone that is down keeps the usual rate: the others can take its pods."""
    if zone.state is not ZoneState.PARTIAL:
        return options.eviction_rate
    return options.secondary_eviction_rate if zone.size > options.large_cluster_size_threshold else 0.0
