"""What happens in a pod, and when.

Mirrors kubelet v1.36 ``pkg/kubelet/kuberuntime/kuberuntime_manager_test.go`` (``TestComputePodActions*``),
``pkg/kubelet/kubelet_pods_test.go`` (``TestPodPhase*``), client-go ``util/flowcontrol/backoff_test.go``.
"""

import itertools
from typing import Any

import pytest
from tests.nodes.pods import PLAIN, pod, runtime_pod, states

from pilothouse.nodes import Profile
from pilothouse.nodes.behaviour import behaviour_of, parse_timeline
from pilothouse.nodes.containers import CRASH_LOOP, RuntimePod, advance, next_change, reboot, stop, update_behaviour
from pilothouse.nodes.pod_phase import phase_of

ON, OFF, END = ("running", 0, True), ("waiting", 0, False), ("terminated", 0, False)
UNREADY, DONE = ("running", 0, False), ("terminated", 0, True)
SLOW_INITS = Profile(start_delay=0.0, init_run_time=3.0)


@pytest.mark.parametrize(
    ("made", "until", "expected", "phase"),
    [
        pytest.param(pod("a", "b"), 0, [ON, ON], "Running", id="all containers start together"),
        pytest.param(pod(inits=("i", "j")), 2, [UNREADY, OFF, OFF], "Pending", id="the first prepares"),
        pytest.param(
            pod(inits=("i", "j")), 4, [DONE, UNREADY, OFF], "Pending", id="then the second"
        ),
        pytest.param(
            pod(inits=("i", "j")), 6, [DONE, DONE, ON], "Running", id="then the others"
        ),
        pytest.param(
            pod(inits=("s*", "i")), 1, [ON, UNREADY, OFF], "Pending", id="a sidecar runs, the next begins"
        ),
        pytest.param(
            pod(inits=("s*",), annotations={"startup-probe.s": "fail 5s, pass"}), 4,
            [UNREADY, OFF], "Pending", id="a sidecar that has not started keeps the others waiting",
        ),
        pytest.param(
            pod(inits=("s*",), annotations={"startup-probe.s": "fail 5s, pass"}), 5, [ON, ON], "Running",
            id="until its startup probe passes",
        ),
        pytest.param(
            pod(inits=("i",), policy="Never", annotations={"exit-code.i": "2"}), 9, [END, OFF], "Failed",
            id="Never: a failed init container fails the pod",
        ),
        pytest.param(
            pod(inits=("i",), annotations={"exit-code.i": "2"}), 3.5, [END, OFF], "Pending",
            id="Always: a failed init container is tried again",
        ),
        pytest.param(
            pod(inits=("i",), annotations={"exit-code.i": "2,0"}), 9, [("terminated", 1, True), ON], "Running",
            id="and may succeed then",
        ),
        pytest.param(pod(policy="Never", annotations={"exit-code": "0"}), 9, [END], "Succeeded", id="Never: completes"),
        pytest.param(pod(policy="Never", annotations={"exit-code": "3"}), 9, [END], "Failed", id="Never: fails"),
        pytest.param(
            pod(policy="OnFailure", annotations={"exit-code": "0"}), 9, [END], "Succeeded", id="OnFailure: completes"
        ),
        pytest.param(
            pod(policy="OnFailure", annotations={"exit-code": "1,0"}), 9, [("terminated", 1, False)], "Succeeded",
            id="OnFailure: once more, then completes",
        ),
        pytest.param(
            pod(annotations={"exit-code": "0", "run-time": "4s,forever"}), 4.5, [END], "Running",
            id="Always: ended and about to come back",
        ),
        pytest.param(
            pod(annotations={"exit-code": "0", "run-time": "4s,forever"}), 5, [("running", 1, True)], "Running",
            id="Always: back at once",
        ),
        pytest.param(
            pod(annotations={"exit-code": "1"}), 5, [(CRASH_LOOP, 1, False)], "Running", id="the second time it waits"
        ),
        pytest.param(
            pod("a", "b", policy="Never", annotations={"exit-code.b": "1"}), 9, [ON, END], "Running",
            id="one of two has failed: the other runs on",
        ),
        pytest.param(
            pod("a", "b", policy="Never", annotations={"exit-code": "0", "exit-code.b": "1"}), 9, [END, END], "Failed",
            id="one of two has failed, and both are over",
        ),
        pytest.param(
            pod("a", inits=("s*",), policy="Never", annotations={"exit-code": "0"}), 2.5, [ON, END], "Running",
            id="a sidecar outlives the others",
        ),
        pytest.param(
            pod("a", inits=("s*",), policy="Never", annotations={"exit-code": "0"}), 9, [END, END], "Succeeded",
            id="and ends after them",
        ),
        pytest.param(
            pod(annotations={"waiting": "ImagePullBackOff"}), 9, [("ImagePullBackOff", 0, False)], "Pending",
            id="an image that can't be had",
        ),
        pytest.param(
            pod(owner="Job", policy="Never"), 9, [END], "Succeeded", id="a Job's pod completes by itself"
        ),
        pytest.param(
            pod("a", "b", annotations={"readiness-probe.b": "fail 2s, pass 3s, fail"}), 4, [ON, ON], "Running",
            id="readiness as scripted: ready",
        ),
        pytest.param(
            pod("a", "b", annotations={"readiness-probe.b": "fail 2s, pass 3s, fail"}), 5,
            [ON, UNREADY], "Running", id="readiness as scripted: not any more",
        ),
        pytest.param(
            pod(annotations={"readiness-probe": "fail 1s, pass 1s"}), 3, [ON], "Running", id="a script begins again"
        ),
        pytest.param(
            pod(annotations={"liveness-probe": "pass 3s, fail"}), 3, [END], "Running", id="liveness fails: killed"
        ),
        pytest.param(
            pod(containers=[{"name": "a", "image": "x", "readinessProbe": {"initialDelaySeconds": 7}}]), 6,
            [UNREADY], "Running", id="a readiness probe passes after its initial delay, not before",
        ),
        pytest.param(
            pod(containers=[{"name": "a", "image": "x", "readinessProbe": {"initialDelaySeconds": 7}}]), 7,
            [ON], "Running", id="a readiness probe passes after its initial delay",
        ),
    ],
)  # fmt: skip
def test_containers_after_a_while(made: Any, until: float, expected: list[Any], phase: str) -> None:
    profile = SLOW_INITS if any(not c.restart_policy for c in made.spec.init_containers) else PLAIN
    seen = runtime_pod(made, profile, until=float(until))
    assert [row[1:] for row in states(seen)] == expected
    assert phase_of(seen) == phase


def test_restarts_wait_twice_as_long_each_time_up_to_five_minutes() -> None:
    seen = runtime_pod(pod(annotations={"exit-code": "1", "run-time": "0s"}), Profile(start_delay=0.0, restart_gap=0.0))
    starts: list[float] = []
    now = 0.0
    while len(starts) < 9:
        restarts = seen.containers[0].restarts
        advance(seen, now)
        if seen.containers[0].restarts > restarts:
            starts.append(now)
        now = max(now + 0.5, next_change(seen))
    waits = [b - a for a, b in itertools.pairwise(starts)]
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]


def test_ten_minutes_without_a_restart_are_forgiven() -> None:
    seen = runtime_pod(pod(annotations={"exit-code": "1", "run-time": "0s,0s,700s,0s"}), until=714)
    assert [(r.state, r.restarts) for r in seen.containers] == [("waiting", 3)]
    assert seen.containers[0].backoff == 10, "the third restart came at once, the next one waits as at first"


def test_what_a_node_missed_happened_at_its_time() -> None:
    """A node that was away for an hour finds in its containers what has happened meanwhile."""
    step, leap = (runtime_pod(pod(annotations={"exit-code": "1", "run-time": "5s"})) for _ in range(2))
    for now in range(0, 3600, 7):
        advance(step, float(now))
    advance(leap, 3591.0)
    assert leap == step


def test_stopping_ends_all_that_runs_and_nothing_starts_again() -> None:
    seen = runtime_pod(pod("a", "b", annotations={"stop-exit-code.a": "143"}), until=1)
    stop(seen, 5.0)
    advance(seen, 99.0)
    assert [(r.state, r.end.code, r.end.reason) for r in seen.containers if r.end] == [
        ("terminated", 143, "Error"),
        ("terminated", 0, "Completed"),
    ]
    assert phase_of(seen) == "Failed"


@pytest.mark.parametrize(
    ("made", "at_once", "later"),
    [
        pytest.param(pod(), ["terminated"], ["running"], id="started again"),
        pytest.param(pod(policy="Never"), ["terminated"], ["terminated"], id="Never: lost"),
        pytest.param(pod(inits=("i",)), ["waiting", "terminated"], ["terminated", "running"], id="prepared again"),
        pytest.param(pod(inits=("s*",)), ["terminated", "terminated"], ["running", "running"], id="sidecars too"),
        pytest.param(
            pod(inits=("i",), policy="OnFailure"),
            ["terminated", "terminated"],
            ["terminated", "running"],
            id="OnFailure: prepared once",
        ),
    ],
)
def test_a_boot_ends_what_ran(made: Any, at_once: list[str], later: list[str]) -> None:
    seen = runtime_pod(made, until=1)
    reboot(seen, 10.0)
    assert [run.state for run in seen.containers] == at_once
    assert 255 in {run.end.code for run in seen.containers if run.end is not None}
    advance(seen, 12.0)
    assert [run.state for run in seen.containers] == later


def changed(before: dict[str, str], after: dict[str, str]) -> RuntimePod:
    seen = runtime_pod(pod(annotations=before), until=10)
    update_behaviour(seen, behaviour_of(pod(annotations=after), PLAIN), 10.0)
    advance(seen, 12.0)
    return seen


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"waiting": "ErrImagePull"}, {}, ON, id="the image is there now"),
        pytest.param({}, {"exit-code": "1"}, ("terminated", 1, False), id="it ends now"),
        pytest.param({}, {"readiness-probe": "fail"}, UNREADY, id="it is unready now"),
        pytest.param({"readiness-probe": "fail"}, {}, ON, id="it is ready again"),
        pytest.param({}, {"run-time": "2m"}, ON, id="it will end later"),
    ],
)
def test_annotations_count_when_they_are_changed(
    before: dict[str, str], after: dict[str, str], expected: tuple[str, int, bool]
) -> None:
    assert states(changed(before, after))[0][1:] == expected


@pytest.mark.parametrize(
    ("annotations", "complaint"),
    [
        pytest.param({"colour": "red"}, "colour: no such key", id="unknown key"),
        pytest.param({"run-time.x": "1s"}, "run-time.x: no such key", id="unknown container"),
        pytest.param({"start-delay": "soon"}, 'start-delay: time: invalid duration "soon"', id="no duration"),
        pytest.param({"readiness-probe": "fail, pass"}, "only the last outcome may last for ever", id="endless middle"),
        pytest.param({"readiness-probe": "pass 1us, fail 1us"}, "a kubelet probes once a second", id="too often"),
        pytest.param({"readiness-probe": "maybe"}, 'expected "pass" or "fail"', id="no outcome"),
        pytest.param({"exit-code": "x"}, "invalid literal", id="no number"),
        pytest.param({"memory-usage": "much"}, "memory-usage: ", id="no quantity"),
    ],
)
def test_annotations_that_cannot_be_read_are_complained_of(annotations: dict[str, str], complaint: str) -> None:
    found = behaviour_of(pod(annotations=annotations), PLAIN)
    assert len(found.invalid_annotations) == 1
    assert complaint in found.invalid_annotations[0]
    assert found.scripts == behaviour_of(pod(), PLAIN).scripts


def test_a_timeline_knows_its_outcomes() -> None:
    script = parse_timeline("fail 5s, pass 1m, fail")
    assert (script.first(False), script.first(True)) == (0.0, 5.0)
    assert script.steps[1] == (True, 60.0)


def says(*command: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "a", "image": "busybox", **({"command": list(command)} if command else {}), **fields}]


@pytest.mark.parametrize(
    ("made", "until", "expected", "phase"),
    [
        pytest.param(pod(), 999, [ON], "Running", id="a pod of which nothing is said runs on"),
        pytest.param(
            pod(containers=says(), policy="Never"), 2, [END], "Succeeded", id="unless it is not started again"
        ),
        pytest.param(pod(containers=says(), policy="OnFailure"), 2, [END], "Succeeded", id="or on failure only"),
        pytest.param(pod(policy="Never", owner="Job"), 2, [END], "Succeeded", id="as a Job's"),
        pytest.param(pod(containers=says("sleep", "5"), policy="Never"), 4.9, [ON], "Running", id="sleep 5: not yet"),
        pytest.param(pod(containers=says("sleep", "5"), policy="Never"), 5, [END], "Succeeded", id="sleep 5"),
        pytest.param(
            pod(containers=says(args=["sleep", "5"]), policy="Never"), 5, [END], "Succeeded", id="as arguments"
        ),
        pytest.param(
            pod(containers=says("sleep", args=["5"]), policy="Never"), 5, [END], "Succeeded", id="in both together"
        ),
        pytest.param(
            pod(containers=says("sh", "-c", "sleep 2; exit 3"), policy="Never"), 3, [END], "Failed", id="exit 3"
        ),
        pytest.param(
            pod(containers=says("false"), policy="OnFailure"), 3, [(CRASH_LOOP, 1, False)], "Running",
            id="OnFailure: false is tried again",
        ),
        pytest.param(
            pod(containers=says("true")), 3, [(CRASH_LOOP, 1, False)], "Running", id="Always: also what is well"
        ),
        pytest.param(
            pod(containers=says("sleep", "99"), owner="Job"), 50, [ON], "Running", id="a Job's, that takes its time"
        ),
        pytest.param(
            pod(containers=says("sh", "-c", "exit 1"), owner="Job", policy="Never"), 1, [END], "Failed",
            id="a Job's, that fails",
        ),
        pytest.param(
            pod(containers=says("sh", "-c", "while true; do sleep 1; done"), policy="Never"), 999, [ON], "Running",
            id="a loop runs on",
        ),
        pytest.param(pod(containers=says(image="nginx"), policy="Never"), 999, [ON], "Running", id="a server runs on"),
        pytest.param(
            pod(containers=says("./serve", ports=[{"containerPort": 80}]), policy="Never"), 999, [ON], "Running",
            id="also one that is known by its port",
        ),
        pytest.param(
            pod(containers=says("./serve", livenessProbe={"httpGet": {"port": 80}}), policy="Never"), 999, [ON],
            "Running", id="or by a probe",
        ),
        pytest.param(
            pod(containers=says("./migrate"), policy="Never"), 2, [END], "Succeeded", id="any other program ends"
        ),
        pytest.param(
            pod(containers=says("sleep", "5"), policy="Never", annotations={"run-time": "2s"}), 3, [END], "Succeeded",
            id="an annotation says otherwise",
        ),
        pytest.param(
            pod(containers=says("sleep", "5"), policy="Never", annotations={"readiness-probe": "fail"}), 5, [END],
            "Succeeded", id="or nothing about that",
        ),
        pytest.param(
            pod(initContainers=says("sh", "-c", "exit 4"), policy="Never", containers=[{"name": "b", "image": "x"}]), 1,
            [END, OFF], "Failed", id="an init container that fails",
        ),
        pytest.param(
            pod(initContainers=says("sleep", "3"), containers=[{"name": "b", "image": "x"}]), 4,
            [DONE, ON], "Running", id="an init container that takes its time",
        ),
        pytest.param(
            pod("b", initContainers=says("sleep", "5", restartPolicy="Always")), 6,
            [("running", 1, True), ON], "Running", id="a sidecar that ends is started again",
        ),
    ],
)  # fmt: skip
def test_what_pods_say_of_themselves(made: Any, until: float, expected: list[Any], phase: str) -> None:
    seen = runtime_pod(made, PLAIN, until=float(until))
    assert [row[1:] for row in states(seen)] == expected
    assert phase_of(seen) == phase


def test_commands_may_be_ignored() -> None:
    unread = Profile(start_delay=0.0, commands=False)
    for made in (
        pod(policy="Never"),
        pod(containers=says("sleep", "5"), policy="Never"),
        pod(containers=says("false")),
    ):
        assert states(runtime_pod(made, unread, until=999)) == [("a", "running", 0, True)]
