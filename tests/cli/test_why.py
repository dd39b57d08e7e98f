"""``pilothouse why`` prints whole lines to files and pipes, and shortens them for a terminal."""

import sys
from typing import Any

import pytest

from pilothouse.cli import why as command
from pilothouse.machinery.flags import Parsed
from pilothouse.why import Explanation
from pilothouse.why.states.containers import container_lines, failures
from pilothouse.why.steps import Step

PULL = (
    "rpc error: code = NotFound desc = failed to pull and unpack image: " + "registry.example.com/" * 12 + "not found"
)


def pod(message: str) -> dict[str, Any]:
    waiting = {"reason": "ImagePullBackOff", "message": message}
    return {
        "spec": {"containers": [{"name": "web", "image": "nginx:404"}]},
        "status": {"containerStatuses": [{"name": "web", "image": "nginx:404", "state": {"waiting": waiting}}]},
    }


def test_the_message_of_a_container_is_whole() -> None:
    (failure,) = failures(pod(PULL))
    assert failure.text.endswith(f"can't be pulled: ImagePullBackOff: {PULL}")


def test_the_message_of_a_container_is_bounded() -> None:
    """Whoever writes a pod's status can make it as large as the API server's limit."""
    document = pod("x" * 1_000_000)
    (failure,) = failures(document)
    assert 4000 < len(failure.text) < 5000
    assert all(len(line) < 5000 for line in container_lines(document))


@pytest.mark.parametrize("is_terminal", [False, True])
def test_lines_are_shortened_on_a_terminal_only(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    step = Step(text=f"pod/web is held up: {'x' * 1000}", table=["y" * 300])
    command._print(Parsed({"output": "text"}, (), ()), Explanation(object="pod/web", state="not started", steps=[step]))
    lines = capsys.readouterr().out.splitlines()
    assert any("y" * 300 in line for line in lines)
    assert any("x" * 1000 in line for line in lines) != is_terminal
    assert any("xxx…" in line and len(line) == 400 for line in lines) == is_terminal
