"""``Nodes``: the state of each node, and the number of nodes in each state."""

import msgspec

from pilothouse.simulate.recording import structs, views
from pilothouse.simulate.recording.series import StepSeries
from pilothouse.simulate.recording.workloads import Write

READY, NOT_READY, UNKNOWN, CORDONED, GONE = STATES = ("ready", "not ready", "unknown", "cordoned", "gone")
MAX_NODES = 64
MAX_CHANGES = 200
_BY_STATUS = {"True": READY, "False": NOT_READY}
_ZONE = "topology.kubernetes.io/zone"
_read_node = msgspec.json.Decoder(views.Node).decode


def node_state(node: views.Node) -> str:
    """The state of an existing node: any of ``STATES`` except ``gone``."""
    ready = next((condition.status for condition in node.status.conditions or () if condition.type == "Ready"), "False")
    state = _BY_STATUS.get(ready, UNKNOWN)
    return CORDONED if state == READY and node.spec.unschedulable else state


class Nodes:
    """All nodes; the changes of the first ``MAX_NODES`` are recorded."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._counts = {state: StepSeries() for state in STATES}
        self._kept: dict[str, structs.Node] = {}

    def changed(self, write: Write) -> None:
        """Process a write of a Node."""
        name = write.key.rpartition("/")[2]
        old = self._now.get(name)
        node = _read_node(write.value)
        state = GONE if write.type == "DELETED" else node_state(node)
        if state == old:
            return
        self._now[name] = state
        if old is not None:
            self._counts[old].add(write.at, -1)
        self._counts[state].add(write.at, 1)
        if name not in self._kept:
            if len(self._kept) >= MAX_NODES:
                return
            zone = (node.metadata.labels or {}).get(_ZONE, "")
            self._kept[name] = structs.Node(name=name, zone=zone, at=[], states=[])
        kept = self._kept[name]
        if len(kept.at) < MAX_CHANGES:
            kept.at.append(round(write.at, 3))
            kept.states.append(state)

    def nodes(self) -> list[structs.Node]:
        """The recorded nodes with their state changes."""
        return list(self._kept.values())

    def states(self) -> dict[str, structs.Steps]:
        """The number of nodes in each state, without states that never occurred."""
        return {name: steps for name, count in self._counts.items() if (steps := count.steps()).most}
