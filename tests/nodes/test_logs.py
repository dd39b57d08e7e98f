"""What simulated containers write."""

import datetime
from typing import Any

from tests.tables import cases

from pilothouse.nodes.logs import container_log

START = "2026-01-01T00:00:00Z"
NOW = datetime.datetime(2026, 1, 1, 0, 1, tzinfo=datetime.UTC)


def _pod(state: dict[str, Any], script: str | None = None, **status: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": "p"}
    if script is not None:
        meta["annotations"] = {"simulated.pilothouse.dev/log.c": script}
    return {"metadata": meta, "status": {"containerStatuses": [{"name": "c", "state": state, **status}]}}


ENDED = {"startedAt": START, "finishedAt": "2026-01-01T00:00:30Z", "exitCode": 3}
RUNNING = {"running": {"startedAt": START}}


@cases(
    "pod, previous, lines",
    {
        "running": (_pod(RUNNING), False, ["c started"]),
        "terminated": (_pod({"terminated": ENDED}), False, ["c started", "c exited with code 3"]),
        "CrashLoopBackOff": (
            _pod({"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ENDED}),
            False,
            ["c started", "c exited with code 3"],
        ),
        "the run before": (_pod(RUNNING, lastState={"terminated": ENDED}), True, ["c started", "c exited with code 3"]),
        "scripted, until now": (_pod(RUNNING, "@20s two\none\n@2m three"), False, ["one", "two"]),
        "text that is not a time": (_pod(RUNNING, "@all of us"), False, ["@all of us"]),
    },
)
def test_lines(pod: dict[str, Any], previous: bool, lines: list[str]) -> None:
    assert [line.text for line in container_log(pod, "c", previous, NOW).lines] == lines


def _runs(state: dict[str, Any], *command: str, **annotations: str) -> dict[str, Any]:
    pod = _pod(state)
    pod["spec"] = {"containers": [{"name": "c", "image": "busybox", "command": list(command)}]}
    pod["metadata"]["annotations"] = {f"simulated.pilothouse.dev/{key}": text for key, text in annotations.items()}
    return pod


HELLO = ("sh", "-c", "echo hello; sleep 20; echo again; sleep 50; echo later")


@cases(
    "pod, lines",
    {
        "echo, and no more": (_runs({"terminated": {**ENDED, "exitCode": 0}}, "echo", "hello"), ["hello"]),
        "zero duration": (_runs({"terminated": {**ENDED, "finishedAt": START}}, "echo", "-n", "hello"), ["hello"]),
        "output of the command until now": (_runs(RUNNING, *HELLO), ["hello", "again"]),
        "a command that writes nothing": (_runs(RUNNING, "sleep", "99"), ["c started"]),
        "scripted instead of the command": (_runs(RUNNING, *HELLO, log="scripted"), ["scripted"]),
        "scripted run time instead of the command": (_runs(RUNNING, *HELLO, **{"run-time": "9s"}), ["c started"]),
    },
)
def test_output_of_commands(pod: dict[str, Any], lines: list[str]) -> None:
    assert [line.text for line in container_log(pod, "c", False, NOW).lines] == lines


def test_commands_may_be_ignored() -> None:
    log = container_log(_runs(RUNNING, *HELLO), "c", False, NOW, commands=False)
    assert [line.text for line in log.lines] == ["c started"]


@cases(
    "pod, previous, error",
    {
        "ContainerCreating": (
            _pod({"waiting": {"reason": "ContainerCreating"}}),
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        "ImagePullBackOff": (
            _pod({"waiting": {"reason": "ImagePullBackOff"}}),
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        "previous, never restarted": (_pod(RUNNING), True, 'previous terminated container "c" in pod "p" not found'),
        "no container status": ({"metadata": {"name": "p"}}, False, 'container "c" in pod "p" is not available'),
    },
)
def test_errors(pod: dict[str, Any], previous: bool, error: str) -> None:
    assert container_log(pod, "c", previous, NOW).error == error


def test_a_follower_gets_the_time_of_the_next_line() -> None:
    log = container_log(_pod(RUNNING, "one\n@2m two"), "c", False, NOW)
    assert (log.next_at, log.ended) == (NOW + datetime.timedelta(minutes=1), False)
