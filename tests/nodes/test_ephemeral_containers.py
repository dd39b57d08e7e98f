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


def test_ephemeral_container_starts_in_running_pod_and_ends_once() -> None:
    running_pod = runtime_pod(pod(), until=10)
    pod_object = pod(ephemeralContainers=[debugger("sleep", "5")])
    update_behaviour(running_pod, behaviour_of(pod_object, PLAIN), 10)
    advance(running_pod, 12)
    (statuses,) = status(pod_object, running_pod, instant(12), "10.0.0.1", "10.1.0.1")["status"][
        "ephemeralContainerStatuses"
    ]
    assert statuses["name"] == "debugger"
    assert statuses["state"] == {"running": {"startedAt": "2026-01-01T12:00:10Z"}}
    assert statuses["ready"] is False
    assert "started" not in statuses
    advance(running_pod, 60)
    (statuses,) = status(pod_object, running_pod, instant(60), "10.0.0.1", "10.1.0.1")["status"][
        "ephemeralContainerStatuses"
    ]
    assert statuses["state"]["terminated"]["exitCode"] == 0
    assert statuses["state"]["terminated"]["finishedAt"] == "2026-01-01T12:00:15Z"
    assert statuses["restartCount"] == 0
    assert states(running_pod) == [("a", "running", 0, True)], "the others do not notice"


@cases(
    "container, expected",
    {
        "debug container without command terminates": (debugger(), "terminated"),
        "interactive shell terminates": (debugger(stdin=True, tty=True), "terminated"),
        "command runs": (debugger("sleep", "3600"), "running"),
        "missing image": (debugger(image="foo:404"), "ImagePullBackOff"),
    },
)
def test_ephemeral_container_duration(container: dict[str, Any], expected: str) -> None:
    running_pod = runtime_pod(pod(ephemeralContainers=[container]), until=9)
    assert [run.reason or run.state for run in running_pod.ephemeral] == [expected]


def test_several_ephemeral_containers_in_sequence() -> None:
    running_pod = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "5")]), until=9)
    second = pod(ephemeralContainers=[debugger("sleep", "5"), debugger("sleep", "9", name="second")])
    update_behaviour(running_pod, behaviour_of(second, PLAIN), 9)
    advance(running_pod, 10)
    assert [(run.name, run.state) for run in running_pod.ephemeral] == [
        ("debugger", "terminated"),
        ("second", "running"),
    ]


def test_ephemeral_container_runs_before_init_containers_end() -> None:
    spec: dict[str, Any] = {"initContainers": [{"name": "i", "image": "x", "command": ["sleep", "60"]}]}
    running_pod = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "30")], **spec), until=5)
    assert states(running_pod) == [("i", "running", 0, False), ("a", "waiting", 0, False)]
    assert [run.state for run in running_pod.ephemeral] == ["running"]


def test_pod_ends_without_ephemeral_container() -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "a", "image": "x", "command": ["sleep", "5"]}],
        "restartPolicy": "Never",
    }
    running_pod = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "3600")], **spec), until=6)
    assert (phase_of(running_pod), final_phase(running_pod, None)) == ("Succeeded", "Running"), "until it is stopped"
    advance(running_pod, 8)
    assert final_phase(running_pod, None) == "Succeeded"
    assert [run.state for run in running_pod.ephemeral] == ["terminated"]


def test_ephemeral_container_stops_with_pod_and_is_lost_with_node() -> None:
    running_pod = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "3600")]), until=1)
    assert running_pod.alive
    reboot(running_pod, 1)
    assert [run.end.code for run in running_pod.ephemeral if run.end] == [255]
    running_pod = runtime_pod(pod(ephemeralContainers=[debugger("sleep", "3600")]), until=1)
    stop(running_pod, 1)
    assert not running_pod.alive
