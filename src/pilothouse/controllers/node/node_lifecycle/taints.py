"""The taints for a node's conditions, and the older labels. Pure. Upstream: v1.36
``pkg/controller/nodelifecycle/node_lifecycle_controller.go``, ``doNoScheduleTaintingPass`` and ``reconcileNodeLabels``;
``pkg/util/taints``."""

from collections.abc import Iterable, Sequence

from pilothouse.api.core import Node, Taint
from pilothouse.semantics.nodes import NO_EXECUTE, NO_SCHEDULE, same_taint

_PREFIX = "node.kubernetes.io/"
NOT_READY = Taint(key=f"{_PREFIX}not-ready", effect=NO_EXECUTE)
UNREACHABLE = Taint(key=f"{_PREFIX}unreachable", effect=NO_EXECUTE)

_KEYS = {
    ("Ready", "False"): f"{_PREFIX}not-ready",
    ("Ready", "Unknown"): f"{_PREFIX}unreachable",
    ("MemoryPressure", "True"): f"{_PREFIX}memory-pressure",
    ("DiskPressure", "True"): f"{_PREFIX}disk-pressure",
    ("PIDPressure", "True"): f"{_PREFIX}pid-pressure",
    ("NetworkUnavailable", "True"): f"{_PREFIX}network-unavailable",
}
_UNSCHEDULABLE = f"{_PREFIX}unschedulable"
_OURS = frozenset((*_KEYS.values(), _UNSCHEDULABLE))

_OLDER_LABELS = (
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
)


def no_schedule_changes(node: Node) -> tuple[list[Taint], list[Taint]]:
    """The NoSchedule taints to add and to remove, so that they match conditions and spec. Other keys and effects are
    ignored."""
    keys = [_KEYS[c.type, c.status] for c in node.status.conditions if (c.type, c.status) in _KEYS]
    if node.spec.unschedulable:
        keys.append(_UNSCHEDULABLE)
    desired = [Taint(key=key, effect=NO_SCHEDULE) for key in dict.fromkeys(keys)]
    present = [taint for taint in node.spec.taints if taint.effect == NO_SCHEDULE and taint.key in _OURS]
    return without_taints(desired, present), without_taints(present, desired)


def no_execute_taints_for(status: str) -> tuple[Taint, Taint] | None:
    """The NoExecute taint for that status of Ready, and the opposite one; none for True."""
    if status == "False":
        return NOT_READY, UNREACHABLE
    return (UNREACHABLE, NOT_READY) if status == "Unknown" else None


def has_taint(node: Node, taint: Taint) -> bool:
    return any(same_taint(existing, taint) for existing in node.spec.taints)


def with_taint(taints: Sequence[Taint], new: Taint) -> list[Taint]:
    """``taints`` with this one replacing the one with the same key and effect, or appended. One with the same value is
    kept, with its ``timeAdded``."""
    after = []
    updated = False
    for existing in taints:
        if same_taint(existing, new):
            updated = True
            after.append(existing if existing.value == new.value else new)
        else:
            after.append(existing)
    return after if updated else [*after, new]


def without_taints(taints: Sequence[Taint], removed: Iterable[Taint]) -> list[Taint]:
    removed_taints = list(removed)
    return [existing for existing in taints if not any(same_taint(existing, taint) for taint in removed_taints)]


def beta_labels_to_set(node: Node) -> dict[str, str]:
    """The beta labels that are missing or differ from the stable ones."""
    labels = node.metadata.labels
    return {
        older: labels[newer] for newer, older in _OLDER_LABELS if newer in labels and labels.get(older) != labels[newer]
    }
