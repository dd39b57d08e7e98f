"""Which events enqueue which DaemonSet. Rows mirror v1.36 ``pkg/controller/daemon/daemon_controller_test.go``."""

from collections.abc import Callable
from typing import Any

import msgspec
from tests.controllers.daemonset.daemons import NOW, OWNER, PLAIN, daemon_set, node, pod, taint
from tests.controllers.gates import gate
from tests.tables import cases

from pilothouse.api.apps import DAEMON_SETS, DaemonSet
from pilothouse.api.core import Node, NodeStatus, Pod, PodSpec
from pilothouse.api.meta import LabelSelector
from pilothouse.controllers.workloads.daemonset.blueprint import Blueprints
from pilothouse.controllers.workloads.daemonset.node_events import NodeEvents
from pilothouse.controllers.workloads.daemonset.node_to_daemon_pods import DaemonPods, NodeToDaemonPods
from pilothouse.controllers.workloads.daemonset.nodes import NodeTable
from pilothouse.controllers.workloads.daemonset.placement import Placements, node_requirements_of
from pilothouse.controllers.workloads.daemonset.pod_events import DaemonEvents
from pilothouse.env import Env, Log
from pilothouse.machinery.labels import selector_from
from pilothouse.runtime import Cache, WorkQueue

Doc = dict[str, Any]
BLUE = {"color": "blue", "speed": "fast"}


def owned_by(name: str) -> Pod:
    """A pod that the DaemonSet of that name controls."""
    owned_pod = pod(f"pod-of-{name}")
    reference = msgspec.structs.replace(OWNER, name=name, uid=f"uid-of-{name}")
    return with_meta(owned_pod, owner_references=(reference,))


def with_meta(obj: Pod, **changes: Any) -> Pod:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **changes))


ORPHAN = with_meta(pod("orphan"), owner_references=())
OF_ONE = owned_by("one")


def later(update: Pod, **changes: Any) -> Pod:
    return with_meta(update, resource_version="2", **changes)


@cases(
    "event, enqueued",
    {
        "TestAddPod": (lambda events: events.add_pod(OF_ONE, False), ["one"]),
        "TestAddPodOrphan": (lambda events: events.add_pod(ORPHAN, False), ["one", "two"]),
        "TestUpdatePod": (lambda events: events.update_pod(OF_ONE, later(OF_ONE)), ["one"]),
        "a resync": (lambda events: events.update_pod(OF_ONE, OF_ONE), []),
        "TestUpdatePodOrphanSameLabels": (lambda events: events.update_pod(ORPHAN, later(ORPHAN)), []),
        "TestUpdatePodOrphanWithNewLabels": (
            lambda events: events.update_pod(with_meta(ORPHAN, labels={"foo2": "bar2"}), later(ORPHAN)),
            ["one", "two"],
        ),
        "TestUpdatePodChangeControllerRef": (
            lambda events: events.update_pod(
                with_meta(owned_by("two"), name="p", uid="p"), later(OF_ONE, name="p", uid="p")
            ),
            ["one", "two"],
        ),
        "TestUpdatePodControllerRefRemoved": (
            lambda events: events.update_pod(OF_ONE, later(OF_ONE, owner_references=())),
            ["one", "two"],
        ),
        "TestDeletePod": (lambda events: events.delete_pod(OF_ONE, False), ["one"]),
        "TestDeletePodOrphan": (lambda events: events.delete_pod(ORPHAN, False), []),
        "TestDeleteNoDaemonPod: with a controller": (lambda events: events.delete_pod(owned_by("nobody"), False), []),
        "TestDeleteNoDaemonPod: without": (lambda events: events.delete_pod(with_meta(ORPHAN, labels={}), False), []),
        "TestDeleteFinalStateUnknown": (lambda events: events.delete_owner(named("one"), True), ["one"]),
    },
)
async def test_events_enqueue_matching_daemon_sets(
    env: Env, event: Callable[[DaemonEvents], None], enqueued: list[str]
) -> None:
    """DaemonSets one and two select app=agent, three selects something else."""
    owners: Cache[DaemonSet] = Cache()
    for name in ("one", "two"):
        owners.put(f"default/{name}", named(name))
    owners.put("default/three", named("three", app="other"))
    queue: WorkQueue[str] = WorkQueue(env)
    log = Log("test")
    blueprints = Blueprints(log)
    events = DaemonEvents(
        gate(env, DAEMON_SETS, owners, lambda owner: blueprints.of(owner).selector),
        queue,
        log,
        daemon_pods=DaemonPods(),
        blueprints=blueprints,
    )
    event(events)
    assert sorted([await queue.get() for _ in range(len(queue))]) == [f"default/{name}" for name in enqueued]


def named(name: str, app: str = "agent") -> DaemonSet:
    """A DaemonSet of that name."""
    named_set = daemon_set()
    spec = msgspec.structs.replace(named_set.spec, selector=LabelSelector(match_labels={"app": app}))
    meta = msgspec.structs.replace(named_set.metadata, name=name, uid=f"uid-of-{name}")
    return msgspec.structs.replace(named_set, metadata=meta, spec=spec)


ALLOCATABLE = msgspec.structs.replace(node(), status=NodeStatus(allocatable={"cpu": "200m"}))


@cases(
    "old, new, template, synced, enqueued",
    {
        "TestAddNode: no DaemonSet matches": (None, node(), {"nodeSelector": BLUE}, True, False),
        "TestAddNode: matching node": (None, node("n1", BLUE), {"nodeSelector": BLUE}, True, True),
        "nothing changed": (node(), node(), {"nodeSelector": BLUE}, False, False),
        "the labels changed": (node(), node("n1", BLUE), {"nodeSelector": BLUE}, True, True),
        "the taints changed": (node("n1", None, taint("a")), node(), {}, True, True),
        "the resources changed": (node(), ALLOCATABLE, {}, False, False),
    },
)
async def test_only_label_and_taint_updates_of_a_node_enqueue(
    env: Env, old: Node | None, new: Node, template: Doc, synced: bool, enqueued: bool
) -> None:
    """TestUpdateNode, TestAddNode, TestShouldIgnoreNodeUpdate."""
    owners: Cache[DaemonSet] = Cache()
    owners.put("default/agent", daemon_set(template))
    changed: WorkQueue[str] = WorkQueue(env)
    queue: WorkQueue[str] = WorkQueue(env)
    events = NodeEvents(
        owners=owners,
        nodes=NodeTable(),
        daemon_pods=DaemonPods(),
        blueprints=Blueprints(Log("test")),
        changed=changed,
        queue=queue,
    )
    if old is None:
        events.add_node(new, False)
    else:
        events.add_node(old, True)
        assert await changed.get() == "n1"
        changed.done("n1")
        events.update_node(old, new)
    assert len(changed) == (1 if synced else 0)
    if synced:
        await events.sync_node(await changed.get())
    assert len(queue) == (1 if enqueued else 0)


def test_get_nodes_to_daemon_pods() -> None:
    """TestGetNodesToDaemonPods: terminated pods that are terminating are not listed, but keep their revision."""
    node_pods, nodes = NodeToDaemonPods(), NodeTable()
    nodes.put(node("n0"))
    nodes.put(node("n1"))
    for item in (
        pod("owned-0", on="n0"),
        pod("owned-1", on="n1"),
        pod("succeeded", on="n0", phase="Succeeded"),
        pod("failed", on="n1", phase="Failed"),
        pod("gone-0", on="n0", phase="Succeeded", deleted=True),
        pod("gone-1", on="n1", phase="Failed", deleted=True, hash="older"),
        pod("stranger", on="n0", labels={"app": "other"}),
    ):
        node_pods.put(item)
    selector = selector_from(LabelSelector(match_labels={"app": "agent"}))
    placements = Placements(node_requirements_of(PodSpec()))
    node_pods.sync(PLAIN, selector, placements, nodes, NOW)
    counted = {
        on_node.node: [one.metadata.name for one in on_node.pods]
        for on_node in node_pods.nodes_with_changes(placements, nodes)
    }
    assert counted == {"n0": ["owned-0", "succeeded"], "n1": ["failed", "owned-1"]}
    carried = {on_node.metadata.labels["controller-revision-hash"] for on_node in node_pods.pods()}
    assert carried == {"new", "older"}
    assert [on_node.metadata.name for on_node in node_pods.non_matching_pods()] == ["stranger"]
