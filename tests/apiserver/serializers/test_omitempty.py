"""Removal of empty fields before storing: the prefilter misses none."""

from collections.abc import Iterator

import pytest
from tests.tables import cases

from pilothouse.api import schema
from pilothouse.api.schema import Definition
from pilothouse.apiserver.serializers.omitempty import KEPT_IF_EMPTY, drop_empty, may_have_empty


def definitions() -> dict[str, Definition]:
    """Every type of the API, by name."""
    result: dict[str, Definition] = {}

    def walk(definition: Definition) -> None:
        if definition.name not in result:
            result[definition.name] = definition
            for below in parts(definition):
                walk(below)

    loaded = schema.load()
    for kind in loaded.kinds:
        root = loaded.for_kind(*kind)
        assert root is not None
        walk(root)
    return result


def parts(definition: Definition) -> Iterator[Definition]:
    for field in definition.fields.values():
        type_ = field.type
        while type_.element is not None:
            type_ = type_.element
        if type_.name == "object":
            yield type_.definition


@pytest.mark.parametrize("text", KEPT_IF_EMPTY)
def test_prefilter_misses_no_empty_fields(text: str) -> None:
    name, _colon, value = text.partition(":")
    empty = {"{}": {}, "0": 0, "false": False}[value]
    having = [definition for definition in definitions().values() if name in definition.fields]
    assert having, "some type has it"
    for definition in having:
        document = {name: empty}
        drop_empty(document, definition)
        kind = definition.fields[name].type.name
        fits = {"{}": kind in ("object", "map"), "0": kind in ("int32", "int64"), "false": kind == "bool"}[value]
        assert document or not fits, f"{definition.name} leaves it out"


@cases(
    "text, expected",
    {
        "no empty values": (b'{"phase":"Running"}', False),
        "empty values without omitempty": (b'{"lastState":{},"ready":false,"restartCount":0}', False),
        "empty map with omitempty beside": (b'{"lastState":{},"labels":{}}', True),
        "false with omitempty beside": (b'{"ready":false,"hostNetwork":false}', True),
        "zero with omitempty beside": (b'{"restartCount":0,"priority": 0}', True),
        "a text": (b'{"reason":""}', True),
        "a time is not a number": (b'{"startTime":"2026-01-01T00:00:07Z"}', False),
        "a list": (b'{"items":[]}', True),
    },
)
def test_prefilter(text: bytes, expected: bool) -> None:
    assert may_have_empty(text) is expected
