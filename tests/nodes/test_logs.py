"""What simulated containers write."""

import datetime
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("pod", "previous", "lines"),
    [
        pytest.param(_pod(RUNNING), False, ["c started"], id="it runs"),
        pytest.param(_pod({"terminated": ENDED}), False, ["c started", "c exited with code 3"], id="it has ended"),
        pytest.param(
            _pod({"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ENDED}),
            False,
            ["c started", "c exited with code 3"],
            id="it waits to run again",
        ),
        pytest.param(
            _pod(RUNNING, lastState={"terminated": ENDED}),
            True,
            ["c started", "c exited with code 3"],
            id="the run before",
        ),
        pytest.param(_pod(RUNNING, "@20s two\none\n@2m three"), False, ["one", "two"], id="scripted, so far"),
        pytest.param(_pod(RUNNING, "@all of us"), False, ["@all of us"], id="what is no time is text"),
    ],
)
def test_lines(pod: dict[str, Any], previous: bool, lines: list[str]) -> None:
    assert [line.text for line in container_log(pod, "c", previous, NOW).lines] == lines


def _runs(state: dict[str, Any], *command: str, **annotations: str) -> dict[str, Any]:
    pod = _pod(state)
    pod["spec"] = {"containers": [{"name": "c", "image": "busybox", "command": list(command)}]}
    pod["metadata"]["annotations"] = {f"simulated.pilothouse.dev/{key}": text for key, text in annotations.items()}
    return pod


HELLO = ("sh", "-c", "echo hello; sleep 20; echo again; sleep 50; echo later")


@pytest.mark.parametrize(
    ("pod", "lines"),
    [
        pytest.param(
            _runs({"terminated": {**ENDED, "exitCode": 0}}, "echo", "hello"), ["hello"], id="echo, and no more"
        ),
        pytest.param(
            _runs({"terminated": {**ENDED, "finishedAt": START}}, "echo", "-n", "hello"), ["hello"], id="in no time"
        ),
        pytest.param(_runs(RUNNING, *HELLO), ["hello", "again"], id="so far"),
        pytest.param(_runs(RUNNING, "sleep", "99"), ["c started"], id="a command that writes nothing"),
        pytest.param(_runs(RUNNING, *HELLO, log="scripted"), ["scripted"], id="scripted otherwise"),
        pytest.param(_runs(RUNNING, *HELLO, **{"run-time": "9s"}), ["c started"], id="another life than its own"),
    ],
)
def test_what_a_command_writes(pod: dict[str, Any], lines: list[str]) -> None:
    assert [line.text for line in container_log(pod, "c", False, NOW).lines] == lines


def test_commands_may_be_ignored() -> None:
    log = container_log(_runs(RUNNING, *HELLO), "c", False, NOW, commands=False)
    assert [line.text for line in log.lines] == ["c started"]


@pytest.mark.parametrize(
    ("pod", "previous", "error"),
    [
        pytest.param(
            _pod({"waiting": {"reason": "ContainerCreating"}}),
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
            id="it has not begun",
        ),
        pytest.param(
            _pod({"waiting": {"reason": "ImagePullBackOff"}}),
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
            id="its image is not there",
        ),
        pytest.param(
            _pod(RUNNING), True, 'previous terminated container "c" in pod "p" not found', id="it ran only once"
        ),
        pytest.param({"metadata": {"name": "p"}}, False, 'container "c" in pod "p" is not available', id="no status"),
    ],
)
def test_errors(pod: dict[str, Any], previous: bool, error: str) -> None:
    assert container_log(pod, "c", previous, NOW).error == error


def test_a_follower_is_told_when_to_look_again() -> None:
    log = container_log(_pod(RUNNING, "one\n@2m two"), "c", False, NOW)
    assert (log.next_at, log.ended) == (NOW + datetime.timedelta(minutes=1), False)
