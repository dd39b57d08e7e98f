"""Types that policies are checked against and the warnings: rows mirror
``admission/plugin/policy/validating/typechecking_test.go`` of the apiserver library and
``pkg/controller/validatingadmissionpolicystatus/controller_test.go`` of v1.36."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.controllers.upstream_coverage import Cases, missing
from tests.tables import cases

from pilothouse.api.admissionregistration import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
    Variable,
)
from pilothouse.controllers.policy.validatingadmissionpolicy_status.checking import Checker
from pilothouse.controllers.policy.validatingadmissionpolicy_status.decide import (
    NamedResource,
    TypeName,
    configuration,
    expressions,
    is_due,
    type_of_params,
    types_to_check,
    warning,
)
from pilothouse.controllers.policy.validatingadmissionpolicy_status.types import ANYTHING, filled

DEPLOYMENT, POD = TypeName("apps", "v1", "Deployment"), TypeName("", "v1", "Pod")
SERVED = {NamedResource("apps", "v1", "deployments"): [DEPLOYMENT], NamedResource("", "v1", "pods"): [POD]}

_TYPES, _FIT, _VARIABLES = "test_types_to_check", "test_type_checking_errors", "test_variables_have_types"
COVERED: Cases = {
    **{f"TestExtractTypeNames: {case}": _TYPES for case in ("empty", "specific", "multiple", "all resources")},
    **{f"TestExtractTypeNames: {case}": _TYPES for case in ("sub resources", "mixtures")},
    "TestTypeCheck: empty": "test_policy_without_matching_kinds_has_no_warnings",
    "TestTypeCheck: unresolved schema": "test_policy_without_matching_kinds_has_no_warnings",
    **{f"TestTypeCheck: {case}": _FIT for case in ("passed check", "undefined field", "field type mismatch")},
    **{f"TestTypeCheck: {case}": _FIT for case in ("params", "authorizer", "authorizer invalid")},
    "TestTypeCheck: multiple expressions": "test_field_refs_of_expressions",
    "TestTypeCheck: message expressions": "test_field_refs_of_expressions",
    **{f"TestTypeCheck: variables {case}": _VARIABLES for case in ("valid", "missing field", "field wrong type")},
    "TestTypeCheck: error in variables, not reported during type checking": _VARIABLES,
    "TestTypeChecking (controller_test.go)": "test_type_checking_warnings_are_in_the_status",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


def rule(group: str = "apps", version: str = "v1", *resources: str) -> dict[str, Any]:
    """A rule about these resources."""
    return {"apiGroups": [group], "apiVersions": [version], "resources": list(resources or ("deployments",))}


def spec(*rules: dict[str, Any], **more: Any) -> ValidatingAdmissionPolicySpec:
    """The spec of a policy."""
    return msgspec.convert({"matchConstraints": {"resourceRules": rules}, **more}, ValidatingAdmissionPolicySpec)


def many(group: str, count: int) -> dict[NamedResource, list[TypeName]]:
    """The types of this many resources."""
    return {NamedResource(group, "v1", f"r{n:02}s"): [TypeName(group, "v1", f"R{n:02}")] for n in range(count)}


@cases(
    "types, expected",
    {
        "about nothing": (ValidatingAdmissionPolicySpec(), []),
        "one type": (spec(rule()), [DEPLOYMENT]),
        "two types, sorted": (spec(rule(), rule("", "v1", "pods")), [POD, DEPLOYMENT]),
        "duplicate rule": (spec(rule(), rule()), [DEPLOYMENT]),
        "wildcard resource": (spec(rule("apps", "v1", "*")), []),
        "wildcard and named resource": (spec(rule("apps", "v1", "*", "deployments")), [DEPLOYMENT]),
        "parts of a resource": (spec(rule("apps", "v1", "deployments/*")), []),
        "a part of a resource": (spec(rule("apps", "v1", "deployments/scale")), []),
        "wildcard version": (spec(rule(), rule("apps", "*")), [DEPLOYMENT]),
        "wildcard group": (spec(rule("*")), []),
        "unknown resource": (spec(rule("apps", "v1", "unheardof")), []),
    },
)
def test_types_to_check(types: ValidatingAdmissionPolicySpec, expected: list[TypeName]) -> None:
    assert types_to_check(types, lambda named: SERVED.get(named, ())) == expected


def test_at_most_ten_types_are_checked() -> None:
    served = many("a", 12) | many("b", 9) | many("c", 1)
    names = {group: [name.resource for name in served if name.group == group] for group in "abc"}
    rules = {group: rule(group, "v1", *reversed(names[group])) for group in "abc"}

    def checked(*groups: str) -> list[str]:
        result = types_to_check(spec(*(rules[group] for group in groups)), lambda named: served.get(named, ()))
        return [f"{name.group}{name.kind}" for name in result]

    assert checked("a", "b") == [f"aR{n:02}" for n in range(10)]
    assert checked("b", "a", "c") == [f"aR{n:02}" for n in range(10)] + [f"bR{n:02}" for n in range(9)]
    assert len(checked("b", "c")) == 10


@cases(
    "kind, expected",
    {
        "no paramKind": (None, None),
        "a core one": ({"apiVersion": "v1", "kind": "ConfigMap"}, TypeName("", "v1", "ConfigMap")),
        "group and version": ({"apiVersion": "a.b/v2", "kind": "C"}, TypeName("a.b", "v2", "C")),
    },
)
def test_type_of_params(kind: dict[str, str] | None, expected: TypeName | None) -> None:
    assert type_of_params(spec(paramKind=kind)) == expected


def test_field_refs_of_expressions() -> None:
    validations = [{"expression": "a"}, {"expression": "b", "messageExpression": "c"}]
    assert list(expressions(spec(validations=validations))) == [
        ("spec.validations[0].expression", "a"),
        ("spec.validations[1].expression", "b"),
        ("spec.validations[1].messageExpression", "c"),
    ]


def test_expression_warnings() -> None:
    assert warning([(DEPLOYMENT, "one"), (POD, "two")]) == "apps/v1, Kind=Deployment: one\n\n/v1, Kind=Pod: two\n"


@pytest.mark.parametrize(
    ("generation", "observed", "expected"), [(2, 1, True), (2, 2, False), (1, 2, False)], ids=["newer", "seen", "older"]
)
def test_observed_generation_is_not_checked_again(generation: int, observed: int, expected: bool) -> None:
    result = {"metadata": {"generation": generation}, "status": {"observedGeneration": observed}}
    assert is_due(msgspec.convert(result, ValidatingAdmissionPolicy)) is expected


def test_apply_body() -> None:
    policy = msgspec.convert(
        {"metadata": {"name": "p", "generation": 3, "resourceVersion": "7"}}, ValidatingAdmissionPolicy
    )
    bare = configuration(policy, [])
    assert bare == {
        "kind": "ValidatingAdmissionPolicy",
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": "p", "resourceVersion": "7"},
        "status": {"observedGeneration": 3, "typeChecking": {}},
    }
    result = configuration(policy, [("here", "this")])["status"]["typeChecking"]
    assert result == {"expressionWarnings": [{"fieldRef": "here", "warning": "this"}]}


def has(kind: str, name: str = "foo") -> dict[str, Any]:
    """The schema of an object with this field."""
    return {"type": "object", "properties": {name: {"type": kind}}}


async def error_in(expression: str, schema: Any, params: Any = None, variables: Sequence[Variable] = ()) -> str:
    checker = Checker(schema, params)
    await checker.declare(variables)
    return await checker.error_in(expression)


@cases(
    "schema, params, expression, expected",
    {
        "defined field": (has("string"), None, "object.foo == 'bar'", ""),
        "undefined field of object": (has("string", "bar"), None, "object.foo == 'bar'", "undefined field 'foo'"),
        "undefined field of oldObject": (has("string"), None, "oldObject.bar == 'bar'", "undefined field 'bar'"),
        "type mismatch": (has("integer"), None, "object.foo == 'bar'", "found no matching overload"),
        "a message": (has("string"), None, "object.foo + 114514", "found no matching overload"),
        "parameters": (has("string"), has("string"), "object.foo == params.foo", ""),
        "undefined field of params": (has("string"), has("string"), "params.bar == ''", "undefined field 'bar'"),
        "params without paramKind": (has("string"), None, "params.bar == ''", "undeclared reference to 'params'"),
        "metadata and kind": (has("string"), None, "object.metadata.name == object.kind", ""),
        "the request": (has("string"), None, "request.userInfo.groups.exists(g, g == 'x')", ""),
        "undefined field of request": (has("string"), None, "request.uid == ''", "undefined field 'uid'"),
        "the namespace": (has("string"), None, "namespaceObject.metadata.labels['a'] == 'b'", ""),
        "undefined field of namespaceObject": (
            has("string"),
            None,
            "namespaceObject.metadata.uid == ''",
            "undefined field 'uid'",
        ),
        "rights": (has("string"), None, "authorizer.group('').resource('endpoints').check('create').allowed()", ""),
        "undefined function of authorizer": (
            has("string"),
            None,
            "authorizer.allowed()",
            "found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer",
        ),
        "parameters of an unknown kind": (has("string"), ANYTHING, "params.bar.baz == 1", ""),
        "syntax error": (has("string"), None, "object.foo ==", "Syntax error"),
    },
)
async def test_type_checking_errors(schema: Any, params: Any, expression: str, expected: str) -> None:
    result = await error_in(expression, schema, params)
    assert expected in result
    assert bool(result) is bool(expected)


async def test_compiler_errors_have_a_position() -> None:
    assert await error_in("object.foo == 'bar'", has("string", "bar")) == (
        "ERROR: <input>:1:7: undefined field 'foo'\n | object.foo == 'bar'\n | ......^"
    )


@cases(
    "variables, expression, expected",
    {
        "defined variable": ({"works": "true"}, "variables.works", ""),
        "undefined variable": ({"works": "true"}, "variables.other", "undefined field 'other'"),
        "variable of another type": ({"name": "'x'"}, "variables.name == object.foo", "applied to '(string, int)"),
        "variable with an error": ({"name": "object.foo == 'x'"}, "variables.name == object.foo", ""),
        "variable of another variable": (
            {"a": "1", "b": "variables.a + 1"},
            "variables.b == 'x'",
            "applied to '(int, string)",
        ),
        "lists are not checked": ({"all": "[1, 2]"}, "variables.all.exists(n, n == 'x')", ""),
    },
)
async def test_variables_have_types(variables: dict[str, str], expression: str, expected: str) -> None:
    declared = [Variable(name=name, expression=source) for name, source in variables.items()]
    result = await error_in(expression, has("integer"), variables=declared)
    assert expected in result
    assert bool(result) is bool(expected)


SCHEMAS: dict[str, Any] = {
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "Port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "Meta": {"type": "object", "properties": {"name": {"type": "string"}}},
    "Tree": {"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}, "n": {"type": "integer"}}},
}


def refers(name: str) -> dict[str, Any]:
    """A reference in an OpenAPI document, with a default beside it."""
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], "default": {}}


@cases(
    "schema, expected",
    {
        "no references": ({"type": "string"}, {"type": "string"}),
        "a reference": (refers("Meta"), SCHEMAS["Meta"]),
        "list": ({"type": "array", "items": refers("Meta")}, {"type": "array", "items": SCHEMAS["Meta"]}),
        "quantities by name": (
            {"type": "object", "additionalProperties": refers("Quantity")},
            {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
        ),
        "a number or a name": (refers("Port"), {"x-kubernetes-int-or-string": True}),
        "a reference to nothing": (refers("Absent"), {"x-kubernetes-int-or-string": True}),
        "recursive reference": (
            refers("Tree"),
            {"type": "object", "properties": {"left": {"type": "object"}, "n": {"type": "integer"}}},
        ),
    },
)
def test_schema_references_are_resolved(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert filled(SCHEMAS, schema) == expected
