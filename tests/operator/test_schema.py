"""Structural schemas and definitions from classes."""

import dataclasses
import datetime
import ipaddress
from typing import Annotated, Any, Literal

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.meta import Condition, LabelSelector, ObjectMeta, View
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.env import Env
from pilothouse.operator import App, ClientConfig, Column, Context, CustomResource, Rule, Version, validations
from pilothouse.operator.schema import object_schema
from pilothouse.testing import Cluster, async_plane


class Inner(View, frozen=True):
    """A part.

    Only the first paragraph describes it.
    """

    size: int = 0


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (int, 0, {"type": "integer", "format": "int64"}),
        (int, 3, {"type": "integer", "format": "int64", "default": 3}),
        (Annotated[int, msgspec.Meta(ge=1, lt=9)], 0, {
            "type": "integer", "format": "int64", "minimum": 1, "maximum": 9, "exclusiveMaximum": True}),
        (float, 0.0, {"type": "number"}),
        (bool, False, {"type": "boolean"}),
        (bool, True, {"type": "boolean", "default": True}),
        (Annotated[str, msgspec.Meta(min_length=1, max_length=5, pattern="^a")], "", {
            "type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a"}),
        (Literal["a", "b"], "a", {"type": "string", "enum": ["a", "b"], "default": "a"}),
        (datetime.datetime | None, None, {"type": "string", "format": "date-time", "nullable": True}),
        (int | str, 0, {"x-kubernetes-int-or-string": True}),
        (dict[str, int], {}, {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}}),
        (tuple[str, ...], (), {"type": "array", "items": {"type": "string"}}),
        (Annotated[list[str], msgspec.Meta(max_length=3)], [], {
            "type": "array", "items": {"type": "string"}, "maxItems": 3}),
        (frozenset[str], frozenset(), {
            "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        (Inner, Inner(), {
            "type": "object", "description": "A part.",
            "properties": {"size": {"type": "integer", "format": "int64"}}}),
        (dict[str, Any], {}, {
            "type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}}),
        (msgspec.Raw, msgspec.Raw(b"{}"), {"x-kubernetes-preserve-unknown-fields": True}),
    ],
)  # fmt: skip
def test_the_schema_of_a_field(annotation: Any, default: Any, expected: dict[str, Any]) -> None:
    view = msgspec.defstruct("Thing", [("some_field", annotation, default)], rename="camel", frozen=True)
    assert object_schema(view) == {"type": "object", "properties": {"someField": expected}}


@dataclasses.dataclass
class Plain:
    size: int = 0


class Recursive(View, frozen=True):
    below: "tuple[Recursive, ...]" = ()


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (int | bool, "Thing.some_field: a union of several types"),
        (dict[int, str], r"Thing.some_field: keys of maps are strings: write dict\[str, …\]"),
        (dict, r"Thing.some_field: keys of maps are strings: write dict\[str, …\]"),
        (Plain, "Thing.some_field: Plain has no structural schema: derive the class from View"),
        (datetime.timedelta, r"Thing.some_field: timedelta has no structural schema: write str, .*parse_duration"),
        (datetime.date, "Thing.some_field: date has no structural schema: write datetime.datetime or str"),
        (ipaddress.IPv4Address, "Thing.some_field: IPv4Address has no structural schema$"),
        (Literal["a", 1], "Thing.some_field: values of an enumeration"),
        (complex, "Thing.some_field"),
        (Recursive, "Recursive contains itself"),
    ],
)
def test_a_field_without_a_structural_schema_is_named(annotation: Any, message: str) -> None:
    view = msgspec.defstruct("Thing", [("some_field", annotation)])
    with pytest.raises(TypeError, match=message):
        object_schema(view)


class Spec(View, frozen=True):
    low: int
    high: Annotated[int, msgspec.Meta(le=100)] = 10


class Range(View, frozen=True):
    """Two numbers."""

    spec: Spec
    metadata: ObjectMeta = ObjectMeta()
    status: Inner = Inner()


RANGES = CustomResource(
    "example.com/v1",
    Range,
    short_names=("rg",),
    columns=(Column("Low", ".spec.low", "integer"),),
    rules=(Rule("self.spec.low <= self.spec.high", "low must not exceed high"),),
)


def test_the_definition_of_a_class() -> None:
    result = RANGES.definition()
    assert result["metadata"] == {"name": "ranges.example.com"}
    assert result["spec"]["names"] == {
        "kind": "Range", "listKind": "RangeList", "plural": "ranges", "singular": "range", "shortNames": ["rg"],
    }  # fmt: skip
    (version,) = result["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"] == [{"name": "Low", "type": "integer", "jsonPath": ".spec.low"}]
    schema = version["schema"]["openAPIV3Schema"]
    assert schema["required"] == ["spec"]
    assert schema["properties"]["spec"]["required"] == ["low"]
    assert "metadata" not in schema["properties"]


def test_conditions_are_a_map_by_type() -> None:
    """As metav1.Condition is generated: server-side apply merges conditions of several managers."""
    view = msgspec.defstruct("Thing", [("conditions", tuple[Condition, ...], ())], rename="camel", frozen=True)
    result = object_schema(view)["properties"]["conditions"]
    assert (result["x-kubernetes-list-type"], result["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    assert result["items"]["required"] == ["type", "status"]


def test_an_api_version_without_a_group_is_rejected() -> None:
    with pytest.raises(ValueError, match="GROUP/VERSION, got 'v1'"):
        CustomResource("v1", Range)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"low": 1}, ""),
        ({"low": 50}, "low must not exceed high"),
        ({"low": 1, "high": 200}, "should be less than or equal to 100"),
        ({}, "spec.low: Required value"),
    ],
)
async def test_the_api_server_validates_by_the_definition(env: Env, spec: dict[str, int], message: str) -> None:
    app = App("ranges")

    @app.controller(RANGES)
    async def sync(_obj: Range, _ctx: object) -> None:
        return

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        client: Client = cluster.client
        await app.install(client)
        body = {"apiVersion": "example.com/v1", "kind": "Range", "metadata": {"name": "one"}, "spec": spec}
        if message:
            with pytest.raises(Exception, match=message):
                await client.create(RANGES.kind, body, "default")
            return
        created = await client.create(RANGES.kind, body, "default")
        assert created.spec.high == 10


class LampSpec(View, frozen=True):
    color: Annotated[str, validations(Rule("self != 'red'", message_expression="'no ' + self"))] = "white"
    watts: int = 5


class Lamp(View, frozen=True):
    spec: LampSpec = LampSpec()
    metadata: ObjectMeta = ObjectMeta()


LAMPS = CustomResource(
    "example.com/v1",
    Lamp,
    selectable_fields=(".spec.color",),
    rules=(
        Rule(
            "oldSelf.hasValue() || self.spec.watts < 10",
            "a new lamp is small",
            reason="FieldValueForbidden",
            field_path=".spec.watts",
            optional_old_self=True,
        ),
    ),
)


async def test_rules_and_selectable_fields_are_the_api_servers(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=(), crds=LAMPS) as cluster:
        client = cluster.client

        async def create(name: str, **spec: Any) -> None:
            body = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": name}, "spec": spec}
            await client.create(LAMPS.kind, body, "default")

        await create("white")
        await create("green", color="green")
        with pytest.raises(ApiError) as raised:
            await create("red", color="red", watts=60)
        details = raised.value.status.details
        assert details is not None
        assert sorted((cause.field, cause.reason, cause.message) for cause in details.causes) == [
            ("spec.color", "FieldValueInvalid", 'Invalid value: "red": no red'),
            ("spec.watts", "FieldValueForbidden", "Forbidden: a new lamp is small"),
        ]
        result = await client.list(LAMPS.kind, "default", field_selector="spec.color=green")
        assert [item.metadata.name for item in result.items] == ["green"]


class LampSpecV1(View, frozen=True):
    color: str = "white"


class LampV1(View, frozen=True):
    spec: LampSpecV1 = LampSpecV1()
    metadata: ObjectMeta = ObjectMeta()


@cases(
    "view, functions, fields, message",
    {
        "different schemas, same fields": (
            LampV1,
            True,
            (".spec.color",),
            "different schemas: the API server takes only",
        ),
        "different schemas, different fields": (LampV1, True, (), ""),
        "same schema, other fields": (Lamp, False, (), "the same schema: the API server takes only the same"),
        "same schema, same fields": (Lamp, False, (".spec.color",), ""),
    },
)
async def test_selectable_fields_that_the_api_server_does_not_take_are_rejected(
    env: Env, view: type[Any], functions: bool, fields: tuple[str, ...], message: str
) -> None:
    to_hub, from_hub = (lambda _old: Lamp(), lambda _new: view()) if functions else (None, None)
    older = Version("v1", view, to_hub, from_hub, selectable_fields=fields)

    def resource() -> CustomResource[Lamp]:
        return CustomResource("example.com/v2", Lamp, selectable_fields=(".spec.color",), versions=(older,))

    if not message:
        definition = resource().definition(ClientConfig(url="https://localhost"))
        async with async_plane(env=env, nodes=0, controllers=(), crds=definition):
            return
    with pytest.raises(ValueError, match=message):
        resource()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CustomResource, "_check_selectable_fields", lambda _resource: None)
        definition = resource().definition(ClientConfig(url="https://localhost"))
    with pytest.raises(ApiError, match="selectableFields"):
        async with async_plane(env=env, nodes=0, controllers=(), crds=definition):
            pass


class Base(View, frozen=True):
    name: str = ""
    """The name.

    Not shown."""


class Described(Base, frozen=True):
    """A thing."""

    inner: Inner = Inner()
    """What is inside
    of it."""
    size: Annotated[int, msgspec.Meta(description="How large it is", examples=[5, 7])] = 0
    plain: str = ""

    class Nested(View, frozen=True):
        depth: int = 0
        """How deep."""

    nested: Nested = Nested()


def test_texts_below_fields_are_their_descriptions() -> None:
    result = object_schema(Described)
    descriptions = {name: subschema.get("description") for name, subschema in result["properties"].items()}
    assert descriptions == {
        "name": "The name.", "inner": "What is inside of it.", "size": "How large it is", "plain": None, "nested": None,
    }  # fmt: skip
    assert result["properties"]["size"]["example"] == 5
    assert result["properties"]["nested"]["properties"]["depth"]["description"] == "How deep."
    assert result["description"] == "A thing."


def test_a_class_without_source_has_a_schema_all_the_same() -> None:
    view = msgspec.defstruct("Thing", [("size", int)], module="no.such.module")
    assert object_schema(view)["properties"] == {"size": {"type": "integer", "format": "int64"}}


class Part(View, frozen=True):
    weight: float = 0.0


class Zeros(View, frozen=True):
    low: int = 0
    high: int = 5
    text: str = ""
    flag: bool = False
    names: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    labels: dict[str, str] = {}
    parts: tuple[Part, ...] = ()
    of: dict[str, Part] = {}
    maybe: int | None = 0
    nothing: int | None = None
    positive: Annotated[int, msgspec.Meta(ge=1)] = 0
    above: Annotated[int, msgspec.Meta(gt=0)] = 0
    named: Annotated[str, msgspec.Meta(min_length=1)] = ""
    shaped: Annotated[str, msgspec.Meta(pattern="^a+$")] = ""
    optional_shape: Annotated[str, msgspec.Meta(pattern="^a*$")] = ""
    ruled: Annotated[str, validations(Rule("self.size() > 1"))] = ""
    some: Annotated[list[str], msgspec.Meta(min_length=1)] = []
    selector: LabelSelector = LabelSelector()


class WithZeros(View, frozen=True):
    spec: Annotated[Zeros, validations(Rule("self.low <= self.high", "low is above high"))]
    metadata: ObjectMeta = ObjectMeta()
    status: Part = Part()


WITH_ZEROS = CustomResource("example.com/v1", WithZeros, plural="withzeros")


def test_zero_values_are_defaults_where_the_api_server_accepts_them() -> None:
    def properties(resource: CustomResource[Any]) -> dict[str, Any]:
        result: dict[str, Any] = resource.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        return result

    spec = properties(WITH_ZEROS)["spec"]["properties"]
    assert {name: item["default"] for name, item in spec.items() if "default" in item} == {
        "low": 0, "high": 5, "text": "", "flag": False, "names": [], "tags": [], "labels": {}, "parts": [], "of": {},
        "maybe": 0, "optionalShape": "",
    }  # fmt: skip
    assert spec["parts"]["items"]["properties"]["weight"]["default"] == 0.0
    assert spec["of"]["additionalProperties"]["properties"]["weight"]["default"] == 0.0
    assert "default" not in str(spec["selector"])
    assert "default" not in str(properties(WITH_ZEROS)["status"])
    without = properties(CustomResource("example.com/v1", WithZeros, zero_defaults=False))["spec"]["properties"]
    assert {name: item["default"] for name, item in without.items() if "default" in item} == {"high": 5}


def test_rules_may_name_fields_that_are_left_out(pilothouse: Cluster) -> None:
    app = App("zeros")

    @app.controller(WITH_ZEROS)
    async def sync(_obj: WithZeros, _ctx: Context[WithZeros]) -> None:
        """Only the definition matters."""

    head = {"apiVersion": "example.com/v1", "kind": "WithZeros"}
    with pilothouse.running(app):
        created = pilothouse.create({**head, "metadata": {"name": "one"}, "spec": {"high": 3}})
        assert (created["spec"]["low"], created["spec"]["high"], created["spec"]["names"]) == (0, 3, [])
        with pytest.raises(ApiError, match="low is above high"):
            pilothouse.create({**head, "metadata": {"name": "two"}, "spec": {"high": -1}})


class Quota(View, frozen=True):
    cpu: int | str = "1"
    burst: int = 2


class Bound(View, frozen=True):
    name: Annotated[str, msgspec.Meta(max_length=3)]
    half: Annotated[float, msgspec.Meta(gt=0)] = 0.5


class Nested(View, frozen=True):
    quota: Quota = Quota()
    large: Quota | None = Quota(cpu=4)
    bound: Bound = Bound(name="abc")
    too_long: Bound = Bound(name="abcd")
    ruled: Annotated[Quota, validations(Rule("self.burst > 3"))] = Quota()
    counted: Annotated[Quota, msgspec.Meta(extra_json_schema={"minProperties": 1})] = Quota()
    names: tuple[str, ...] = ("a",)
    parts: tuple[Bound, ...] = (Bound(name="a"),)
    by_name: dict[str, Quota] = {}


class WithNested(View, frozen=True):
    spec: Nested = Nested()
    metadata: ObjectMeta = ObjectMeta()
    status: Quota = Quota()


def test_nested_views_are_defaults(pilothouse: Cluster) -> None:
    app = App("nested")
    rule = Rule("self.spec.quota.burst <= self.spec.bound.name.size()", "too much")
    nested = CustomResource("example.com/v1", WithNested, plural="withnested", rules=(rule,))

    @app.controller(nested)
    async def sync(_obj: WithNested, _ctx: Context[WithNested]) -> None:
        """Only the definition matters."""

    schema = nested.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert {
        name: subschema["default"] for name, subschema in schema["properties"].items() if "default" in subschema
    } == {"spec": {}}
    spec = schema["properties"]["spec"]["properties"]
    assert {name: item["default"] for name, item in spec.items() if "default" in item} == {
        "quota": {}, "large": {"cpu": 4}, "bound": {"name": "abc"}, "names": ["a"], "parts": [{"name": "a"}],
        "byName": {},
    }  # fmt: skip
    with pilothouse.running(app):
        created = pilothouse.create({"apiVersion": "example.com/v1", "kind": "WithNested", "metadata": {"name": "one"}})
        assert created["spec"] == {
            "quota": {"cpu": "1", "burst": 2}, "large": {"cpu": 4, "burst": 2}, "bound": {"name": "abc", "half": 0.5},
            "names": ["a"], "parts": [{"name": "a", "half": 0.5}], "byName": {},
        }  # fmt: skip
        high = {"metadata": {"name": "two"}, "spec": {"quota": {"burst": 4}}}
        with pytest.raises(ApiError, match="too much"):
            pilothouse.create({"apiVersion": "example.com/v1", "kind": "WithNested", **high})
