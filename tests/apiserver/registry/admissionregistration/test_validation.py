"""Validation of webhooks, policies and their bindings, and APIServices (kubernetes
``pkg/apis/admissionregistration/validation`` and kube-aggregator ``pkg/apis/apiregistration/validation``, v1.36)."""

from typing import Any

from tests.apiserver.api import Api, Object, errors_of, errors_of_create
from tests.tables import cases

GROUP = "/apis/admissionregistration.k8s.io/v1/"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
POLICIES, BINDINGS = GROUP + "validatingadmissionpolicies", GROUP + "validatingadmissionpolicybindings"
MUTATING, MUTATING_BINDINGS = GROUP + "mutatingadmissionpolicies", GROUP + "mutatingadmissionpolicybindings"
RULE: Object = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
WEBHOOK: Object = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
MATCH_CONSTRAINTS = {"resourceRules": [RULE]}
POLICY: Object = {"matchConstraints": MATCH_CONSTRAINTS, "validations": [{"expression": "true"}]}
MUTATION = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/data'}]"}}
MUTATING_POLICY: Object = {
    "matchConstraints": MATCH_CONSTRAINTS,
    "mutations": [MUTATION],
    "reinvocationPolicy": "Never",
}
SERVICE: Object = {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def _resources(*names: str) -> Object:
    return {**RULE, "resources": list(names)}


@cases(
    "rule, expected",
    {
        "errors in upstream's order": (
            {**RULE, "operations": ["CREATE", "*", "READ"], "scope": "Odd", "apiGroups": ["a", "*"]},
            [
                'operations: Invalid value: ["CREATE","*","READ"]: if \'*\' is present, must not specify other '
                "operations",
                'operations[2]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", '
                '"UPDATE"',
                'apiGroups: Invalid value: ["a","*"]: if \'*\' is present, must not specify other API groups',
                'scope: Unsupported value: "Odd": supported values: "*", "Cluster", "Namespaced"',
            ],
        ),
        "empty resource": (_resources(""), ["resources[0]: Required value"]),
        "subresource included in pods/*": (
            _resources("pods/*", "pods/status"),
            ["resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status"],
        ),
        "subresource included in */scale": (
            _resources("*/scale", "pods/scale"),
            ["resources[1]: Invalid value: \"pods/scale\": if '*/scale' is present, must not specify pods/scale"],
        ),
        "resources next to */*": (
            _resources("*/*", "pods/status"),
            [
                'resources: Invalid value: ["*/*","pods/status"]: if \'*/*\' is present, must not specify other '
                "resources"
            ],
        ),
        "resource next to *": (
            _resources("*", "pods"),
            [
                'resources: Invalid value: ["*","pods"]: if \'*\' is present, must not specify other resources '
                "without subresources"
            ],
        ),
    },
)
async def test_rules(api: Api, rule: Object, expected: list[str]) -> None:
    webhooks = [{**WEBHOOK, "rules": [rule]}]
    errors = await errors_of_create(api, GROUP + "validatingwebhookconfigurations", webhooks=webhooks)
    assert errors == [f"webhooks[0].rules[0].{error}" for error in expected]


@cases(
    "change, expected",
    {
        "names of match conditions": (
            {"matchConditions": [{"name": "a b", "expression": " "}, {"expression": "true"}]},
            [
                "matchConditions[0].expression: Required value",
                'matchConditions[0].name: Invalid value: "a b": name part must consist of alphanumeric characters, '
                "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
                "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "matchConditions[1].name: Required value",
            ],
        ),
        "too many match conditions": (
            {"matchConditions": [{"name": f"n{number}", "expression": "true"} for number in range(65)]},
            ["matchConditions: Too many: 65: must have at most 64 items"],
        ),
        "other fields, in upstream's order": (
            {
                "timeoutSeconds": 31,
                "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]},
                "admissionReviewVersions": ["v2"],
                "matchConditions": [{"name": "n", "expression": " 1 "}],
            },
            [
                "timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                'objectSelector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator',
                'matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
                'admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1',
            ],
        ),
    },
)
async def test_webhooks(api: Api, change: Object, expected: list[str]) -> None:
    errors = await errors_of_create(api, GROUP + "mutatingwebhookconfigurations", webhooks=[{**WEBHOOK, **change}])
    assert errors == [f"webhooks[0].{error}" for error in expected]


@cases(
    "change, expected",
    {
        "no validations or audit annotations": (
            {"validations": []},
            [
                f"{field}: Required value: validations or auditAnnotations must contain at least one item"
                for field in ("validations", "auditAnnotations")
            ],
        ),
        "invalid apiVersion of paramKind": (
            {"paramKind": {"apiVersion": "a/b/c"}},
            [
                'paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                "paramKind.kind: Required value",
            ],
        ),
        "invalid version and kind of paramKind": (
            {"paramKind": {"apiVersion": "g/1", "kind": "A_b"}},
            [
                f'paramKind.apiVersion: Invalid value: "1": {LABEL}',
                'paramKind.kind: Invalid value: "A_b": may have mixed case, but should otherwise match: ' + LABEL,
            ],
        ),
        "match constraints": (
            {
                "matchConstraints": {
                    "matchPolicy": "Odd",
                    "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]},
                    "resourceRules": [{**RULE, "resourceNames": ["a/b", "a/b"]}],
                    "excludeResourceRules": [{**RULE, "operations": []}],
                }
            },
            [
                'matchConstraints.matchPolicy: Unsupported value: "Odd": supported values: "Equivalent", "Exact"',
                'matchConstraints.namespaceSelector.matchExpressions[0].operator: Invalid value: "Odd": not a valid '
                "selector operator",
                "matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: \"a/b\": may not contain '/'",
                "matchConstraints.resourceRules[0].resourceNames[1]: Invalid value: \"a/b\": may not contain '/'",
                'matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a/b"',
                "matchConstraints.excludeResourceRules[0].operations: Required value",
            ],
        ),
        "invalid names of variables": (
            {"variables": [{"name": "if", "expression": "1"}, {"name": " ", "expression": ""}]},
            [
                'variables[0].name: Invalid value: "if": must be a valid CEL identifier',
                "variables[1].name: Required value: name is not specified",
                "variables[1].expression: Required value: expression is not specified",
            ],
        ),
        "validations with an invalid variable": (
            {
                "variables": [{"name": "a", "expression": "b"}],
                "validations": [
                    {"expression": "", "messageExpression": " ", "message": " ", "reason": "Unauthorized"},
                    {"expression": "variables.a", "message": "a\rb"},
                ],
            },
            [
                'variables[0].expression: Invalid value: "b": compilation failed: ERROR: <input>:1:1: undeclared '
                "reference to 'b' (in container '')\n | b\n | ^",
                "validations[0].expression: Required value: expression is not specified",
                'validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
                'validations[0].message: Invalid value: " ": must be non-empty if specified',
                'validations[0].reason: Unsupported value: "Unauthorized": supported values: "Forbidden", "Invalid", '
                '"RequestEntityTooLarge"',
                'validations[1].expression: Invalid value: "variables.a": must evaluate to bool but got dyn',
                'validations[1].message: Invalid value: "a\\rb": must not contain line breaks',
            ],
        ),
        "audit annotations": (
            {
                "auditAnnotations": [
                    {"key": "k", "valueExpression": ""},
                    {"key": "k", "valueExpression": "'" + "x" * 5119 + "'"},
                ]
            },
            [
                "auditAnnotations[0].valueExpression: Required value: valueExpression is not specified",
                "auditAnnotations[1].valueExpression: Required value: must not exceed 5120 bytes in length",
                'auditAnnotations[1].key: Duplicate value: "k"',
            ],
        ),
    },
)
async def test_validating_policies(api: Api, change: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, POLICIES, spec={**POLICY, **change}) == [f"spec.{error}" for error in expected]


async def test_multiline_expressions_do_not_require_a_message(api: Api) -> None:
    spec = {**POLICY, "validations": [{"expression": "true\n&& true"}]}
    assert (await api.post(POLICIES, {"metadata": {"name": "x"}, "spec": spec})).status == 201


@cases(
    "change, expected",
    {
        "no mutations": (
            {"mutations": [], "reinvocationPolicy": ""},
            [
                "mutations: Required value: mutations must contain at least one item",
                "reinvocationPolicy: Required value",
            ],
        ),
        "DELETE in a mutating policy": (
            {"matchConstraints": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}, "reinvocationPolicy": "Odd"},
            [
                'matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
                '"CONNECT", "CREATE", "UPDATE"',
                'reinvocationPolicy: Unsupported value: "Odd": supported values: "IfNeeded", "Never"',
            ],
        ),
        "patch types": (
            {
                "mutations": [
                    {"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}},
                    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}},
                ]
            },
            [
                "mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                'mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when '
                "patchType is JSONPatch",
                "mutations[1].applyConfiguration.expression: Required value",
            ],
        ),
    },
)
async def test_mutating_policies(api: Api, change: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, MUTATING, spec={**MUTATING_POLICY, **change}) == [
        f"spec.{error}" for error in expected
    ]


@cases(
    "path, spec, expected",
    {
        "paramRef and validationActions": (
            BINDINGS,
            {"policyName": "p", "paramRef": {"name": "a/b", "selector": {}}, "validationActions": ["Odd", "Odd"]},
            [
                "paramRef.name: Invalid value: \"a/b\": may not contain '/'",
                "paramRef.name: Forbidden: name and selector are mutually exclusive",
                "paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "paramRef.parameterNotFoundAction: Required value",
                'validationActions[0]: Unsupported value: "Odd": supported values: "Audit", "Deny", "Warn"',
                'validationActions[1]: Unsupported value: "Odd": supported values: "Audit", "Deny", "Warn"',
                'validationActions[1]: Duplicate value: "Odd"',
            ],
        ),
        "bindings of mutating policies": (
            MUTATING_BINDINGS,
            {
                "policyName": "p",
                "paramRef": {"parameterNotFoundAction": "Odd"},
                "matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]},
            },
            [
                "paramRef: Required value: one of name or selector must be specified",
                'paramRef.parameterNotFoundAction: Unsupported value: "Odd": supported values: "Deny", "Allow"',
                'matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
                '"CONNECT", "CREATE", "UPDATE"',
            ],
        ),
    },
)
async def test_bindings(api: Api, path: str, spec: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, path, spec=spec) == [f"spec.{error}" for error in expected]


async def test_policy_status(api: Api) -> None:
    await api.create(POLICIES, {"metadata": {"name": "x"}, "spec": POLICY})
    status: Any = {"typeChecking": {"expressionWarnings": [{"fieldRef": " ", "warning": ""}]}}
    status["conditions"] = [{"type": "A", "status": "Odd", "reason": "R", "lastTransitionTime": None}]
    assert errors_of(await api.patch(POLICIES + "/x/status", {"status": status})) == [
        "status.typeChecking.expressionWarnings[0].warning: Required value",
        "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
        'status.conditions[0].status: Unsupported value: "Odd": supported values: "False", "True", "Unknown"',
        "status.conditions[0].lastTransitionTime: Required value",
    ]


@cases(
    "name, change, expected",
    {
        "invalid version": ("V1.g.example.com", {"version": "V1"}, [f'version: Invalid value: "V1": {LABEL}']),
        "caBundle of a local APIService": (
            "v1.g.example.com",
            {"caBundle": "YWI="},
            ['caBundle: Invalid value: "2 bytes": local APIServices may not have a caBundle'],
        ),
        "invalid service port": (
            "v1.g.example.com",
            {"service": {"namespace": "n", "name": "n", "port": 70000}},
            ["service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"],
        ),
    },
)
async def test_api_services(api: Api, name: str, change: Object, expected: list[str]) -> None:
    errors = await errors_of_create(api, SERVICES, metadata={"name": name}, spec={**SERVICE, **change})
    assert errors == [f"spec.{error}" for error in expected]


async def test_api_service_status(api: Api) -> None:
    await api.create(SERVICES, {"metadata": {"name": "v1.g.example.com"}, "spec": SERVICE})
    status = {"conditions": [{"type": "Available", "status": "Odd"}]}
    assert errors_of(await api.patch(SERVICES + "/v1.g.example.com/status", {"status": status})) == [
        'status.conditions[0].status: Unsupported value: "Odd": supported values: "True", "False", "Unknown"'
    ]
