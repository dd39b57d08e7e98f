"""What the scheduler knows of the nodes and the pods on them, kept up to date, never rebuilt.

Fed by the scheduler's event handlers; read by everything that decides. A pod that was just given a node is *assumed*:
it counts from the moment the decision is made, not when the watch brings it back.

Whoever remembers something about nodes compares numbers: ``order_version`` moves when nodes come, go or change their
zone, so that positions mean other nodes; ``changed_since`` lists the positions of nodes on which anything changed;
``topology_version`` moves when labels, taints or cordons did.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from pilothouse.api.core import Node, Pod, Taint
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.scheduler.tallies import Counts, Row, TallyBook, Topologies, Topology
from pilothouse.scheduler.terms import Term
from pilothouse.scheduler.wish import Wish
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import PREFER_NO_SCHEDULE, untolerated_taint
from pilothouse.semantics.pods import ANY_ADDRESS

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
_CHANGES_KEPT = 65536
_COLUMNS_KEPT = 64

K = TypeVar("K", bound=Hashable)
Port = tuple[str, str, int]


def amounts(resources: Mapping[str, str]) -> dict[str, int]:
    """Quantities as integers: thousandths for cpu, whole units for everything else."""
    return {name: _amount(name, text) for name, text in resources.items()}


def _amount(name: str, text: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value if name == "cpu" else quantity.value


class Placed:
    """A pod on a node, or assumed to be."""

    __slots__ = ("assumed", "key", "leaving", "node_name", "pod", "uid", "wish")

    def __init__(self, wish: Wish, node_name: str, *, assumed: bool) -> None:
        self.wish = wish
        self.pod = wish.pod
        self.key = wish.key
        self.uid = wish.pod.metadata.uid
        self.node_name = node_name
        self.assumed = assumed
        self.leaving = wish.pod.metadata.deletion_timestamp is not None

    @property
    def row(self) -> Row:
        """As tallies see it."""
        return self.wish.namespace, self.wish.labels, self.leaving, self.node_name


class NodeInfo:
    """One node and its pods. ``cpu_used`` and ``memory_used`` assume something of containers that request nothing."""

    __slots__ = (
        "allocatable", "cpu", "cpu_used", "index", "labels", "max_pods", "memory", "memory_used", "name", "node",
        "placed", "ports", "priorities", "requested", "soft_taints", "taints", "zone",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self.name = node.metadata.name
        self.index = -1
        self.placed: dict[str, Placed] = {}
        self.requested: dict[str, int] = {}
        self.cpu_used = 0
        self.memory_used = 0
        self.ports: dict[Port, int] = {}
        self.priorities: dict[int, int] = {}
        self.node = node
        self.labels = node.metadata.labels
        self.allocatable: dict[str, int] = {}
        self.taints: tuple[Taint, ...] = ()
        self.soft_taints: tuple[Taint, ...] = ()
        self.zone = ("", "")
        self.cpu = self.memory = self.max_pods = 0
        self._take(node, resources=True)

    def _take(self, node: Node, *, resources: bool) -> None:
        self.labels = node.metadata.labels
        self.zone = self.labels.get(REGION, ""), self.labels.get(ZONE, "")
        taints = node.spec.taints
        self.taints = tuple(t for t in taints if t.effect != PREFER_NO_SCHEDULE)
        self.soft_taints = tuple(t for t in taints if t.effect == PREFER_NO_SCHEDULE)
        if resources:
            self.allocatable = amounts(node.status.allocatable)
            self.cpu = self.allocatable.get("cpu", 0)
            self.memory = self.allocatable.get("memory", 0)
            self.max_pods = self.allocatable.get("pods", 0)

    def update(self, node: Node) -> tuple[bool, bool]:
        """Take over a new version: whether it differs in labels, taints or cordon, and whether in its resources."""
        old, self.node = self.node, node
        resources = old.status.allocatable != node.status.allocatable
        topology = old.spec != node.spec or old.metadata.labels != node.metadata.labels
        if resources or topology:
            self._take(node, resources=resources)
        return topology, resources

    def count(self, placed: Placed, sign: int) -> None:
        """A pod more (1) or less (-1)."""
        wish = placed.wish
        if sign > 0:
            self.placed[placed.key] = placed
        else:
            del self.placed[placed.key]
        requested = self.requested
        for name, amount in wish.positive:
            requested[name] = requested.get(name, 0) + sign * amount
        self.cpu_used += sign * wish.cpu
        self.memory_used += sign * wish.memory
        _change(self.priorities, wish.priority, sign)
        for port in wish.ports:
            _change(self.ports, port, sign)

    def has_ports(self, wanted: Iterable[Port]) -> bool:
        """Whether the ports are free. Without an address a port takes the number on all of them."""
        if not self.ports:
            return True
        for address, protocol, number in wanted:
            if (ANY_ADDRESS, protocol, number) in self.ports or (address, protocol, number) in self.ports:
                return False
            if address == ANY_ADDRESS and any((p, n) == (protocol, number) for _a, p, n in self.ports):
                return False
        return True


def _change(counts: dict[K, int], key: K, sign: int) -> None:
    count = counts.get(key, 0) + sign
    if count:
        counts[key] = count
    else:
        del counts[key]


class Snapshot:
    """All nodes by name, the pods on them, and what is counted about these pods."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.order_version = 0
        self.topology_version = 0
        self.soft_tainted = 0
        """How many nodes have PreferNoSchedule taints."""
        self._order: tuple[NodeInfo, ...] | None = ()
        self._changes: list[int] = []
        self._changes_before = 0
        self._placed: dict[str, Placed] = {}
        self._by_namespace: dict[str, dict[str, Placed]] = {}
        self._homeless: dict[str, dict[str, Placed]] = {}
        self.nominated: dict[str, dict[str, Wish]] = {}
        """Pods that wait for their room on a node to become free, by node name and pod key."""
        self._nominations: dict[str, str] = {}
        self._columns: dict[str, list[str | None]] = {}
        self._columns_version = (-1, -1)
        self.tallies = TallyBook(self._rows)
        self.topologies = Topologies()
        self.repelling: dict[Term, Counts] = {}
        """Placed pods by the required anti-affinity that they have."""
        self.felt: dict[tuple[Term, int], Counts] = {}
        """Placed pods by what they like to be near (weight above 0) or far from (below)."""

    # Order and changes

    @property
    def order(self) -> Sequence[NodeInfo]:
        """The nodes, taking turns between zones, in each zone in the order in which they were first seen.

        As upstream's ``node_tree.go``: a search that ends early has then looked into every zone.
        """
        if self._order is None:
            zones: dict[tuple[str, str], list[NodeInfo]] = {}
            for info in self.nodes.values():
                zones.setdefault(info.zone, []).append(info)
            self._order = tuple(_in_turn(list(zones.values()))) if len(zones) > 1 else tuple(self.nodes.values())
            for index, info in enumerate(self._order):
                info.index = index
        return self._order

    def _reorder(self) -> None:
        self._order = None
        self.order_version += 1
        self._changes.clear()
        self._changes_before = 0

    def _touch(self, info: NodeInfo) -> None:
        if self._order is not None:
            if len(self._changes) >= _CHANGES_KEPT:
                half = _CHANGES_KEPT // 2
                del self._changes[:half]
                self._changes_before += half
            self._changes.append(info.index)

    def _relabel(self) -> None:
        self.topology_version += 1
        if self.topologies:
            self.topologies.clear()
            self.tallies.forget_domains()
            for counts in (*self.repelling.values(), *self.felt.values()):
                counts.forget_domains()

    @property
    def change_count(self) -> int:
        """How many changes there were since ``order_version`` moved."""
        return self._changes_before + len(self._changes)

    def changed_since(self, count: int) -> Sequence[int] | None:
        """The positions of nodes that changed after the first ``count`` changes; None when that was too long ago."""
        start = count - self._changes_before
        return self._changes[start:] if start >= 0 else None

    # Nodes

    def set_node(self, node: Node) -> bool:
        """A node appeared or changed. Whether it did in anything that placement looks at."""
        info = self.nodes.get(node.metadata.name)
        if info is None:
            info = self.nodes[node.metadata.name] = NodeInfo(node)
            self._reorder()
            self._relabel()
            self.soft_tainted += bool(info.soft_taints)
            for placed in self._homeless.pop(info.name, {}).values():
                info.count(placed, 1)
            return True
        zone, soft = info.zone, bool(info.soft_taints)
        topology, resources = info.update(node)
        if topology:
            self._relabel()
            self.soft_tainted += bool(info.soft_taints) - soft
            if info.zone != zone:
                self._reorder()
        if topology or resources:
            self._touch(info)
        return topology or resources

    def remove_node(self, name: str) -> NodeInfo | None:
        """A node is gone. Its pods are remembered: the node may come back with them."""
        info = self.nodes.pop(name, None)
        if info is not None:
            self._reorder()
            self._relabel()
            self.soft_tainted -= bool(info.soft_taints)
            if info.placed:
                self._homeless[name] = info.placed
        return info

    # Pods

    def get(self, key: str) -> Placed | None:
        """The pod, if it is on a node or assumed to be."""
        return self._placed.get(key)

    def assume(self, wish: Wish, node_name: str) -> Placed:
        """It was decided that the pod goes to the node."""
        placed = Placed(wish, node_name, assumed=True)
        self._set(placed)
        return placed

    def confirm(self, pod: Pod) -> tuple[Placed | None, Placed | None]:
        """The watch shows the pod on a node: what was known of it, and what is known now.

        Both are None when it was known to be there, and nothing that counts has changed.
        """
        meta, node_name = pod.metadata, pod.spec.node_name
        known = self._placed.get(f"{meta.namespace}/{meta.name}")
        if known is not None and known.uid == meta.uid and known.node_name == node_name:
            before = known.pod
            if (
                # Requests of a running pod change with its generation, if at all.
                (before.metadata.generation == meta.generation or before.spec == pod.spec)
                and known.wish.labels == meta.labels
                and known.leaving == (meta.deletion_timestamp is not None)
            ):
                known.pod = pod
                known.assumed = False
                return None, None
        placed = Placed(Wish(pod), node_name, assumed=False)
        self._set(placed)
        return known, placed

    def is_assumed(self, key: str, uid: str) -> bool:
        """Whether the pod was given a node and the watch has not shown it yet."""
        known = self._placed.get(key)
        return known is not None and known.assumed and known.uid == uid

    def withdraw(self, key: str, uid: str) -> Placed | None:
        """An assumption did not come true; what the watch has confirmed stays."""
        return self.forget(key) if self.is_assumed(key, uid) else None

    def forget(self, key: str) -> Placed | None:
        """The pod no longer takes room: it is gone or has ended. What was known of it."""
        known = self._placed.pop(key, None)
        if known is None:
            return None
        namespace = self._by_namespace[known.wish.namespace]
        del namespace[key]
        if not namespace:
            del self._by_namespace[known.wish.namespace]
        self.relate(known, -1)
        info = self.nodes.get(known.node_name)
        if info is not None:
            info.count(known, -1)
            self._touch(info)
        else:
            homeless = self._homeless.get(known.node_name, {})
            homeless.pop(key, None)
            if not homeless:
                self._homeless.pop(known.node_name, None)
        return known

    def _set(self, placed: Placed) -> None:
        self.forget(placed.key)
        self._placed[placed.key] = placed
        self._by_namespace.setdefault(placed.wish.namespace, {})[placed.key] = placed
        self.relate(placed, 1)
        info = self.nodes.get(placed.node_name)
        if info is not None:
            info.count(placed, 1)
            self._touch(info)
        else:
            self._homeless.setdefault(placed.node_name, {})[placed.key] = placed

    def relate(self, placed: Placed, sign: int) -> None:
        """Count the pod for (1) or against (-1) everything that other pods' relations rest on, and nothing else."""
        if self.tallies:
            self.tallies.count(placed.row, sign)
        terms = placed.wish.terms
        if terms is not None:
            for term in terms.far:
                _count(self.repelling, term, placed.node_name, sign)
            for felt in terms.felt:
                _count(self.felt, felt, placed.node_name, sign)

    def _rows(self, namespace: str | None) -> Iterator[Row]:
        pods = self._placed if namespace is None else self._by_namespace.get(namespace, {})
        for placed in pods.values():
            yield placed.row

    # Nominations

    def nominate(self, wish: Wish, node_name: str) -> None:
        """The pod waits for room on that node; with an empty name, on none any more."""
        old = self._nominations.pop(wish.key, None)
        if old is not None:
            waiting = self.nominated[old]
            del waiting[wish.key]
            if not waiting:
                del self.nominated[old]
        if node_name:
            self._nominations[wish.key] = node_name
            self.nominated.setdefault(node_name, {})[wish.key] = wish

    def nomination(self, key: str) -> str:
        """The node for which the pod waits, or an empty name."""
        return self._nominations.get(key, "")

    def drop_nomination(self, key: str) -> None:
        """The pod waits for nothing any more."""
        node_name = self._nominations.get(key)
        if node_name is not None:
            self.nominate(self.nominated[node_name][key], "")

    # Labels of nodes

    def column(self, key: str) -> list[str | None]:
        """The values of one label in ``order``."""
        version = (self.order_version, self.topology_version)
        if self._columns_version != version:
            self._columns.clear()
            self._columns_version = version
        found = self._columns.get(key)
        if found is None:
            if len(self._columns) >= _COLUMNS_KEPT:
                self._columns.clear()
            found = self._columns[key] = [info.labels.get(key) for info in self.order]
        return found

    def topology(self, key: str) -> Topology:
        """The values of one label on all nodes that have it."""
        return self.topologies.get(
            key,
            self.topology_version,
            lambda: {info.name: info.labels[key] for info in self.order if key in info.labels},
        )

    def spread_topology(
        self, key: str, required: tuple[str, ...], wish: Wish, *, affinity: bool, taints: bool
    ) -> tuple[tuple[object, ...], Topology]:
        """The values of one label on the nodes that count for spreading, and under what name to remember them.

        Nodes count that have all ``required`` labels and, where the constraint honors these, fit the pod's node
        selector and affinity, and have no taint that it does not tolerate.
        """
        selects = wish.affinity if affinity and wish.selects else None
        tolerations = wish.tolerations if taints else None
        name = (key, required, selects, tolerations)

        def build() -> dict[str, str]:
            found = {}
            for info in self.order:
                labels = info.labels
                if key not in labels or any(other not in labels for other in required):
                    continue
                if selects is not None and not matches_node_selection(wish.pod.spec, info.node):
                    continue
                if tolerations is not None and untolerated_taint(info.taints, tolerations) is not None:
                    continue
                found[info.name] = labels[key]
            return found

        return name, self.topologies.get(name, self.topology_version, build)


def _count(groups: dict[K, Counts], key: K, node_name: str, sign: int) -> None:
    counts = groups.get(key)
    if counts is None:
        counts = groups[key] = Counts()
    counts.change(node_name, sign)
    if not counts.by_node:
        del groups[key]


def _in_turn(zones: list[list[NodeInfo]]) -> Iterator[NodeInfo]:
    position = 0
    while zones:
        for zone in zones:
            yield zone[position]
        position += 1
        zones = [zone for zone in zones if position < len(zone)]
