"""Affinity to other pods, read once per pod: terms that say whom they mean, and which nodes count as near. Pure.

Made by ``wish``; asked by ``relations``. A term is a value: equal terms of many pods are one key in the snapshot.
Facts: kube-scheduler v1.36 ``pkg/scheduler/framework/types.go`` (``newAffinityTerm``, ``AffinityTerm.Matches``).
"""

from collections.abc import Iterable, Mapping

from pilothouse.api.core import Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from pilothouse.api.meta import LabelSelector
from pilothouse.machinery.labels import NOTHING, Requirement, Selector, SelectorError, selector_from

HARD_WEIGHT = 1
"""What a pod that another one *needs* to be near is worth to that other one's wish when nodes are compared
(``hardPodAffinityWeight``)."""


class Term:
    """Pods of some namespaces with some labels, near by ``topology_key``. Immutable; equal by value."""

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
        """Whether a pod with these labels in that namespace is meant."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Term):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.topology_key == other.topology_key
            and self.namespaces == other.namespaces
            and self.selector == other.selector
            and self.namespace_selector == other.namespace_selector
        )


class PodTerms:
    """All terms of one pod. ``scored`` is what it likes (weight above 0) and dislikes (below)."""

    __slots__ = ("far", "felt", "near", "scored")

    def __init__(self, pod: Pod) -> None:
        affinity = pod.spec.affinity
        assert affinity is not None, "only pods with affinity have terms"
        to, away = affinity.pod_affinity or _NONE, affinity.pod_anti_affinity or _NONE
        self.near = tuple(_term(pod, t) for t in to.required_during_scheduling_ignored_during_execution)
        self.far = tuple(_term(pod, t) for t in away.required_during_scheduling_ignored_during_execution)
        self.scored = (
            *_weighted(pod, to.preferred_during_scheduling_ignored_during_execution, 1),
            *_weighted(pod, away.preferred_during_scheduling_ignored_during_execution, -1),
        )
        self.felt: tuple[tuple[Term, int], ...] = (*self.scored, *((term, HARD_WEIGHT) for term in self.near))
        """What counts for others once this pod is placed."""


def pod_terms(pod: Pod) -> PodTerms | None:
    """The terms of a pod, or None when it has none."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    terms = PodTerms(pod)
    return terms if terms.near or terms.far or terms.scored else None


_NONE = PodAffinity()


def _weighted(pod: Pod, terms: Iterable[WeightedPodAffinityTerm], sign: int) -> list[tuple[Term, int]]:
    return [(_term(pod, one.pod_affinity_term), sign * one.weight) for one in terms]


def _term(pod: Pod, term: PodAffinityTerm) -> Term:
    if term.namespace_selector is None and not term.namespaces:
        namespaces = frozenset((pod.metadata.namespace,))
    else:
        namespaces = frozenset(term.namespaces)
    selector = understood(term.label_selector)
    if term.label_selector is not None:
        selector = with_label_keys(selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys)
    return Term(namespaces, understood(term.namespace_selector), selector, term.topology_key)


def understood(selector: LabelSelector | None) -> Selector:
    """The selector; one that the API server should not have let through selects nothing."""
    try:
        return selector_from(selector)
    except SelectorError:
        return NOTHING


def with_label_keys(
    selector: Selector, labels: Mapping[str, str], same: Iterable[str], other: Iterable[str] = ()
) -> Selector:
    """Also ask for the pod's own value of the labels ``same``, and for any but its own of ``other``.

    Newer API servers write this into the selector when the pod is created; asking twice changes nothing.
    """
    if selector.selects_nothing:
        return selector
    more = [Requirement(key, "in", (labels[key],)) for key in same if key in labels]
    more += [Requirement(key, "notin", (labels[key],)) for key in other if key in labels]
    added = [requirement for requirement in more if requirement not in selector.requirements]
    return Selector((*selector.requirements, *added)) if added else selector
