"""What is empty and not stored: the quick look at a document misses nothing."""

from collections.abc import Iterator

import pytest

from pilothouse.api import schema
from pilothouse.api.schema import Definition
from pilothouse.apiserver.serializers.omitempty import KEPT, drop_empty, may_have_empty


def definitions() -> dict[str, Definition]:
    """Every type of the API, by name."""
    found: dict[str, Definition] = {}

    def walk(definition: Definition) -> None:
        if definition.name not in found:
            found[definition.name] = definition
            for below in parts(definition):
                walk(below)

    loaded = schema.load()
    for kind in loaded.kinds:
        root = loaded.for_kind(*kind)
        assert root is not None
        walk(root)
    return found


def parts(definition: Definition) -> Iterator[Definition]:
    for field in definition.fields.values():
        type_ = field.type
        while type_.element is not None:
            type_ = type_.element
        if type_.name == "object":
            yield type_.definition


@pytest.mark.parametrize("text", KEPT)
def test_what_the_quick_look_passes_over_is_printed_wherever_it_stands(text: str) -> None:
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'{"phase":"Running"}', False, id="nothing is empty"),
        pytest.param(b'{"lastState":{},"ready":false,"restartCount":0}', False, id="what is always printed"),
        pytest.param(b'{"lastState":{},"labels":{}}', True, id="a map beside it"),
        pytest.param(b'{"ready":false,"hostNetwork":false}', True, id="a boolean beside it"),
        pytest.param(b'{"restartCount":0,"priority": 0}', True, id="a number beside it"),
        pytest.param(b'{"reason":""}', True, id="a text"),
        pytest.param(b'{"startTime":"2026-01-01T00:00:07Z"}', False, id="a time is not a number"),
        pytest.param(b'{"items":[]}', True, id="a list"),
    ],
)
def test_the_quick_look(text: bytes, expected: bool) -> None:
    assert may_have_empty(text) is expected
