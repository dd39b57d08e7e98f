"""What is read of pods and nodes to explain why a pod is not ready: by ``readiness`` and ``unavailable``.

``budgets``, which reads every write of a pod, has a smaller view.
"""

import msgspec

from pilothouse.sim import Simulation

PODS = "/pods/"
_LONGEST_DETAIL = 160


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class Condition(msgspec.Struct, frozen=True):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    message: str | None = None


class _Waiting(msgspec.Struct, frozen=True):
    reason: str | None = None


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    reason: str | None = None
    exit_code: int = 0


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str = ""
    state: _State = _State()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[_Container, ...] | None = None


class PodView(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _PodStatus = _PodStatus()


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] | None = None


class NodeView(msgspec.Struct, frozen=True):
    """A node."""

    metadata: _Meta = _Meta()
    status: _NodeStatus = _NodeStatus()


decode_pod = msgspec.json.Decoder(PodView).decode
_decode_node = msgspec.json.Decoder(NodeView).decode


def node_of(simulation: Simulation, name: str) -> NodeView | None:
    """The node as it is now, None if there is none."""
    record = simulation.store.get(f"/nodes/{name}")
    return None if record is None else _decode_node(record.value)


def is_ready_node(simulation: Simulation, name: str) -> bool:
    """Whether there is such a node, and its Ready condition is true now."""
    found = node_of(simulation, name)
    return found is not None and is_ready(found.status.conditions)


def is_ready(conditions: tuple[Condition, ...] | None) -> bool:
    """Whether the Ready condition is true."""
    return any((condition.type, condition.status) == ("Ready", "True") for condition in conditions or ())


def bounded(detail: str) -> str:
    """A detail of a message, of which the end is left out if it is long."""
    return detail if len(detail) <= _LONGEST_DETAIL else f"{detail[: _LONGEST_DETAIL - 1]}…"
