"""Ephemeral containers of a running pod, as ``kubectl debug`` adds them."""

from typing import Any

from tests.nodes.pods import PLAIN, instant, pod, runtime_pod, states
from tests.tables import cases

from pilothouse.nodes.behaviour import behaviour_of
from pilothouse.nodes.containers import advance, reboot, stop, update_behaviour
from pilothouse.nodes.pod_phase import phase_of
from pilothouse.nodes.pod_status import final_phase, status


def debugger(*command: str, name: str = "debugger", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox", **({"command": list(command)} if command else {}), **fields}


def test_it_starts_in_a_pod_that_runs_and_ends_once() -> None:
    made = runtime_pod(pod(), until=10)
    pod_object = pod(ephemeralContainers=[debugger("sleep", "5")])
    update_behaviour(made, behaviour_of(pod_object, PLAIN), 10)
    advance(made, 12)
    (shown,) = status(pod_object, made, instant(12), "10.0.0.1", "10.1.0.1")["status"]["ephemeralContainerStatuses"]
    assert shown["name"] == "debugger"
    assert shown["state"] == {"running": {"startedAt": "2026-01-01T12:00:10Z"}}
    assert shown["ready"] is False
    assert "started" not in shown
    advance(made, 60)
    (shown,) = status(pod_object, made, instant(60), "10.0.0.1", "10.1.0.1")["status"]["ephemeralContainerStatuses"]
    assert shown["state"]["terminated"]["exitCode"] == 0
    assert shown["state"]["terminated"]["finishedAt"] == "2026-01-01T12:00:15Z"
    assert shown["restartCount"] == 0
    assert states(made) == [("a", "running", 0, True)], "the others do not notice"


@cases(
    "given, expected",
    {
        "debug container without command terminates": (debugger(), "terminated"),
        "interactive shell terminates": (debugger(stdin=True, tty=True), "terminated"),
        "command runs": (debugger("sleep", "3600"), "running"),
        "missing image": (debugger(image="foo:404"), "ImagePullBackOff"),
    },
)
def test_how_long_it_runs(given: dict[str, Any], expected: str) -> None:
    made = runtime_pod(pod(ephemeralContainers=[given]), until=9)
    assert [run.reason or run.state for run in made.ephemeral] == [expected]


def test_several_come_one_after_the_other() -> None:
    made = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "5")]), until=9)
    second = pod(ephemeralContainers=[debugger("sleep", "5"), debugger("sleep", "9", name="second")])
    update_behaviour(made, behaviour_of(second, PLAIN), 9)
    advance(made, 10)
    assert [(run.name, run.state) for run in made.ephemeral] == [("debugger", "terminated"), ("second", "running")]


def test_it_runs_before_the_init_containers_have_ended() -> None:
    spec: dict[str, Any] = {"initContainers": [{"name": "i", "image": "x", "command": ["sleep", "60"]}]}
    made = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "30")], **spec), until=5)
    assert states(made) == [("i", "running", 0, False), ("a", "waiting", 0, False)]
    assert [run.state for run in made.ephemeral] == ["running"]


def test_the_pod_ends_without_it() -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "a", "image": "x", "command": ["sleep", "5"]}],
        "restartPolicy": "Never",
    }
    made = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "3600")], **spec), until=6)
    assert (phase_of(made), final_phase(made, None)) == ("Succeeded", "Running"), "until it is stopped"
    advance(made, 8)
    assert final_phase(made, None) == "Succeeded"
    assert [run.state for run in made.ephemeral] == ["terminated"]


def test_it_stops_with_the_pod_and_is_lost_with_the_machine() -> None:
    made = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "3600")]), until=1)
    assert made.alive
    reboot(made, 1)
    assert [run.end.code for run in made.ephemeral if run.end] == [255]
    made = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "3600")]), until=1)
    stop(made, 1)
    assert not made.alive
