"""The wheel has everything an installation needs, and no tests."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest
from tests.programs import ROOT

import pilothouse

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """A wheel of the current tree."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = directory.iterdir()
    with zipfile.ZipFile(path) as archive:
        yield archive


def metadata(wheel: zipfile.ZipFile, name: str) -> bytes:
    return wheel.read(f"pilothouse-{pilothouse.__version__}.dist-info/{name}")


def test_wheel_has_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    tree = {path.relative_to(source).as_posix() for path in source.glob("pilothouse/**/*") if path.is_file()}
    here = {path for path in tree if "__pycache__" not in Path(path).parts}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == here
    assert "pilothouse/py.typed" in here


def test_wheel_has_entry_points(wheel: zipfile.ZipFile) -> None:
    text = metadata(wheel, "entry_points.txt").decode()
    for line in (
        "kube-controller-manager = pilothouse.cli:kube_controller_manager",
        "pilothouse = pilothouse.cli:main",
    ):
        assert line in text
    assert "[pytest11]" in text


def test_wheel_has_the_license(wheel: zipfile.ZipFile) -> None:
    result = message_from_bytes(metadata(wheel, "METADATA"))
    assert result["License-Expression"] == "Apache-2.0"
    assert metadata(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert metadata(wheel, "licenses/NOTICE") == (ROOT / "NOTICE").read_bytes()
