"""The recorded session of the documentation is what its commands print."""

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

import pytest
from tests.programs import ROOT

KUBECTL = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kubectl"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_session", ROOT / "scripts/record_session.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif(not KUBECTL.is_file(), reason="no kubectl in KUBEBUILDER_ASSETS")
def test_the_session_is_as_it_was_recorded(script: ModuleType) -> None:
    assert script.page(script.record()) == script.PAGE.read_text("utf-8"), "python scripts/record_session.py records it"


def test_the_cast_shows_the_page(script: ModuleType) -> None:
    head, *lines = [json.loads(line) for line in script.CAST.read_text("utf-8").splitlines()]
    assert head == {"version": 2, "width": 120, "height": 32, "title": "An operator with pilothouse"}
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)
    shown = "".join(text for _seconds, kind, text in lines if kind == "o")
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r\n", "\n")
    assert f"```console\n{plain}```\n" in script.PAGE.read_text("utf-8")
