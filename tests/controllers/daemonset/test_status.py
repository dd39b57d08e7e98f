"""DaemonSet status.

Rows mirror v1.36 ``pkg/controller/daemon/daemon_controller_test.go`` (TestNumberReadyStatus, TestObservedGeneration,
TestSimpleDaemonSetUpdatesStatusAfterLaunchingPods).
"""

import msgspec
from tests.controllers.daemonset.daemons import NOW, PLAIN, ago, daemon_set, node_pods, pod
from tests.tables import cases

from pilothouse.api.apps import DaemonSetStatus
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules
from pilothouse.controllers.workloads.daemonset.status import NONE, StatusCounts, count_node, encode, next_status


@cases(
    "on_node, expected",
    {
        "missing pod": (node_pods(), StatusCounts(desired=1)),
        "available pod": (node_pods(pod("a")), StatusCounts(desired=1, current=1, ready=1, available=1, updated=1)),
        "pod not ready": (node_pods(pod("a", ready=False)), StatusCounts(desired=1, current=1, updated=1)),
        "outdated pod": (node_pods(pod("a", hash="old")), StatusCounts(desired=1, current=1, ready=1, available=1)),
        "should not run": (node_pods(pod("a"), run=False), StatusCounts(misscheduled=1)),
        "should continue to run": (node_pods(pod("a"), run=False, stay=True), StatusCounts(misscheduled=1)),
        "should not run, no pod": (node_pods(run=False), NONE),
        "missing node": (node_pods(pod("a"), exists=False), NONE),
        "a terminating pod is counted": (
            node_pods(pod("a", deleted=True)),
            StatusCounts(desired=1, current=1, ready=1, available=1, updated=1),
        ),
        "a terminating failed pod is not counted": (
            node_pods(pod("a", phase="Failed", ready=False, deleted=True)),
            StatusCounts(desired=1),
        ),
        "the oldest of two pods is counted": (
            node_pods(pod("a", hash="old", created=ago(hours=1)), pod("b", created=ago(minutes=1), ready=False)),
            StatusCounts(desired=1, current=1, ready=1, available=1),
        ),
    },
)
def test_node_is_counted_by_its_oldest_pod(on_node: NodePods, expected: StatusCounts) -> None:
    assert count_node(on_node, PLAIN, NOW) == expected


def test_ready_pod_is_not_available_before_min_ready_seconds() -> None:
    rules = Rules(revision_hash="new", min_ready_seconds=60)
    assert count_node(node_pods(pod("a", since=ago(seconds=59))), rules, NOW).available == 0
    assert count_node(node_pods(pod("a", since=ago(seconds=60))), rules, NOW).available == 1


SEEN = StatusCounts(desired=3, current=3, ready=2, available=2, updated=1)
REPORTED = DaemonSetStatus(
    current_number_scheduled=3,
    desired_number_scheduled=3,
    number_ready=2,
    updated_number_scheduled=1,
    number_available=2,
    number_unavailable=1,
    observed_generation=1,
)


def test_unchanged_status_is_not_written() -> None:
    assert next_status(daemon_set(status=REPORTED), SEEN, observed=True) is None


def test_observed_generation_is_updated_after_the_sync() -> None:
    owner = daemon_set(generation=2, status=REPORTED)
    acted = next_status(owner, SEEN, observed=True)
    assert acted is not None
    assert acted.observed_generation == 2
    looked = next_status(owner, SEEN, observed=False)
    assert looked is not None, "upstream writes here too: the generation is behind"
    assert looked.observed_generation == 1


def test_collision_count_is_kept() -> None:
    status = msgspec.structs.replace(REPORTED, collision_count=2, number_ready=0)
    written = next_status(daemon_set(status=status), SEEN, observed=True)
    assert written is not None
    assert written.collision_count == 2


def test_optional_zero_fields_are_omitted() -> None:
    before = b'{"collisionCount":1,"conditions":[{"type":"X"}],"numberAvailable":5,"future":[1]}'
    assert msgspec.json.decode(encode(DaemonSetStatus(number_ready=1, observed_generation=3), before)) == {
        "collisionCount": 1,
        "conditions": [{"type": "X"}],
        "future": [1],
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 1,
        "observedGeneration": 3,
    }
