"""Pods and nodes for the scheduler: ``PodInfo``, ``AffinityTerm``, ``NodeInfo``. Pure.

A ``PodInfo`` is computed once per version of a pod and used for all nodes. ``NodeInfo`` is kept up to date by the
cache. As kube-scheduler v1.36 ``pkg/scheduler/framework/types.go``.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from pilothouse.api.core import Node, Pod, PodAffinity, PodAffinityTerm, PodSpec, Taint, WeightedPodAffinityTerm
from pilothouse.api.meta import LabelSelector
from pilothouse.machinery.labels import NOTHING, Requirement, Selector, SelectorError, selector_from
from pilothouse.machinery.names import object_key
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.term_limits import (
    too_many_affinity_terms,
    too_many_constraints,
    too_many_resource_claims,
)
from pilothouse.semantics.nodes import PREFER_NO_SCHEDULE, untolerated_taint
from pilothouse.semantics.pods import effective_requests, host_ports, is_pod_level
from pilothouse.semantics.volumes import claim_names, ephemeral_claim_name

DEFAULT_REQUESTS = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""The requests assumed for a container without requests when nodes are scored (v1.36
``pkg/scheduler/util/pod_resources.go``)."""
HARD_POD_AFFINITY_WEIGHT = 1
"""The weight of a required affinity term of a pod on a node in the scores of other pods (``hardPodAffinityWeight``)."""
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
_HONOR = "Honor"
_NO_RESOURCES: frozenset[str] = frozenset()

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
HostPort = tuple[str, str, int]
"""Address, protocol and number of a host port."""


def take(values: list[T], positions: Sequence[int]) -> list[T]:
    """The values at these positions. For a range it is a slice, which takes a tenth of the time."""
    if isinstance(positions, range):
        return values[positions.start : positions.stop]
    return [values[position] for position in positions]


class AffinityTerm:
    """A term of pod affinity or anti-affinity. Immutable; equal by value, so that equal terms of many pods are one key
    in the cache."""

    __slots__ = ("_hash", "namespace_selector", "namespaces", "selector", "topology_key")

    def __init__(
        self, namespaces: frozenset[str], namespace_selector: Selector, selector: Selector, topology_key: str
    ) -> None:
        self.namespaces = namespaces
        self.namespace_selector = namespace_selector
        self.selector = selector
        self.topology_key = topology_key
        self._hash = hash((namespaces, namespace_selector, selector, topology_key))

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether the term selects a pod with these labels in that namespace."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffinityTerm):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.topology_key == other.topology_key
            and self.namespaces == other.namespaces
            and self.selector == other.selector
            and self.namespace_selector == other.namespace_selector
        )


class PodAffinityTerms:
    """All affinity terms of one pod. In ``preferred`` the weights of anti-affinity are negative."""

    __slots__ = ("preferred", "required_affinity", "required_anti_affinity", "score_terms")

    def __init__(self, pod: Pod) -> None:
        affinity = pod.spec.affinity
        assert affinity is not None, "only pods with affinity have terms"
        to, away = affinity.pod_affinity or _NONE, affinity.pod_anti_affinity or _NONE
        self.required_affinity = tuple(
            _affinity_term(pod, term) for term in to.required_during_scheduling_ignored_during_execution
        )
        self.required_anti_affinity = tuple(
            _affinity_term(pod, term) for term in away.required_during_scheduling_ignored_during_execution
        )
        self.preferred = (
            *_weighted(pod, to.preferred_during_scheduling_ignored_during_execution, 1),
            *_weighted(pod, away.preferred_during_scheduling_ignored_during_execution, -1),
        )
        self.score_terms: tuple[tuple[AffinityTerm, int], ...] = (
            *self.preferred,
            *((term, HARD_POD_AFFINITY_WEIGHT) for term in self.required_affinity),
        )
        """The terms that count in the scores of other pods once this pod is on a node."""


def pod_affinity_terms(pod: Pod) -> PodAffinityTerms | None:
    """The affinity terms of a pod, or None when it has none."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    terms = PodAffinityTerms(pod)
    return terms if terms.required_affinity or terms.required_anti_affinity or terms.preferred else None


_NONE = PodAffinity()


def _weighted(pod: Pod, terms: Iterable[WeightedPodAffinityTerm], sign: int) -> list[tuple[AffinityTerm, int]]:
    return [(_affinity_term(pod, one.pod_affinity_term), sign * one.weight) for one in terms]


def _affinity_term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    if term.namespace_selector is None and not term.namespaces:
        namespaces = frozenset((pod.metadata.namespace,))
    else:
        namespaces = frozenset(term.namespaces)
    selector = selector_or_nothing(term.label_selector)
    if term.label_selector is not None:
        selector = with_match_label_keys(selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys)
    return AffinityTerm(namespaces, selector_or_nothing(term.namespace_selector), selector, term.topology_key)


def selector_or_nothing(selector: LabelSelector | None) -> Selector:
    """The selector. An invalid one, which validation by the API server excludes, selects nothing."""
    try:
        return selector_from(selector)
    except SelectorError:
        return NOTHING


def with_match_label_keys(
    selector: Selector, labels: Mapping[str, str], match: Iterable[str], mismatch: Iterable[str] = ()
) -> Selector:
    """The selector, restricted by ``matchLabelKeys`` and ``mismatchLabelKeys`` of a pod with these labels.

    API servers since v1.31 merge the keys into the selector when the pod is created; a second merge changes nothing.
    """
    if selector.selects_nothing:
        return selector
    more = [Requirement(key, "in", (labels[key],)) for key in match if key in labels]
    more += [Requirement(key, "notin", (labels[key],)) for key in mismatch if key in labels]
    added = [requirement for requirement in more if requirement not in selector.requirements]
    return Selector((*selector.requirements, *added)) if added else selector


class TopologySpreadConstraint(msgspec.Struct, frozen=True):
    """A topology spread constraint with its defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honor_node_affinity: bool = True
    honor_node_taints: bool = False


class PodInfo:
    """The precomputed state of a pod for plugins. Immutable, except that ``pod`` is replaced by later versions without
    relevant changes.

    Pods with the same ``signature`` get the same results from all filters and scores that depend on one node alone;
    topology spread, inter-pod affinity and volumes are not part of it.
    """

    __slots__ = (
        "affinity_terms", "claim_names", "delegated_resources", "ephemeral_claim_names", "extended_resources",
        "hard_constraints", "host_ports", "is_best_effort", "key", "labels", "namespace", "node_affinity", "node_name",
        "node_names", "non_zero_cpu", "non_zero_memory", "pod", "positive_requests", "preferred_node_affinity_terms",
        "priority", "requests", "score_cpu", "score_memory", "selects_nodes", "signature", "soft_constraints",
        "tolerates_unschedulable", "tolerations", "too_many_terms",
    )  # fmt: skip

    def __init__(self, pod: Pod) -> None:
        spec, meta = pod.spec, pod.metadata
        self.pod = pod
        self.namespace = meta.namespace
        self.key = object_key(meta)
        self.labels = meta.labels
        self.priority = spec.priority or 0
        self.requests = requests = effective_requests(pod, status=True)
        self.positive_requests = tuple((name, amount) for name, amount in sorted(requests.items()) if amount > 0)
        self.extended_resources: tuple[str, ...] = ()
        """The requested resources with a domain, which DeviceClasses may back."""
        for name, _amount in self.positive_requests:
            if "/" in name:
                self.extended_resources += (name,)
        self.delegated_resources = _NO_RESOURCES
        """Those that DeviceClasses back, as of the last attempt: set by the scheduler, read by NodeResourcesFit."""
        self.non_zero_cpu, self.non_zero_memory = _non_zero_requests(pod, requests)
        self.score_cpu, self.score_memory = self.non_zero_cpu, self.non_zero_memory
        """What LeastAllocated counts for the pod while it is scheduled: the requests of its containers alone, whatever
        it requests at pod level (``enablePodLevelResources`` is off in that scorer)."""
        if spec.resources.requests:
            container_requests = effective_requests(pod, DEFAULT_REQUESTS, pod_level=False)
            self.score_cpu, self.score_memory = container_requests["cpu"], container_requests["memory"]
        # NodeResourcesBalancedAllocation skips such pods, else they would pile up on one node (kubernetes#129138).
        self.is_best_effort = not requests.get("cpu") and not requests.get("memory")
        self.host_ports = host_ports(pod)
        self.tolerations = spec.tolerations
        self.tolerates_unschedulable = untolerated_taint((UNSCHEDULABLE_TAINT,), spec.tolerations) is None
        node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        self.selects_nodes = bool(
            spec.node_selector
            or spec.node_name
            or (node_affinity is not None and node_affinity.required_during_scheduling_ignored_during_execution)
        )
        self.node_name = spec.node_name
        """The node that it asks for; ``pod`` later has the one that was chosen."""
        self.node_names = node_names(spec)
        self.preferred_node_affinity_terms = (
            node_affinity.preferred_during_scheduling_ignored_during_execution if node_affinity else ()
        )
        self.node_affinity = (
            (tuple(sorted(spec.node_selector.items())), node_affinity)
            if spec.node_selector or node_affinity is not None
            else None
        )
        """Node selector and node affinity as one key."""
        self.too_many_terms: Status | None = None
        """Set if its terms or constraints exceed ``term_limits``. They are not computed, and it is not scheduled."""
        self.affinity_terms: PodAffinityTerms | None = None
        if spec.affinity is not None:
            self.too_many_terms = too_many_affinity_terms(spec)
            if self.too_many_terms is None:
                self.affinity_terms = pod_affinity_terms(pod)
        self.hard_constraints: tuple[TopologySpreadConstraint, ...] = ()
        self.soft_constraints: tuple[TopologySpreadConstraint, ...] | None = None
        """None if the pod has no topology spread constraints: then the system defaults apply."""
        if spec.topology_spread_constraints and (excess := too_many_constraints(spec)) is not None:
            self.too_many_terms = excess
        elif spec.topology_spread_constraints:
            self.hard_constraints = _constraints(pod, "DoNotSchedule")
            self.soft_constraints = _constraints(pod, "ScheduleAnyway")
        if spec.resource_claims and (excess := too_many_resource_claims(spec)) is not None:
            self.too_many_terms = excess
        self.claim_names: tuple[str, ...] = ()
        self.ephemeral_claim_names: tuple[str, ...] = ()
        """The claims of generic ephemeral volumes, which are also in ``claim_names``."""
        if spec.volumes:
            self.claim_names = claim_names(pod)
            if self.claim_names:
                ephemeral = (volume for volume in spec.volumes if volume.ephemeral is not None)
                self.ephemeral_claim_names = tuple(ephemeral_claim_name(pod, volume) for volume in ephemeral)
        self.signature: Hashable = (
            self.positive_requests, self.score_cpu, self.score_memory, spec.tolerations, self.node_affinity,
            self.host_ports, spec.node_name,
        )  # fmt: skip

    def share(self, other: "PodInfo") -> None:
        """Use equal values of a pod of the same template: thousands of pods need them in memory once."""
        if self.signature == other.signature and self.requests == other.requests:
            self.signature, self.requests, self.positive_requests = (
                other.signature, other.requests, other.positive_requests,
            )  # fmt: skip
            self.score_cpu, self.score_memory = other.score_cpu, other.score_memory
            if (self.non_zero_cpu, self.non_zero_memory) == (other.non_zero_cpu, other.non_zero_memory):
                self.non_zero_cpu, self.non_zero_memory = other.non_zero_cpu, other.non_zero_memory


def _non_zero_requests(pod: Pod, requests: dict[str, int]) -> tuple[int, int]:
    """Requests of cpu and memory, with ``DEFAULT_REQUESTS`` for containers that have none.

    A pod with pod-level requests gets the defaults only of resources that neither it nor a container requests
    (``getNonMissingContainerRequests``).
    """
    if "cpu" in requests and "memory" in requests and len(pod.spec.containers) == 1 and not pod.spec.init_containers:
        return requests["cpu"], requests["memory"]
    missing = DEFAULT_REQUESTS
    if any(map(is_pod_level, pod.spec.resources.requests)):
        missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in requests}
    non_zero = effective_requests(pod, missing, status=True)
    return non_zero["cpu"], non_zero["memory"]


def node_names(spec: PodSpec) -> frozenset[str] | None:
    """The nodes that the required node affinity allows if every term selects nodes by field, as in DaemonSet pods; else
    None. Empty if the terms contradict each other (upstream's ``NodeAffinity.PreFilter``)."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or not required.node_selector_terms:
        return None
    names: frozenset[str] = frozenset()
    for term in required.node_selector_terms:
        term_names: frozenset[str] | None = None
        for requirement in term.match_fields:
            if requirement.key == "metadata.name" and requirement.operator == "In":
                values = frozenset(requirement.values)
                term_names = values if term_names is None else term_names & values
        if term_names is None:
            return None
        names |= term_names
    return names


def _constraints(pod: Pod, when_unsatisfiable: str) -> tuple[TopologySpreadConstraint, ...]:
    labels = pod.metadata.labels
    return tuple(
        TopologySpreadConstraint(
            max_skew=one.max_skew,
            topology_key=one.topology_key,
            selector=with_match_label_keys(selector_or_nothing(one.label_selector), labels, one.match_label_keys),
            min_domains=one.min_domains or 1,
            honor_node_affinity=(one.node_affinity_policy or _HONOR) == _HONOR,
            honor_node_taints=one.node_taints_policy == _HONOR,
        )
        for one in pod.spec.topology_spread_constraints
        if one.when_unsatisfiable == when_unsatisfiable
    )


class PodState:
    """A pod in the cache: on a node, or ``assumed`` to be until the watch confirms it."""

    __slots__ = ("assumed", "key", "node_name", "pod", "pod_info", "terminating", "uid")

    def __init__(self, pod_info: PodInfo, node_name: str, *, assumed: bool) -> None:
        self.pod_info = pod_info
        self.pod = pod_info.pod
        self.key = pod_info.key
        self.uid = pod_info.pod.metadata.uid
        self.node_name = node_name
        self.assumed = assumed
        self.terminating = pod_info.pod.metadata.deletion_timestamp is not None


class NodeInfo:
    """A node and the pods on it. ``index`` is its position in ``Cache.node_infos``."""

    __slots__ = (
        "allocatable", "allocatable_cpu", "allocatable_memory", "allowed_pod_number", "do_not_schedule_taints", "index",
        "labels", "name", "node", "non_zero_requested_cpu", "non_zero_requested_memory", "pods", "pods_by_priority",
        "prefer_no_schedule_taints", "requested", "used_ports", "zone",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self.name = node.metadata.name
        self.index = -1
        self.pods: dict[str, PodState] = {}
        self.requested: dict[str, int] = {}
        self.non_zero_requested_cpu = 0
        self.non_zero_requested_memory = 0
        self.used_ports: dict[HostPort, int] = {}
        self.pods_by_priority: dict[int, int] = {}
        """The number of pods of each priority."""
        self.node = node
        self.labels = node.metadata.labels
        self.allocatable: dict[str, int] = {}
        self.do_not_schedule_taints: tuple[Taint, ...] = ()
        self.prefer_no_schedule_taints: tuple[Taint, ...] = ()
        self.zone = ("", "")
        self.allocatable_cpu = self.allocatable_memory = self.allowed_pod_number = 0
        self._read_node(node, resources=True)

    def _read_node(self, node: Node, *, resources: bool) -> None:
        self.labels = node.metadata.labels
        self.zone = self.labels.get(REGION, ""), self.labels.get(ZONE, "")
        taints = node.spec.taints
        self.do_not_schedule_taints = tuple(t for t in taints if t.effect != PREFER_NO_SCHEDULE)
        self.prefer_no_schedule_taints = tuple(t for t in taints if t.effect == PREFER_NO_SCHEDULE)
        if resources:
            self.allocatable = allocatable = _parse_resources(node.status.allocatable)
            self.allocatable_cpu = allocatable.get("cpu", 0)
            self.allocatable_memory = allocatable.get("memory", 0)
            self.allowed_pod_number = allocatable.get("pods", 0)

    def set_node(self, node: Node) -> tuple[bool, bool]:
        """Take a new version of the node. Returns whether labels, taints, ``unschedulable`` or declared features
        changed, and whether the allocatable resources did."""
        old, self.node = self.node, node
        resources = old.status.allocatable != node.status.allocatable
        topology = (
            old.spec != node.spec
            or old.metadata.labels != node.metadata.labels
            or old.status.declared_features != node.status.declared_features
        )
        if resources or topology:
            self._read_node(node, resources=resources)
        return topology, resources

    def update(self, pod_state: PodState, sign: int) -> None:
        """Add a pod (1) or remove it (-1)."""
        pod_info = pod_state.pod_info
        if sign > 0:
            self.pods[pod_state.key] = pod_state
        else:
            del self.pods[pod_state.key]
        requested = self.requested
        for name, amount in pod_info.positive_requests:
            requested[name] = requested.get(name, 0) + sign * amount
        self.non_zero_requested_cpu += sign * pod_info.non_zero_cpu
        self.non_zero_requested_memory += sign * pod_info.non_zero_memory
        update_count(self.pods_by_priority, pod_info.priority, sign)
        for port in pod_info.host_ports:
            update_count(self.used_ports, port, sign)


def _parse_resources(resources: Mapping[str, str]) -> dict[str, int]:
    """Thousandths for cpu, whole units for everything else."""
    quantities = {name: parse_quantity(text) for name, text in resources.items()}
    return {name: one.milli_value if name == "cpu" else one.value for name, one in quantities.items()}


def update_count(counts: dict[K, int], key: K, sign: int) -> None:
    """Add 1 or -1. A count of 0 is removed."""
    count = counts.get(key, 0) + sign
    if count:
        counts[key] = count
    else:
        del counts[key]


class NodeChange(msgspec.Struct, frozen=True):
    """A node that was added (``old`` is None), updated, or deleted (``new`` is None), and what an update changed
    (``NodeSchedulingPropertiesChange`` of upstream's ``framework/events.go``)."""

    old: Node | None
    new: Node | None
    allocatable: bool = False
    old_allocatable: Mapping[str, int] = {}
    new_allocatable: Mapping[str, int] = {}
    """Parsed if the node was added or its allocatable resources changed."""
    labels: bool = False
    taints: bool = False
    """Also true if the node was uncordoned."""

    @property
    def added(self) -> bool:
        """Whether the node is new."""
        return self.old is None


def node_change(old: Node | None, new: Node | None) -> NodeChange:
    """The change from ``old`` (None: the node was added) to ``new`` (None: it was deleted)."""
    if new is None:
        return NodeChange(old, new)
    if old is None:
        return NodeChange(old, new, new_allocatable=_parse_resources(new.status.allocatable))
    allocatable = old.status.allocatable != new.status.allocatable
    uncordoned = old.spec.unschedulable and not new.spec.unschedulable
    return NodeChange(
        old,
        new,
        allocatable=allocatable,
        old_allocatable=_parse_resources(old.status.allocatable) if allocatable else {},
        new_allocatable=_parse_resources(new.status.allocatable) if allocatable else {},
        labels=old.metadata.labels != new.metadata.labels,
        taints=uncordoned or old.spec.taints != new.spec.taints,
    )
