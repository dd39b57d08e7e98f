"""``Nodes``: in which state each node is, and how many are in each."""

import msgspec

from pilothouse.simulate.recording import structs, views
from pilothouse.simulate.recording.series import StepSeries
from pilothouse.simulate.recording.workloads import Write

READY, NOT_READY, UNKNOWN, CORDONED, GONE = STATES = ("ready", "not ready", "unknown", "cordoned", "gone")
MOST_NODES = 64
MOST_CHANGES = 200
_BY_STATUS = {"True": READY, "False": NOT_READY}
_ZONE = "topology.kubernetes.io/zone"
_read_node = msgspec.json.Decoder(views.Node).decode


def node_state(node: views.Node) -> str:
    """One of ``STATES``, ``gone`` left out."""
    ready = next((condition.status for condition in node.status.conditions or () if condition.type == "Ready"), "False")
    state = _BY_STATUS.get(ready, UNKNOWN)
    return CORDONED if state == READY and node.spec.unschedulable else state


class Nodes:
    """All nodes; the changes of the first ``MOST_NODES`` are kept."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._counts = {state: StepSeries() for state in STATES}
        self._kept: dict[str, structs.Node] = {}

    def changed(self, write: Write) -> None:
        """A Node was written."""
        name = write.key.rpartition("/")[2]
        before = self._now.get(name)
        node = _read_node(write.value)
        state = GONE if write.type == "DELETED" else node_state(node)
        if state == before:
            return
        self._now[name] = state
        if before is not None:
            self._counts[before].add(write.at, -1)
        self._counts[state].add(write.at, 1)
        if name not in self._kept:
            if len(self._kept) >= MOST_NODES:
                return
            zone = (node.metadata.labels or {}).get(_ZONE, "")
            self._kept[name] = structs.Node(name=name, zone=zone, at=[], states=[])
        kept = self._kept[name]
        if len(kept.at) < MOST_CHANGES:
            kept.at.append(round(write.at, 3))
            kept.states.append(state)

    def nodes(self) -> list[structs.Node]:
        """The first ones, with their changes."""
        return list(self._kept.values())

    def states(self) -> dict[str, structs.Steps]:
        """How many there were in each state, without those states that none ever had."""
        return {name: steps for name, count in self._counts.items() if (steps := count.steps()).most}
