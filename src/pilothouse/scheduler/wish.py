"""What a pod asks of its node, read once from the pod and used for all nodes. Pure.

``filters``, ``placement`` and ``preemption`` look at wishes, never at pods. Pods of the same ``shape`` fit on the same
nodes as far as one node alone decides that: how they relate to other pods is not part of it.
"""

from collections.abc import Hashable

import msgspec

from pilothouse.api.core import Pod, PodSpec, Taint
from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.terms import PodTerms, pod_terms, understood, with_label_keys
from pilothouse.semantics.nodes import untolerated_taint
from pilothouse.semantics.pods import effective_requests, host_ports
from pilothouse.semantics.volumes import claim_names, ephemeral_claim_name

ASSUMED = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""What a container that requests none is taken to use when nodes are compared, so that such pods spread too
(kube-scheduler v1.36 ``pkg/scheduler/util/pod_resources.go``)."""

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
HONOR = "Honor"


class Spread(msgspec.Struct, frozen=True):
    """One topology spread constraint with its defaults filled in."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


class Wish:
    """See the module. Immutable; ``pod`` is the version it was read from."""

    __slots__ = (
        "affinity", "best_effort", "claims", "cpu", "demand", "ephemeral_claims", "hard_spread", "key", "labels",
        "likes", "may_be_cordoned", "memory", "names", "namespace", "pod", "ports", "positive", "priority", "selects",
        "shape", "soft_spread", "terms", "tolerations",
    )  # fmt: skip

    def __init__(self, pod: Pod) -> None:
        spec, meta = pod.spec, pod.metadata
        self.pod = pod
        self.namespace = meta.namespace
        self.key = f"{meta.namespace}/{meta.name}"
        self.labels = meta.labels
        self.priority = spec.priority or 0
        self.demand = demand = effective_requests(pod)
        self.positive = tuple((name, amount) for name, amount in sorted(demand.items()) if amount > 0)
        self.cpu, self.memory = _compared(pod, demand)
        # Balance is not compared for pods that ask for neither, else they would pile up (kubernetes#129138).
        self.best_effort = not demand.get("cpu") and not demand.get("memory")
        self.ports = host_ports(pod)
        self.tolerations = spec.tolerations
        self.may_be_cordoned = untolerated_taint((UNSCHEDULABLE_TAINT,), spec.tolerations) is None
        node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        self.selects = bool(
            spec.node_selector
            or spec.node_name
            or (node_affinity is not None and node_affinity.required_during_scheduling_ignored_during_execution)
        )
        self.names = node_names(spec)
        """The only nodes it can go to, if it names nodes in every term; empty when its terms contradict each other."""
        self.likes = node_affinity.preferred_during_scheduling_ignored_during_execution if node_affinity else ()
        self.affinity = (
            (tuple(sorted(spec.node_selector.items())), node_affinity)
            if spec.node_selector or node_affinity is not None
            else None
        )
        self.terms: PodTerms | None = pod_terms(pod) if spec.affinity is not None else None
        self.hard_spread: tuple[Spread, ...] = ()
        self.soft_spread: tuple[Spread, ...] | None = None
        """None when the pod says nothing about spreading: then the defaults of the cluster count."""
        if spec.topology_spread_constraints:
            self.hard_spread = _spreads(pod, "DoNotSchedule")
            self.soft_spread = _spreads(pod, "ScheduleAnyway")
        self.claims: tuple[str, ...] = ()
        self.ephemeral_claims: tuple[str, ...] = ()
        """Those of the claims that are made for this pod alone."""
        if spec.volumes:
            self.claims = claim_names(pod)
            if self.claims:
                made = (volume for volume in spec.volumes if volume.ephemeral is not None)
                self.ephemeral_claims = tuple(ephemeral_claim_name(pod, volume) for volume in made)
        self.shape: Hashable = (
            self.positive, self.cpu, self.memory, spec.tolerations, self.affinity, self.ports, spec.node_name,
        )  # fmt: skip


def _compared(pod: Pod, demand: dict[str, int]) -> tuple[int, int]:
    """cpu and memory as they count when nodes are compared."""
    if "cpu" in demand and "memory" in demand and len(pod.spec.containers) == 1 and not pod.spec.init_containers:
        return demand["cpu"], demand["memory"]
    compared = effective_requests(pod, ASSUMED)
    return compared["cpu"], compared["memory"]


def node_names(spec: PodSpec) -> frozenset[str] | None:
    """The nodes that every term of the required node affinity names by field, as DaemonSet pods do; else None.

    Upstream's ``NodeAffinity.PreFilter``.
    """
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or not required.node_selector_terms:
        return None
    names: frozenset[str] = frozenset()
    for term in required.node_selector_terms:
        mine: frozenset[str] | None = None
        for requirement in term.match_fields:
            if requirement.key == "metadata.name" and requirement.operator == "In":
                values = frozenset(requirement.values)
                mine = values if mine is None else mine & values
        if mine is None:
            return None
        names |= mine
    return names


def _spreads(pod: Pod, action: str) -> tuple[Spread, ...]:
    labels = pod.metadata.labels
    return tuple(
        Spread(
            max_skew=one.max_skew,
            topology_key=one.topology_key,
            selector=with_label_keys(understood(one.label_selector), labels, one.match_label_keys),
            min_domains=one.min_domains or 1,
            honors_affinity=(one.node_affinity_policy or HONOR) == HONOR,
            honors_taints=one.node_taints_policy == HONOR,
        )
        for one in pod.spec.topology_spread_constraints
        if one.when_unsatisfiable == action
    )
