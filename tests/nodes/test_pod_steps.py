"""The next step for a pod on a simulated node."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nodes.pods import instant, pod, runtime_pod
from tests.tables import cases

from pilothouse.nodes import Profile, pod_status
from pilothouse.nodes.addresses import PodAddresses, node_address
from pilothouse.nodes.behaviour import behaviour_of
from pilothouse.nodes.pod_steps import (
    ADMIT,
    DELETE_POD,
    IDLE,
    WRITE_STATUS,
    PodSyncStatus,
    Step,
    Wait,
    WriteStatus,
    decide,
    observe,
    recover,
    update_deadline,
)
from pilothouse.nodes.views import NodePod

PROFILE = Profile(accept_delay=1, start_delay=2, ready_delay=4, stop_delay=8, remove_delay=16)
ALL = dict.fromkeys(pod_status.OWNED, "True")


def bound_pod(phase: str = "Pending", conditions: dict[str, str] | None = None, **parts: Any) -> NodePod:
    listed = [{"type": k, "status": v, "observedGeneration": 3} for k, v in (conditions or {}).items()]
    return pod(status={"phase": phase, "conditions": listed, "startTime": "2026-01-01T12:00:00Z"}, **parts)


def synced(pod_object: NodePod, with_state: bool, written_at: float = 0.0) -> PodSyncStatus:
    """A cached pod observed at 0, and, ``with_state``, its state at that time."""
    sync_status = PodSyncStatus(uid="u", behaviour=behaviour_of(pod_object, PROFILE), annotations={}, seen_at=0.0)
    if with_state:
        sync_status.runtime_pod = runtime_pod(pod_object, PROFILE, until=written_at)
        sync_status.written = pod_status.fingerprint(sync_status.runtime_pod, None)
    return sync_status


GATED: dict[str, Any] = {"readinessGates": [{"conditionType": "lb"}]}
UNREADY = {**ALL, "Ready": "False", "ContainersReady": "False"}
NEW = {**UNREADY, "PodReadyToStartContainers": "False"}


@cases(
    "pod_object, written_at, now, expected",
    {
        "bound: not seen yet": (bound_pod(), None, 0.25, Wait(0.75)),
        "bound: admitted in time": (bound_pod(), None, 1, ADMIT),
        "admitted: containers are being created": (bound_pod(conditions=NEW), 0, 1, Wait(1)),
        "admitted: containers running": (bound_pod(conditions=NEW), 0, 2, WRITE_STATUS),
        "running: not ready yet": (bound_pod("Running", UNREADY), 2, 5, Wait(1)),
        "running: ready": (bound_pod("Running", UNREADY), 2, 6, WRITE_STATUS),
        "ready: nothing to do": (bound_pod("Running", ALL), 6, 99, IDLE),
        "ready: contradicted": (bound_pod("Running", {**ALL, "Ready": "False"}), 6, 99, Wait(10)),
        "ready: a gate becomes false, reported immediately": (
            bound_pod("Running", {**ALL, "lb": "False"}, **GATED),
            6,
            99,
            WRITE_STATUS,
        ),
        "a false gate already reported": (
            bound_pod("Running", {**ALL, "Ready": "False", "lb": "False"}, **GATED),
            6,
            99,
            IDLE,
        ),
        "terminated by another client": (bound_pod("Failed"), 0, 99, IDLE),
        "deleted before it was seen": (bound_pod(grace=30), None, 0, ADMIT),
        "deleted before it ran": (bound_pod(conditions=NEW, grace=30), 0, 0, WRITE_STATUS),
        "deleted while running: probed on": (bound_pod("Running", UNREADY, grace=30), 2, 2, Wait(4)),
        "deleted while running: stops gradually": (bound_pod("Running", ALL, grace=30), 6, 6, Wait(8)),
        "deleted while running: at most its grace period": (bound_pod("Running", ALL, grace=3), 6, 6, Wait(3)),
        "forced: killed at once": (bound_pod("Running", ALL, grace=0), 6, 6, WRITE_STATUS),
        "stopped: cleaning up": (bound_pod("Succeeded", grace=30), None, 0, Wait(16)),
        "terminated, with finalizers": (bound_pod("Failed", grace=0, finalizers=("hold",)), None, 99, IDLE),
        "terminated, without finalizers: deleted later": (bound_pod("Failed", grace=0), None, 99, Wait(16)),
    },
)
def test_next_step(pod_object: NodePod, written_at: float | None, now: float, expected: Step) -> None:
    sync_status = synced(pod_object, written_at is not None, written_at or 0.0)
    observe(pod_object, sync_status, float(now))
    assert decide(pod_object, sync_status, float(now), PROFILE) == expected


def test_stopped_pods_are_removed_once_after_their_delay() -> None:
    pod_object = bound_pod("Succeeded", grace=30)
    sync_status = synced(pod_object, False)
    sync_status.ended_at = 4.0
    observe(pod_object, sync_status, 20.0)
    assert decide(pod_object, sync_status, 20.0, PROFILE) == DELETE_POD
    sync_status.finished = True
    assert decide(pod_object, sync_status, 20.0, PROFILE) == IDLE


def test_a_shorter_grace_period_counts_from_when_it_is_given() -> None:
    profile = Profile(stop_delay=60)
    sync_status = synced(bound_pod("Running", ALL), True, 6.0)
    sync_status.behaviour = behaviour_of(bound_pod(), profile)
    steps = []
    for now, grace in ((100, 50), (110, 50), (120, 5), (122, 5), (125, 5)):
        pod_object = bound_pod("Running", ALL, grace=grace)
        observe(pod_object, sync_status, float(now))
        steps.append(decide(pod_object, sync_status, float(now), profile))
    assert steps == [Wait(50), Wait(40), Wait(5), Wait(3), WRITE_STATUS]
    assert sync_status.runtime_pod is not None
    assert [run.end.code for run in sync_status.runtime_pod.containers if run.end] == [137]


def test_a_deadline_ends_the_pod() -> None:
    pod_object = bound_pod("Running", ALL, activeDeadlineSeconds=60)
    sync_status = synced(pod_object, True, 6.0)
    update_deadline(pod_object, sync_status, instant(0.0))
    observe(pod_object, sync_status, 50.0)
    assert decide(pod_object, sync_status, 50.0, PROFILE) == Wait(10)
    assert decide(pod_object, sync_status, 60.0, PROFILE) == WRITE_STATUS
    assert sync_status.failure is not None
    assert sync_status.failure.reason == "DeadlineExceeded"
    sync_status = synced(bound_pod(), True)
    update_deadline(bound_pod(), sync_status, instant(0.0))
    assert math.isinf(sync_status.deadline_at)


RUNNING = {"running": {"startedAt": "2026-01-01T12:00:10Z"}}
OVER = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T12:00:20Z"}}


@cases(
    "container, policy, expected",
    {
        "no container status": (None, "Always", ("waiting", 0, False)),
        "runs": ({"state": RUNNING, "ready": True, "started": True}, "Always", ("running", 0, True)),
        "runs, not ready": ({"state": RUNNING, "started": True}, "Always", ("running", 0, False)),
        "has ended": ({"state": OVER, "restartCount": 2}, "Never", ("terminated", 2, False)),
        "waits for its restart: the next kubelet starts it at once": (
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": OVER, "restartCount": 2},
            "Always",
            ("terminated", 2, False),
        ),
    },
)
def test_existing_containers(container: dict[str, Any] | None, policy: str, expected: tuple[str, int, bool]) -> None:
    reported = [{"name": "a", **container}] if container else []
    pod_object = pod(policy=policy, status={"startTime": "2026-01-01T12:00:00Z", "containerStatuses": reported})
    result = recover(pod_object, behaviour_of(pod_object, PROFILE), PROFILE, instant(30.0))
    assert result is not None
    (run,) = result.containers
    assert (run.state, run.restarts, run.ready) == expected
    if run.state == "running":
        assert run.since == 10.0


@pytest.mark.parametrize("status", [{}, {"phase": "Failed", "startTime": "2026-01-01T12:00:00Z"}])
def test_pods_that_are_new_or_over_have_no_containers_to_recover(status: dict[str, Any]) -> None:
    pod_object = pod(status=status)
    assert recover(pod_object, behaviour_of(pod_object, PROFILE), PROFILE, instant(0.0)) is None


@given(
    st.booleans(),
    st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"]),
    st.none() | st.integers(0, 60),
    st.floats(0, 1e6),
)
def test_a_wait_ends_and_an_end_is_an_end(with_state: bool, phase: str, grace: int | None, now: float) -> None:
    """After the returned delay the step is not another wait; terminal phases are never overwritten."""
    pod_object = bound_pod(phase, ALL, grace=grace)
    sync_status = synced(pod_object, with_state)
    observe(pod_object, sync_status, now)
    step = decide(pod_object, sync_status, now, PROFILE)
    for _ in range(6):  # each wait may be for another thing, and rounding may leave a rest
        if not isinstance(step, Wait):
            break
        assert step.seconds > 0
        now += step.seconds
        observe(pod_object, sync_status, now)
        step = decide(pod_object, sync_status, now, PROFILE)
    assert not isinstance(step, Wait)
    if phase in ("Succeeded", "Failed"):
        assert not isinstance(step, WriteStatus)


def test_addresses_in_use_are_not_given_away() -> None:
    addresses = PodAddresses()
    addresses.hold("10.128.0.2", "other")
    assert [addresses.take("a"), addresses.take("b")] == ["10.128.0.1", "10.128.0.3"]
    addresses.release("10.128.0.1", "somebody else")
    addresses.release("10.128.0.2", "other")
    assert addresses.take("c") == "10.128.0.4", "freed ones come last"


def test_nodes_have_their_own_addresses() -> None:
    assert [node_address(0), node_address(255)] == ["10.64.0.1", "10.64.1.0"]
