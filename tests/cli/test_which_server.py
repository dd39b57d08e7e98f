"""Programs name the server that they use, and where its address is from: it may be the current context by default."""

from pathlib import Path

import pytest
import yaml

from pilothouse.cli import main
from pilothouse.client import Client
from pilothouse.runtime import api_server

_SERVER = "https://prod.example.com:6443"


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of KUBECONFIG; its server does not respond."""
    path = tmp_path / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": _SERVER}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "production", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "production",
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(path))

    async def refuse(_client: Client, *_arguments: object) -> None:
        raise ConnectionRefusedError("connection refused")

    monkeypatch.setattr(Client, "request", refuse)
    monkeypatch.setattr(api_server, "WAIT_SECONDS", 0.0)
    return path


@pytest.mark.parametrize(
    "words", ["scheduler", "nodes", "manager --secure-port=0 --leader-elect=false"], ids=lambda words: words.split()[0]
)
def test_the_current_context_by_default(words: str, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 1
    printed = capsys.readouterr().err
    (line,) = [line for line in printed.splitlines() if "Using the API server" in line]
    assert line.startswith("I")
    assert line.endswith(f'server="{_SERVER}" source="{kubeconfig}" context="production"')
    assert (
        f"Error: failed to wait for apiserver being healthy at {_SERVER} (context production of {kubeconfig}): "
        "connection refused; is it running, and is its address right?"
    ) in printed


def test_a_command_names_the_context_in_its_error(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "pods"]) == 1
    printed = capsys.readouterr().err
    assert "Using the API server" not in printed
    assert f"being healthy at {_SERVER} (context production of {kubeconfig}): connection refused" in printed
