"""Objects that do not match their types: which fields are decoded, and which are errors."""

import datetime
import enum
import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client.errors import UndecodableObject
from pilothouse.operator import lenient


class Mode(enum.Enum):
    ON = "on"


class Part(View, frozen=True):
    name: str
    size: Annotated[int, msgspec.Meta(le=3)] = 1


class All(View, frozen=True):
    text: Annotated[str, msgspec.Meta(pattern="^a")]
    count: int
    share: float
    is_on: bool
    at: datetime.datetime
    port: int | str
    maybe: int | None
    mode: Literal["a", "b"]
    kind: Mode
    data: bytes
    anything: Any
    part: Part
    parts: tuple[Part, ...]
    names: set[str]
    by_name: dict[str, Part]
    raw: msgspec.Raw
    metadata: ObjectMeta = ObjectMeta()


def read(view: type[Any], data: Any) -> tuple[Any, bool]:
    return lenient.read(view, json.dumps(data).encode(), lambda: "Thing one")


def test_missing_fields_have_their_zero_value() -> None:
    lenient_object, fits = read(All, {"metadata": {"name": "a"}})
    assert not fits
    zero_time = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    assert msgspec.structs.astuple(lenient_object) == (
        "", 0, 0.0, False, zero_time, 0, None, "", "", b"", None, Part(name=""), (), set(), {}, msgspec.Raw(b"null"),
        ObjectMeta(name="a"),
    )  # fmt: skip
    assert lenient.without_defaults(lenient_object, {}) == {"metadata": {"name": "a"}}


def test_bounds_and_enumerations_are_left_to_the_schema() -> None:
    raw_object = {
        "text": "b", "count": 1, "share": 1, "isOn": True, "at": "2026-01-31T00:00:00Z", "port": "http", "maybe": None,
        "mode": "c", "kind": "off", "data": "YQ==", "anything": {"a": 1}, "part": {"size": 5, "unknown": 1},
        "parts": [{"name": "a", "size": 7}], "names": ["a"], "byName": {"a": {"size": 9}}, "raw": [1],
    }  # fmt: skip
    lenient_object, fits = read(All, raw_object)
    assert not fits
    assert (
        lenient_object.text,
        lenient_object.mode,
        lenient_object.kind,
        lenient_object.port,
        lenient_object.data,
    ) == ("b", "c", "off", "http", b"a")
    assert lenient_object.part == Part(name="", size=5)
    assert lenient_object.parts == (Part(name="a", size=7),)
    assert lenient_object.by_name == {"a": Part(name="", size=9)}
    shortened = lenient.without_defaults(lenient_object, raw_object)
    expected = {**raw_object, "part": {"size": 5}}
    assert {name: shortened.get(name) for name in expected} == expected
    assert shortened.keys() - expected.keys() <= {"metadata"}


def test_valid_object_is_read() -> None:
    assert read(Part, {"name": "a", "size": None}) == (Part(name="a"), True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"part": {"name": 1}}, "Thing one cannot be read: part.name: expected a string, got an integer"),
        ({"parts": [{}, []]}, r"parts\[1\]: expected an object, got a list"),
        ({"parts": {}}, "parts: expected a list, got an object"),
        ({"byName": {"a": True}}, r"byName\[a\]: expected an object, got a boolean"),
        ({"count": "x"}, 'count: expected an integer, got "x"'),
        ({"count": 1.5}, "count: expected an integer, got a number"),
        ({"at": "today"}, 'at: expected a date and time .*, got "today"'),
        ({"mode": 1}, "mode: expected a string, got an integer"),
        ({"kind": 1}, "kind: expected a string, got an integer"),
        ({"port": True}, "port: expected an integer, got a boolean; port: expected a string, got a boolean"),
        ([], "the object: expected an object, got a list"),
    ],
)
def test_values_of_other_types_are_named(data: Any, message: str) -> None:
    with pytest.raises(UndecodableObject, match=message):
        read(All, data)


@pytest.mark.parametrize("body", [b"{", b'{"part":' + b"[" * 5000])
def test_invalid_json_is_an_error(body: bytes) -> None:
    with pytest.raises(UndecodableObject, match="Thing one cannot be read"):
        lenient.read(All, body, lambda: "Thing one")


class Lists(View, frozen=True):
    name: str
    by_name: dict[str, list[int | str]] = {}


def test_keys_are_not_copied_for_every_value_below_them() -> None:
    items: list[int | str] = ["a"] * 20_000
    key = "k" * 1_000_000
    assert read(Lists, {"byName": {key: items}}) == (Lists(name="", by_name={key: items}), False)
    with pytest.raises(UndecodableObject, match=r"byName\[k+…\]\[1\]: expected an integer, got a boolean") as error:
        read(Lists, {"byName": {key: [1, True]}})
    assert len(str(error.value)) < 300


def test_large_objects_that_do_not_fit_are_not_read_leniently() -> None:
    items = [0] * lenient.MAX_VALUES
    assert read(Lists, {"name": "a", "byName": {"a": items}})[1]
    with pytest.raises(UndecodableObject, match=r"field `name`.*; with more than 50,000 values it is not read"):
        read(Lists, {"byName": {"a": items}})
