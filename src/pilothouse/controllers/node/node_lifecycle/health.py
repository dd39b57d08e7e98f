"""When a node counts as silent, and its conditions then. Pure. Upstream: v1.36
``pkg/controller/nodelifecycle/node_lifecycle_controller.go``, ``tryUpdateNodeHealth``."""

import datetime

import msgspec

from pilothouse.api.coordination import Lease
from pilothouse.api.core import Node, NodeCondition
from pilothouse.machinery.conditions import find_condition
from pilothouse.machinery.resource_versions import compare
from pilothouse.semantics.nodes import node_ready_condition

# NetworkUnavailable is not among them: it is not the kubelet's.
KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class ClockReading(msgspec.Struct, frozen=True):
    """The current time by both clocks: durations are measured with the loop's, which does not jump; wall time is
    written."""

    loop: float
    wall: datetime.datetime


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a node between two passes (``nodeHealthData``).

    ``probed`` is the loop time of the last observed heartbeat. Timestamps of heartbeats are only compared with each
    other.
    """

    ready: NodeCondition | None
    lease: Lease | None
    probed: float


def observe_heartbeat(old: Health | None, node: Node, lease: Lease | None, now: ClockReading) -> Health:
    """The state after a pass. A changed heartbeat or a renewed Lease is a sign of life."""
    ready = node_ready_condition(node)
    known_lease = old.lease if old is not None else None
    if ready is None:
        new = Health(ready=None, lease=None, probed=_created(node, now)) if old is None else old
        new = msgspec.structs.replace(new, ready=None)
    elif old is None or old.ready is None or old.ready.last_heartbeat_time != ready.last_heartbeat_time:
        # The Lease is dropped with it, as upstream: unchanged, it counts as new in the next pass once more.
        new = Health(ready=ready, lease=None, probed=now.loop)
    else:
        # The same heartbeat with another status is no sign of life, but the readiness of new pods follows it.
        new = old if old.ready == ready else msgspec.structs.replace(old, ready=ready)
    if lease is not None and (known_lease is None or _is_newer(lease, known_lease)):
        new = msgspec.structs.replace(new, lease=lease, probed=now.loop)
    return new


def is_unresponsive(health: Health, now: ClockReading, *, monitor_grace: float, startup_grace: float) -> bool:
    """Whether the last heartbeat is older than the grace period. A node that never reported has the startup grace
    period."""
    grace_period = startup_grace if health.ready is None else monitor_grace
    return now.loop > health.probed + grace_period


def conditions_of_unresponsive_node(node: Node, now: ClockReading) -> tuple[NodeCondition, ...] | None:
    """The conditions of an unresponsive node, or None if its ``Ready`` is already Unknown: then nothing is written."""
    ready = node_ready_condition(node)
    if ready is not None and ready.status == "Unknown":
        return None
    conditions = list(node.status.conditions)
    for kind in KUBELET_CONDITIONS:
        condition = find_condition(conditions, kind)
        if condition is None:
            conditions.append(
                NodeCondition(
                    type=kind,
                    status="Unknown",
                    reason="NodeStatusNeverUpdated",
                    message="Kubelet never posted node status.",
                    last_heartbeat_time=node.metadata.creation_timestamp,
                    last_transition_time=now.wall,
                )
            )
        elif condition.status != "Unknown":
            conditions[conditions.index(condition)] = msgspec.structs.replace(
                condition,
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                last_transition_time=now.wall,
            )
    return tuple(conditions)


def _created(node: Node, now: ClockReading) -> float:
    created = node.metadata.creation_timestamp
    return now.loop if created is None else now.loop - max(0.0, (now.wall - created).total_seconds())


def _is_newer(lease: Lease, probed: Lease) -> bool:
    """Whether it was renewed since. By its revision, where possible: the node's clock may have been set back."""
    renewed, old = lease.spec.renew_time, probed.spec.renew_time
    order = compare(lease.metadata.resource_version, probed.metadata.resource_version)
    if order is not None:
        return order > 0 and renewed is not None and renewed != old
    return renewed is not None and (old is None or old < renewed)
