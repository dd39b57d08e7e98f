"""Ctrl-C while a command is loaded."""

import importlib
import types

import pytest

from pilothouse import cli
from pilothouse.cli import dispatch


def interrupted(*_words: object) -> types.ModuleType:
    raise KeyboardInterrupt


def test_of_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(dispatch, "_PROGRAMS", {"create": interrupted})
    with pytest.raises(SystemExit) as ended:
        dispatch.main(["create", "cluster"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\nInterrupted: nothing was done\n"


def test_of_the_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(vars(cli), "main", raising=False)
    monkeypatch.setattr(importlib, "import_module", interrupted)
    with pytest.raises(SystemExit) as ended:
        _ = cli.main
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\nInterrupted: nothing was done\n"
