"""DaemonSets: the nodes without a pod, and the pods that are not ready."""

import msgspec

from pilothouse.api.core import Node, PodSpec
from pilothouse.controllers.workloads.daemonset.placement import NodeRequirements, node_requirements_of
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import NO_EXECUTE, NO_SCHEDULE, untolerated_taint
from pilothouse.why.evidence import Reference
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.rejections import deletion_rejection, rejection
from pilothouse.why.states.replicas import remaining_pod_steps, unready_pod_steps
from pilothouse.why.states.scheduling import node_change
from pilothouse.why.states.workloads import add_last_change
from pilothouse.why.steps import AS_DESIRED, DELETED_PODS_REMAIN, STATE, TOO_MANY_PODS, pluralize
from pilothouse.why.view import Finding, View, typed

_MAX_NAMES = 4
_MAX_NODE_CHANGES = 2


async def incomplete(view: View) -> Finding | None:
    """Fewer pods ready than desired, a rolling update in progress, pods that the update strategy keeps or that can't be
    deleted, nodes excluded by a taint, or all of them."""
    desired, ready, updated = (
        int(view.status.get(name) or 0) for name in ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
    )
    nodes = [typed(node, Node) for node in await view.evidence.objects("nodes", "")]
    unreadable = view.evidence.is_unreadable(Reference("nodes", "", ""))
    excluded = ExcludedNodes(view, nodes)
    kept = updated < desired and _is_on_delete(view)
    complete = ready >= desired and (updated >= desired or kept)
    on_none = not desired and not unreadable
    pods = await view.owned("pods")
    remaining = await remaining_pod_steps(pods)
    misscheduled = int(view.status.get("numberMisscheduled") or 0)
    # A pod may stay on a node that was tainted NoSchedule later: without a failure, these are no error.
    undeleted = await deletion_rejection(view) if misscheduled or updated < desired else None
    if complete and not kept and not excluded.tainted and not on_none and undeleted is None:
        return Finding(DELETED_PODS_REMAIN, tuple(remaining)) if remaining else None
    on_nodes = f"{desired} nodes" if unreadable else f"{desired} of {len(nodes)} nodes"
    step = view.step(f"should have a pod on {on_nodes}, {ready} are ready, {updated} up to date")
    step.table = excluded.lines()
    if not complete or kept:
        step.table.append(_bounds_line(view, desired))
    if undeleted is not None:
        step.because.append(undeleted)
        if misscheduled:
            verb = "is on a node" if misscheduled == 1 else "are on nodes"
            step.table.append(f"{pluralize(misscheduled, 'pod')} {verb} that should have none")
    if not complete:
        rejected = await rejection(view)
        if rejected is not None:
            step.because.append(rejected)
        step.because += [*await unready_pod_steps(pods), *remaining]
        await add_last_change(view, step, rolls=updated < desired)
    else:
        for name, key in excluded.tainted[:_MAX_NODE_CHANGES]:
            change = await node_change(view.of("nodes", name, None, namespace=""), f"taint {key}")
            if change is not None:
                step.because.append(change)
        if undeleted is not None or ((on_none or kept) and not step.because):
            last = await last_change(view)
            step.because += [last] if last is not None else []
        step.because += remaining
    if not step.because:
        step.root = STATE
    if complete and undeleted is not None:
        return Finding(TOO_MANY_PODS, (step,))
    if complete and not on_none:
        return Finding(DELETED_PODS_REMAIN if remaining else AS_DESIRED, (step,))
    return Finding("on no node" if on_none else "not ready", (step,))


def _is_on_delete(view: View) -> bool:
    return bool((view.spec.get("updateStrategy") or {}).get("type") == "OnDelete")


def _bounds_line(view: View, desired: int) -> str:
    if _is_on_delete(view):
        return "update strategy OnDelete: pods of the old template are replaced when they are deleted"
    rolling = (view.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    unavailable = int(view.status.get("numberUnavailable") or 0)
    return (
        f"maxUnavailable {rolling.get('maxUnavailable', 1)}, maxSurge {rolling.get('maxSurge', 0)}: {unavailable} of "
        f"{desired} are unavailable now"
    )


class ExcludedNodes:
    """The nodes on which the DaemonSet creates no pod, by reason."""

    def __init__(self, view: View, nodes: list[Node]) -> None:
        template = (view.spec.get("template") or {}).get("spec") or {}
        requirements = node_requirements_of(msgspec.convert(template, PodSpec, strict=False))
        self.tainted: list[tuple[str, str]] = []
        """Name and taint."""
        self._reasons: dict[str, list[str]] = {}
        for node in nodes:
            if reason := self._reason(requirements, node):
                self._reasons.setdefault(reason, []).append(node.metadata.name)

    def _reason(self, requirements: NodeRequirements, node: Node) -> str:
        if not matches_node_selection(
            PodSpec(node_selector=requirements.node_selector, affinity=requirements.affinity), node
        ):
            labels = ", ".join(f"{name}={value}" for name, value in requirements.node_selector.items())
            return f"not selected by {labels or 'the node affinity'}"
        taint = untolerated_taint(node.spec.taints, requirements.tolerations, (NO_SCHEDULE, NO_EXECUTE))
        if taint is None:
            return ""
        self.tainted.append((node.metadata.name, taint.key))
        return f"taint {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"

    def lines(self) -> list[str]:
        """``left out, 2 nodes: taint dedicated=gpu:NoSchedule (node-1, node-2)``."""
        return [
            f"left out, {pluralize(len(names), 'node')}: {reason} ({_shown(names)})"
            for reason, names in self._reasons.items()
        ]


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
