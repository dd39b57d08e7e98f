"""Limits on what one pod may select other pods by.

Upstream has no limit but the size of a request, and computes the terms of a pod in parallel, in a process that serves
nobody else. A pod of 3 MB has some ten thousand terms, each of which is compared with all pods of its namespaces.
"""

from collections.abc import Iterable

from pilothouse.api.core import PodAffinityTerm, PodSpec
from pilothouse.api.meta import LabelSelector
from pilothouse.scheduler.framework.status import Status

MAX_TERMS = 128
"""Terms of inter-pod affinity and anti-affinity together, topology spread constraints, and resource claims."""
MAX_REQUIREMENTS = 4096
"""Labels, expressions and values of their selectors, and the namespaces of terms."""


def too_many_affinity_terms(spec: PodSpec) -> Status | None:
    """The status of a pod whose inter-pod affinity exceeds the limits."""
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    terms: list[PodAffinityTerm] = []
    for one in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if one is not None:
            terms += one.required_during_scheduling_ignored_during_execution
            terms += [w.pod_affinity_term for w in one.preferred_during_scheduling_ignored_during_execution]
    if len(terms) > MAX_TERMS:
        return _status("InterPodAffinity", len(terms), "terms of inter-pod affinity", MAX_TERMS)
    requirements = sum(
        _requirements((term.label_selector, term.namespace_selector)) + len(term.namespaces) for term in terms
    )
    return _too_many_requirements("InterPodAffinity", requirements, "terms of inter-pod affinity")


def too_many_constraints(spec: PodSpec) -> Status | None:
    """The status of a pod whose topology spread constraints exceed the limits."""
    constraints = spec.topology_spread_constraints
    if len(constraints) > MAX_TERMS:
        return _status("PodTopologySpread", len(constraints), "topology spread constraints", MAX_TERMS)
    requirements = sum(_requirements((one.label_selector,)) + len(one.match_label_keys) for one in constraints)
    return _too_many_requirements("PodTopologySpread", requirements, "topology spread constraints")


def too_many_resource_claims(spec: PodSpec) -> Status | None:
    """The status of a pod with more resource claims than the limit."""
    if len(spec.resource_claims) <= MAX_TERMS:
        return None
    return _status("DynamicResources", len(spec.resource_claims), "resource claims", MAX_TERMS)


def _too_many_requirements(plugin: str, requirements: int, of: str) -> Status | None:
    if requirements <= MAX_REQUIREMENTS:
        return None
    return _status(plugin, requirements, f"requirements in the selectors of its {of}", MAX_REQUIREMENTS)


def _status(plugin: str, count: int, description: str, limit: int) -> Status:
    return Status(plugin, (f"the pod has {count} {description}, and at most {limit} are supported",), unresolvable=True)


def _requirements(selectors: Iterable[LabelSelector | None]) -> int:
    return sum(
        len(selector.match_labels) + sum(1 + len(one.values) for one in selector.match_expressions)
        for selector in selectors
        if selector is not None
    )
