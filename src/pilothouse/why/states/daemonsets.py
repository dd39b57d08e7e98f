"""DaemonSets: the nodes that are left out, and the pods that are not ready."""

import msgspec

from pilothouse.api.core import Node, PodSpec
from pilothouse.controllers.workloads.daemonset.placement import NodeRequirements, node_requirements_of
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import NO_EXECUTE, NO_SCHEDULE, untolerated_taint
from pilothouse.why.states.rejections import rejection
from pilothouse.why.states.replicas import held_pods
from pilothouse.why.states.scheduling import node_act
from pilothouse.why.states.workloads import add_last_change
from pilothouse.why.steps import AS_DESIRED, STATE, counted
from pilothouse.why.view import Finding, View, typed

_MOST_NAMES = 4
_MOST_ACTS = 2


async def incomplete(view: View) -> Finding | None:
    """Fewer pods ready than nodes that should have one, an update that goes on, or nodes that are left out."""
    wanted, ready, updated = (
        int(view.status.get(name) or 0) for name in ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
    )
    nodes = [typed(node, Node) for node in await view.evidence.objects("nodes", "")]
    left_out = LeftOut(view, nodes)
    complete = ready >= wanted and updated >= wanted
    if complete and not left_out.tainted:
        return None
    step = view.step(f"should have a pod on {wanted} of {len(nodes)} nodes, {ready} are ready, {updated} up to date")
    step.table = left_out.lines()
    if not complete:
        step.table.append(_bounds(view, wanted))
        rejected = await rejection(view)
        if rejected is not None:
            step.because.append(rejected)
        step.because += await held_pods(await view.owned("pods"))
        await add_last_change(view, step, rolls=updated < wanted)
    else:
        for name, key in left_out.tainted[:_MOST_ACTS]:
            act = await node_act(view.of("nodes", name, None, namespace=""), f"taint {key}")
            if act is not None:
                step.because.append(act)
    if not step.because:
        step.root = STATE
    return Finding(AS_DESIRED if complete else "not ready", (step,))


def _bounds(view: View, wanted: int) -> str:
    strategy = view.spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return "update strategy OnDelete: pods of the old template are replaced when they are deleted"
    rolling = strategy.get("rollingUpdate") or {}
    unavailable = int(view.status.get("numberUnavailable") or 0)
    return (
        f"maxUnavailable {rolling.get('maxUnavailable', 1)}, maxSurge {rolling.get('maxSurge', 0)}: {unavailable} of "
        f"{wanted} are unavailable now"
    )


class LeftOut:
    """The nodes that get no pod of the DaemonSet, by reason."""

    def __init__(self, view: View, nodes: list[Node]) -> None:
        template = (view.spec.get("template") or {}).get("spec") or {}
        wants = node_requirements_of(msgspec.convert(template, PodSpec, strict=False))
        self.tainted: list[tuple[str, str]] = []
        """Name and taint."""
        self._reasons: dict[str, list[str]] = {}
        for node in nodes:
            if reason := self._reason(wants, node):
                self._reasons.setdefault(reason, []).append(node.metadata.name)

    def _reason(self, wants: NodeRequirements, node: Node) -> str:
        if not matches_node_selection(PodSpec(node_selector=wants.node_selector, affinity=wants.affinity), node):
            labels = ", ".join(f"{name}={value}" for name, value in wants.node_selector.items())
            return f"not selected by {labels or 'the node affinity'}"
        taint = untolerated_taint(node.spec.taints, wants.tolerations, (NO_SCHEDULE, NO_EXECUTE))
        if taint is None:
            return ""
        self.tainted.append((node.metadata.name, taint.key))
        return f"taint {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"

    def lines(self) -> list[str]:
        """``left out, 2 nodes: taint dedicated=gpu:NoSchedule (node-1, node-2)``."""
        return [
            f"left out, {counted(len(names), 'node')}: {reason} ({_shown(names)})"
            for reason, names in self._reasons.items()
        ]


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
