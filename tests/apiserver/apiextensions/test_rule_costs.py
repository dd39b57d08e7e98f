"""What rules may cost at worst: upstream's own table, and definitions that are rejected by it.

The costs are those of ``TestCostEstimation`` in apiextensions-apiserver
``pkg/apiserver/schema/cel/compilation_test.go`` (v0.36), once without and once with bounds in the schema.
"""

from typing import Any

import msgspec
import pytest
from tests import custom_resources
from tests.apiserver.api import Answer, Api, Object
from tests.custom_resources import DEFINITIONS, schema, version
from tests.tables import cases

from pilothouse.apiserver.apiextensions.rules import compile_rules
from pilothouse.cel.sizes import sized

NUMBER, STRING, BOOLEAN, INTEGER = ({"type": kind} for kind in ("number", "string", "boolean", "integer"))
EITHER: Object = {"x-kubernetes-int-or-string": True}
OBJECT: Object = {
    "type": "object",
    "properties": {"required": STRING, "optional": STRING},
    "required": ["required"],
}


def array(items: Object, most: int | None = None) -> Object:
    """A list."""
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most})}


def mapping(values: Object, most: int | None = None) -> Object:
    """A map."""
    return {"type": "object", "additionalProperties": values, **({} if most is None else {"maxProperties": most})}


def text(form: str = "", **bounds: Any) -> Object:
    """A string."""
    return {"type": "string", **({"format": form} if form else {}), **bounds}


def fields(**properties: Object) -> Object:
    """An object."""
    return {"type": "object", "properties": properties}


UPSTREAM = [
    pytest.param(array(NUMBER), "self.all(x, true)", 4718591, id="number array with all"),
    pytest.param(array(NUMBER, 10), "self.all(x, true)", 32, id="number array with all, bounded"),
    pytest.param(array(STRING), "self.all(x, true)", 3145727, id="string array with all"),
    pytest.param(array(STRING, 20), "self.all(x, true)", 62, id="string array with all, bounded"),
    pytest.param(array(BOOLEAN), "self.all(x, true)", 1887437, id="boolean array with all"),
    pytest.param(array(BOOLEAN, 5), "self.all(x, true)", 17, id="boolean array with all, bounded"),
    pytest.param(array(array(NUMBER)), "self.all(x, true)", 3145727, id="array of number arrays with all"),
    pytest.param(array(array(NUMBER), 100), "self.all(x, true)", 302, id="array of number arrays with all, bounded"),
    pytest.param(array(OBJECT), "self.all(x, true)", 555128, id="array of objects with all"),
    pytest.param(array(OBJECT, 50), "self.all(x, true)", 152, id="array of objects with all, bounded"),
    pytest.param(mapping(NUMBER), "self.all(x, true)", 1348169, id="map of numbers with all"),
    pytest.param(mapping(NUMBER, 10), "self.all(x, true)", 32, id="map of numbers with all, bounded"),
    pytest.param(mapping(STRING), "self.all(x, true)", 1179647, id="map of strings with all"),
    pytest.param(mapping(STRING, 3), "self.all(x, true)", 11, id="map of strings with all, bounded"),
    pytest.param(mapping(BOOLEAN), "self.all(x, true)", 943718, id="map of booleans with all"),
    pytest.param(mapping(BOOLEAN, 100), "self.all(x, true)", 302, id="map of booleans with all, bounded"),
    pytest.param(text(), "self.contains('test')", 314574, id="string with contains"),
    pytest.param(text(maxLength=10), "self.contains('test')", 5, id="string with contains, bounded"),
    pytest.param(text(), "self.startsWith('test')", 2, id="string with startsWith"),
    pytest.param(text(maxLength=15), "self.startsWith('test')", 2, id="string with startsWith, bounded"),
    pytest.param(text(), "self.endsWith('test')", 2, id="string with endsWith"),
    pytest.param(text(maxLength=30), "self.endsWith('test')", 2, id="string with endsWith, bounded"),
    pytest.param(text(), 'size(self + "hello") > size("hello")', 314578, id="concat string"),
    pytest.param(text(maxLength=4), 'size(self + "hello") > size("hello")', 7, id="concat string, bounded"),
    pytest.param(array(NUMBER), "self[1] == 0.0", 2, id="index of array with numbers"),
    pytest.param(array(NUMBER, 5000), "self[1] == 0.0", 2, id="index of array with numbers, bounded"),
    pytest.param(array(STRING), "self[1] == self[1]", 314577, id="index of array with strings"),
    pytest.param(array(STRING, 8), "self[1] == self[1]", 314577, id="index of array with strings, bounded"),
    pytest.param(array(NUMBER, 10), "self.all(x, self.all(y, true))", 352, id="O(n^2) loop with numbers, bounded"),
    pytest.param(
        array(NUMBER, 10), "self.all(x, self.all(y, self.all(z, true)))", 3552, id="O(n^3) loop with numbers, bounded"
    ),
    pytest.param(text(), 'self.matches("x")', 314574, id="regex matches simple"),
    pytest.param(text(maxLength=50), 'self.matches("x")', 22, id="regex matches simple, bounded"),
    pytest.param(text(), '"".matches("(((((((((())))))))))[0-9]")', 7, id="regex matches empty string"),
    pytest.param(
        text(maxLength=10), '"".matches("(((((((((())))))))))[0-9]")', 7, id="regex matches empty string, bounded"
    ),
    pytest.param(text(), 'self.matches("")', 1, id="regex matches empty regex"),
    pytest.param(text(maxLength=100), 'self.matches("")', 1, id="regex matches empty regex, bounded"),
    pytest.param(mapping(text()), "self.all(x, x.contains(self[x]))", 2752507, id="map of strings with value length"),
    pytest.param(
        mapping(text(maxLength=10), 10),
        "self.all(x, x.contains(self[x]))",
        72,
        id="map of strings with value length, bounded",
    ),
    pytest.param(array(NUMBER), "self[3] == 0.0", 2, id="set array maxLength to zero"),
    pytest.param(array(NUMBER, 0), "self[3] == 0.0", 2, id="set array maxLength to zero, bounded"),
    pytest.param(mapping(NUMBER), 'self["x"] == 0.0', 2, id="set map maxLength to zero"),
    pytest.param(mapping(NUMBER, 0), 'self["x"] == 0.0', 2, id="set map maxLength to zero, bounded"),
    pytest.param(text(), 'self == "x"', 2, id="set string maxLength to zero"),
    pytest.param(text(maxLength=0), 'self == "x"', 1, id="set string maxLength to zero, bounded"),
    pytest.param(text("byte"), 'self == b"x"', 2, id="set bytes maxLength to zero"),
    pytest.param(text("byte", maxLength=0), 'self == b"x"', 1, id="set bytes maxLength to zero, bounded"),
    pytest.param(array(NUMBER), "self.all(x, x == 0.0)", 6291454, id="set maxLength greater than estimated maxLength"),
    pytest.param(
        array(NUMBER, 3 * 1024 * 2048),
        "self.all(x, x == 0.0)",
        25165826,
        id="set maxLength greater than estimated maxLength, bounded",
    ),
    pytest.param(
        array(mapping(OBJECT)),
        'self.all(x, x["y"].required == "z")',
        7340027,
        id="nested types with root rule with all supporting maxLength",
    ),
    pytest.param(
        array(mapping(OBJECT, 10), 10),
        'self.all(x, x["y"].required == "z")',
        72,
        id="nested types with root rule with all supporting maxLength, bounded",
    ),
    pytest.param(
        array(mapping(OBJECT)),
        'self.all(x, x["y"].required == "z")',
        7340027,
        id="nested types with root rule with one supporting maxLength",
    ),
    pytest.param(
        array(mapping(OBJECT, 10)),
        'self.all(x, x["y"].required == "z")',
        7340027,
        id="nested types with root rule with one supporting maxLength, bounded",
    ),
    pytest.param(array(EITHER), "self.all(x, true)", 4718591, id="int-or-string array with all"),
    pytest.param(array(EITHER, 10), "self.all(x, true)", 32, id="int-or-string array with all, bounded"),
    pytest.param(array(EITHER), "self[0] == 5", 3, id="index of array with int-or-strings"),
    pytest.param(array(EITHER, 10), "self[0] == 5", 3, id="index of array with int-or-strings, bounded"),
    pytest.param(array(BOOLEAN), "self[0] == false", 2, id="index of array with booleans"),
    pytest.param(array(BOOLEAN, 25), "self[0] == false", 2, id="index of array with booleans, bounded"),
    pytest.param(array(OBJECT), "self[0] == null", 2, id="index of array of objects"),
    pytest.param(array(OBJECT, 422), "self[0] == null", 2, id="index of array of objects, bounded"),
    pytest.param(array(array(NUMBER)), "self[0][0] == -1.0", 3, id="index of array of array of numnbers"),
    pytest.param(array(array(NUMBER), 51), "self[0][0] == -1.0", 3, id="index of array of array of numnbers, bounded"),
    pytest.param(array(mapping(NUMBER)), "self.all(x, x.y == 25.2)", 6291452, id="array of number maps with all"),
    pytest.param(
        array(mapping(NUMBER), 12), "self.all(x, x.y == 25.2)", 74, id="array of number maps with all, bounded"
    ),
    pytest.param(array(mapping(NUMBER)), "self[0].x > 2.0", 4, id="index of array of number maps"),
    pytest.param(array(mapping(NUMBER), 3000), "self[0].x > 2.0", 4, id="index of array of number maps, bounded"),
    pytest.param(array(text("duration")), "self.all(x, true)", 2359295, id="duration array with all"),
    pytest.param(array(text("duration"), 5), "self.all(x, true)", 17, id="duration array with all, bounded"),
    pytest.param(array(text("duration")), "self[0].getHours() == 2", 4, id="index of duration array"),
    pytest.param(array(text("duration"), 525), "self[0].getHours() == 2", 4, id="index of duration array, bounded"),
    pytest.param(array(text("date")), "self.all(x, true)", 725936, id="date array with all"),
    pytest.param(array(text("date"), 15), "self.all(x, true)", 47, id="date array with all, bounded"),
    pytest.param(array(text("date")), "self[2].getDayOfMonth() == 13", 4, id="index of date array"),
    pytest.param(array(text("date"), 42), "self[2].getDayOfMonth() == 13", 4, id="index of date array, bounded"),
    pytest.param(array(text("date-time")), "self.all(x, true)", 428963, id="date-time array with all"),
    pytest.param(array(text("date-time"), 25), "self.all(x, true)", 77, id="date-time array with all, bounded"),
    pytest.param(array(text("date-time")), "self[2].getMinutes() == 45", 4, id="index of date-time array"),
    pytest.param(array(text("date-time"), 99), "self[2].getMinutes() == 45", 4, id="index of date-time array, bounded"),
    pytest.param(mapping(EITHER), "self.all(x, true)", 1348169, id="map of int-or-strings with all"),
    pytest.param(mapping(EITHER, 15), "self.all(x, true)", 47, id="map of int-or-strings with all, bounded"),
    pytest.param(mapping(OBJECT), "self.all(x, true)", 428963, id="map of objects with all"),
    pytest.param(mapping(OBJECT, 20), "self.all(x, true)", 62, id="map of objects with all, bounded"),
    pytest.param(mapping(mapping(NUMBER)), "self.all(x, true)", 1179647, id="map of number maps with all"),
    pytest.param(mapping(mapping(NUMBER), 10), "self.all(x, true)", 32, id="map of number maps with all, bounded"),
    pytest.param(mapping(array(NUMBER)), "self.all(x, true)", 1179647, id="map of number arrays with all"),
    pytest.param(mapping(array(NUMBER), 25), "self.all(x, true)", 77, id="map of number arrays with all, bounded"),
    pytest.param(mapping(text("duration")), "self.all(x, true)", 1048577, id="map of durations with all"),
    pytest.param(mapping(text("duration"), 5), "self.all(x, true)", 17, id="map of durations with all, bounded"),
    pytest.param(mapping(text("date")), "self.all(x, true)", 524288, id="map of dates with all"),
    pytest.param(mapping(text("date"), 10), "self.all(x, true)", 32, id="map of dates with all, bounded"),
    pytest.param(mapping(text("date-time")), "self.all(x, true)", 349526, id="map of date-times with all"),
    pytest.param(mapping(text("date-time"), 25), "self.all(x, true)", 77, id="map of date-times with all, bounded"),
    pytest.param(text(), "self.find('[0-9]+') == ''", 629147, id="extended library regex find"),
    pytest.param(text(maxLength=10), "self.find('[0-9]+') == ''", 11, id="extended library regex find, bounded"),
    pytest.param(mapping(INTEGER), "oldSelf.size() == self.size()", 5, id="check cost of size call"),
    pytest.param(mapping(INTEGER, 10), "oldSelf.size() == self.size()", 5, id="check cost of size call, bounded"),
    pytest.param(mapping(text("date-time")), 'self["a"] == self["b"]', 8, id="check cost of timestamp comparison"),
    pytest.param(
        mapping(text("date-time"), 7), 'self["a"] == self["b"]', 8, id="check cost of timestamp comparison, bounded"
    ),
    pytest.param(mapping(text("duration")), 'self["c"] == self["d"]', 8, id="check cost of duration comparison"),
    pytest.param(
        mapping(text("duration"), 42), 'self["c"] == self["d"]', 8, id="check cost of duration comparison, bounded"
    ),
    pytest.param(
        text(enum=["A", "B", "C", "LongValue"]),
        "self.contains('A')",
        2,
        id="enums with maxLength equals to the longest possible value",
    ),
    pytest.param(
        text(enum=["A", "B", "C", "LongValue"], maxLength=1000),
        "self.contains('A')",
        401,
        id="enums with maxLength equals to the longest possible value, bounded",
    ),
    pytest.param(array(text()), "self.join(' ') == 'aa bb'", 329853068905, id="join"),
    pytest.param(array(text(maxLength=10), 10), "self.join(' ') == 'aa bb'", 43, id="join, bounded"),
    pytest.param(array(text()), "self.isSorted() == true", 329854432052, id="isSorted"),
    pytest.param(array(text(maxLength=10), 10), "self.isSorted() == true", 52, id="isSorted, bounded"),
    pytest.param(
        fields(str=text(), before=text(maxLength=2), after=text(maxLength=4)),
        "self.str.replace(self.before, self.after) == 'does not matter'",
        629154,
        id="replace",
    ),
    pytest.param(
        fields(str=text(maxLength=4), before=text(maxLength=2), after=text(maxLength=4)),
        "self.str.replace(self.before, self.after) == 'does not matter'",
        12,
        id="replace, bounded",
    ),
    pytest.param(fields(str=text(), separator=text()), "self.str.split(self.separator) == []", 629160, id="split"),
    pytest.param(
        fields(str=text(maxLength=10), separator=text(maxLength=10)),
        "self.str.split(self.separator) == []",
        22,
        id="split, bounded",
    ),
    pytest.param(text(), "self.lowerAscii() == 'lower!'", 314575, id="lowerAscii"),
    pytest.param(text(maxLength=10), "self.lowerAscii() == 'lower!'", 6, id="lowerAscii, bounded"),
    pytest.param(EITHER, "isQuantity(self)", 314574, id="isQuantity"),
    pytest.param({**EITHER, "maxLength": 20}, "isQuantity(self)", 9, id="isQuantity, bounded"),
]


def cost(schema: Object, rule: str, **more: Any) -> int:
    """What the rule may cost."""
    (compiled,) = compile_rules(schema, [{"rule": rule, **more}], root=False)
    assert not compiled.rule_error, compiled.rule_error
    known = sized(schema)
    assert known is not None
    found: int = compiled.program.cost(known.size)
    return found


@pytest.mark.parametrize(("schema", "rule", "expected"), UPSTREAM)
def test_upstreams_table(schema: Object, rule: str, expected: int) -> None:
    assert cost(schema, rule) == expected


def test_an_optional_old_value_costs_what_it_costs_upstream() -> None:
    """3 to ask for it, 5 to look for a text of four in one of forty bytes; not what binds it here."""
    assert cost(text(maxLength=10), "!oldSelf.hasValue() || self.contains('test')", optionalOldSelf=True) == 8


def test_formats_cost_what_a_long_pattern_does() -> None:
    """1 for the format, a tenth of forty bytes times a quarter of 128, 1 each for ``self`` and what is asked."""
    assert cost(text(maxLength=10), "!format.dns1123Label().validate(self).hasValue()") == 1 + 4 * 32 + 1 + 1 + 1

    named = cost(text(maxLength=10), "!format.named('dns1123Label').value().validate(self).hasValue()")
    assert named == 1 + 1 + 4 * 32 + 1 + 1 + 1


HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
SPEC = "spec.validation.openAPIV3Schema.properties[spec]"


def definition(spec: Object) -> Object:
    """One with such a field ``spec``."""
    return custom_resources.definition("Thing", version(schema=schema(spec)))


def ruled(schema: Object, *rules: str) -> Object:
    """The schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


SQUARE = "self.all(x, self.exists_one(y, y == x))"
LOOK = "self.contains('test')"
RULE = "x-kubernetes-validations[0].rule: Forbidden:"
OVER = "estimated rule cost exceeds budget by factor of"
SHARE = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
TOTAL = (
    "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire "
    "OpenAPIv3 schema exceeds budget by factor of"
)


@cases(
    "spec, problems",
    {
        "a list without an end, held against itself": (
            ruled(array(STRING), SQUARE),
            [
                f"{SPEC}.{RULE} {OVER} more than 100x {HINT}",
                f"{SPEC}.{RULE} {SHARE}",
                f"{TOTAL} more than 100x {HINT}",
            ],
        ),
        "once for each item": (
            array(ruled(text(maxLength=10_000), LOOK)),
            [
                f"{SPEC}.items.{RULE} {OVER} more than 100x {HINT}",
                f"{SPEC}.items.{RULE} {SHARE}",
                f"{TOTAL} 42.0x {HINT}",
            ],
        ),
        "not much over it": (
            array(ruled(text(maxLength=10_000), LOOK), 3_000),
            [f"{SPEC}.items.{RULE} {OVER} 1.200300x {HINT}"],
        ),
    },
)
async def test_expensive_rules_are_rejected(api: Api, spec: Object, problems: list[str]) -> None:
    answer = await api.post(DEFINITIONS, definition(spec))
    assert answer.status == 422
    assert [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]] == problems


async def test_a_number_in_a_message_costs_too_much_to_add(api: Api) -> None:
    """The length of its text is not known: kubernetes#124234 has the same three sentences of a real server."""
    attempts = {"type": "object", "properties": {"attempts": INTEGER}}

    async def ask(message: str) -> Answer:
        rule = {"rule": "self.attempts >= 0", "messageExpression": message}
        return await api.post(DEFINITIONS, definition({**attempts, "x-kubernetes-validations": [rule]}))

    rejected = await ask("'invalid attempts: ' + string(self.attempts)")
    place = f"{SPEC}.x-kubernetes-validations[0].messageExpression: Forbidden:"
    assert [f"{cause['field']}: {cause['message']}" for cause in rejected.body["details"]["causes"]] == [
        f"{place} estimated messageExpression cost exceeds budget by factor of more than 100x {HINT}",
        f"{place} {SHARE}",
        f"{TOTAL} more than 100x {HINT}",
    ]
    assert (await ask("'invalid attempts: %d'.format([self.attempts])")).status == 201


async def test_with_bounds_they_are_not(api: Api) -> None:
    assert (await api.post(DEFINITIONS, definition(ruled(array(text(maxLength=20), 50), SQUARE)))).status == 201


async def test_a_schema_that_was_there_before_may_stay(api: Api) -> None:
    """A definition of before may change elsewhere, though single rules cost more than new ones may."""

    path = DEFINITIONS + "/things.example.com"
    await api.made(DEFINITIONS, definition(array(text(maxLength=10_000), 3_000)))
    wanted = (await api.get(path)).body
    schema = wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["items"] = ruled(text(maxLength=10_000), LOOK)
    rejected = await api.put(path, wanted)
    # As a server wrote it that did not know of costs.
    record = next(record for record in api.store.list("").records if b'"name":"things.example.com"' in record.value)

    def older(revision: int) -> bytes:
        wanted["metadata"]["resourceVersion"] = str(revision)
        return msgspec.json.encode(wanted)

    await api.store.commit(api.store.stage(record.key, older, expected=record.revision))
    changed = await api.patch(path, {"spec": {"names": {"shortNames": ["t"]}}})
    assert rejected.status == 422, rejected.text
    assert changed.status == 200, changed.text
