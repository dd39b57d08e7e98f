"""CEL rules of custom resources, and structural schemas (texts from kube-apiserver v1.36)."""

from typing import Any

import pytest
from tests import custom_resources
from tests.apiserver.api import Api, Object
from tests.custom_resources import DEFINITIONS, schema, version
from tests.tables import cases

from pilothouse.apiserver.apiextensions.field_paths import PathError, resolve
from pilothouse.apiserver.apiextensions.rules import ABSENT, RuleEvaluation, rule_tree
from pilothouse.apiserver.apiextensions.schema import validate, validate_list
from pilothouse.apiserver.apiextensions.structural import validate_schema

THINGS = "/apis/example.com/v1/namespaces/default/things"
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def definition(spec: Object, **root: Any) -> Object:
    return custom_resources.definition("Thing", version(schema={**schema(spec), **root}))


def thing(**spec: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def ruled(rule: str, **more: Any) -> Object:
    return {
        "type": "object",
        "properties": {
            "a": STRING,
            "b": INTEGER,
            "list": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": STRING, "value": INTEGER}},
            },
            "map": {"type": "object", "additionalProperties": INTEGER},
        },
        "x-kubernetes-validations": [{"rule": rule, **more}],
    }


def run(schema: Object, value: Any, old: Any = ABSENT) -> tuple[list[str], list[str]]:
    tree = rule_tree({"type": "object", "properties": {"spec": schema}})
    assert tree is not None
    done = RuleEvaluation()
    done.validate(tree, {"spec": value}, old if old is ABSENT else {"spec": old})
    return [str(problem) for problem in done.all_errors], done.warnings


@cases(
    "schema, value, problem",
    {
        "rule is true": (ruled("self.a == 'z'"), {"a": "z"}, ""),
        "rule is false": (
            ruled("self.a == 'z'"), {"a": "y"}, "spec: Invalid value: failed rule: self.a == 'z'"),
        "message": (
            ruled("self.a == 'z'", message="a must be z"), {"a": "y"}, "spec: Invalid value: a must be z"),
        "a message expression wins": (
            ruled("self.a == 'z'", messageExpression="'not ' + self.a", message="no"),
            {"a": "y"},
            "spec: Invalid value: not y"),
        "an evaluation that fails prints the type": (
            ruled("self.a == 'z'", messageExpression="'x' + self.a", message="no"),
            {},
            "spec: Invalid value: \"object\": no such key: a evaluating rule: no"),
        "message if messageExpression fails": (
            ruled("!has(self.b)", messageExpression="self.a", message="no b"),
            {"b": 1},
            "spec: Invalid value: no b"),
        "reason and field path": (
            ruled("self.b > 1", reason="FieldValueForbidden", fieldPath=".b", message="m"),
            {"b": 1},
            "spec.b: Forbidden: m"),
        "required": (
            ruled("self.b > 1", reason="FieldValueRequired", message="m"),
            {"b": 1},
            "spec: Required value: m"),
        "lists and maps": (
            ruled("self.map['x'] == 1 || self.list.exists(i, i.value == 2)"),
            {"map": {"x": 2}, "list": [{"name": "n", "value": 2}]},
            ""),
        "rules on values of maps": (
            {"type": "object", "additionalProperties": {**INTEGER, "x-kubernetes-validations": [{"rule": "self < 3"}]}},
            {"x": 4},
            "spec[x]: Invalid value: 4: failed rule: self < 3"),
        "rules on items": (
            {"type": "array", "items": {**INTEGER, "x-kubernetes-validations": [{"rule": "self < 3"}]}},
            [1, 4],
            "spec[1]: Invalid value: 4: failed rule: self < 3"),
        "rules in allOf": (
            {**ruled("true"), "allOf": [{"x-kubernetes-validations": [{"rule": "self.b == 1"}]}]},
            {"b": 2},
            "spec: Invalid value: failed rule: self.b == 1"),
        "rule exceeds the cost budget": (
            ruled("self.list.all(a, self.list.all(b, a.value + b.value >= 0))"),
            {"list": [{"name": str(number), "value": 1} for number in range(200)]},
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation "
            "rules will be run due to call cost exceeds limit for rule: "
            "self.list.all(a, self.list.all(b, a.value + b.value >= 0))"),
    },
)  # fmt: skip
def test_rules_validate_objects(schema: Object, value: Any, problem: str) -> None:
    assert run(schema, value) == ([problem] if problem else [], [])


ON_ITEMS = ruled("true")
ON_ITEMS["properties"]["list"]["items"]["x-kubernetes-validations"] = [
    {"rule": "self.value >= oldSelf.value", "message": "shrinks"}
]
ON_SCALAR: Object = {
    "type": "object",
    "properties": {"a": {**STRING, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}, "b": INTEGER},
}
NEW_OR_SAME = ruled("!oldSelf.hasValue() || self.b == oldSelf.value().b", optionalOldSelf=True, message="fixed")


@cases(
    "schema, old, new, all_errors, warnings",
    {
        "a transition rule does not run on create": (ON_SCALAR, ABSENT, {"a": "x"}, [], []),
        "nor for a field without old value": (ON_SCALAR, {"b": 1}, {"a": "x"}, [], []),
        "a transition rule runs on update": (
            ON_SCALAR,
            {"a": "x"},
            {"a": "y"},
            ['spec.a: Invalid value: "y": failed rule: self == oldSelf'],
            [],
        ),
        "items of map lists are correlated by key": (
            ON_ITEMS,
            {"list": [{"name": "a", "value": 1}, {"name": "b", "value": 5}]},
            {"list": [{"name": "b", "value": 1}, {"name": "c", "value": 0}]},
            ["spec.list[0]: Invalid value: shrinks"],
            [],
        ),
        "optionalOldSelf is none on create": (NEW_OR_SAME, ABSENT, {"b": 1}, [], []),
        "optionalOldSelf on update": (NEW_OR_SAME, {"b": 2}, {"b": 1}, ["spec: Invalid value: fixed"], []),
        "unchanged values are warnings": (
            ruled("self.a == 'z'", message="a must be z"),
            {"a": "y"},
            {"a": "y"},
            [],
            ["spec: Invalid value: a must be z"],
        ),
        "changed values are rejected": (
            ruled("self.a == 'z'", message="a must be z"),
            {"a": "y"},
            {"a": "y", "b": 1},
            ["spec: Invalid value: a must be z"],
            [],
        ),
    },
)
def test_transition_rules(schema: Object, old: Any, new: Any, all_errors: list[str], warnings: list[str]) -> None:
    assert run(schema, new, old) == (all_errors, warnings)


async def test_rules_are_evaluated_after_schema_validation(api: Api) -> None:
    spec = ruled("self.b > 1", message="too small")
    spec["required"] = ["a"]
    await api.create(DEFINITIONS, definition(spec))
    rejected, unchecked = await api.post(THINGS, thing(a="x", b=1)), await api.post(THINGS, thing(b=1))
    await api.create(THINGS, thing(a="x", b=2))
    changed = await api.patch(THINGS + "/t", {"spec": {"b": 0}})
    assert rejected.message == 'Thing.example.com "t" is invalid: spec: Invalid value: too small'
    assert unchecked.message == (
        'Thing.example.com "t" is invalid: [spec.a: Required value, <nil>: Invalid value: null: some validation rules '
        "were not checked because the object was invalid; correct the existing errors to complete validation]"
    )
    assert (changed.status, changed.message) == (422, rejected.message)


async def test_root_rule_sees_the_stored_object(api: Api) -> None:
    rules = [{"rule": "self.text != 'never'"}]
    text = {"type": "object", "properties": {"text": STRING}, "x-kubernetes-validations": rules}
    crd = definition(STRING)
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = text
    await api.create(DEFINITIONS, crd)
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    answers = [await api.post(THINGS, {**body, "text": word}) for word in ("never", "once")]
    assert [answer.status for answer in [*answers, await api.patch(f"{THINGS}/t", {"text": "never"})]] == [
        422,
        201,
        422,
    ]


async def test_failing_rule_on_an_unchanged_value_is_a_warning(api: Api) -> None:
    await api.create(DEFINITIONS, definition(ruled("true")))
    await api.create(THINGS, thing(a="y"))
    stored_crd = await api.get(DEFINITIONS + "/things.example.com")
    schema = stored_crd.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["x-kubernetes-validations"][0] = {"rule": "self.a == 'z'", "message": "a must be z"}
    assert (await api.put(DEFINITIONS + "/things.example.com", stored_crd.body)).status == 200
    answer = await api.patch(THINGS + "/t", {"metadata": {"labels": {"x": "y"}}})
    assert answer.status == 200
    assert "spec: Invalid value: a must be z" in answer.headers["warning"]


async def test_warnings_are_returned_to_the_writing_client(api: Api) -> None:
    crd = definition(ruled("true"))
    crd["spec"]["versions"][0]["subresources"] = {"status": {}}
    await api.create(DEFINITIONS, crd)
    await api.create(THINGS, thing(a="y"))
    obj = (await api.get(DEFINITIONS + "/things.example.com")).body
    schema = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["x-kubernetes-validations"][0] = {"rule": "self.a == 'z'", "message": "a must be z"}
    assert (await api.put(DEFINITIONS + "/things.example.com", obj)).status == 200
    status = await api.patch(THINGS + "/t/status", {"metadata": {"annotations": {"x": "y"}}})
    other = thing(a="z")
    other["metadata"]["name"] = "u"
    answer = await api.post(THINGS, other)
    assert (status.status, answer.status) == (200, 201)
    assert "warning" not in answer.headers


def problems_of(spec: Object, **root: Any) -> list[str]:
    schema = {"type": "object", "properties": {"spec": spec}, **root}
    return [str(problem) for problem in validate_schema(schema, "s")]


SPEC = "s.properties[spec]"
RULE = '{"Rule":"%s","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}'


def test_root_metadata_must_not_be_specified() -> None:
    reported = (
        "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata "
    )
    reported += "is implicitly specified"

    def all_errors(metadata: Object) -> list[str]:
        schema = {"type": "object", "properties": {"metadata": {"type": "object", **metadata}}}
        return [str(problem) for problem in validate_schema(schema, "s")]

    assert all_errors({"nullable": False, "properties": {"name": {"type": "string", "description": "a"}}}) == []
    assert all_errors({"description": "a"}) == [reported]


@cases(
    "default, reported",
    {
        "another type": (-1, ['s.default: Invalid value: "integer":  in body must be of type object: "integer"']),
        "incomplete": (
            {"a": 1},
            [
                's.default: Invalid value: {"a":1}: must not have unknown fields',
                "s.default.apiVersion: Required value",
                "s.default.kind: Required value",
            ],
        ),
        "an object": ({"apiVersion": "a/v1", "kind": "B"}, []),
    },
)
def test_default_of_the_root(default: Any, reported: list[str]) -> None:
    """Recorded from v1.36.2: it is validated as an embedded resource."""
    schema: Object = {"type": "object", "properties": {"spec": {"type": "object"}}, "default": default}
    assert [str(error) for error in validate_schema(schema, "s")] == reported


def test_empty_list_type_is_defined() -> None:
    """Recorded from v1.36.2."""
    reported = problems_of({"type": "object", "properties": {"a": STRING}, "allOf": [{"x-kubernetes-list-type": ""}]})
    assert reported == [
        f"{SPEC}.allOf[0].x-kubernetes-list-type: Forbidden: must be undefined to be structural",
        f"{SPEC}.allOf[0].type: Required value: must be array if x-kubernetes-list-type is specified",
        f'{SPEC}.allOf[0].x-kubernetes-list-type: Unsupported value: "": supported values: "atomic", "set", "map"',
    ]


def test_rule_that_does_not_compile_does_not_use_the_old_value() -> None:
    """Recorded from v1.36.2."""
    rule, optional = problems_of(ruled("self.z == oldSelf", optionalOldSelf=True))
    assert "undefined field 'z'" in rule
    detail = "Invalid value: true: may not be set if oldSelf is not used in rule"
    assert optional == f"{SPEC}.x-kubernetes-validations[0].optionalOldSelf: {detail}"


_A, _B = f"{SPEC}.properties[a]", f"{SPEC}.properties[b]"
_MISPLACED = f'{_B}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'
_NO_SET: Object = {**STRING, "x-kubernetes-list-type": "set"}
_LIMITS = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
_LIMITS += "are declared)"


def _short_text(rule: str = "", **more: Any) -> Object:
    node: Object = {**STRING, "maxLength": 3, **more}
    return {**node, "x-kubernetes-validations": [{"rule": rule}]} if rule else node


@cases(
    "spec, reported",
    {
        "a rule rejects the default": (
            _short_text("self == 'a'", default="b"),
            [f"{SPEC}.default: Invalid value: \"b\": failed rule: self == 'a'"],
        ),
        "also if something else is wrong": (
            {"type": "object", "properties": {"a": _short_text("self == 'a'", default="b"), "b": _NO_SET}},
            [f"{_A}.default: Invalid value: \"b\": failed rule: self == 'a'", _MISPLACED],
        ),
        "a rule for the default does not compile": (
            _short_text("self + 1", default="b"),
            [
                f'{SPEC}.default: Invalid value: "string": rule compile error: compilation failed: ERROR: <input>:1:6: '
                "found no matching overload for '_+_' applied to '(string, int)'\n | self + 1\n | .....^"
            ],
        ),
        "an index in a default": (
            {"type": "array", "items": {**STRING, "maxLength": 1}, "default": ["abc", 1]},
            [
                f"{SPEC}.default.[0]: Too long: may not be more than 1 byte",
                f'{SPEC}.default.[1]: Invalid value: "integer": [1] in body must be of type string: "integer"',
            ],
        ),
        "a key in a default": (
            {"type": "object", "additionalProperties": {**STRING, "maxLength": 1}, "default": {"x": "abc", "y": 1}},
            [
                f"{SPEC}.default.x: Too long: may not be more than 1 byte",
                f'{SPEC}.default.y: Invalid value: "integer": .y in body must be of type string: "integer"',
            ],
        ),
        "a rule beside the error": (
            {"type": "object", "properties": {"a": ruled("self.z"), "b": _NO_SET}},
            [
                _MISPLACED,
                f"{_A}.x-kubernetes-validations[0].rule: Invalid value: {RULE % 'self.z'}: compilation failed: "
                "ERROR: <input>:1:5: undefined field 'z'\n | self.z\n | ....^",
            ],
        ),
        "a rule above the error": (
            {
                "type": "object",
                "properties": {"b": _NO_SET},
                "x-kubernetes-validations": [{"rule": "self.z"}],
            },
            [_MISPLACED],
        ),
        "an expensive rule beside the error": (
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "array",
                        "items": STRING,
                        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}],
                    },
                    "b": _NO_SET,
                },
            },
            [
                _MISPLACED,
                f"{_A}.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of "
                f"more than 100x {_LIMITS}",
                f"{_A}.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding "
                "cost limit for entire OpenAPIv3 schema",
                "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds "
                f"budget by factor of more than 100x {_LIMITS}",
            ],
        ),
    },
)
def test_rules_are_compiled_beside_other_errors(spec: Object, reported: list[str]) -> None:
    """Recorded from v1.36.2: if structure and defaults are valid, and nothing is wrong at or below the node."""
    assert problems_of(spec) == reported


def test_value_validations_require_structural_properties() -> None:
    """A schema of keys does not do."""
    schema: Object = {"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": STRING}}}
    schema["allOf"] = [{"properties": {"spec": {"properties": {"a": {"minLength": 1}}}}}]
    assert [str(problem) for problem in validate_schema(schema, "s")] == [
        "s.properties[spec].properties[a]: Required value: because it is defined in "
        "s.allOf[0].properties[spec].properties[a]"
    ]


@cases(
    "spec, problem",
    {
        "missing type": ({}, f"{SPEC}.type: Required value: must not be empty for specified object fields"),
        "missing items": ({"type": "array"}, f"{SPEC}.items: Required value: must be specified"),
        "items without type": (
            {"type": "array", "items": {}},
            f"{SPEC}.items.type: Required value: must not be empty for specified array items"),
        "fields and keys": (
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
            f"{SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
        "a type in anyOf": (
            {"type": "object", "properties": {"a": STRING}, "anyOf": [{"properties": {"a": {"type": "string"}}}]},
            f"{SPEC}.anyOf[0].properties[a].type: Forbidden: must be empty to be structural"),
        "a structural schema is checked from the root only": (
            {"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]},
            ""),
        "the customary int-or-string": (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            ""),
        "int-or-string without the extension needs a type": (
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            f"{SPEC}.type: Required value: must not be empty for specified object fields"),
        "invalid pattern": (
            {"type": "string", "pattern": "("},
            f'{SPEC}.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing '
            "regexp: missing closing ): `(`"),
        "pattern that Go does not support": (
            {"type": "string", "allOf": [{"pattern": "(?!a)"}]},
            f'{SPEC}.allOf[0].pattern: Invalid value: "(?!a)": must be a valid regular expression, but isn\'t: error '
            "parsing regexp: invalid or unsupported Perl syntax: `(?!`"),
        "null is no item of a set": (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": True}},
            f"{SPEC}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"),
        "the schema of a schema": (
            {"type": "string", "$schema": "x"},
            "s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"),
        "defaults are not filled in when they are validated": (
            {"type": "object", "default": {}, "required": ["a"], "properties": {"a": {**STRING, "default": "x"}}},
            f"{SPEC}.default.a: Required value"),
        "default violates the rule": (
            {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]},
            f"{SPEC}.default: Invalid value: 1: failed rule: self > 1"),
        "unique items": (
            {"type": "string", "uniqueItems": True},
            f"{SPEC}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
            "quadratic"),
        "an empty embedded resource": (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            f"{SPEC}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"),
        "keys of lists": (
            {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object", "properties": {"a": STRING}},
             "x-kubernetes-list-map-keys": ["a"]},
            f"{SPEC}.items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so "
            "it must have a default or be a required property"),
        "sets of objects": (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
            f"{SPEC}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
            "x-kubernetes-list-type=set"),
        "a default of another type": (
            {"type": "object", "properties": {"a": {**INTEGER, "default": "x"}}},
            f'{SPEC}.properties[a].default: Invalid value: "string":  in body must be of type integer: "string"'),
        "a default that matches no branch": (
            {"type": "string", "default": "a", "not": {"pattern": "^a"}},
            f'{SPEC}.default: Invalid value: "": "" must not validate the schema (not)'),
        "a default of an int-or-string may have any type": ({"x-kubernetes-int-or-string": True, "default": []}, ""),
        "a default with invalid metadata": (
            {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True,
             "default": {"apiVersion": "v1", "kind": "A", "metadata": {"name": 1}}},
            f'{SPEC}.default.metadata: Invalid value: {{"name":1}}: json: cannot unmarshal number into Go struct '
            "field ObjectMeta.name of type string"),
        "a schema that is not converted: defaults are not validated": (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False,
             "properties": {"a": {"type": "string", "default": 1}}},
            f"{SPEC}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"),
        "a character class without an end": (
            {"type": "string", "pattern": "[a"},
            f'{SPEC}.pattern: Invalid value: "[a": must be a valid regular expression, but isn\'t: error parsing '
            "regexp: missing closing ]: `[a`"),
        "an unknown field in a default": (
            {"type": "object", "properties": {"a": {"type": "object", "default": {"x": 1}}}},
            f'{SPEC}.properties[a].default: Invalid value: {{"x":1}}: must not have unknown fields'),
        "a rule that does not compile": (
            ruled("self.z == 1"),
            f"{SPEC}.x-kubernetes-validations[0].rule: Invalid value: {RULE % 'self.z == 1'}: compilation failed: "
            "ERROR: <input>:1:5: undefined field 'z'\n | self.z == 1\n | ....^"),
        "a rule that is no question": (
            ruled("self.a"),
            f"{SPEC}.x-kubernetes-validations[0].rule: Invalid value: {RULE % 'self.a'}: cel expression must evaluate "
            "to a bool"),
        "an empty rule": (
            ruled(""),
            f"{SPEC}.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        "invalid fieldPath": (
            ruled("true", fieldPath=".nope"),
            f'{SPEC}.x-kubernetes-validations[0].fieldPath: Invalid value: ".nope": must be a valid path'),
        "an unknown reason": (
            ruled("true", reason="Because"),
            f'{SPEC}.x-kubernetes-validations[0].reason: Unsupported value: "Because": supported values: '
            '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'),
        "an optional old value that is not used": (
            ruled("true", optionalOldSelf=True),
            f"{SPEC}.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is "
            "not used in rule"),
        "oldSelf of uncorrelatable items": (
            {
                "type": "array",
                "maxItems": 9,
                "items": {**STRING, "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            },
            f"{SPEC}.items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be "
            f"used on the uncorrelatable portion of the schema within {SPEC}"),
        "only a string": ({**STRING, "x-kubernetes-validations": [{"rule": "'oldSelf' != self"}]}, ""),
    },
)  # fmt: skip
def test_rejected_schemas(spec: Object, problem: str) -> None:
    assert problems_of(spec) == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (".a.b", "a.b"),
        (".m['x.y']", "m[x.y]"),
        ("['a'].b", "a.b"),
        (".a[", "unexpected end of JSON path"),
        ("a", "expected [ or . but got: a"),
        (".a.z", "does not refer to a valid field"),
    ],
)
def test_field_paths(text: str, path: str) -> None:
    node: Object = {"properties": {"a": {"properties": {"b": STRING}}, "m": {"additionalProperties": STRING}}}
    try:
        result = resolve(text, node)[0]
    except PathError as error:
        result = str(error)
    assert result == path


WRONG_BOOLEAN = [
    'spec: Invalid value: "integer": spec in body must be of type boolean: "integer"',
    'spec: Unsupported value: 1: supported values: "true"',
]


def shaped(value: Any, spec: Object) -> list[str]:
    return [str(problem) for problem in validate({"spec": value}, {"type": "object", "properties": {"spec": spec}})]


@cases(
    "spec, value, all_errors",
    {
        "error of allOf": (
            {"type": "object", "properties": {"a": STRING}, "allOf": [{"properties": {"a": {"minLength": 3}}}, {}]},
            {"a": "x"},
            [
                'spec.a: Invalid value: "x": spec.a in body should be at least 3 chars long',
                '<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)',
            ],
        ),
        "only the first error of a string": (
            {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
            "A",
            ['spec: Invalid value: "A": spec in body should be at least 2 chars long'],
        ),
        "enum values are reported as strings": (
            {"type": "integer", "enum": [1, 2]},
            3,
            ['spec: Unsupported value: 3: supported values: "1", "2"'],
        ),
        "several errors of an object": (
            {"type": "object", "maxProperties": 1, "required": ["c"], "additionalProperties": INTEGER},
            {"a": "x", "b": 1},
            [
                "spec: Too many: 2: must have at most 1 item",
                'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
                "spec.c: Required value",
            ],
        ),
        "enum and another type": (
            {"type": "string", "enum": ["a"]},
            1,
            [
                'spec: Invalid value: "integer": spec in body must be of type string: "integer"',
                'spec: Unsupported value: 1: supported values: "a"',
            ],
        ),
        "null is no choice": (
            {"type": "string", "nullable": True, "enum": ["a"]},
            None,
            ['spec: Unsupported value: null: supported values: "a"'],
        ),
        "boolean 1": ({"type": "boolean", "enum": [True]}, 1, WRONG_BOOLEAN),
        "a number's multiple, least and most": (
            {"type": "number", "multipleOf": 0.5, "minimum": 0.5, "maximum": 0.1},
            0.3,
            [
                "spec: Invalid value: 0.3: spec in body should be a multiple of 0.5",
                "spec: Invalid value: 0.3: spec in body should be greater than or equal to 0.5",
                "spec: Invalid value: 0.3: spec in body should be less than or equal to 0.1",
            ],
        ),
        "too large for its format": (
            {"type": "integer", "format": "int32"},
            1 << 31,
            ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec'],
        ),
        "too large for any integer": (
            {"type": "integer"},
            1 << 63,
            [
                'spec: Invalid value: "number": spec in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec',
            ],
        ),
        "integer 2.0": ({"type": "integer"}, 2.0, []),
        "small letters in a time": ({"type": "string", "format": "date-time"}, "2020-01-01t00:00:00z", []),
        "invalid duration passes": ({"type": "string", "format": "duration"}, "P1D", []),
        "format is reported for another type": (
            {"type": "string", "format": "date-time"},
            1,
            ['spec: Invalid value: "int64": spec in body must be of type date-time: "int64"'],
        ),
    },
)
def test_schemas_validate_objects(spec: Object, value: Any, all_errors: list[str]) -> None:
    assert shaped(value, spec) == all_errors


async def test_scale_replicas_paths_must_be_integers(api: Api) -> None:
    crd = definition({"type": "object", "properties": {"r": {"x-kubernetes-int-or-string": True}}})
    version = crd["spec"]["versions"][0]
    version["subresources"] = {"scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}}
    await api.create(DEFINITIONS, crd)
    assert [
        message.removeprefix('Thing.example.com "t" is invalid: ')
        for message in [(await api.post(THINGS, thing(r=value))).message for value in ("x", -1, 1 << 31)]
    ] == [
        ".spec.r: Invalid value: 0: .spec.r accessor error: x is of the type string, expected int64",
        ".spec.r: Invalid value: -1: should be a non-negative integer",
        ".spec.r: Invalid value: 2147483648: should be less than or equal to 2147483647",
    ]


def test_list_type_validation_comes_last() -> None:
    keyed = {
        "type": "array",
        "items": {"type": "object", "properties": {"k": STRING, "v": STRING}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    node = {"properties": {"keyed": keyed, "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}}}
    value = {"keyed": [{"k": "a"}, {"k": "b"}, {"k": "a"}, {"k": "a"}], "set": ["x", "x", "x"]}
    assert [str(problem) for problem in validate_list(value, node)] == [
        'keyed[2]: Duplicate value: {"k":"a"}',
        'set[1]: Duplicate value: "x"',
    ]
    assert [str(problem) for problem in validate_list({"keyed": [{"k": "a"}, 1]}, node)] == [
        "keyed[1]: Invalid value: 1: must be an object for an array of list-type map"
    ]


def test_ratcheting_accepts_unchanged_values() -> None:
    """In branches too, and only if it is the same JSON: ``true`` is not 1."""
    text = {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "allOf": [{"properties": {"a": {"minLength": 3}}}],
    }
    assert validate({"a": "x", "b": "2"}, text, "", {"a": "x", "b": "1"}) == []
    assert validate({"a": "y", "b": "1"}, text, "", {"a": "x", "b": "1"}) != []
    flag = {"type": "object", "properties": {"a": {"type": "boolean"}}}
    assert validate({"a": 1}, flag, "", {"a": True}) != []


async def test_schema_restricts_metadata_name(api: Api) -> None:
    named = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}}
    crd = definition({"type": "object"})
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] = named
    await api.create(DEFINITIONS, crd)
    rejected, responses = [await api.post(THINGS, {**thing(), "metadata": {"name": name}}) for name in ("t", "at")]
    assert rejected.message == (
        'Thing.example.com "t" is invalid: metadata.name: Invalid value: "t": metadata.name in body should match \'^a\''
    )
    assert responses.status == 201


async def test_whole_numbers_are_stored_without_a_fraction(api: Api) -> None:
    await api.create(DEFINITIONS, definition({"type": "object", "properties": {"n": INTEGER, "m": {"type": "number"}}}))
    body = b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"n":1.0,"m":2.50}}'
    created = await api.post(THINGS, body)
    assert created.status == 201, created.text
    assert '"spec":{"n":1,"m":2.5}' in (await api.get(THINGS + "/t")).text


async def test_unqualified_finalizer_names_return_warnings(api: Api) -> None:
    message = "prefer a domain-qualified finalizer name{} to avoid accidental conflicts with other finalizer writers"
    await api.create(DEFINITIONS, definition({"type": "object"}))
    meta = {"name": "t", "finalizers": ["mine", "a.example.com", "example.com/a", "orphan"]}
    responses = await api.post(THINGS, {**thing(), "metadata": meta})
    same = await api.patch(THINGS + "/t", {"metadata": {"labels": {"a": "b"}}})
    more = await api.patch(THINGS + "/t", {"metadata": {"finalizers": ["mine", "your"]}})
    responses, same, more = [answer.headers.get("warning", "") for answer in (responses, same, more)]
    assert responses == (
        f'299 - "metadata.finalizers: \\"a.example.com\\": {message.format(" including a path (/)")}", '
        f'299 - "metadata.finalizers: \\"mine\\": {message.format("")}"'
    )
    assert same == ""
    assert more == f'299 - "metadata.finalizers: \\"your\\": {message.format("")}"'


@cases(
    "inside, code, message",
    {
        "a version": (
            {"apiVersion": "a/b/c", "kind": "Pod"},
            422,
            'spec.pod.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        ),
        "empty kind": ({"apiVersion": "v1", "kind": ""}, 422, 'spec.pod.kind: Invalid value: "": must not be empty'),
        "a kind": (
            {"apiVersion": "v1", "kind": "p d"},
            422,
            'spec.pod.kind: Invalid value: "p d": may have mixed case, but should otherwise match: ',
        ),
        "a label": (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}},
            422,
            'spec.pod.metadata.labels: Invalid value: "a b": name part must consist of',
        ),
        "a version of another type": (
            {"apiVersion": 1, "kind": "Pod"},
            400,
            'Thing in version "v1" cannot be handled as a Thing: spec.pod.apiVersion: Invalid value: 1: must be a '
            "string",
        ),
        "metadata of another type": (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}},
            400,
            'Thing in version "v1" cannot be handled as a Thing: spec.pod.metadata: Invalid value: {"name":1}: json: '
            "cannot unmarshal number into Go struct field ObjectMeta.name of type string",
        ),
    },
)
async def test_embedded_resource_errors(api: Api, inside: Object, code: int, message: str) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    await api.create(DEFINITIONS, definition({"type": "object", "properties": {"pod": embedded}}))
    rejected = await api.post(THINGS, thing(pod=inside))
    assert (rejected.status, message in rejected.message) == (code, True), rejected.message


async def test_embedded_resources_require_kind_and_api_version(api: Api) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    await api.create(DEFINITIONS, definition({"type": "object", "properties": {"pod": embedded}}))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "nonsense": 1}, "x": 1}
    rejected = await api.post(THINGS, thing(pod={"x": 1}))
    accepted = await api.post(THINGS, thing(pod=pod))
    assert rejected.message == (
        'Thing.example.com "t" is invalid: [spec.pod.apiVersion: Required value, spec.pod.kind: Required value]'
    )
    assert accepted.body["spec"]["pod"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1}
