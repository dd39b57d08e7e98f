"""Pods that no scheduler has given a node yet."""

import re
from collections.abc import Mapping
from typing import Any

from pilothouse.api.core import Node, Pod, Taint
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import NO_EXECUTE, NO_SCHEDULE, untolerated_taint
from pilothouse.semantics.pods import effective_requests, is_terminal
from pilothouse.why.evidence import newest_of_spec
from pilothouse.why.states import lifetime
from pilothouse.why.states.pods import missing_object
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View, typed

_MOST_NODES = 1000
_MOST_PODS = 5000
_MOST_NAMES = 4
_MOST_ACTS = 3
_MOST_SEARCHED = 50
"""The history of so many nodes is read."""
_UNSELECTED = "don't have what the pod selects"
_AVAILABLE = re.compile(r"^\d+/\d+ nodes are available: (.*?)\.?( preemption: .*)?$", re.DOTALL)
_ENTRY = re.compile(r"^(\d+) (.*)$", re.DOTALL)
_OF_CLOSED = ("had untolerated taint", "had taint", "were unschedulable", "didn't match Pod's node affinity/selector")
_DEFAULT = "default-scheduler"
_CORDON = "node.kubernetes.io/unschedulable"
_CORDONED = Taint(key=_CORDON, effect=NO_SCHEDULE)
UNSCHEDULABLE = "unschedulable"
"""The act of cordoning, for ``node_act``."""
SELECTED = "selected"
"""The act of taking a label that the pod selects."""


async def unscheduled(view: View) -> Finding | None:
    """Why a pod has no node: gates, claims, no nodes, or what is the matter with each group of nodes."""
    if view.spec.get("nodeName") or view.status.get("phase") not in (None, "", "Pending"):
        return None
    reported = view.condition("PodScheduled")
    if reported.get("reason") == "SchedulingGated" or view.spec.get("schedulingGates"):
        names = ", ".join(gate.get("name", "") for gate in view.spec.get("schedulingGates") or ())
        return Finding("pending", (await _as_created(view, f"waits until its scheduling gates are removed: {names}"),))
    if not reported:
        scheduler = view.spec.get("schedulerName") or _DEFAULT
        text = f"waits for the scheduler {scheduler}, which has reported nothing about it"
        return Finding("pending", (await _as_created(view, text),))
    return Finding("pending", tuple(await _reported(view, str(reported.get("message") or ""))))


async def _as_created(view: View, text: str, table: list[str] | None = None) -> Step:
    """A step whose reason is what the pod was created as."""
    made = await lifetime.created(view)
    if made is None:
        return view.step(text, root=STATE, table=table or [])
    return view.step(text, because=[made], table=table or [])


async def _reported(view: View, message: str) -> list[Step]:
    claims = await _claims(view, message)
    if claims is not None:
        return [claims]
    missing = await missing_object(view, message)
    if missing is not None:
        return [view.step(f"is not scheduled: {message}", because=[missing])]
    nodes = await view.evidence.objects("nodes", "")
    if not nodes or message.startswith("no nodes available"):
        return [await _no_nodes(view)]
    found = _AVAILABLE.match(message)
    if found is None:
        return [await _as_created(view, f"is not scheduled: {message}")]
    groups = NodeGroups(view, nodes, await _pods(view, len(nodes)))
    lines = [*groups.closed_lines(), *groups.other_lines(found[1].split(", "))]
    step = view.step(f"fits none of {len(nodes)} nodes", table=[*lines, *_preemption(found[2] or "")])
    step.because = await groups.acts()
    made = await lifetime.created(view)
    if groups.depends_on_pod or not step.because or _selects_since(made, step.because):
        if made is not None:
            step.because.append(made)
        elif not step.because:
            step.root = STATE
    return [step]


def _selects_since(made: Step | None, acts: list[Step]) -> bool:
    """Whether the pod is due to a template that selects other nodes since after those acts."""
    begun = max((act.time for act in acts), default="")
    roots = made.roots() if made is not None else []
    return any(root.time > begun and (".nodeSelector" in root.text or "ffinity" in root.text) for root in roots)


async def _pods(view: View, nodes: int) -> list[dict[str, Any]] | None:
    if nodes > _MOST_NODES:
        return None
    found = await view.evidence.objects("pods", "")
    return found if len(found) < _MOST_PODS else None


def _preemption(text: str) -> list[str]:
    said = text.removeprefix(" preemption: ").strip()
    return [f"preemption: {said.rstrip('.')}"] if said else []


async def _claims(view: View, message: str) -> Step | None:
    """A pod whose claims are not bound, or are not there."""
    if "PersistentVolumeClaim" not in message and "persistentvolumeclaim" not in message:
        return None
    names = [
        (volume.get("persistentVolumeClaim") or {}).get("claimName") or f"{view.reference.name}-{volume.get('name')}"
        for volume in view.spec.get("volumes") or ()
        if volume.get("persistentVolumeClaim") or volume.get("ephemeral")
    ]
    step = view.step(f"is not scheduled: {message.removeprefix('0/0 nodes are available: ')}")
    for name in names:
        claim = await view.read("persistentvolumeclaims", name)
        if (claim.status.get("phase") if claim.now is not None else "") == "Bound":
            continue
        step.because += (await claim.finding()).steps
    if not step.because:
        step.root = STATE
    return step


async def _no_nodes(view: View) -> Step:
    step = view.step("is not scheduled: there are no nodes")
    changes = await view.evidence.changes_of_all("nodes", "")
    last = next((change for change in reversed(changes) if change.type == "DELETED"), None)
    if last is None:
        step.root = STATE
    else:
        step.because = [await view.chain.step(last)]
    return step


class NodeGroups:
    """The nodes by what keeps the pod off them.

    The scheduler stops at the first reason that a node has, so a node that the pod does not even select may be counted
    as tainted. Selection, cordons and taints are therefore read from the nodes as they are, in this order, and all else
    is the scheduler's. It may have counted nodes that were closed only later; they are listed as closed alone.
    """

    def __init__(self, view: View, nodes: list[dict[str, Any]], pods: list[dict[str, Any]] | None) -> None:
        self._view = view
        self._pod = typed(view.now or {}, Pod)
        self._used = None if pods is None else _used(pods)
        self._wants = effective_requests(self._pod)
        self._closed: dict[str, list[str]] = {}
        self._open: list[Node] = []
        self._acts: list[tuple[str, str]] = []
        self.depends_on_pod = False
        """Whether some of it is due to what the pod asks for, and not to what was done to the nodes."""
        for node in nodes:
            self._add(typed(node, Node))

    def _add(self, node: Node) -> None:
        name = node.metadata.name
        if not matches_node_selection(self._pod.spec, node):
            self._close(f"{_UNSELECTED}: {self._selection()}", name)
            if self._would_fit(node):
                self._acts.append((name, SELECTED))
            return
        taints = [each for each in node.spec.taints if each.key != _CORDON]
        taint = untolerated_taint(taints, self._pod.spec.tolerations, (NO_SCHEDULE, NO_EXECUTE))
        if node.spec.unschedulable and untolerated_taint([_CORDONED], self._pod.spec.tolerations) is not None:
            self._close_to_all(node, "cordoned", UNSCHEDULABLE)
        elif taint is not None:
            value = f"={taint.value}" if taint.value else ""
            self._close_to_all(node, f"taint {taint.key}{value}:{taint.effect}", f"taint {taint.key}")
        else:
            self._open.append(node)

    def _close(self, reason: str, name: str) -> None:
        self._closed.setdefault(reason, []).append(name)

    def _close_to_all(self, node: Node, reason: str, act: str) -> None:
        """The cause is only shown if the pod would fit otherwise."""
        name = node.metadata.name
        lacking = next((each for each, amount in self._wants.items() if self._free(node, each) < amount), "")
        if lacking:
            self._close(f"{reason}, and Insufficient {lacking}", name)
        else:
            self._close(reason, name)
            self._acts.append((name, act))

    def _would_fit(self, node: Node) -> bool:
        """Whether a node that is not selected would do: it is neither cordoned nor tainted, and has room."""
        taints = [*node.spec.taints, *([_CORDONED] if node.spec.unschedulable else [])]
        open_ = untolerated_taint(taints, self._pod.spec.tolerations, (NO_SCHEDULE, NO_EXECUTE)) is None
        return open_ and all(self._free(node, each) >= amount for each, amount in self._wants.items())

    def _free(self, node: Node, resource: str) -> int:
        used = (self._used or {}).get(node.metadata.name, {}).get(resource, 0)
        return _of(node.status.allocatable, resource) - used

    def closed_lines(self) -> list[str]:
        """``2 nodes: taint dedicated=gpu:NoSchedule (node-1, node-2)``."""
        return [f"{_nodes(len(names))}: {reason} ({_names(names)})" for reason, names in self._closed.items()]

    def other_lines(self, entries: list[str]) -> list[str]:
        """What the scheduler said of the other nodes: ``3 nodes: Insufficient cpu (wants 4, at most 2 free)``."""
        lines = []
        for entry in entries:
            found = _ENTRY.match(entry)
            reason = found[2].removeprefix("node(s) ") if found is not None else entry
            count = min(int(found[1]), len(self._open)) if found is not None else None
            if reason.startswith(_OF_CLOSED) or count == 0:
                continue
            self.depends_on_pod = True
            if reason.startswith("Insufficient "):
                reason += self._room(reason.removeprefix("Insufficient "))
            lines.append(reason if count is None else f"{_nodes(count)}: {reason}")
        return lines

    def _room(self, resource: str) -> str:
        wants = self._wants.get(resource, 0)
        if self._used is None:
            return f" (wants {_amount(resource, wants)})"
        free = [self._free(node, resource) for node in self._open]
        most = max(free, default=0)
        return f" (wants {_amount(resource, wants)}, at most {_amount(resource, most)} free)"

    def _selection(self) -> str:
        spec = self._view.spec
        labels = [f"{name}={value}" for name, value in (spec.get("nodeSelector") or {}).items()]
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or {}
        for term in affinity.get("nodeSelectorTerms") or ():
            for match_field in [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]:
                values = ",".join(match_field.get("values") or ())
                labels.append(
                    f"{match_field.get('key')} {match_field.get('operator')}{f' ({values})' if values else ''}"
                )
        return ", ".join(labels) or "its node affinity"

    async def acts(self) -> list[Step]:
        """Who tainted, cordoned, deleted or relabelled nodes that the pod would fit, for some of them, as far as
        history has it."""
        steps: dict[tuple[str, str], Step] = {}
        for name, what in sorted(self._acts, key=lambda act: act[1] == SELECTED)[:_MOST_SEARCHED]:
            if len(steps) >= _MOST_ACTS:
                break
            node = self._view.of("nodes", name, None, namespace="")
            step = await self._deselected(node) if what == SELECTED else await node_act(node, what)
            if step is not None:
                steps.setdefault((step.by, step.text.partition(" ")[2]), step)
        if not steps and any(reason.startswith(_UNSELECTED) for reason in self._closed):
            return await self._gone()
        return list(steps.values())

    async def _deselected(self, node: View) -> Step | None:
        """The last change of a node that took a label which the pod selects."""
        for each in reversed(newest_of_spec(node.evidence, await node.changes())):
            if each.type != "MODIFIED":
                return None
            before, after = await node.evidence.before(each), await node.evidence.after(each)
            if before is not None and after is not None and self._selects(before) and not self._selects(after):
                return await node.chain.step(each)
        return None

    def _selects(self, node: dict[str, Any]) -> bool:
        return matches_node_selection(self._pod.spec, typed(node, Node))

    async def _gone(self) -> list[Step]:
        """The deletion of the last node that the pod selected, if there is none of that name any more."""
        evidence = self._view.evidence
        for change in reversed(await evidence.changes_of_all("nodes", "")):
            if change.type == "DELETED" and await evidence.get(change.reference) is None:
                last = await evidence.after(change)
                if last is not None and self._selects(last):
                    return [await self._view.chain.step(change)]
        return []


async def node_act(node: View, what: str) -> Step | None:
    """The last change that gave a node a taint (``taint KEY``) or had it cordoned (``unschedulable``)."""
    for change in reversed(await node.changes()):
        if change.type == "DELETED":
            return None
        before, after = await node.evidence.before(change), await node.evidence.after(change)
        if _has(after, what) and not _has(before, what):
            return await node.chain.step(change) if change.type != "ADDED" else None
    return None


def _has(document: Mapping[str, Any] | None, what: str) -> bool:
    spec = (document or {}).get("spec") or {}
    if what == UNSCHEDULABLE:
        return bool(spec.get("unschedulable"))
    return any(f"taint {taint.get('key')}" == what for taint in spec.get("taints") or ())


def _used(pods: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """What the pods of each node request."""
    used: dict[str, dict[str, int]] = {}
    for document in pods:
        pod = typed(document, Pod)
        if not pod.spec.node_name or is_terminal(pod):
            continue
        total = used.setdefault(pod.spec.node_name, {})
        for name, amount in effective_requests(pod).items():
            total[name] = total.get(name, 0) + amount
    return used


def _of(allocatable: Mapping[str, str], resource: str) -> int:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": dict(allocatable)}}]}}
    return effective_requests(typed(pod, Pod)).get(resource, 0)


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if resource in ("memory", "ephemeral-storage") and amount >= size:
            return f"{amount / size:.4g}{unit}"
    return str(amount)


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown
