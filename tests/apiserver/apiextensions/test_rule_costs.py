"""Cost estimation of CEL rules: upstream's table, and definitions that are rejected for their cost.

The costs are those of ``TestCostEstimation`` in apiextensions-apiserver
``pkg/apiserver/schema/cel/compilation_test.go`` (v0.36), once without and once with bounds in the schema.
"""

from typing import Any

import msgspec
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


UPSTREAM = {
    "number array with all": (array(NUMBER), "self.all(x, true)", 4718591),
    "number array with all, bounded": (array(NUMBER, 10), "self.all(x, true)", 32),
    "string array with all": (array(STRING), "self.all(x, true)", 3145727),
    "string array with all, bounded": (array(STRING, 20), "self.all(x, true)", 62),
    "boolean array with all": (array(BOOLEAN), "self.all(x, true)", 1887437),
    "boolean array with all, bounded": (array(BOOLEAN, 5), "self.all(x, true)", 17),
    "array of number arrays with all": (array(array(NUMBER)), "self.all(x, true)", 3145727),
    "array of number arrays with all, bounded": (array(array(NUMBER), 100), "self.all(x, true)", 302),
    "array of objects with all": (array(OBJECT), "self.all(x, true)", 555128),
    "array of objects with all, bounded": (array(OBJECT, 50), "self.all(x, true)", 152),
    "map of numbers with all": (mapping(NUMBER), "self.all(x, true)", 1348169),
    "map of numbers with all, bounded": (mapping(NUMBER, 10), "self.all(x, true)", 32),
    "map of strings with all": (mapping(STRING), "self.all(x, true)", 1179647),
    "map of strings with all, bounded": (mapping(STRING, 3), "self.all(x, true)", 11),
    "map of booleans with all": (mapping(BOOLEAN), "self.all(x, true)", 943718),
    "map of booleans with all, bounded": (mapping(BOOLEAN, 100), "self.all(x, true)", 302),
    "string with contains": (text(), "self.contains('test')", 314574),
    "string with contains, bounded": (text(maxLength=10), "self.contains('test')", 5),
    "string with startsWith": (text(), "self.startsWith('test')", 2),
    "string with startsWith, bounded": (text(maxLength=15), "self.startsWith('test')", 2),
    "string with endsWith": (text(), "self.endsWith('test')", 2),
    "string with endsWith, bounded": (text(maxLength=30), "self.endsWith('test')", 2),
    "concat string": (text(), 'size(self + "hello") > size("hello")', 314578),
    "concat string, bounded": (text(maxLength=4), 'size(self + "hello") > size("hello")', 7),
    "index of array with numbers": (array(NUMBER), "self[1] == 0.0", 2),
    "index of array with numbers, bounded": (array(NUMBER, 5000), "self[1] == 0.0", 2),
    "index of array with strings": (array(STRING), "self[1] == self[1]", 314577),
    "index of array with strings, bounded": (array(STRING, 8), "self[1] == self[1]", 314577),
    "O(n^2) loop with numbers, bounded": (array(NUMBER, 10), "self.all(x, self.all(y, true))", 352),
    "O(n^3) loop with numbers, bounded": (array(NUMBER, 10), "self.all(x, self.all(y, self.all(z, true)))", 3552),
    "regex matches simple": (text(), 'self.matches("x")', 314574),
    "regex matches simple, bounded": (text(maxLength=50), 'self.matches("x")', 22),
    "regex matches empty string": (text(), '"".matches("(((((((((())))))))))[0-9]")', 7),
    "regex matches empty string, bounded": (text(maxLength=10), '"".matches("(((((((((())))))))))[0-9]")', 7),
    "regex matches empty regex": (text(), 'self.matches("")', 1),
    "regex matches empty regex, bounded": (text(maxLength=100), 'self.matches("")', 1),
    "map of strings with value length": (mapping(text()), "self.all(x, x.contains(self[x]))", 2752507),
    "map of strings with value length, bounded": (
        mapping(text(maxLength=10), 10),
        "self.all(x, x.contains(self[x]))",
        72,
    ),
    "set array maxLength to zero": (array(NUMBER), "self[3] == 0.0", 2),
    "set array maxLength to zero, bounded": (array(NUMBER, 0), "self[3] == 0.0", 2),
    "set map maxLength to zero": (mapping(NUMBER), 'self["x"] == 0.0', 2),
    "set map maxLength to zero, bounded": (mapping(NUMBER, 0), 'self["x"] == 0.0', 2),
    "set string maxLength to zero": (text(), 'self == "x"', 2),
    "set string maxLength to zero, bounded": (text(maxLength=0), 'self == "x"', 1),
    "set bytes maxLength to zero": (text("byte"), 'self == b"x"', 2),
    "set bytes maxLength to zero, bounded": (text("byte", maxLength=0), 'self == b"x"', 1),
    "set maxLength greater than estimated maxLength": (array(NUMBER), "self.all(x, x == 0.0)", 6291454),
    "set maxLength greater than estimated maxLength, bounded": (
        array(NUMBER, 3 * 1024 * 2048),
        "self.all(x, x == 0.0)",
        25165826,
    ),
    "nested types with root rule with all supporting maxLength": (
        array(mapping(OBJECT)),
        'self.all(x, x["y"].required == "z")',
        7340027,
    ),
    "nested types with root rule with all supporting maxLength, bounded": (
        array(mapping(OBJECT, 10), 10),
        'self.all(x, x["y"].required == "z")',
        72,
    ),
    "nested types with root rule with one supporting maxLength": (
        array(mapping(OBJECT)),
        'self.all(x, x["y"].required == "z")',
        7340027,
    ),
    "nested types with root rule with one supporting maxLength, bounded": (
        array(mapping(OBJECT, 10)),
        'self.all(x, x["y"].required == "z")',
        7340027,
    ),
    "int-or-string array with all": (array(EITHER), "self.all(x, true)", 4718591),
    "int-or-string array with all, bounded": (array(EITHER, 10), "self.all(x, true)", 32),
    "index of array with int-or-strings": (array(EITHER), "self[0] == 5", 3),
    "index of array with int-or-strings, bounded": (array(EITHER, 10), "self[0] == 5", 3),
    "index of array with booleans": (array(BOOLEAN), "self[0] == false", 2),
    "index of array with booleans, bounded": (array(BOOLEAN, 25), "self[0] == false", 2),
    "index of array of objects": (array(OBJECT), "self[0] == null", 2),
    "index of array of objects, bounded": (array(OBJECT, 422), "self[0] == null", 2),
    "index of array of array of numnbers": (array(array(NUMBER)), "self[0][0] == -1.0", 3),
    "index of array of array of numnbers, bounded": (array(array(NUMBER), 51), "self[0][0] == -1.0", 3),
    "array of number maps with all": (array(mapping(NUMBER)), "self.all(x, x.y == 25.2)", 6291452),
    "array of number maps with all, bounded": (array(mapping(NUMBER), 12), "self.all(x, x.y == 25.2)", 74),
    "index of array of number maps": (array(mapping(NUMBER)), "self[0].x > 2.0", 4),
    "index of array of number maps, bounded": (array(mapping(NUMBER), 3000), "self[0].x > 2.0", 4),
    "duration array with all": (array(text("duration")), "self.all(x, true)", 2359295),
    "duration array with all, bounded": (array(text("duration"), 5), "self.all(x, true)", 17),
    "index of duration array": (array(text("duration")), "self[0].getHours() == 2", 4),
    "index of duration array, bounded": (array(text("duration"), 525), "self[0].getHours() == 2", 4),
    "date array with all": (array(text("date")), "self.all(x, true)", 725936),
    "date array with all, bounded": (array(text("date"), 15), "self.all(x, true)", 47),
    "index of date array": (array(text("date")), "self[2].getDayOfMonth() == 13", 4),
    "index of date array, bounded": (array(text("date"), 42), "self[2].getDayOfMonth() == 13", 4),
    "date-time array with all": (array(text("date-time")), "self.all(x, true)", 428963),
    "date-time array with all, bounded": (array(text("date-time"), 25), "self.all(x, true)", 77),
    "index of date-time array": (array(text("date-time")), "self[2].getMinutes() == 45", 4),
    "index of date-time array, bounded": (array(text("date-time"), 99), "self[2].getMinutes() == 45", 4),
    "map of int-or-strings with all": (mapping(EITHER), "self.all(x, true)", 1348169),
    "map of int-or-strings with all, bounded": (mapping(EITHER, 15), "self.all(x, true)", 47),
    "map of objects with all": (mapping(OBJECT), "self.all(x, true)", 428963),
    "map of objects with all, bounded": (mapping(OBJECT, 20), "self.all(x, true)", 62),
    "map of number maps with all": (mapping(mapping(NUMBER)), "self.all(x, true)", 1179647),
    "map of number maps with all, bounded": (mapping(mapping(NUMBER), 10), "self.all(x, true)", 32),
    "map of number arrays with all": (mapping(array(NUMBER)), "self.all(x, true)", 1179647),
    "map of number arrays with all, bounded": (mapping(array(NUMBER), 25), "self.all(x, true)", 77),
    "map of durations with all": (mapping(text("duration")), "self.all(x, true)", 1048577),
    "map of durations with all, bounded": (mapping(text("duration"), 5), "self.all(x, true)", 17),
    "map of dates with all": (mapping(text("date")), "self.all(x, true)", 524288),
    "map of dates with all, bounded": (mapping(text("date"), 10), "self.all(x, true)", 32),
    "map of date-times with all": (mapping(text("date-time")), "self.all(x, true)", 349526),
    "map of date-times with all, bounded": (mapping(text("date-time"), 25), "self.all(x, true)", 77),
    "extended library regex find": (text(), "self.find('[0-9]+') == ''", 629147),
    "extended library regex find, bounded": (text(maxLength=10), "self.find('[0-9]+') == ''", 11),
    "check cost of size call": (mapping(INTEGER), "oldSelf.size() == self.size()", 5),
    "check cost of size call, bounded": (mapping(INTEGER, 10), "oldSelf.size() == self.size()", 5),
    "check cost of timestamp comparison": (mapping(text("date-time")), 'self["a"] == self["b"]', 8),
    "check cost of timestamp comparison, bounded": (mapping(text("date-time"), 7), 'self["a"] == self["b"]', 8),
    "check cost of duration comparison": (mapping(text("duration")), 'self["c"] == self["d"]', 8),
    "check cost of duration comparison, bounded": (mapping(text("duration"), 42), 'self["c"] == self["d"]', 8),
    "enums with maxLength equals to the longest possible value": (
        text(enum=["A", "B", "C", "LongValue"]),
        "self.contains('A')",
        2,
    ),
    "enums with maxLength equals to the longest possible value, bounded": (
        text(enum=["A", "B", "C", "LongValue"], maxLength=1000),
        "self.contains('A')",
        401,
    ),
    "join": (array(text()), "self.join(' ') == 'aa bb'", 329853068905),
    "join, bounded": (array(text(maxLength=10), 10), "self.join(' ') == 'aa bb'", 43),
    "isSorted": (array(text()), "self.isSorted() == true", 329854432052),
    "isSorted, bounded": (array(text(maxLength=10), 10), "self.isSorted() == true", 52),
    "reverse": (array(INTEGER), "self.reverse() == self", 1730163),
    "slice": (array(INTEGER), "self.slice(1, 3) == self", 16),
    "flatten, bounded": (array(array(INTEGER, 10), 10), "self.flatten(2).size() > 0", 34),
    "distinct, bounded": (array(text(maxLength=10), 1000), "self.distinct() == self", 2000113),
    "sort, bounded": (array(text(maxLength=10), 1000), "self.sort() == self", 2100113),
    "sortBy, bounded": (array(text(maxLength=10), 1000), "self.sortBy(x, x.size()) == self", 2014136),
    "range": (INTEGER, "lists.range(1000).all(i, i < self)", 7012),
    "sums, bounded": (
        fields(a=array({"type": "integer"}, 10), b=array({"type": "integer"}, 10)),
        "self.a.sum() + self.b.sum() > 0",
        26,
    ),
    "replace": (
        fields(str=text(), before=text(maxLength=2), after=text(maxLength=4)),
        "self.str.replace(self.before, self.after) == 'does not matter'",
        629154,
    ),
    "replace, bounded": (
        fields(str=text(maxLength=4), before=text(maxLength=2), after=text(maxLength=4)),
        "self.str.replace(self.before, self.after) == 'does not matter'",
        12,
    ),
    "split": (fields(str=text(), separator=text()), "self.str.split(self.separator) == []", 629160),
    "split, bounded": (
        fields(str=text(maxLength=10), separator=text(maxLength=10)),
        "self.str.split(self.separator) == []",
        22,
    ),
    "lowerAscii": (text(), "self.lowerAscii() == 'lower!'", 314575),
    "lowerAscii, bounded": (text(maxLength=10), "self.lowerAscii() == 'lower!'", 6),
    "isQuantity": (EITHER, "isQuantity(self)", 314574),
    "isQuantity, bounded": ({**EITHER, "maxLength": 20}, "isQuantity(self)", 9),
}


def cost(schema: Object, rule: str, **more: Any) -> int:
    """What the rule may cost."""
    (compiled,) = compile_rules(schema, [{"rule": rule, **more}], root=False)
    assert not compiled.rule_error, compiled.rule_error
    known = sized(schema)
    assert known is not None
    result: int = compiled.program.cost(known.size)
    return result


@cases("schema, rule, expected", UPSTREAM)
def test_cost_estimation(schema: Object, rule: str, expected: int) -> None:
    assert cost(schema, rule) == expected


def test_optional_old_self_cost() -> None:
    """3 for the call, 5 to search a text of four bytes in one of forty."""
    assert cost(text(maxLength=10), "!oldSelf.hasValue() || self.contains('test')", optionalOldSelf=True) == 8


def test_format_cost() -> None:
    """1 for the format, a tenth of forty bytes times a quarter of 128, 1 each for ``self`` and the call."""
    assert cost(text(maxLength=10), "!format.dns1123Label().validate(self).hasValue()") == 1 + 4 * 32 + 1 + 1 + 1

    named = cost(text(maxLength=10), "!format.named('dns1123Label').value().validate(self).hasValue()")
    assert named == 1 + 1 + 4 * 32 + 1 + 1 + 1


HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
SPEC = "spec.validation.openAPIV3Schema.properties[spec]"


def definition(spec: Object) -> Object:
    """A definition with this schema of ``spec``."""
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
        "quadratic rule of an unbounded list": (
            ruled(array(STRING), SQUARE),
            [
                f"{SPEC}.{RULE} {OVER} more than 100x {HINT}",
                f"{SPEC}.{RULE} {SHARE}",
                f"{TOTAL} more than 100x {HINT}",
            ],
        ),
        "rule of each item": (
            array(ruled(text(maxLength=10_000), LOOK)),
            [
                f"{SPEC}.items.{RULE} {OVER} more than 100x {HINT}",
                f"{SPEC}.items.{RULE} {SHARE}",
                f"{TOTAL} 42.0x {HINT}",
            ],
        ),
        "slightly above the limit": (
            array(ruled(text(maxLength=10_000), LOOK), 3_000),
            [f"{SPEC}.items.{RULE} {OVER} 1.200300x {HINT}"],
        ),
    },
)
async def test_expensive_rules_are_rejected(api: Api, spec: Object, problems: list[str]) -> None:
    answer = await api.post(DEFINITIONS, definition(spec))
    assert answer.status == 422
    assert [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]] == problems


async def test_message_expression_with_a_number_exceeds_the_cost(api: Api) -> None:
    """The length of the string is unknown: kubernetes#124234 has the same three errors of a real server."""
    attempts = {"type": "object", "properties": {"attempts": INTEGER}}

    async def post(message: str) -> Answer:
        rule = {"rule": "self.attempts >= 0", "messageExpression": message}
        return await api.post(DEFINITIONS, definition({**attempts, "x-kubernetes-validations": [rule]}))

    rejected = await post("'invalid attempts: ' + string(self.attempts)")
    place = f"{SPEC}.x-kubernetes-validations[0].messageExpression: Forbidden:"
    assert [f"{cause['field']}: {cause['message']}" for cause in rejected.body["details"]["causes"]] == [
        f"{place} estimated messageExpression cost exceeds budget by factor of more than 100x {HINT}",
        f"{place} {SHARE}",
        f"{TOTAL} more than 100x {HINT}",
    ]
    assert (await post("'invalid attempts: %d'.format([self.attempts])")).status == 201


async def test_bounded_rules_are_accepted(api: Api) -> None:
    assert (await api.post(DEFINITIONS, definition(ruled(array(text(maxLength=20), 50), SQUARE)))).status == 201


async def test_existing_expensive_schema_is_accepted_on_update(api: Api) -> None:
    """A definition of before may change elsewhere, though single rules cost more than new ones may."""

    path = DEFINITIONS + "/things.example.com"
    await api.create(DEFINITIONS, definition(array(text(maxLength=10_000), 3_000)))
    wanted = (await api.get(path)).body
    schema = wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["items"] = ruled(text(maxLength=10_000), LOOK)
    rejected = await api.put(path, wanted)
    # As written by a server without cost estimation.
    record = next(record for record in api.store.list("").records if b'"name":"things.example.com"' in record.value)

    def older(revision: int) -> bytes:
        wanted["metadata"]["resourceVersion"] = str(revision)
        return msgspec.json.encode(wanted)

    await api.store.commit(api.store.stage(record.key, older, expected=record.revision))
    changed = await api.patch(path, {"spec": {"names": {"shortNames": ["t"]}}})
    assert rejected.status == 422, rejected.text
    assert changed.status == 200, changed.text
