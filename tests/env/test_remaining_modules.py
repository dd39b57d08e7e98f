"""Modules that are loaded after the start of a program, so that it survives an upgrade or the end of its files."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.api import packaged
from pilothouse.env.remaining_modules import AFTER_SECONDS, load_remaining_modules

ROOT = "program_of_a_test"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    files = {
        "__init__": "",
        "used/__init__": "",
        "used/start": "",
        "used/later": "value = 1",
        "used/broken": "import none_of_that_name",
        "used/below/__init__": "",
        "used/below/deep": "value = 2",
        "used/large/__init__": "",
        "used/large/part": "",
        "unused/__init__": "",
        "unused/part": "",
    }
    for name, text in files.items():
        path = tmp_path / ROOT / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / ROOT
    for name in [name for name in sys.modules if name.startswith(ROOT)]:
        del sys.modules[name]


async def test_remaining_modules_are_loaded_and_survives_its_files(program: Path) -> None:
    __import__(f"{ROOT}.used.start")
    await load_remaining_modules(ROOT, left_out=(f"{ROOT}.used.large",))
    loaded = {name.removeprefix(f"{ROOT}.") for name in sys.modules if name.startswith(f"{ROOT}.")}
    assert loaded == {"used", "used.start", "used.later", "used.below", "used.below.deep"}
    shutil.rmtree(program)
    assert sys.modules[f"{ROOT}.used.later"].value == 1
    assert AFTER_SECONDS >= 5, "a start, and a short test, do not pay for it"


def test_data_files_that_are_open_survive_their_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part/data").mkdir(parents=True)
    (tmp_path / "part/data/table.json").write_bytes(b"{}")
    monkeypatch.setattr(packaged, "_PACKAGE", tmp_path)
    monkeypatch.setattr(packaged, "_kept", {})
    packaged.keep_open()
    shutil.rmtree(tmp_path / "part")
    assert [packaged.packaged("part/data/table.json") for _time in range(2)] == [b"{}", b"{}"]
    for file in packaged._kept.values():
        file.close()
    shutil.rmtree(tmp_path)
    with pytest.raises(FileNotFoundError, match="was deleted while this program runs: install it again and restart"):
        packaged.packaged("part/data/other.json")
