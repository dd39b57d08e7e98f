"""Warnings about Nodes, and about deprecated labels of nodes in other kinds.

After kubernetes' ``pkg/api/node/util.go`` and ``pkg/registry/core/node/strategy.go`` (v1.36).
"""

from collections.abc import Iterator, Mapping

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_cidr
from pilothouse.machinery.names import label_value_errors

DEPRECATED_NODE_LABELS: Mapping[str, str] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def warnings_for_node(obj: Object) -> Iterator[str]:
    """``nodeWarnings``."""
    spec = obj.get("spec") or {}
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for position, cidr in enumerate(spec.get("podCIDRs") or ()):
        yield from warnings_for_cidr(cidr, f"spec.podCIDRs[{position}]")


def warnings_for_node_selector(selector: Object, path: str) -> Iterator[str]:
    """Warnings about a LabelSelector of nodes (``GetWarningsForNodeSelector``)."""
    yield from _warnings_for_match_expressions(selector, path, values=False)
    for label in sorted(selector.get("matchLabels") or ()):
        if label in DEPRECATED_NODE_LABELS:
            yield f"{path}.matchLabels.{label}: {DEPRECATED_NODE_LABELS[label]}"


def warnings_for_node_selector_term(term: Object, path: str, *, values: bool = False) -> Iterator[str]:
    """``GetWarningsForNodeSelectorTerm``. ``values`` of preferred terms are not validated, so there are warnings about
    those that no label can have."""
    return _warnings_for_match_expressions(term, path, values=values)


def _warnings_for_match_expressions(selector: Object, path: str, *, values: bool) -> Iterator[str]:
    for position, expression in enumerate(selector.get("matchExpressions") or ()):
        key = expression.get("key") or ""
        if key in DEPRECATED_NODE_LABELS:
            yield f"{path}.matchExpressions[{position}].key: {key} is {DEPRECATED_NODE_LABELS[key]}"
        for index, value in enumerate((expression.get("values") or ()) if values else ()):
            for msg in label_value_errors(value):
                yield f"{path}.matchExpressions[{position}].values[{index}]: {value} is invalid, {msg}"
