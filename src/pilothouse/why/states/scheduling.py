"""Pods that are not scheduled."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from pilothouse.api.core import Node, NodeSelector, Pod, Taint
from pilothouse.api.resource import RESOURCE_CLAIMS
from pilothouse.semantics.node_affinity import matches_node_selection, selects_labels
from pilothouse.semantics.nodes import NO_EXECUTE, NO_SCHEDULE, untolerated_taint
from pilothouse.semantics.pods import effective_requests, is_terminal
from pilothouse.why.evidence import Reference, newest_spec_changes
from pilothouse.why.states import lifetime
from pilothouse.why.states.claims import selected_node
from pilothouse.why.states.pods import missing_object
from pilothouse.why.steps import STATE, UNKNOWN, Step
from pilothouse.why.view import Finding, View, typed

_MAX_NODES = 1000
_MAX_PODS = 5000
_MAX_NAMES = 4
_MAX_NODE_CHANGES = 3
_MAX_SEARCHED = 50
"""Nodes whose history is read."""
_NOT_SELECTED = "don't have what the pod selects"
_AVAILABLE = re.compile(
    r"^\d+/\d+ nodes are available: (.*?)\.?"
    r"(?:(?: no new claims to deallocate,| still not schedulable,| de\w+ of ResourceClaim completed,)?( preemption: .*)"
    r"|\. not found)?$",
    re.DOTALL,
)
_ENTRY = re.compile(r"^(\d+) (.*)$", re.DOTALL)
_OF_CLAIMS = ("PersistentVolumeClaim", "persistentvolumeclaim", '"VolumeBinding"')
_VOLUME_CONFLICT = "didn't match PersistentVolume's node affinity"
_COMPUTED_REASONS = (
    "had untolerated taint",
    "had taint",
    "were unschedulable",
    "didn't match Pod's node affinity/selector",
    "didn't satisfy plugin(s) [NodeAffinity]",
)
_DEFAULT = "default-scheduler"
_CORDON = "node.kubernetes.io/unschedulable"
_CORDONED = Taint(key=_CORDON, effect=NO_SCHEDULE)
_TAINT_OF_CONTROLLERS = "taint node.kubernetes.io/"
UNSCHEDULABLE = "unschedulable"
"""Cordoning, as an argument of ``node_change``."""
SELECTED = "selected"
"""The removal of a label that the pod selects."""


async def unscheduled(view: View) -> Finding | None:
    """Why a pod has no node: scheduling gates, claims, no nodes, or the reason of each group of nodes."""
    if view.spec.get("nodeName") or view.status.get("phase") not in (None, "", "Pending"):
        return None
    scheduled = view.condition("PodScheduled")
    if scheduled.get("reason") == "SchedulingGated" or view.spec.get("schedulingGates"):
        names = ", ".join(gate.get("name", "") for gate in view.spec.get("schedulingGates") or ())
        return Finding(
            "pending", (await _caused_by_creation(view, f"waits until its scheduling gates are removed: {names}"),)
        )
    if not scheduled and (waiting := await _missing_resource_claims(view)) is not None:
        return Finding("pending", (waiting,))
    if not scheduled and (waiting := await _claims(view, "")) is not None:
        return Finding("pending", (waiting,))
    if not scheduled:
        scheduler = view.spec.get("schedulerName") or _DEFAULT
        text = f"waits for the scheduler {scheduler}, which has reported nothing about it"
        return Finding("pending", (await _caused_by_creation(view, text),))
    return Finding("pending", tuple(await _scheduler_steps(view, str(scheduled.get("message") or ""))))


async def _caused_by_creation(view: View, text: str, table: list[str] | None = None) -> Step:
    """A step caused by the pod's creation."""
    creation = await lifetime.created(view)
    if creation is None:
        return view.step(text, root=STATE, table=table or [])
    return view.step(text, because=[creation], table=table or [])


async def _scheduler_steps(view: View, message: str) -> list[Step]:
    claims = await _claims(view, message)
    if claims is not None:
        return [claims]
    missing = await missing_object(view, message)
    if missing is not None:
        return [view.step(f"is not scheduled: {message}", because=[missing])]
    nodes = await view.evidence.objects("nodes", "")
    if view.evidence.is_unreadable(Reference("nodes", "", "")):
        return [await _caused_by_creation(view, f"is not scheduled: {message}")]
    if not nodes or message.startswith("no nodes available"):
        return [await _no_nodes(view)]
    match = _AVAILABLE.match(message)
    if match is None:
        return [await _caused_by_creation(view, f"is not scheduled: {message}")]
    groups = NodeGroups(view, nodes, await _pods(view, len(nodes)))
    lines = [*groups.excluded_lines(), *groups.other_lines(match[1].split(", "))]
    step = view.step(f"fits none of {len(nodes)} nodes", table=[*lines, *_preemption(match[2] or "")])
    step.because = await groups.acts()
    if _VOLUME_CONFLICT in message:
        await _add_lost_volumes(view, step, nodes)
    creation = await lifetime.created(view)
    if groups.depends_on_pod or not step.because or _selects_since(creation, step.because):
        if creation is not None:
            step.because.append(creation)
        elif not step.because:
            step.root = STATE
    return [step]


async def _add_lost_volumes(view: View, step: Step, nodes: list[dict[str, Any]]) -> None:
    """The volumes of the pod that no existing node reaches, and who deleted the node that did."""
    for claim in await _claim_views(view):
        volume = await view.read("persistentvolumes", str(claim.spec.get("volumeName") or ""), namespace="")
        required = (volume.spec.get("nodeAffinity") or {}).get("required")
        if not required:
            continue
        selector = msgspec.convert(required, NodeSelector, strict=False)
        if any(map(partial(_is_selected, selector), nodes)):
            continue
        step.table.append(f"the volume {volume.reference.name} of claim {claim.reference.name} is on no existing node")
        for deletion in await _deleted_node(view, partial(_is_selected, selector)):
            if deletion.resource_version not in {cause.resource_version for cause in step.because}:
                step.because.append(deletion)


async def _deleted_node(view: View, matches: Callable[[dict[str, Any]], bool]) -> list[Step]:
    """The last deletion of a node that matches, if no node with that name exists."""
    for change in reversed(await view.evidence.changes_of_all("nodes", "")):
        if change.type == "DELETED" and await view.evidence.get(change.reference) is None:
            last = await view.evidence.after(change)
            if last is not None and matches(last):
                return [await view.chain.step(change)]
    return []


def _is_selected(selector: NodeSelector, node: dict[str, Any]) -> bool:
    return selects_labels(selector, (node.get("metadata") or {}).get("labels") or {})


def _selects_since(creation: Step | None, node_changes: list[Step]) -> bool:
    """Whether the node selection in the pod's template was changed after those node changes."""
    last_change = max((act.time for act in node_changes), default="")
    roots = creation.roots() if creation is not None else []
    return any(root.time > last_change and (".nodeSelector" in root.text or "ffinity" in root.text) for root in roots)


async def _pods(view: View, nodes: int) -> list[dict[str, Any]] | None:
    if nodes > _MAX_NODES:
        return None
    pods = await view.evidence.objects("pods", "")
    return pods if len(pods) < _MAX_PODS else None


def _preemption(text: str) -> list[str]:
    detail = text.removeprefix(" preemption: ").strip()
    return [f"preemption: {detail.rstrip('.')}"] if detail else []


async def _claims(view: View, message: str) -> Step | None:
    """A pod with claims that are not bound or do not exist. The scheduler reports nothing while it waits for
    volumes on the node that it has selected, for ten minutes; so the message is empty, or of an earlier attempt."""
    if message and not any(word in message for word in _OF_CLAIMS):
        return None
    unbound = [claim for claim in await _claim_views(view) if claim.status.get("phase") != "Bound"]
    node = next((node for claim in unbound if (node := selected_node(claim))), "")
    if not message and not node:
        return None
    text = f"is not scheduled: {message.removeprefix('0/0 nodes are available: ')}"
    step = view.step(f"waits until its claims are bound: the scheduler has selected {node}" if node else text)
    for claim in unbound:
        step.because += (await claim.finding()).steps
    if not step.because:
        step.root = STATE
    return step


async def _claim_views(view: View) -> list[View]:
    """The claims of a pod, also of its ephemeral volumes."""
    names = [
        (volume.get("persistentVolumeClaim") or {}).get("claimName") or f"{view.reference.name}-{volume.get('name')}"
        for volume in view.spec.get("volumes") or ()
        if volume.get("persistentVolumeClaim") or volume.get("ephemeral")
    ]
    return [await view.read("persistentvolumeclaims", name) for name in names]


async def _missing_resource_claims(view: View) -> Step | None:
    """A pod that the scheduler does not try, because resource claims do not exist. It reports nothing about it."""
    created = {one.get("name"): one.get("resourceClaimName") for one in view.status.get("resourceClaimStatuses") or ()}
    missing: list[str] = []
    deletions: list[Step] = []
    for entry in view.spec.get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or created.get(entry.get("name"))
        if name:
            claim = await view.read(RESOURCE_CLAIMS.group_resource, name)
            if claim.now is None and not claim.is_unreadable:
                missing.append(name)
                steps = (await claim.finding()).steps
                deletions += steps[:1] if steps and steps[0].by else ()
        elif entry.get("resourceClaimTemplateName") and entry.get("name") not in created:
            missing.append(f"that of template {entry['resourceClaimTemplateName']}")
    if not missing:
        return None
    text = f"waits for resource claims that do not exist: {', '.join(missing)}"
    return view.step(text, because=deletions) if deletions else await _caused_by_creation(view, text)


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
    """The nodes by the reason why they do not fit. The scheduler reports only the first failed filter of a node, so a
    node that the pod does not select may be counted as tainted. Node selection, cordons and taints are therefore
    computed here, in this order; other reasons are taken from the scheduler's message."""

    def __init__(self, view: View, nodes: list[dict[str, Any]], pods: list[dict[str, Any]] | None) -> None:
        self._view = view
        self._pod = typed(view.now or {}, Pod)
        self._used = None if pods is None else _used(pods)
        self._requests = effective_requests(self._pod)
        self._excluded: dict[str, list[str]] = {}
        self._remaining: list[Node] = []
        self._node_changes: list[tuple[str, str]] = []
        self.depends_on_pod = False
        """Whether a reason depends on the pod's requests instead of changes of nodes."""
        for node in nodes:
            self._add(typed(node, Node))

    def _add(self, node: Node) -> None:
        name = node.metadata.name
        if not matches_node_selection(self._pod.spec, node):
            self._exclude(f"{_NOT_SELECTED}: {self._selection()}", name)
            if self._would_fit(node):
                self._node_changes.append((name, SELECTED))
            return
        taints = [node_taint for node_taint in node.spec.taints if node_taint.key != _CORDON]
        taint = untolerated_taint(taints, self._pod.spec.tolerations, (NO_SCHEDULE, NO_EXECUTE))
        if node.spec.unschedulable and untolerated_taint([_CORDONED], self._pod.spec.tolerations) is not None:
            self._exclude_feasible(node, "cordoned", UNSCHEDULABLE)
        elif taint is not None:
            value = f"={taint.value}" if taint.value else ""
            self._exclude_feasible(node, f"taint {taint.key}{value}:{taint.effect}", f"taint {taint.key}")
        else:
            self._remaining.append(node)

    def _exclude(self, reason: str, name: str) -> None:
        self._excluded.setdefault(reason, []).append(name)

    def _exclude_feasible(self, node: Node, reason: str, act: str) -> None:
        """Exclude a node; the change is searched only if the node has enough resources."""
        name = node.metadata.name
        insufficient = next(
            (resource for resource, amount in self._requests.items() if self._free(node, resource) < amount), ""
        )
        if insufficient:
            self._exclude(f"{reason}, and Insufficient {insufficient}", name)
        else:
            self._exclude(reason, name)
            self._node_changes.append((name, act))

    def _would_fit(self, node: Node) -> bool:
        """Whether a node that is not selected is otherwise feasible: not cordoned, no taints, enough resources."""
        taints = [*node.spec.taints, *([_CORDONED] if node.spec.unschedulable else [])]
        tolerated = untolerated_taint(taints, self._pod.spec.tolerations, (NO_SCHEDULE, NO_EXECUTE)) is None
        return tolerated and all(self._free(node, resource) >= amount for resource, amount in self._requests.items())

    def _free(self, node: Node, resource: str) -> int:
        used = (self._used or {}).get(node.metadata.name, {}).get(resource, 0)
        return _allocatable(node.status.allocatable, resource) - used

    def excluded_lines(self) -> list[str]:
        """``2 nodes: taint dedicated=gpu:NoSchedule (node-1, node-2)``."""
        return [
            f"{_node_count(len(names))}: {reason} ({_shown_names(names)})" for reason, names in self._excluded.items()
        ]

    def other_lines(self, entries: list[str]) -> list[str]:
        """The scheduler's reasons for other nodes: ``3 nodes: Insufficient cpu (requests 4, at most 2 available)``."""
        lines = []
        for entry in entries:
            match = _ENTRY.match(entry)
            reason = match[2].removeprefix("node(s) ") if match is not None else entry
            count = min(int(match[1]), len(self._remaining)) if match is not None else None
            if reason.startswith(_COMPUTED_REASONS) or count == 0:
                continue
            self.depends_on_pod = True
            if reason.startswith("Insufficient "):
                reason += self._free_text(reason.removeprefix("Insufficient "))
            lines.append(reason if count is None else f"{_node_count(count)}: {reason}")
        return lines

    def _free_text(self, resource: str) -> str:
        requested = self._requests.get(resource, 0)
        if self._used is None:
            return f" (requests {_amount(resource, requested)})"
        free = [self._free(node, resource) for node in self._remaining]
        max_free = max(free, default=0)
        return f" (requests {_amount(resource, requested)}, at most {_amount(resource, max_free)} available)"

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
        """The changes that tainted, cordoned, deleted or relabeled some of the nodes on which the pod would fit, as far
        as recorded."""
        steps: dict[tuple[str, str], Step] = {}
        for name, change_kind in sorted(self._node_changes, key=lambda act: act[1] == SELECTED)[:_MAX_SEARCHED]:
            if len(steps) >= _MAX_NODE_CHANGES:
                break
            node = self._view.of("nodes", name, None, namespace="")
            step = await self._label_removal(node) if change_kind == SELECTED else await node_change(node, change_kind)
            if step is not None:
                steps.setdefault((step.by, step.text.partition(" ")[2]), step)
        if not steps and any(reason.startswith(_NOT_SELECTED) for reason in self._excluded):
            return await _deleted_node(self._view, self._selects)
        return list(steps.values())

    async def _label_removal(self, node: View) -> Step | None:
        """The last change that removed a label which the pod selects."""
        for change in reversed(newest_spec_changes(node.evidence, await node.changes())):
            if change.type != "MODIFIED":
                return None
            old, new = await node.evidence.before(change), await node.evidence.after(change)
            if old is not None and new is not None and self._selects(old) and not self._selects(new):
                return await node.chain.step(change)
        return None

    def _selects(self, node: dict[str, Any]) -> bool:
        return matches_node_selection(self._pod.spec, typed(node, Node))


async def node_change(node: View, change_kind: str) -> Step | None:
    """The last change that added a taint to a node (``taint KEY``) or cordoned it (``unschedulable``)."""
    changes = await node.changes()
    if not node.evidence.has_writes_of_users and not change_kind.startswith(_TAINT_OF_CONTROLLERS):
        done = "cordoned" if change_kind == UNSCHEDULABLE else f"given the {change_kind}"
        return node.step(f"was {done}, and by whom is not recorded", root=UNKNOWN)
    for change in reversed(changes):
        if change.type == "DELETED":
            return None
        old, new = await node.evidence.before(change), await node.evidence.after(change)
        if _is_set(new, change_kind) and not _is_set(old, change_kind):
            return await node.chain.step(change) if change.type != "ADDED" else None
    return None


def _is_set(document: Mapping[str, Any] | None, change_kind: str) -> bool:
    spec = (document or {}).get("spec") or {}
    if change_kind == UNSCHEDULABLE:
        return bool(spec.get("unschedulable"))
    return any(f"taint {taint.get('key')}" == change_kind for taint in spec.get("taints") or ())


def _used(pods: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Sums of the pods' requests by node."""
    used: dict[str, dict[str, int]] = {}
    for document in pods:
        pod = typed(document, Pod)
        if not pod.spec.node_name or is_terminal(pod):
            continue
        total = used.setdefault(pod.spec.node_name, {})
        for name, amount in effective_requests(pod).items():
            total[name] = total.get(name, 0) + amount
    return used


def _allocatable(allocatable: Mapping[str, str], resource: str) -> int:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": dict(allocatable)}}]}}
    return effective_requests(typed(pod, Pod)).get(resource, 0)


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if resource in ("memory", "ephemeral-storage") and amount >= size:
            return f"{amount / size:.4g}{unit}"
    return str(amount)


def _node_count(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _shown_names(names: list[str]) -> str:
    names_text = ", ".join(names[:_MAX_NAMES])
    return f"{names_text} and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else names_text
