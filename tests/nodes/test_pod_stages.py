"""Which step comes next for a pod on a simulated node."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.core import Pod
from pilothouse.nodes import Profile, pod_status
from pilothouse.nodes.addresses import PodAddresses, node_address
from pilothouse.nodes.pod_stages import REST, Memory, Remove, Stage, Step, Wait, Write, decide, note, stage_of

PROFILE = Profile(accept_delay=1, start_delay=2, ready_delay=4, stop_delay=8, remove_delay=16)
ALL = dict.fromkeys(pod_status.OWNED, "True")


def pod(
    phase: str = "Pending", *, grace: int | None = None, conditions: dict[str, str] | None = None, **spec: Any
) -> Pod:
    metadata: dict[str, Any] = {"uid": "u"}
    if grace is not None:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
    listed = [{"type": kind, "status": status} for kind, status in (conditions or {}).items()]
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": listed}}, Pod)


GATED: dict[str, Any] = {"readinessGates": [{"conditionType": "lb"}]}


@pytest.mark.parametrize(
    ("stage", "seen", "waited", "expected"),
    [
        pytest.param(Stage.BOUND, pod(), 0.25, Wait(0.75), id="bound: not seen yet"),
        pytest.param(Stage.BOUND, pod(), 1, Write(Stage.ACCEPTED), id="bound: accepted in time"),
        pytest.param(Stage.ACCEPTED, pod(), 1, Wait(1), id="accepted: containers are being created"),
        pytest.param(Stage.ACCEPTED, pod(), 2, Write(Stage.RUNNING), id="accepted: they run"),
        pytest.param(Stage.RUNNING, pod("Running"), 3, Wait(1), id="running: not ready yet"),
        pytest.param(Stage.RUNNING, pod("Running"), 4, Write(Stage.READY), id="running: ready"),
        pytest.param(Stage.READY, pod("Running", conditions=ALL), 99, REST, id="ready: nothing to do"),
        pytest.param(
            Stage.READY, pod("Running", conditions={**ALL, "Ready": "False"}), 99, Wait(10), id="ready: contradicted"
        ),
        pytest.param(
            Stage.READY,
            pod("Running", conditions={**ALL, "lb": "False"}, **GATED),
            99,
            Write(Stage.READY),
            id="ready: a gate closed, told at once",
        ),
        pytest.param(
            Stage.READY,
            pod("Running", conditions={**ALL, "Ready": "False", "lb": "False"}, **GATED),
            99,
            REST,
            id="ready: a closed gate was told",
        ),
        pytest.param(Stage.ACCEPTED, pod("Failed"), 99, REST, id="ended by somebody: left alone"),
        pytest.param(Stage.BOUND, pod(grace=30), 0, Write(Stage.STOPPED), id="deleted before it was seen"),
        pytest.param(Stage.ACCEPTED, pod(grace=30), 0, Write(Stage.STOPPED), id="deleted before it ran"),
        pytest.param(Stage.RUNNING, pod("Running", grace=30), 0, Wait(8), id="deleted while running: takes its time"),
        pytest.param(Stage.READY, pod("Running", grace=3), 0, Wait(3), id="never longer than its grace period"),
        pytest.param(
            Stage.READY, pod("Running", grace=0), 0, Write(Stage.STOPPED, killed=True), id="forced: killed at once"
        ),
        pytest.param(Stage.STOPPED, pod("Succeeded", grace=30), 15, Wait(1), id="stopped: cleaning up"),
        pytest.param(Stage.STOPPED, pod("Succeeded", grace=30), 16, Remove(), id="stopped: removed"),
        pytest.param(Stage.READY, pod("Failed", grace=30), 99, Remove(), id="ended by somebody, then deleted: removed"),
        pytest.param(Stage.STOPPED, pod("Failed", grace=0), 99, REST, id="only finalizers keep it"),
    ],
)
def test_next_step(stage: Stage, seen: Pod, waited: float, expected: Step) -> None:
    memory = Memory(uid="u", stage=stage, since=100.0)
    note(seen, memory, 100.0 + waited)
    assert decide(seen, memory, 100.0 + waited, PROFILE) == expected


def test_without_a_ready_delay_running_and_ready_are_one_write() -> None:
    memory = Memory(uid="u", stage=Stage.ACCEPTED, since=0.0)
    assert decide(pod(), memory, 9.0, Profile()) == Write(Stage.READY)


def test_what_was_removed_is_not_removed_again() -> None:
    memory = Memory(uid="u", stage=Stage.STOPPED, since=0.0, finished=True)
    note(pod("Succeeded", grace=30), memory, 99.0)
    assert decide(pod("Succeeded", grace=30), memory, 99.0, PROFILE) == REST


def test_a_shorter_grace_period_counts_from_when_it_is_given() -> None:
    memory = Memory(uid="u", stage=Stage.READY, since=0.0)
    profile = Profile(stop_delay=60)
    steps = []
    for now, grace in ((100, 50), (110, 50), (120, 5), (122, 5), (125, 5)):
        seen = pod("Running", grace=grace)
        note(seen, memory, float(now))
        steps.append(decide(seen, memory, float(now), profile))
    assert steps == [Wait(50), Wait(40), Wait(5), Wait(3), Write(Stage.STOPPED, killed=True)]


@pytest.mark.parametrize(
    ("seen", "stage"),
    [
        pytest.param(pod(), Stage.BOUND, id="just bound"),
        pytest.param(pod("Running", conditions={"ContainersReady": "False"}), Stage.RUNNING, id="not ready yet"),
        pytest.param(
            pod("Running", conditions={"ContainersReady": "True", "Ready": "False"}), Stage.READY, id="a gate is closed"
        ),
        pytest.param(pod("Failed"), Stage.STOPPED, id="ended"),
    ],
)
def test_where_a_pod_stands_that_was_there_before(seen: Pod, stage: Stage) -> None:
    assert stage_of(seen) is stage


@given(
    st.integers(0, 4).map(Stage),
    st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"]),
    st.none() | st.integers(0, 60),
    st.floats(0, 1e6),
    st.floats(0, 100),
)
def test_a_wait_ends_and_an_end_is_an_end(
    stage: Stage, phase: str, grace: int | None, since: float, waited: float
) -> None:
    """Waiting as long as told leads to something else than waiting; terminal phases are never written again."""
    memory = Memory(uid="u", stage=stage, since=since)
    seen, now = pod(phase, grace=grace, conditions=ALL), since + waited
    note(seen, memory, now)
    step = decide(seen, memory, now, PROFILE)
    for _ in range(3):  # rounding may leave a rest, once
        if not isinstance(step, Wait):
            break
        assert step.seconds > 0
        now += step.seconds
        note(seen, memory, now)
        step = decide(seen, memory, now, PROFILE)
    assert not isinstance(step, Wait)
    if phase in ("Succeeded", "Failed"):
        assert not isinstance(step, Write)
    if isinstance(step, Write) and grace is None:
        assert step.stage > stage or step.stage is Stage.READY


def test_addresses_in_use_are_not_given_away() -> None:
    addresses = PodAddresses()
    addresses.hold("10.128.0.2", "other")
    assert [addresses.take("a"), addresses.take("b")] == ["10.128.0.1", "10.128.0.3"]
    addresses.release("10.128.0.1", "somebody else")
    addresses.release("10.128.0.2", "other")
    assert addresses.take("c") == "10.128.0.4", "freed ones come last"


def test_nodes_have_addresses_of_their_own() -> None:
    assert [node_address(0), node_address(255)] == ["10.64.0.1", "10.64.1.0"]
