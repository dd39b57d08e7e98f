"""Which nodes a pod may be on by its node selector and required node affinity. Pure.

Facts: component-helpers ``scheduling/corev1/nodeaffinity`` (v0.36). Used by the scheduler and the DaemonSet controller.
"""

import re
from collections.abc import Iterator, Mapping

from pilothouse.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec

MAX_COST = 500
"""How much of a selector is compared with a node: a requirement costs 1, and 1 more for each 64 values. Terms beyond it
are not considered. Upstream has no limit; a pod of 3 MB has 20,000 terms, which take some 14 ms for each node."""

_decimal = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)


def matches_node_selection(spec: PodSpec, node: Node) -> bool:
    """Whether the node has every label of ``nodeSelector`` and fits one term of the required node affinity."""
    labels = node.metadata.labels
    for key, value in spec.node_selector.items():
        if labels.get(key) != value:
            return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or matches_node_selector(required, node)


def matches_node_selector(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the terms fits. No terms fit nothing."""
    meta = node.metadata
    return any(_fits(term, meta.labels, meta.name) for term in _considered(selector))


def selects_labels(selector: NodeSelector, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms matches a node of which only the labels are known, with an empty name, as upstream for
    volumes (``CheckNodeAffinity``, v0.36 component-helpers ``storage/volume/helpers.go``)."""
    return any(_fits(term, labels, "") for term in _considered(selector))


def matches_node_selector_term(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all expressions of a term match. An empty term matches nothing."""
    return _fits(term, node.metadata.labels, node.metadata.name)


def _considered(selector: NodeSelector) -> Iterator[NodeSelectorTerm]:
    """The terms whose cost is within the limit."""
    cost = 0
    for term in selector.node_selector_terms:
        cost += len(term.match_expressions) + len(term.match_fields)
        if cost <= MAX_COST:  # else summing up would take too long itself
            cost += sum(len(requirement.values) // 64 for requirement in (*term.match_expressions, *term.match_fields))
        if cost > MAX_COST:
            return
        yield term


def _fits(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not all(_holds(r, labels) for r in term.match_expressions):
        return False
    # metadata.name is the only field there is (v1.36 validation rejects others).
    return not term.match_fields or all(_holds(r, {"metadata.name": name}) for r in term.match_fields)


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            # A term that can't be understood selects nothing, as upstream's parse error does.
            return False


def _compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    if value is None or len(requirement.values) != 1:
        return False
    node_value, bound = _integer(value), _integer(requirement.values[0])
    if node_value is None or bound is None:
        return False
    return node_value > bound if requirement.operator == "Gt" else node_value < bound


def _integer(text: str) -> int | None:
    """A 64-bit integer as Go's ``strconv.ParseInt`` reads it: Python's ``int`` takes ``1_000`` and spaces too."""
    if not _decimal.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
