"""The recorded sessions of the documentation equal the output of their commands."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts.record_session import SESSIONS, Session, played, record, shown
from scripts.terminal_svg import drawn

KUBECTL = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kubectl"
every_session = pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)


def text_of(events: list[tuple[float, str]]) -> str:
    return "".join(text for _seconds, text in events)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif(not KUBECTL.is_file(), reason="no kubectl in KUBEBUILDER_ASSETS")
@every_session
def test_session_output_is_current(session: Session) -> None:
    recorded = text_of(played(session.cast.read_text("utf-8").splitlines()))
    assert text_of(record(session).events) == recorded, "python -m scripts.record_session records it"


@every_session
def test_page_and_image_match_the_cast(session: Session) -> None:
    head, *lines = session.cast.read_text("utf-8").splitlines()
    assert json.loads(head) == {"version": 2, "width": 120, "height": 32, "title": session.title}
    seconds = [json.loads(line)[0] for line in lines]
    assert seconds == sorted(seconds)
    assert session.file.read_text("utf-8") == shown(session, played([head, *lines]))


def test_image_escapes_markup() -> None:
    root = ElementTree.fromstring(drawn([(0.5, "$ kubectl get <x> & wait\n"), (1.0, "a < b\nc\n")], "A & B"))
    lines = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert lines == ["$ kubectl get <x> & wait", "a < b", "c"]
    assert root.attrib["aria-label"] == "A & B"
