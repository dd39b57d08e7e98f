"""Files whose state can't even be asked for end with their name and the reason.

A name that is too long stands for a folder that may not be entered: the system refuses that to root, too.
"""

from pathlib import Path

import pytest

from pilothouse.cli import manifests, restored
from pilothouse.cli.output_files import why_unwritable
from pilothouse.cli.program import UserError
from pilothouse.client import connect
from pilothouse.client.errors import ConfigError

TOO_LONG = "x" * 300


def test_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unable to read manifest .*: File name too long"):
        manifests.load(str(tmp_path / TOO_LONG))


def test_the_default_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the kubeconfig: File name too long"):
        connect.find(environ={"HOME": str(tmp_path / TOO_LONG)})


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
