"""The number of pods per node and topology domain that a selector matches, kept up to date pod by pod.

kube-scheduler counts these pods in PreFilter and PreScore of PodTopologySpread and InterPodAffinity, for each pod that
it schedules. Here they are counted once per selector, and the cache adds and removes single pods. Three levels:

* ``MatchCounts``: matching pods per node.
* ``DomainMatchCounts``: the same per topology domain, which is a value of a node label.
* ``MatchCountIndex``: the ``MatchCounts`` of every selector in use. A pod is compared only with selectors that require
  one of its labels, so that the cost of a pod does not depend on the number of Deployments.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.framework.types import PodState

TEMPLATE_HASH = "pod-template-hash"
_MAX_SELECTORS = 4096
_MAX_TOPOLOGIES = 64
_MAX_DOMAINS = 32


class Topology:
    """The topology domain of each eligible node. Read only; replaced when nodes change."""

    __slots__ = ("nodes_by_value", "value_of", "version")

    def __init__(self, value_of: Mapping[str, str], version: int) -> None:
        self.value_of = value_of
        self.version = version
        self.nodes_by_value: dict[str, int] = {}
        for value in value_of.values():
            self.nodes_by_value[value] = self.nodes_by_value.get(value, 0) + 1


class DomainMatchCounts:
    """Matching pods per domain of a topology. Domains without any are not in ``counts``."""

    __slots__ = ("_histogram", "counts", "topology")

    def __init__(self, topology: Topology, by_node: Mapping[str, int]) -> None:
        self.topology = topology
        self.counts: dict[str, int] = {}
        self._histogram: dict[int, int] = {}
        for node_name, count in by_node.items():
            self.update(node_name, count)

    def update(self, node_name: str, delta: int) -> None:
        """Add ``delta`` matching pods on a node."""
        value = self.topology.value_of.get(node_name)
        if value is None:
            return
        old_count = self.counts.get(value, 0)
        new_count = old_count + delta
        histogram = self._histogram
        if old_count:
            left = histogram[old_count] - 1
            if left:
                histogram[old_count] = left
            else:
                del histogram[old_count]
        if new_count:
            self.counts[value] = new_count
            histogram[new_count] = histogram.get(new_count, 0) + 1
        else:
            del self.counts[value]

    def min_match_num(self) -> int:
        """The lowest number of matching pods in any domain; 0 if a domain has none."""
        return 0 if len(self.counts) < len(self.topology.nodes_by_value) else min(self._histogram, default=0)


class MatchCounts:
    """Matching pods per node. Nodes without any are not in ``by_node``."""

    __slots__ = ("_by_domain", "by_node")

    def __init__(self) -> None:
        self.by_node: dict[str, int] = {}
        self._by_domain: dict[Hashable, DomainMatchCounts] = {}

    def update(self, node_name: str, delta: int) -> None:
        """Add ``delta`` matching pods on a node."""
        count = self.by_node.get(node_name, 0) + delta
        if count:
            self.by_node[node_name] = count
        else:
            del self.by_node[node_name]
        for domains in self._by_domain.values():
            domains.update(node_name, delta)

    def forget_domains(self) -> None:
        """Drop the counts per domain after a change of nodes: they would keep old topologies alive."""
        self._by_domain.clear()

    def by_domain(self, key: Hashable, topology: Topology) -> DomainMatchCounts:
        """The counts per domain of ``topology``, cached under ``key``."""
        counts = self._by_domain.get(key)
        if counts is None or counts.topology is not topology:
            if len(self._by_domain) >= _MAX_DOMAINS:
                self._by_domain.clear()
            counts = self._by_domain[key] = DomainMatchCounts(topology, self.by_node)
        return counts


class Topologies:
    """A cache of topologies."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Topology] = {}

    def __bool__(self) -> bool:
        """Whether any topology is cached."""
        return bool(self._known)

    def clear(self) -> None:
        """Drop all of them."""
        self._known.clear()

    def get(self, key: Hashable, version: int, build: Callable[[], Mapping[str, str]]) -> Topology:
        """The topology ``key`` as of ``version`` of the nodes; ``build`` computes the domain of each node name."""
        topology = self._known.get(key)
        if topology is None or topology.version != version:
            if len(self._known) >= _MAX_TOPOLOGIES:
                self._known.clear()
            topology = self._known[key] = Topology(build(), version)
        return topology


PodMatcher = tuple[frozenset[str] | None, Selector]
"""Matches pods in these namespaces (None: all) that the selector matches."""


class SelectorMatchCounts(MatchCounts):
    """The pods that all ``matchers`` match. Terminating pods count with ``include_terminating`` only."""

    __slots__ = ("include_terminating", "matchers")

    def __init__(self, matchers: tuple[PodMatcher, ...], include_terminating: bool) -> None:
        super().__init__()
        self.matchers = matchers
        self.include_terminating = include_terminating

    def matches(self, pod_state: PodState) -> bool:
        """Whether the pod counts."""
        if pod_state.terminating and not self.include_terminating:
            return False
        namespace, labels = pod_state.pod_info.namespace, pod_state.pod_info.labels
        for namespaces, selector in self.matchers:
            if (namespaces is not None and namespace not in namespaces) or not selector.matches(labels):
                return False
        return True


class MatchCountIndex:
    """The match counts of all selectors in use. ``assigned_pods`` lists the assigned pods of a namespace (None: all);
    with a namespace only those with that value of ``TEMPLATE_HASH``, if it is not empty."""

    def __init__(self, assigned_pods: Callable[[str | None, str], Iterable[PodState]]) -> None:
        self._assigned_pods = assigned_pods
        self._counts: dict[Hashable, SelectorMatchCounts] = {}
        self._by_label: dict[tuple[str, str, str], list[SelectorMatchCounts]] = {}
        self._by_namespace: dict[str, list[SelectorMatchCounts]] = {}
        self._in_all_namespaces: list[SelectorMatchCounts] = []

    def __bool__(self) -> bool:
        """Whether anything is counted."""
        return bool(self._counts)

    def get(self, matchers: tuple[PodMatcher, ...], *, include_terminating: bool) -> SelectorMatchCounts:
        """The match counts of these pods, which are kept up to date from now on."""
        key = (matchers, include_terminating)
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= _MAX_SELECTORS:
                # Each rollout has new selectors. Drop all; those still in use are counted again.
                self._clear()
            counts = self._counts[key] = SelectorMatchCounts(matchers, include_terminating)
            self._register(counts)
        return counts

    def update(self, pod_state: PodState, sign: int) -> None:
        """Add a pod on a node (1) or remove it (-1)."""
        namespace, node_name = pod_state.pod_info.namespace, pod_state.node_name
        if self._by_label:
            for name, value in pod_state.pod_info.labels.items():
                for match_counts in self._by_label.get((namespace, name, value), ()):
                    if match_counts.matches(pod_state):
                        match_counts.update(node_name, sign)
        for match_counts in self._by_namespace.get(namespace, ()):
            if match_counts.matches(pod_state):
                match_counts.update(node_name, sign)
        for match_counts in self._in_all_namespaces:
            if match_counts.matches(pod_state):
                match_counts.update(node_name, sign)

    def forget_domains(self) -> None:
        """Call ``MatchCounts.forget_domains`` of all of them."""
        for match_counts in self._counts.values():
            match_counts.forget_domains()

    def _register(self, match_counts: SelectorMatchCounts) -> None:
        namespaces, selector = match_counts.matchers[0]
        template = ""
        if namespaces is None:
            self._in_all_namespaces.append(match_counts)
            sources: list[str | None] = [None]
        else:
            pair = _required_label(selector)
            if pair is not None and pair[0] == TEMPLATE_HASH:
                template = pair[1]
            for namespace in sorted(namespaces):
                if pair is not None:
                    self._by_label.setdefault((namespace, *pair), []).append(match_counts)
                else:
                    self._by_namespace.setdefault(namespace, []).append(match_counts)
            sources = [*sorted(namespaces)]
        by_node = match_counts.by_node
        for source in sources:
            for pod_state in self._assigned_pods(source, template):
                if match_counts.matches(pod_state):
                    by_node[pod_state.node_name] = by_node.get(pod_state.node_name, 0) + 1

    def _clear(self) -> None:
        self._counts.clear()
        self._by_label.clear()
        self._by_namespace.clear()
        self._in_all_namespaces.clear()


def _required_label(selector: Selector) -> tuple[str, str] | None:
    """A label that the selector requires. ``pod-template-hash`` is preferred, as the fewest pods have the same."""
    required = None
    for requirement in selector.requirements:
        if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
            required = requirement.key, requirement.values[0]
            if requirement.key == TEMPLATE_HASH:
                break
    return required
