"""How many pods of some kind are where: counted once, then kept up to date pod by pod.

``snapshot`` tells about every pod that comes to a node or leaves it; ``relations`` and ``spreading`` ask. Three levels:

* ``Counts``: pods per node, of whatever its owner counts.
* ``DomainCounts``: the same per value of a node label, for the nodes of one ``Topology``.
* ``TallyBook``: a ``Counts`` for every selector that somebody has asked about lately. A pod that comes is compared only
  with selectors that want one of its labels, so that six hundred Deployments don't make a pod six hundred times dearer.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

from pilothouse.machinery.labels import Selector

_TALLIES_KEPT = 4096
_TOPOLOGIES_KEPT = 64
_DOMAINS_KEPT = 32


class Topology:
    """Which value of a label each node has, for the nodes that count. Read only; replaced when nodes change."""

    __slots__ = ("sizes", "value_of", "version")

    def __init__(self, value_of: Mapping[str, str], version: int) -> None:
        self.value_of = value_of
        self.version = version
        self.sizes: dict[str, int] = {}
        for value in value_of.values():
            self.sizes[value] = self.sizes.get(value, 0) + 1


class DomainCounts:
    """Counted pods per value of a topology. Values without any are left out of ``counts``."""

    __slots__ = ("_histogram", "counts", "topology")

    def __init__(self, topology: Topology, by_node: Mapping[str, int]) -> None:
        self.topology = topology
        self.counts: dict[str, int] = {}
        self._histogram: dict[int, int] = {}
        for node_name, count in by_node.items():
            self.change(node_name, count)

    def change(self, node_name: str, delta: int) -> None:
        """``delta`` more pods on that node."""
        value = self.topology.value_of.get(node_name)
        if value is None:
            return
        before = self.counts.get(value, 0)
        after = before + delta
        histogram = self._histogram
        if before:
            left = histogram[before] - 1
            if left:
                histogram[before] = left
            else:
                del histogram[before]
        if after:
            self.counts[value] = after
            histogram[after] = histogram.get(after, 0) + 1
        else:
            del self.counts[value]

    def least(self) -> int:
        """The number of pods where there are fewest; values of nodes without pods count."""
        return 0 if len(self.counts) < len(self.topology.sizes) else min(self._histogram, default=0)


class Counts:
    """Pods per node; nodes without any are left out."""

    __slots__ = ("_domains", "by_node")

    def __init__(self) -> None:
        self.by_node: dict[str, int] = {}
        self._domains: dict[Hashable, DomainCounts] = {}

    def change(self, node_name: str, delta: int) -> None:
        """``delta`` more pods on that node."""
        count = self.by_node.get(node_name, 0) + delta
        if count:
            self.by_node[node_name] = count
        else:
            del self.by_node[node_name]
        for domains in self._domains.values():
            domains.change(node_name, delta)

    def forget_domains(self) -> None:
        """Nodes have changed: what is kept per value would keep the old topologies alive."""
        self._domains.clear()

    def per_value(self, key: Hashable, topology: Topology) -> DomainCounts:
        """The counts by the values of ``topology``, which ``key`` names; kept for the next time."""
        known = self._domains.get(key)
        if known is None or known.topology is not topology:
            if len(self._domains) >= _DOMAINS_KEPT:
                self._domains.clear()
            known = self._domains[key] = DomainCounts(topology, self.by_node)
        return known


class Topologies:
    """The topologies asked for lately. ``build`` makes ``node name → value`` for one."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Topology] = {}

    def __bool__(self) -> bool:
        """Whether any was asked for."""
        return bool(self._known)

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()

    def get(self, key: Hashable, version: int, build: Callable[[], Mapping[str, str]]) -> Topology:
        """The topology called ``key`` as of ``version`` of the nodes."""
        found = self._known.get(key)
        if found is None or found.version != version:
            if len(self._known) >= _TOPOLOGIES_KEPT:
                self._known.clear()
            found = self._known[key] = Topology(build(), version)
        return found


Clause = tuple[frozenset[str] | None, Selector]
"""Pods of these namespaces (None: of all) that match the selector."""


class Tally(Counts):
    """The pods that match all its clauses; with ``leaving`` also those that are being deleted."""

    __slots__ = ("clauses", "leaving")

    def __init__(self, clauses: tuple[Clause, ...], leaving: bool) -> None:
        super().__init__()
        self.clauses = clauses
        self.leaving = leaving

    def wants(self, namespace: str, labels: Mapping[str, str], leaving: bool) -> bool:
        """Whether such a pod is counted."""
        if leaving and not self.leaving:
            return False
        for namespaces, selector in self.clauses:
            if (namespaces is not None and namespace not in namespaces) or not selector.matches(labels):
                return False
        return True


Row = tuple[str, Mapping[str, str], bool, str]
"""A placed pod: namespace, labels, whether it is being deleted, node name."""


class TallyBook:
    """Tallies by what they count. ``rows`` gives all placed pods of a namespace (None: of all)."""

    def __init__(self, rows: Callable[[str | None], Iterable[Row]]) -> None:
        self._rows = rows
        self._tallies: dict[Hashable, Tally] = {}
        self._by_pair: dict[tuple[str, str, str], list[Tally]] = {}
        self._by_namespace: dict[str, list[Tally]] = {}
        self._anywhere: list[Tally] = []

    def __bool__(self) -> bool:
        """Whether anything is counted."""
        return bool(self._tallies)

    def get(self, clauses: tuple[Clause, ...], *, leaving: bool) -> Tally:
        """The tally of these pods."""
        key = (clauses, leaving)
        known = self._tallies.get(key)
        if known is None:
            if len(self._tallies) >= _TALLIES_KEPT:
                # Whole rollouts ask for other selectors than the last ones did; what is still needed is counted anew.
                self._forget_all()
            known = self._tallies[key] = Tally(clauses, leaving)
            self._register(known)
        return known

    def count(self, row: Row, sign: int) -> None:
        """A pod came to a node (1) or left it (-1)."""
        namespace, labels, leaving, node_name = row
        if self._by_pair:
            for name, value in labels.items():
                for tally in self._by_pair.get((namespace, name, value), ()):
                    if tally.wants(namespace, labels, leaving):
                        tally.change(node_name, sign)
        for tally in self._by_namespace.get(namespace, ()):
            if tally.wants(namespace, labels, leaving):
                tally.change(node_name, sign)
        for tally in self._anywhere:
            if tally.wants(namespace, labels, leaving):
                tally.change(node_name, sign)

    def forget_domains(self) -> None:
        """As ``Counts.forget_domains``, for all of them."""
        for tally in self._tallies.values():
            tally.forget_domains()

    def _register(self, tally: Tally) -> None:
        namespaces, selector = tally.clauses[0]
        if namespaces is None:
            self._anywhere.append(tally)
            sources: list[str | None] = [None]
        else:
            pair = _rarest_pair(selector)
            for namespace in sorted(namespaces):
                if pair is not None:
                    self._by_pair.setdefault((namespace, *pair), []).append(tally)
                else:
                    self._by_namespace.setdefault(namespace, []).append(tally)
            sources = [*sorted(namespaces)]
        by_node = tally.by_node
        for source in sources:
            for namespace, labels, leaving, node_name in self._rows(source):
                if tally.wants(namespace, labels, leaving):
                    by_node[node_name] = by_node.get(node_name, 0) + 1

    def _forget_all(self) -> None:
        self._tallies.clear()
        self._by_pair.clear()
        self._by_namespace.clear()
        self._anywhere.clear()


def _rarest_pair(selector: Selector) -> tuple[str, str] | None:
    """A label that every counted pod has. The hash of a pod template is on fewer pods than anything else."""
    found = None
    for requirement in selector.requirements:
        if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
            found = requirement.key, requirement.values[0]
            if requirement.key == "pod-template-hash":
                break
    return found
