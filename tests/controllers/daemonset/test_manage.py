"""Pods to create and delete on one node. Rows mirror v1.36 ``pkg/controller/daemon/daemon_controller_test.go``."""

from tests.controllers.daemonset.daemons import NOW, PLAIN, SURGE, ago, node_pods, pod
from tests.tables import cases

from pilothouse.controllers.workloads.daemonset.manage import NOTHING, NodeChanges, pods_should_be_on_node
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules

PATIENT = Rules(revision_hash="new", surges=True, min_ready_seconds=60)


@cases(
    "on_node, rules, expected",
    {
        "no pod: create": (node_pods(), PLAIN, NodeChanges(create=True)),  # TestSimpleDaemonSetLaunchesPods
        "one pod: nothing": (node_pods(pod("a")), PLAIN, NOTHING),
        "should not run, no pod": (node_pods(run=False), PLAIN, NOTHING),
        "should not start, no pod": (node_pods(run=False, stay=True), PLAIN, NOTHING),
        "should not run: the pod is deleted": (node_pods(pod("a"), run=False), PLAIN, NodeChanges(delete=("a",))),
        # TestSelectorDaemonDeletesUnselectedPods, TestNoExecuteTaintedDoesEvicitRunningIntolerantPod
        "should continue to run": (node_pods(pod("a"), run=False, stay=True), PLAIN, NOTHING),
        # TestNoScheduleTaintedDoesntEvicitRunningIntolerantPod
        "should not run: the pod terminates already": (node_pods(pod("a", deleted=True), run=False), PLAIN, NOTHING),
        "should not run: the other pod is deleted": (
            node_pods(pod("a"), pod("b", deleted=True), run=False),
            PLAIN,
            NodeChanges(delete=("a",)),
        ),
        "a terminating pod delays the new one": (
            node_pods(pod("a", deleted=True)),
            PLAIN,
            NOTHING,
        ),  # TestDaemonSetRespectsTermination
        "a terminating failed pod is replaced: kubernetes#95711": (
            node_pods(pod("a", deleted=True, phase="Failed")),
            PLAIN,
            NodeChanges(create=True),
        ),
        "two: the newer one is deleted": (
            node_pods(pod("b", created=ago(minutes=1)), pod("a", created=ago(minutes=2))),
            PLAIN,
            NodeChanges(delete=("b",)),
        ),  # TestDealsWithExistingPods
        "two: the unscheduled one is deleted": (
            node_pods(pod("a", pinned="n1", created=ago(minutes=2)), pod("b", created=ago(minutes=1))),
            PLAIN,
            NodeChanges(delete=("a",)),
        ),
        "two of equal age: by name": (
            node_pods(pod("b", created=NOW), pod("a", created=NOW)),
            PLAIN,
            NodeChanges(delete=("b",)),
        ),
        "failed: it is deleted, no create yet": (
            node_pods(pod("a", phase="Failed")),
            PLAIN,
            NodeChanges(delete=("a",), failed="a"),
        ),  # TestDaemonKillFailedPods
        "two failed: one per sync": (
            node_pods(pod("a", phase="Failed"), pod("b", phase="Failed")),
            PLAIN,
            NodeChanges(delete=("a",), failed="a", waits=True),
        ),
        "succeeded: it is deleted too": (
            node_pods(pod("a", phase="Succeeded")),
            PLAIN,
            NodeChanges(delete=("a",), succeeded=("a",)),
        ),  # TestDaemonKillSucceededPods
        "failed and running": (
            node_pods(pod("a", phase="Failed"), pod("b")),
            PLAIN,
            NodeChanges(delete=("a",), failed="a"),
        ),
        "failed and three running: all but the oldest are deleted": (
            node_pods(pod("a", phase="Failed"), pod("b"), pod("c"), pod("d")),
            PLAIN,
            NodeChanges(delete=("a", "c", "d"), failed="a"),
        ),  # TestDaemonKillFailedPods: "1 failed pod (kill 1), 3 normal pods (kill 2)"
        "failed and terminating": (node_pods(pod("a", phase="Failed", deleted=True), pod("b")), PLAIN, NOTHING),
        "missing node: only unscheduled pods are deleted": (
            node_pods(pod("a", pinned="n1"), pod("b"), exists=False),
            PLAIN,
            NodeChanges(delete=("a",)),
        ),  # TestDeletePodForNotExistingNode
        # During a surge
        "surge, no pod: create": (node_pods(), SURGE, NodeChanges(create=True)),
        "surge: a terminating pod does not delay the new one": (
            node_pods(pod("a", deleted=True)),
            SURGE,
            NodeChanges(create=True),
        ),  # TestSurgeCreatesNewPodWhenAtMaxSurgeAndOldPodDeleted
        "surge, should continue to run: no new pod": (
            node_pods(pod("a", deleted=True), run=False, stay=True),
            SURGE,
            NOTHING,
        ),
        "surge: the new pod is available": (
            node_pods(pod("a", hash="old"), pod("b")),
            SURGE,
            NodeChanges(delete=("a",)),
        ),
        "surge: the old pod stays until the new one is available": (
            node_pods(pod("a", hash="old"), pod("b", ready=False)),
            SURGE,
            NOTHING,
        ),  # TestSurgePreservesReadyOldPods
        "surge: the old pod is not ready": (
            node_pods(pod("a", hash="old", ready=False), pod("b", ready=False)),
            SURGE,
            NodeChanges(delete=("a",)),
        ),
        "surge: the oldest old pod is not ready, excess old pods are deleted": (
            node_pods(
                pod("a", hash="", created=ago(seconds=100), ready=False),
                pod("b", hash="", created=ago(seconds=90)),
                pod("c", created=ago(seconds=50), ready=False),
            ),
            SURGE,
            NodeChanges(delete=("b", "a")),
        ),  # TestSurgeDeletesUnreadyOldPods
        "surge: the oldest old pod stays, excess old pods are deleted": (
            node_pods(
                pod("a", hash="", created=ago(seconds=100)),
                pod("b", hash="", created=ago(seconds=90)),
                pod("c", created=ago(seconds=50), ready=False),
            ),
            SURGE,
            NodeChanges(delete=("b",)),
        ),  # TestSurgePreservesReadyOldPods
        "two of equal age: the ready one stays": (
            node_pods(pod("a", created=NOW, ready=False), pod("b", created=NOW)),
            PLAIN,
            NodeChanges(delete=("a",)),
        ),
        "surge: the new one is ready, but not for long enough": (
            node_pods(pod("a", hash="old"), pod("b", since=ago(seconds=50))),
            PATIENT,
            NOTHING,
        ),  # TestSurgePreservesOldReadyWithUnsatisfiedMinReady
        "surge: the new one is ready for long enough": (
            node_pods(pod("a", hash="old"), pod("b", since=ago(seconds=61))),
            PATIENT,
            NodeChanges(delete=("a",)),
        ),
        "surge: all old pods are deleted": (
            node_pods(
                pod("a", hash="", created=ago(seconds=100)),
                pod("b", hash="", created=ago(seconds=90)),
                pod("c", created=ago(seconds=80), since=ago(seconds=61)),
            ),
            PATIENT,
            NodeChanges(delete=("b", "a")),
        ),  # TestSurgeDeletesOldReadyWithUnsatisfiedMinReady
        "surge: for the old one being ready is enough": (
            node_pods(pod("a", hash="old", since=ago(seconds=5)), pod("b", ready=False)),
            PATIENT,
            NOTHING,
        ),
        "surge: the oldest new pod and the oldest old pod stay": (
            node_pods(
                pod("a", created=ago(minutes=4), ready=False),
                pod("b", created=ago(minutes=3), hash="old"),
                pod("c", created=ago(minutes=2)),
                pod("d", created=ago(minutes=1), hash="older"),
            ),
            SURGE,
            NodeChanges(delete=("c", "d")),
        ),  # TestSurgeDealsWithExistingPods
    },
)
def test_pods_should_be_on_node(on_node: NodePods, rules: Rules, expected: NodeChanges) -> None:
    assert pods_should_be_on_node(on_node, rules, NOW) == expected


def test_failed_pod_is_deleted_after_the_backoff_of_its_node() -> None:
    """TestDaemonKillFailedPodsBackoff."""
    failed = node_pods(pod("a", phase="Failed"), pod("b", phase="Succeeded"))
    assert pods_should_be_on_node(failed, PLAIN, NOW, in_backoff=True) == NodeChanges(
        delete=("b",), succeeded=("b",), waits=True
    )


def test_replacement_of_a_failed_surge_pod_waits_for_the_backoff() -> None:
    """Unlike upstream, which recreates pods immediately if a kubelet rejects them."""
    failed = node_pods(pod("a", phase="Failed"))
    assert pods_should_be_on_node(failed, SURGE, NOW, in_backoff=True) == NodeChanges(waits=True)
    assert pods_should_be_on_node(failed, SURGE, NOW) == NodeChanges(create=True, delete=("a",), failed="a")
