"""What objects say does not reach the terminal as commands."""

from typing import Any

from pilothouse.cli.get import _Column, _Row, _Table, table_lines
from pilothouse.cli.history import described, version_lines

HOSTILE = "\x1b]0;owned\x07\x9b2J"
SHOWN = r"^[]0;owned\x07\x9b2J"


async def test_tables_show_control_characters() -> None:
    table = _Table([_Column("Name"), _Column(HOSTILE)], [_Row(["a", HOSTILE], {}), _Row(["b", "one\rtwo\nthree"], {})])
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
        line for each in described(versions, lambda _revision: "") for line in version_lines(each, all_fields=True)
    ]
    assert any(SHOWN in line for line in lines)
    assert not [line for line in lines if any(ord(each) < 32 or 127 <= ord(each) < 160 for each in line)]
