"""docs/conformance.md lists why a kubectl session differs on the two servers, as its test does."""

import re
from pathlib import Path

from tests.clients.kubectl_session.causes import CAUSES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"


def test_every_cause_of_a_difference_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| (v1\.\d+) \| ([^|]*) \| [^|]* \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == {(cause.release, cause.what) for cause in CAUSES}
