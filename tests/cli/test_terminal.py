"""Control characters in objects are escaped for the terminal."""

import json
from typing import Any

import yaml
from tests.tables import cases

from pilothouse.cli.get import Table, _Column, _Row, table_lines, yaml_text
from pilothouse.cli.history import described, version_lines
from pilothouse.cli.terminal import escaped, escaped_json

HOSTILE = "\x1b]0;owned\x07\x9b2J"
SHOWN = r"^[]0;owned\x07\x9b2J"


HIDDEN = "nginx\u202e4.1\u200b\u2066\u2028\ufeff\xad\x9b\x7f\U000e0041é"
HIDDEN_SHOWN = r"nginx\u202e4.1\u200b\u2066\u2028\ufeff\xad\x9b\x7f\U000e0041é"


@cases(
    "text, expected",
    {
        "directions, invisible characters and tags": (HIDDEN, HIDDEN_SHOWN),
        "lone surrogate": ("\ud83d", r"\ud83d"),
        "text in any script": ("naïve 日本語 עברית 🙂", "naïve 日本語 עברית 🙂"),
    },
)
def test_plain_text_is_unchanged(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_json_and_yaml_have_no_hidden_characters_and_the_same_value() -> None:
    document = {"image": HIDDEN, HIDDEN: ["é"]}
    text = escaped_json(json.dumps(document, ensure_ascii=False, indent=2))
    written = yaml_text(document)
    for text_found, decoded in ((text, json.loads(text)), (written, yaml.safe_load(written))):
        assert decoded == document
        assert [line for line in text_found.split("\n") if line != escaped(line)] == []
    assert yaml_text({"image": "é"}) == "image: é\n"


async def test_tables_show_control_characters() -> None:
    table = Table([_Column("Name"), _Column(HOSTILE)], [_Row(["a", HOSTILE], {}), _Row(["b", "one\rtwo\nthree"], {})])
    assert table_lines(table, wide=False, with_namespace=False) == [
        r"NAME   ^[]0;OWNED\x07\x9b2J",
        f"a      {SHOWN}",
        "b      one...",
    ]


async def test_histories_show_control_characters() -> None:
    def version(revision: str, spec: dict[str, Any]) -> dict[str, Any]:
        entry = {"manager": f"{HOSTILE}\n", "time": HOSTILE, "operation": "Update", "fieldsV1": {"f:spec": spec}}
        return {"metadata": {"resourceVersion": revision, "managedFields": [entry]}, "spec": spec}

    versions = [("ADDED", version("1", {})), ("MODIFIED", version("2", {f"{HOSTILE}\n": "\x9b2J"}))]
    lines = [
        line for item in described(versions, lambda _revision: "") for line in version_lines(item, all_fields=True)
    ]
    assert any(SHOWN in line for line in lines)
    assert not [line for line in lines if any(ord(item) < 32 or 127 <= ord(item) < 160 for item in line)]
