"""Which nodes should run a daemon pod, and which may keep one. Pure, and remembered per node.

Upstream: ``nodeShouldRunDaemonPod`` and ``predicates`` of v1.36 ``pkg/controller/daemon/daemon_controller.go``. Only
the node's name, labels and taints count; resources are the scheduler's concern.
"""

import msgspec

from pilothouse.api.core import Affinity, Node, PodSpec, Toleration
from pilothouse.controllers.workloads.daemonset.tolerations import with_daemon_tolerations
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import NO_EXECUTE, untolerated_taint


class Placement(msgspec.Struct, frozen=True):
    """The decision for one node and one DaemonSet."""

    should_run: bool
    """A pod is to be there."""
    should_continue: bool
    """A pod that is there may stay."""


MUST_NOT_RUN = Placement(False, False)
SHOULD_RUN = Placement(True, True)
MAY_CONTINUE = Placement(False, True)
"""No new pod, but a running one stays (taint NoSchedule)."""


class NodeRequirements(msgspec.Struct, frozen=True):
    """The fields of a template that determine its nodes. ``tolerations`` includes those that every daemon pod gets."""

    node_name: str
    node_selector: dict[str, str]
    affinity: Affinity | None
    tolerations: tuple[Toleration, ...]
    comparison_operators: bool = False
    """Gate ``TaintTolerationComparisonOperators``: whether ``Gt`` and ``Lt`` tolerate anything."""


def node_requirements_of(spec: PodSpec, *, comparison_operators: bool = False) -> NodeRequirements:
    """The requirements of the template for nodes, without the affinity that pins a pod to its node."""
    return NodeRequirements(
        node_name=spec.node_name,
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=with_daemon_tolerations(spec.tolerations, host_network=spec.host_network),
        comparison_operators=comparison_operators,
    )


def decide_placement(requirements: NodeRequirements, node: Node) -> Placement:
    if requirements.node_name and requirements.node_name != node.metadata.name:
        return MUST_NOT_RUN
    if not matches_node_selection(
        PodSpec(node_selector=requirements.node_selector, affinity=requirements.affinity), node
    ):
        return MUST_NOT_RUN
    taints = node.spec.taints
    if not taints:
        return SHOULD_RUN
    blocking = untolerated_taint(
        taints, requirements.tolerations, comparison_operators=requirements.comparison_operators
    )
    if blocking is None:
        return SHOULD_RUN
    evicting = untolerated_taint(
        taints, requirements.tolerations, (NO_EXECUTE,), comparison_operators=requirements.comparison_operators
    )
    return MAY_CONTINUE if evicting is None else MUST_NOT_RUN


def rejection_reason(requirements: NodeRequirements, node: Node) -> str:
    """Why the pods of the template may not run on this node, as a sentence. Only called if they may not."""
    name = node.metadata.name
    if requirements.node_name and requirements.node_name != name:
        return f"the template names node {requirements.node_name}, not {name}"
    if not matches_node_selection(
        PodSpec(node_selector=requirements.node_selector, affinity=requirements.affinity), node
    ):
        return f"node {name} does not match the node selector or affinity of the template"
    taint = untolerated_taint(
        node.spec.taints, requirements.tolerations, comparison_operators=requirements.comparison_operators
    )
    if taint is None:
        return f"node {name} should run none"
    return f"node {name} has the taint {taint.key}:{taint.effect}, which the template does not tolerate"


class Placements:
    """The placements of one DaemonSet, each computed once per object of ``NodeTable``."""

    def __init__(self, requirements: NodeRequirements) -> None:
        self.requirements = requirements
        self._known: dict[str, tuple[Node, Placement]] = {}

    def on(self, node: Node) -> Placement:
        cached = self._known.get(node.metadata.name)
        if cached is not None and cached[0] is node:
            return cached[1]
        placement = decide_placement(self.requirements, node)
        self._known[node.metadata.name] = (node, placement)
        return placement

    def forget(self, name: str) -> None:
        self._known.pop(name, None)
