"""The nodes of one DaemonSet, each with its pods, its decision and its share of the status, updated with every change.

A DaemonSet is synced after nearly every event of its pods. Upstream examines all nodes each time, tens of milliseconds
for 5,000 of them. Here the result for each node is kept, and computed again only if a pod or the node has changed.
Handlers put pods and touch nodes; a sync calls ``manage``, ``rolling`` and ``status`` per node and keeps the sums. They
always equal those of a full count; a test compares them.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.daemonset.manage import NOTHING, pods_should_be_on_node
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules, in_order, waits_for_time
from pilothouse.controllers.workloads.daemonset.nodes import NodeTable
from pilothouse.controllers.workloads.daemonset.placement import MUST_NOT_RUN, Placements
from pilothouse.controllers.workloads.daemonset.pod_template import target_node
from pilothouse.controllers.workloads.daemonset.rolling import Counts, Move, Step, step_of
from pilothouse.controllers.workloads.daemonset.status import StatusCounts, count_node
from pilothouse.machinery.labels import Selector
from pilothouse.runtime import object_key


class _Report(msgspec.Struct, frozen=True, gc=False):
    """The result for one node at the last sync."""

    counted: StatusCounts
    step: Step | None


class NodeToDaemonPods:
    """See the module. Call ``sync`` before reading; nothing changes between two syncs."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._unread: dict[str, None] = {}
        self._touched: dict[str, None] = {}
        self._at: dict[str, str] = {}
        self._on: dict[str, dict[str, Pod]] = {}
        self._strays: dict[str, Pod] = {}
        self._reports: dict[str, _Report] = {}
        self._waiting: dict[str, None] = {}
        self._needy: dict[str, None] = {}
        self._moves: dict[Move, dict[str, str]] = {move: {} for move in Move}
        self._head = [0, 0, 0, 0, 0, 0]
        self._steps = [0, 0, 0]
        self._rules: Rules | None = None
        self._placements: Placements | None = None
        self._selector: Selector | None = None

    # Called by handlers

    def put(self, pod: Pod) -> None:
        """A pod that the owner controls was added or changed."""
        key = object_key(pod.metadata)
        self._pods[key] = pod
        self._unread[key] = None

    def drop(self, key: str) -> None:
        if self._pods.pop(key, None) is not None:
            self._unread[key] = None

    def touch(self, node: str) -> None:
        self._touched[node] = None

    @property
    def empty(self) -> bool:
        """Whether there is no pod on it."""
        return not self._pods

    # The sync

    def sync(
        self,
        rules: Rules,
        selector: Selector,
        placements: Placements,
        nodes: NodeTable,
        now: datetime.datetime,
    ) -> None:
        """Compute the nodes that have changed since the last sync, and those whose result depends on the time."""
        if selector is not self._selector:
            self._selector = selector
            self._unread = dict.fromkeys(self._pods | self._at | self._strays)
        for key in self._unread:
            self._place(key, selector)
        self._unread = {}
        if rules != self._rules or placements is not self._placements:
            self._rules, self._placements = rules, placements
            stale: Iterable[str] = sorted({*nodes.names(), *self._on, *self._reports})
        else:
            stale = self._touched | self._waiting
        self._touched = {}
        for name in stale:
            self._evaluate(self._node_pods(name, placements, nodes), rules, now)

    def _place(self, key: str, selector: Selector) -> None:
        old = self._at.pop(key, None)
        if old is not None:
            pods = self._on[old]
            pods.pop(key, None)
            if not pods:
                del self._on[old]
            self._touched[old] = None
        self._strays.pop(key, None)
        pod = self._pods.get(key)
        if pod is None:
            return
        if not selector.matches(pod.metadata.labels):
            self._strays[key] = pod
            return
        node = target_node(pod)
        if node:
            self._at[key] = node
            self._on.setdefault(node, {})[key] = pod
            self._touched[node] = None

    def _node_pods(self, name: str, placements: Placements, nodes: NodeTable) -> NodePods:
        node = nodes.get(name)
        pods = self._on.get(name)
        return NodePods(
            node=name,
            exists=node is not None,
            placement=placements.on(node) if node is not None else MUST_NOT_RUN,
            pods=in_order(pods.values()) if pods else (),
        )

    def _evaluate(self, node_pods: NodePods, rules: Rules, now: datetime.datetime) -> None:
        name = node_pods.node
        old_report = self._reports.pop(name, None)
        if old_report is not None:
            self._add(old_report, -1)
            if old_report.step is not None and old_report.step.move is not None:
                self._moves[old_report.step.move].pop(name, None)
        if pods_should_be_on_node(node_pods, rules, now) is NOTHING:
            self._needy.pop(name, None)
        else:
            self._needy[name] = None
        if waits_for_time(node_pods, rules, now):
            self._waiting[name] = None
        else:
            self._waiting.pop(name, None)
        if not node_pods.exists and not node_pods.pods:
            return
        report = self._reports[name] = _Report(count_node(node_pods, rules, now), step_of(node_pods, rules, now))
        self._add(report, 1)
        if report.step is not None and report.step.move is not None:
            self._moves[report.step.move][name] = report.step.pod

    def _add(self, report: _Report, sign: int) -> None:
        totals, counted = self._head, report.counted
        totals[0] += sign * counted.desired
        totals[1] += sign * counted.current
        totals[2] += sign * counted.ready
        totals[3] += sign * counted.available
        totals[4] += sign * counted.updated
        totals[5] += sign * counted.misscheduled
        if report.step is not None:
            self._steps[0] += sign * report.step.unavailable
            self._steps[1] += sign * report.step.surging
            self._steps[2] += sign * report.step.available

    # Results

    @property
    def status_counts(self) -> StatusCounts:
        desired, current, ready, available, updated, misscheduled = self._head
        return StatusCounts(
            desired=desired,
            current=current,
            ready=ready,
            available=available,
            updated=updated,
            misscheduled=misscheduled,
        )

    @property
    def counts(self) -> Counts:
        unavailable, surging, available = self._steps
        return Counts(desired=self._head[0], unavailable=unavailable, surging=surging, available=available)

    @property
    def moves(self) -> dict[Move, dict[str, str]]:
        """Nodes that allow a move, with their old pods. Not to be kept."""
        return self._moves

    def nodes_with_changes(
        self, placements: Placements, nodes: NodeTable, *, creates_enough: Callable[[], bool] = lambda: False
    ) -> Iterator[NodePods]:
        """The nodes with missing or excess pods, in the order in which they became so. Once ``creates_enough``, nodes
        without any pod, for which the only decision is a create, are left out."""
        for name in self._needy:
            if name in self._on or not creates_enough():
                yield self._node_pods(name, placements, nodes)

    def non_matching_pods(self) -> list[Pod]:
        """Pods of the owner that its selector does not match."""
        return list(self._strays.values())

    def pods(self) -> list[Pod]:
        """All pods that the selector matched at the last sync, and that are still there."""
        return [pod for key in self._at if (pod := self._pods.get(key)) is not None]

    def has_pod_on(self, node: str) -> bool:
        """Whether a pod is on that node or pinned to it."""
        return node in self._on

    def counts_on(self, node: str) -> bool:
        """Whether the node is part of the last counts."""
        report = self._reports.get(node)
        return report is not None and (bool(report.counted.desired) or node in self._on)


class DaemonPods:
    """The state per DaemonSet, by the index key of the owner."""

    def __init__(self) -> None:
        self._daemon_pods: dict[str, NodeToDaemonPods] = {}
        self._alive: dict[str, None] = {}
        self._owner_of: dict[str, str] = {}

    def of(self, owner: str) -> NodeToDaemonPods:
        """The state of an existing owner."""
        self._alive[owner] = None
        node_pods = self._daemon_pods.get(owner)
        if node_pods is None:
            node_pods = self._daemon_pods[owner] = NodeToDaemonPods()
        return node_pods

    def put(self, pod: Pod, owner: str | None) -> None:
        """The pod was added or changed; ``owner`` controls it, or no DaemonSet does."""
        key = object_key(pod.metadata)
        previous_owner = self._owner_of.get(key)
        if previous_owner is not None and previous_owner != owner:
            self._leave(key, previous_owner)
        if owner is None:
            return
        self._owner_of[key] = owner
        node_pods = self._daemon_pods.get(owner)
        if node_pods is None:
            node_pods = self._daemon_pods[owner] = NodeToDaemonPods()
        node_pods.put(pod)

    def drop(self, key: str) -> None:
        previous_owner = self._owner_of.get(key)
        if previous_owner is not None:
            self._leave(key, previous_owner)

    def forget(self, owner: str) -> None:
        """The owner was deleted. Its state is kept until its last pod is deleted."""
        self._alive.pop(owner, None)
        self._cleanup(owner)

    def touch(self, node: str) -> None:
        """The node was added, changed or deleted."""
        for node_pods in self._daemon_pods.values():
            node_pods.touch(node)

    def _leave(self, key: str, previous_owner: str) -> None:
        del self._owner_of[key]
        self._daemon_pods[previous_owner].drop(key)
        self._cleanup(previous_owner)

    def _cleanup(self, owner: str) -> None:
        node_pods = self._daemon_pods.get(owner)
        if node_pods is not None and node_pods.empty and owner not in self._alive:
            del self._daemon_pods[owner]
