"""The kubeconfig that programs write: who else used the file is told."""

import socket
from pathlib import Path

import pytest

from pilothouse.cli.program import UserError
from pilothouse.cli.written_kubeconfig import write


def kubeconfig(server: str) -> dict[str, object]:
    return {"clusters": [{"name": "pilothouse", "cluster": {"server": server}}]}


def test_the_file_of_a_server_that_still_runs_is_taken_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as other:
        first = f"https://127.0.0.1:{other.getsockname()[1]}"
        write(path, first, kubeconfig(first))
        write(path, first, kubeconfig(first))
        assert capsys.readouterr().err == "", "its own file"
        write(path, "https://127.0.0.1:1", kubeconfig("https://127.0.0.1:1"))
    assert capsys.readouterr().err == (
        f"note: {path} was for {first}, which still runs; from now on it is for https://127.0.0.1:1"
        " (--kubeconfig FILE keeps them apart)\n"
    )
    assert "https://127.0.0.1:1" in path.read_text()


def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a directory; name a file with --write-kubeconfig"):
        write(tmp_path, "https://127.0.0.1:1", {}, flag="--write-kubeconfig")


def test_the_file_of_a_server_that_is_gone_is_taken_silently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    for server in ("https://127.0.0.1:1", "http://[bad", "https://127.0.0.1:2"):
        write(path, server, kubeconfig(server))
    assert capsys.readouterr().err == ""
