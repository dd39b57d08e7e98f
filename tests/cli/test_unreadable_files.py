"""Files that cannot be stat'ed cause an error with their name and the reason.

A name that is too long is used instead of a directory without permission: the system rejects it for root, too.
"""

import errno
import re
from pathlib import Path

import pytest
from tests.snapshots.files import config_map, snapshot_of
from tests.tables import cases

from pilothouse.cli import main, manifests, restored
from pilothouse.cli.clusters import contexts
from pilothouse.cli.output_files import why_unwritable
from pilothouse.cli.program import UserError
from pilothouse.client import connect
from pilothouse.client.errors import ConfigError
from pilothouse.env import Env
from pilothouse.serving.certificates import create_authority
from pilothouse.serving.client_certificates import Authorities
from pilothouse.serving.tls import Files, ServerTls

TOO_LONG = "x" * 300


def test_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unable to read manifest .*: File name too long"):
        manifests.load(str(tmp_path / TOO_LONG))


def test_the_default_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the kubeconfig: File name too long"):
        connect.find(environ={"HOME": str(tmp_path / TOO_LONG)})


def test_the_kubeconfig_of_a_new_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container that runs as another user, with the home directory of root."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / TOO_LONG))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["create", "cluster", "--in-memory"]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(
        r"Error: unable to read kubeconfig .*x/\.kube/config: File name too long; KUBECONFIG or --kubeconfig names "
        r"another file, `create cluster --no-context` adds no context\n",
        error,
    ), error
    assert main(["list"]) == 0
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / TOO_LONG}:{tmp_path / 'config'}")
    assert contexts.user_kubeconfig("") == tmp_path / "config"


@pytest.mark.parametrize("words", ["create cluster", "envtest-assets --dir=x"])
def test_a_working_directory_that_was_deleted(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a CI service does that cleans its workspace."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    directory = tmp_path / "workspace"
    directory.mkdir()
    monkeypatch.chdir(directory)
    directory.rmdir()
    assert main(words.split()) == 1
    assert capsys.readouterr().err == "Error: the working directory was deleted; change to another one\n"
    assert main(["list"]) == 0


def test_a_data_directory_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    assert restored._origin(str(tmp_path / TOO_LONG)) is None


def test_output_files(tmp_path: Path) -> None:
    (tmp_path / "old.html").write_text("")
    assert why_unwritable(str(tmp_path / "old.html")) == why_unwritable(str(tmp_path / "new.html")) == ""
    assert why_unwritable("/dev/null") == ""
    assert why_unwritable(str(tmp_path)) == "Is a directory"
    assert why_unwritable(str(tmp_path / "none" / "new.html")) == "No such file or directory"
    assert why_unwritable(str(tmp_path / "old.html" / "new.html")) == "Not a directory"
    assert why_unwritable(str(tmp_path / TOO_LONG)) == "File name too long"


BINARY = bytes(range(128, 256))


@cases(
    "command, error",
    {
        "token file": ("up --port=0 --token-auth-file=BINARY", "--token-auth-file BINARY: it is not UTF-8 text"),
        "manager's file": ("manager --config=BINARY", "--config BINARY: it is not UTF-8 text"),
        "manager's YAML": ("manager --config=YAML", "--config YAML: not valid YAML: line 2, column 1: "),
        "kubeconfig": ("get pods --kubeconfig=BINARY", "BINARY: the kubeconfig is not YAML: "),
        "kubeconfig's YAML": ("get pods --kubeconfig=YAML", "YAML: the kubeconfig is not YAML: line 2, column 1: "),
        "etcd's CA": (
            "up --port=0 --etcd-servers=https://127.0.0.1:1 --etcd-cafile=FOLDER",
            "--etcd-cafile FOLDER: Is a directory",
        ),
        "etcd's key": (
            "up --port=0 --etcd-servers=https://127.0.0.1:1 --etcd-certfile=PEM --etcd-keyfile=BINARY",
            "--etcd-keyfile BINARY: there is no PEM block in it",
        ),
        "empty snapshot": ("snapshot show EMPTY", "EMPTY: this is no snapshot: the file is empty"),
    },
)
def test_errors_of_files_are_one_line_with_the_file_and_the_reason(
    command: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("BINARY").write_bytes(BINARY)
    Path("YAML").write_text("a: [\n")
    Path("PEM").write_text("-----BEGIN CERTIFICATE-----\n")
    Path("EMPTY").touch()
    Path("FOLDER").mkdir()
    assert main(command.split()) in {1, 2}
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"Error: {error}")
    assert [line for line in rest if not line.startswith("See ")] == []


def test_the_data_directory_of_a_restore_is_named_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = tmp_path / "s"
    snapshot_of(snapshot, config_map("a"))
    (tmp_path / "file").touch()
    assert main(["snapshot", "restore", str(snapshot), "--data-dir", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err == f"Error: the data directory {tmp_path / 'file'} can't be used: it is a file\n"


@pytest.mark.parametrize("missing", ["cert", "key"])
def test_the_certificate_or_the_key_that_cannot_be_read_is_named(tmp_path: Path, missing: str) -> None:
    files = {name: tmp_path / name for name in ("cert", "key")}
    create_authority("ca", Env().now()).save(files["cert"], files["key"])
    files[missing].unlink()
    files[missing].mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        ServerTls(Files(files["cert"], files["key"]))
    assert (raised.value.errno, raised.value.filename) == (errno.EISDIR, str(files[missing]))


def test_a_client_authority_without_certificates() -> None:
    with pytest.raises(ValueError, match=r"^the client CA is not a PEM certificate: Unable to load PEM file\. \w+$"):
        Authorities(b"")
