"""What happens in a pod, and when.

Mirrors kubelet v1.36 ``pkg/kubelet/kuberuntime/kuberuntime_manager_test.go`` (``TestComputePodActions*``),
``pkg/kubelet/kubelet_pods_test.go`` (``TestPodPhase*``), client-go ``util/flowcontrol/backoff_test.go``.
"""

import itertools
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nodes.pods import PLAIN, pod, runtime_pod, states
from tests.tables import cases

from pilothouse.nodes import Profile, containers
from pilothouse.nodes.behaviour import behaviour_of, parse_timeline
from pilothouse.nodes.containers import (
    CRASH_LOOP,
    RUNNING,
    RuntimePod,
    advance,
    next_change,
    reboot,
    stop,
    update_behaviour,
)
from pilothouse.nodes.pod_phase import phase_of

ON, OFF, END = ("running", 0, True), ("waiting", 0, False), ("terminated", 0, False)
UNREADY, DONE = ("running", 0, False), ("terminated", 0, True)
SLOW_INITS = Profile(start_delay=0.0, init_run_time=3.0)


@cases(
    "pod_object, until, expected, phase",
    {
        "all containers start at once": (pod("a", "b"), 0, [ON, ON], "Running"),
        "the first prepares": (pod(inits=("i", "j")), 2, [UNREADY, OFF, OFF], "Pending"),
        "second init container": (
            pod(inits=("i", "j")), 4, [DONE, UNREADY, OFF], "Pending"),
        "then the containers": (
            pod(inits=("i", "j")), 6, [DONE, DONE, ON], "Running"),
        "a sidecar runs, the next begins": (
            pod(inits=("s*", "i")), 1, [ON, UNREADY, OFF], "Pending"),
        "a sidecar that has not started blocks the others": (
            pod(inits=("s*",), annotations={"startup-probe.s": "fail 5s, pass"}), 4,
            [UNREADY, OFF], "Pending"),
        "until its startup probe passes": (
            pod(inits=("s*",), annotations={"startup-probe.s": "fail 5s, pass"}), 5, [ON, ON], "Running"),
        "Never: failed init container": (
            pod(inits=("i",), policy="Never", annotations={"exit-code.i": "2"}), 9, [END, OFF], "Failed"),
        "Always: a failed init container is tried again": (
            pod(inits=("i",), annotations={"exit-code.i": "2"}), 3.5, [END, OFF], "Pending"),
        "retried init container succeeds": (
            pod(inits=("i",), annotations={"exit-code.i": "2,0"}), 9, [("terminated", 1, True), ON], "Running"),
        "Never: exit code 0": (pod(policy="Never", annotations={"exit-code": "0"}), 9, [END], "Succeeded"),
        "Never: exit code 3": (pod(policy="Never", annotations={"exit-code": "3"}), 9, [END], "Failed"),
        "OnFailure: completes": (
            pod(policy="OnFailure", annotations={"exit-code": "0"}), 9, [END], "Succeeded"),
        "OnFailure: once more, then completes": (
            pod(policy="OnFailure", annotations={"exit-code": "1,0"}), 9, [("terminated", 1, False)], "Succeeded"),
        "Always: terminated before its restart": (
            pod(annotations={"exit-code": "0", "run-time": "4s,forever"}), 4.5, [END], "Running"),
        "Always: back at once": (
            pod(annotations={"exit-code": "0", "run-time": "4s,forever"}), 5, [("running", 1, True)], "Running"),
        "the second time it waits": (
            pod(annotations={"exit-code": "1"}), 5, [(CRASH_LOOP, 1, False)], "Running"),
        "one of two failed, the other runs": (
            pod("a", "b", policy="Never", annotations={"exit-code.b": "1"}), 9, [ON, END], "Running"),
        "one of two failed, both terminated": (
            pod("a", "b", policy="Never", annotations={"exit-code": "0", "exit-code.b": "1"}), 9, [END, END], "Failed"),
        "a sidecar outlives the others": (
            pod("a", inits=("s*",), policy="Never", annotations={"exit-code": "0"}), 2.5, [ON, END], "Running"),
        "sidecars end last": (
            pod("a", inits=("s*",), policy="Never", annotations={"exit-code": "0"}), 9, [END, END], "Succeeded"),
        "image pull fails": (
            pod(annotations={"waiting": "ImagePullBackOff"}), 9, [("ImagePullBackOff", 0, False)], "Pending"),
        "pod of a Job completes": (
            pod(owner="Job", policy="Never"), 9, [END], "Succeeded"),
        "readiness as scripted: ready": (
            pod("a", "b", annotations={"readiness-probe.b": "fail 2s, pass 3s, fail"}), 4, [ON, ON], "Running"),
        "readiness as scripted: not any more": (
            pod("a", "b", annotations={"readiness-probe.b": "fail 2s, pass 3s, fail"}), 5,
            [ON, UNREADY], "Running"),
        "a script begins again": (
            pod(annotations={"readiness-probe": "fail 1s, pass 1s"}), 3, [ON], "Running"),
        "liveness fails: killed": (
            pod(annotations={"liveness-probe": "pass 3s, fail"}), 3, [END], "Running"),
        "a readiness probe passes after its initial delay, not before": (
            pod(containers=[{"name": "a", "image": "x", "readinessProbe": {"initialDelaySeconds": 7}}]), 6,
            [UNREADY], "Running"),
        "a readiness probe passes after its initial delay": (
            pod(containers=[{"name": "a", "image": "x", "readinessProbe": {"initialDelaySeconds": 7}}]), 7,
            [ON], "Running"),
        "a readiness probe of a port that there is not never passes": (
            pod(containers=[{"name": "a", "image": "x", "readinessProbe": {"httpGet": {"port": "htpp"}}}]), 99,
            [UNREADY], "Running"),
        "a readiness probe of a named port passes": (
            pod(containers=[{"name": "a", "image": "x", "ports": [{"name": "http", "containerPort": 80}],
                             "readinessProbe": {"tcpSocket": {"port": "http"}}}]), 9,
            [ON], "Running"),
        "a number may be a string": (
            pod(containers=[{"name": "a", "image": "x", "readinessProbe": {"httpGet": {"port": "8080"}}}]), 9,
            [ON], "Running"),
        "a liveness probe of a port that there is not has no effect": (
            pod(containers=[{"name": "a", "image": "x", "livenessProbe": {"httpGet": {"port": "htpp"}}}]), 99,
            [ON], "Running"),
    },
)  # fmt: skip
def test_containers_after_a_while(pod_object: Any, until: float, expected: list[Any], phase: str) -> None:
    profile = SLOW_INITS if any(not c.restart_policy for c in pod_object.spec.init_containers) else PLAIN
    running_pod = runtime_pod(pod_object, profile, until=float(until))
    assert [row[1:] for row in states(running_pod)] == expected
    assert phase_of(running_pod) == phase


@pytest.mark.parametrize("kind", ["startup", "readiness", "liveness"])
def test_a_probe_that_cannot_be_made_is_an_event(kind: str) -> None:
    probe = {f"{kind}Probe": {"httpGet": {"port": "htpp"}}}
    running_pod = runtime_pod(pod(containers=[{"name": "a", "image": "x", **probe}]), until=99)
    warnings = [event.message for event in running_pod.take_events() if event.reason == "Unhealthy"]
    error = 'strconv.Atoi: parsing "htpp": invalid syntax'
    assert warnings == [f"{kind.capitalize()} probe errored and resulted in unknown state: {error}"]
    assert running_pod.containers[0].started is (kind != "startup")


def test_restarts_wait_twice_as_long_each_time_up_to_five_minutes() -> None:
    running_pod = runtime_pod(
        pod(annotations={"exit-code": "1", "run-time": "0s"}), Profile(start_delay=0.0, restart_gap=0.0)
    )
    starts: list[float] = []
    now = 0.0
    while len(starts) < 9:
        restarts = running_pod.containers[0].restarts
        advance(running_pod, now)
        if running_pod.containers[0].restarts > restarts:
            starts.append(now)
        now = max(now + 0.5, next_change(running_pod))
    waits = [b - a for a, b in itertools.pairwise(starts)]
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]


def test_backoff_is_reset_after_ten_minutes_without_a_restart() -> None:
    running_pod = runtime_pod(pod(annotations={"exit-code": "1", "run-time": "0s,0s,700s,0s"}), until=714)
    assert [(r.state, r.restarts) for r in running_pod.containers] == [("waiting", 3)]
    assert running_pod.containers[0].backoff == 10, "the third restart came at once, the next one waits as at first"


def test_changes_during_an_outage_have_their_actual_times() -> None:
    """A node that was silent for an hour reports the times at which containers changed."""
    step, leap = (runtime_pod(pod(annotations={"exit-code": "1", "run-time": "5s"})) for _ in range(2))
    for now in range(0, 3600, 7):
        advance(step, float(now))
    advance(leap, 3591.0)
    assert leap == step


def test_stop_terminates_all_containers_without_restarts() -> None:
    running_pod = runtime_pod(pod("a", "b", annotations={"stop-exit-code.a": "143"}), until=1)
    stop(running_pod, 5.0)
    advance(running_pod, 99.0)
    assert [(r.state, r.end.code, r.end.reason) for r in running_pod.containers if r.end] == [
        ("terminated", 143, "Error"),
        ("terminated", 0, "Completed"),
    ]
    assert phase_of(running_pod) == "Failed"


@cases(
    "pod_object, at_once, later",
    {
        "started again": (pod(), ["terminated"], ["running"]),
        "Never: terminated": (pod(policy="Never"), ["terminated"], ["terminated"]),
        "prepared again": (pod(inits=("i",)), ["waiting", "terminated"], ["terminated", "running"]),
        "sidecars too": (pod(inits=("s*",)), ["terminated", "terminated"], ["running", "running"]),
        "OnFailure: prepared once": (
            pod(inits=("i",), policy="OnFailure"),
            ["terminated", "terminated"],
            ["terminated", "running"],
        ),
    },
)
def test_a_reboot_terminates_running_containers(pod_object: Any, at_once: list[str], later: list[str]) -> None:
    running_pod = runtime_pod(pod_object, until=1)
    reboot(running_pod, 10.0)
    assert [run.state for run in running_pod.containers] == at_once
    assert 255 in {run.end.code for run in running_pod.containers if run.end is not None}
    advance(running_pod, 12.0)
    assert [run.state for run in running_pod.containers] == later


def changed(before: dict[str, str], after: dict[str, str]) -> RuntimePod:
    running_pod = runtime_pod(pod(annotations=before), until=10)
    update_behaviour(running_pod, behaviour_of(pod(annotations=after), PLAIN), 10.0)
    advance(running_pod, 12.0)
    return running_pod


@cases(
    "before, after, expected",
    {
        "image becomes available": ({"waiting": "ErrImagePull"}, {}, ON),
        "terminates on request": ({}, {"exit-code": "1"}, ("terminated", 1, False)),
        "becomes unready": ({}, {"readiness-probe": "fail"}, UNREADY),
        "becomes ready": ({"readiness-probe": "fail"}, {}, ON),
        "terminates later": ({}, {"run-time": "2m"}, ON),
    },
)
def test_annotations_count_when_they_are_changed(
    before: dict[str, str], after: dict[str, str], expected: tuple[str, int, bool]
) -> None:
    assert states(changed(before, after))[0][1:] == expected


@cases(
    "annotations, complaint",
    {
        "unknown key": ({"colour": "red"}, "colour: no such key"),
        "unknown container": ({"run-time.x": "1s"}, "run-time.x: no such key"),
        "invalid duration": ({"start-delay": "soon"}, 'start-delay: time: invalid duration "soon"'),
        "endless middle": ({"readiness-probe": "fail, pass"}, "only the last outcome may last forever"),
        "too often": ({"readiness-probe": "pass 1us, fail 1us"}, "a kubelet probes once a second"),
        "invalid probe result": ({"readiness-probe": "maybe"}, 'expected "pass" or "fail"'),
        "invalid exit code": ({"exit-code": "0,x"}, 'exit-code: an exit code is a number, got "x"'),
        "invalid quantity": ({"memory-usage": "much"}, "memory-usage: "),
    },
)
def test_annotations_that_cannot_be_read_are_complained_of(annotations: dict[str, str], complaint: str) -> None:
    behaviour = behaviour_of(pod(annotations=annotations), PLAIN)
    assert len(behaviour.invalid_annotations) == 1
    assert complaint in behaviour.invalid_annotations[0]
    assert behaviour.scripts == behaviour_of(pod(), PLAIN).scripts


def test_outcomes_of_a_timeline() -> None:
    script = parse_timeline("fail 5s, pass 1m, fail")
    assert (script.first(False), script.first(True)) == (0.0, 5.0)
    assert script.steps[1] == (True, 60.0)


def says(*command: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "a", "image": "busybox", **({"command": list(command)} if command else {}), **fields}]


@cases(
    "pod_object, until, expected, phase",
    {
        "Always: runs without script": (pod(), 999, [ON], "Running"),
        "Never: completes without script": (
            pod(containers=says(), policy="Never"), 2, [END], "Succeeded"),
        "OnFailure: completes without script": (pod(containers=says(), policy="OnFailure"), 2, [END], "Succeeded"),
        "pod of a Job: completes without script": (pod(policy="Never", owner="Job"), 2, [END], "Succeeded"),
        "sleep 5: not yet": (pod(containers=says("sleep", "5"), policy="Never"), 4.9, [ON], "Running"),
        "sleep 5": (pod(containers=says("sleep", "5"), policy="Never"), 5, [END], "Succeeded"),
        "sleep in args": (
            pod(containers=says(args=["sleep", "5"]), policy="Never"), 5, [END], "Succeeded"),
        "sleep in command and args": (
            pod(containers=says("sleep", args=["5"]), policy="Never"), 5, [END], "Succeeded"),
        "exit 3": (
            pod(containers=says("sh", "-c", "sleep 2; exit 3"), policy="Never"), 3, [END], "Failed"),
        "OnFailure: false is tried again": (
            pod(containers=says("false"), policy="OnFailure"), 3, [(CRASH_LOOP, 1, False)], "Running"),
        "Always: success is restarted": (
            pod(containers=says("true")), 3, [(CRASH_LOOP, 1, False)], "Running"),
        "a Job's command still runs": (
            pod(containers=says("sleep", "99"), owner="Job"), 50, [ON], "Running"),
        "a Job's, that fails": (
            pod(containers=says("sh", "-c", "exit 1"), owner="Job", policy="Never"), 1, [END], "Failed"),
        "a loop runs on": (
            pod(containers=says("sh", "-c", "while true; do sleep 1; done"), policy="Never"), 999, [ON], "Running"),
        "a server runs on": (pod(containers=says(image="nginx"), policy="Never"), 999, [ON], "Running"),
        "container with a port runs on": (
            pod(containers=says("./serve", ports=[{"containerPort": 80}]), policy="Never"), 999, [ON], "Running"),
        "container with a probe runs on": (
            pod(containers=says("./serve", livenessProbe={"httpGet": {"port": 80}}), policy="Never"), 999, [ON],
            "Running"),
        "unknown program ends": (
            pod(containers=says("./migrate"), policy="Never"), 2, [END], "Succeeded"),
        "annotation overrides the command": (
            pod(containers=says("sleep", "5"), policy="Never", annotations={"run-time": "2s"}), 3, [END], "Succeeded"),
        "annotation about something else": (
            pod(containers=says("sleep", "5"), policy="Never", annotations={"readiness-probe": "fail"}), 5, [END],
            "Succeeded"),
        "an init container that fails": (
            pod(initContainers=says("sh", "-c", "exit 4"), policy="Never", containers=[{"name": "b", "image": "x"}]), 1,
            [END, OFF], "Failed"),
        "init container with a duration": (
            pod(initContainers=says("sleep", "3"), containers=[{"name": "b", "image": "x"}]), 4,
            [DONE, ON], "Running"),
        "a sidecar that ends is started again": (
            pod("b", initContainers=says("sleep", "5", restartPolicy="Always")), 6,
            [("running", 1, True), ON], "Running"),
    },
)  # fmt: skip
def test_behavior_of_pods_from_annotations(pod_object: Any, until: float, expected: list[Any], phase: str) -> None:
    running_pod = runtime_pod(pod_object, PLAIN, until=float(until))
    assert [row[1:] for row in states(running_pod)] == expected
    assert phase_of(running_pod) == phase


def stopping(**hook: Any) -> dict[str, Any]:
    return {"name": "a", "image": "x", "lifecycle": {"preStop": hook}}


@cases(
    "pod_object, seconds",
    {
        "no hook": (pod(), 2.0),
        "sleep": (pod(containers=[stopping(sleep={"seconds": 5})]), 7.0),
        "a command": (pod(containers=[stopping(exec={"command": ["sh", "-c", "sleep 15"]})]), 17.0),
        "a command that is not understood": (pod(containers=[stopping(exec={"command": ["nginx-quit"]})]), 2.0),
        "one that does not end": (pod(containers=[stopping(exec={"command": ["sleep", "infinity"]})]), math.inf),
        "a request": (pod(containers=[stopping(httpGet={"port": 80})]), 2.0),
        "the longest of all": (
            pod(
                containers=[stopping(sleep={"seconds": 3}), {**stopping(sleep={"seconds": 4}), "name": "b"}],
                initContainers=[{**stopping(sleep={"seconds": 9}), "name": "c", "restartPolicy": "Always"}],
            ),
            11.0,
        ),
        "an annotation": (pod(containers=[stopping(sleep={"seconds": 5})], annotations={"stop-delay": "1s"}), 1.0),
    },
)
def test_hooks_before_the_stop_take_time(pod_object: Any, seconds: float) -> None:
    assert behaviour_of(pod_object, PLAIN).stop_delay == seconds
    ignoring = behaviour_of(pod_object, Profile(stop_delay=2.0, commands=False)).stop_delay
    assert ignoring == (1.0 if seconds == 1.0 else 2.0)


def test_commands_may_be_ignored() -> None:
    unread = Profile(start_delay=0.0, commands=False)
    for say in (
        pod(policy="Never"),
        pod(containers=says("sleep", "5"), policy="Never"),
        pod(containers=says("false")),
    ):
        assert states(runtime_pod(say, unread, until=999)) == [("a", "running", 0, True)]


def one_by_one(pod: RuntimePod, now: float) -> None:
    """``advance`` by definition: one change at a time."""
    while True:
        index, at = containers._next(pod)
        if at > now:
            return
        if index < 0:
            stop(pod, at)
        else:
            containers._change(pod, index, at)


@given(
    st.lists(st.sampled_from(["i", "s*", "j", "t*"]), unique=True),
    st.sampled_from(["Always", "Never", "OnFailure"]),
    st.dictionaries(st.sampled_from(["a", "b", "i", "j", "s"]), st.sampled_from(["0", "1,0", "1"])),
    st.sampled_from([{}, {"startup-probe.s": "fail 1s, pass", "readiness-probe.b": "fail 1s, pass 1s, fail"}]),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 20.0]), min_size=1, max_size=4),
)
def test_changes_of_the_same_time_are_in_order(
    inits: list[str], policy: str, codes: dict[str, str], probes: dict[str, str], steps: list[float]
) -> None:
    names = {"a", "b", *(name.rstrip("*") for name in inits)}
    behaviour = {**{f"exit-code.{name}": code for name, code in codes.items()}, **probes}
    annotations = {key: text for key, text in behaviour.items() if key.rpartition(".")[2] in names}
    pods = [
        runtime_pod(pod("a", "b", inits=tuple(inits), policy=policy, annotations=annotations), SLOW_INITS)
        for _ in range(2)
    ]
    now = 0.0
    for step in steps:
        now += step
        advance(pods[0], now)
        one_by_one(pods[1], now)
        assert pods[0] == pods[1]


def test_many_containers_start_in_linear_time() -> None:
    many = runtime_pod(pod(*(f"c{number}" for number in range(10_000))))
    began = time.process_time()
    advance(many, 1.0)
    assert time.process_time() - began < 1.0  # searching the next change 10,000 times takes 15 s
    assert all(container.state == RUNNING for container in many.containers)


def test_changes_of_many_containers_at_many_times_take_several_turns() -> None:
    many = runtime_pod(pod(*(f"c{number}" for number in range(600))))
    for number, container in enumerate(many.containers):
        container.pull_seconds = number / 300
    many.starts_at = 3.0
    turns = 0
    while next_change(many) <= 4.0:
        advance(many, 4.0)
        turns += 1
    assert turns > 3
    assert all(container.state == RUNNING for container in many.containers)
