"""ValidatingAdmissionPolicy: matching, validation and messages (texts from v1.36)."""

from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, Answer, Api, Object
from tests.apiserver.application import World
from tests.tables import cases

from pilothouse.apiserver import ApiServer

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
SCALERS = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
RULE: Object = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def policy(*validations: Object, **spec: Any) -> Object:
    constraints = spec.pop("constraints", {"resourceRules": [RULE]})
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": constraints, "validations": list(validations), **spec},
    }


def binding(**spec: Any) -> Object:
    return {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"], **spec}}


def config_map(name: str = "c", **data: str) -> Object:
    return {"metadata": {"name": name, "labels": {"x": "y"}}, "data": data}


async def post_with_policy(api: Api, body: Object, policy_spec: Object, bound: Object) -> Answer:
    await api.create(POLICIES, policy_spec)
    await api.create(BINDINGS, bound)
    return await api.post(CONFIG_MAPS, body)


DENIED = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
ONE = {"expression": "object.data.a == '1'"}


@cases(
    "policy_spec, bound, code, message",
    {
        "a denial": (policy(ONE), binding(), 422, DENIED + "failed expression: object.data.a == '1'"),
        "an expression that holds": (policy({"expression": "object.data.a == '2'"}), binding(), 201, ""),
        "message and reason": (
            policy({**ONE, "message": " must be 1 ", "reason": "Forbidden"}),
            binding(),
            403,
            DENIED + "must be 1"),
        "a message expression": (
            policy({**ONE, "message": "m", "messageExpression": "'is ' + object.data.a"}),
            binding(),
            422,
            DENIED + "is 2"),
        "a message expression that fails": (
            policy({**ONE, "message": "m", "messageExpression": "string(object.data.b)"}),
            binding(),
            422,
            DENIED + "m"),
        "an error rejects": (
            policy({"expression": "object.data.b == '1'"}),
            binding(),
            422,
            DENIED + "expression 'object.data.b == '1'' resulted in error: no such key: b"),
        "failurePolicy Ignore": (
            policy({"expression": "object.data.b == '1'"}, failurePolicy="Ignore"),
            binding(),
            201,
            ""),
        "a variable that fails": (
            policy({"expression": "variables.b == '1'"}, variables=[{"name": "b", "expression": "object.data.b"}]),
            binding(),
            422,
            DENIED + "expression 'variables.b == '1'' resulted in error: composited variable \"b\" fails to evaluate: "
            "no such key: b"),
        "a variable of a variable that fails": (
            policy(
                {"expression": "variables.c"},
                variables=[
                    {"name": "b", "expression": "object.data.b"},
                    {"name": "c", "expression": "variables.b == '1'"},
                ],
            ),
            binding(),
            422,
            DENIED + "expression 'variables.c' resulted in error: composited variable \"c\" fails to evaluate: "
            "composited variable \"b\" fails to evaluate: no such key: b"),
        "a variable that fails where it is not needed": (
            policy(
                {"expression": "!has(object.data.b) || variables.b == '1'"},
                variables=[{"name": "b", "expression": "object.data.b"}],
            ),
            binding(),
            201,
            ""),
        "an audit annotation without a value": (
            policy(ONE, auditAnnotations=[{"key": "k", "valueExpression": "null"}]),
            binding(),
            422,
            DENIED + "failed expression: object.data.a == '1'"),
        "variables, evaluated when used": (
            policy(
                {
                    "expression": "variables.twice == '22' && variables.a == '1'",
                    "messageExpression": "string(variables.twice)",
                },
                variables=[
                    {"name": "a", "expression": "object.data.a"},
                    {"name": "twice", "expression": "variables.a + variables.a"},
                    {"name": "unused", "expression": "object.nothing"},
                ],
            ),
            binding(),
            422,
            DENIED + "22"),
        "match conditions": (
            policy(ONE, matchConditions=[{"name": "m", "expression": "request.name != 'c'"}]),
            binding(),
            201,
            ""),
        "variables of expressions": (
            policy(
                {"expression": "request.operation == 'CREATE' && oldObject == null"},
                {"expression": "request.userInfo.username == 'admin'"},
                {"expression": "namespaceObject.metadata.name == 'default' && request.namespace == 'default'"},
                {"expression": "request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap'"},
                {"expression": "authorizer.group('').resource('pods').check('get').allowed()"},
                {"expression": "authorizer.requestResource.check('create').allowed()"},
                {"expression": "!has(object.metadata.annotations) && object.metadata.?labels.x.orValue('') == 'y'"},
            ),
            binding(),
            201,
            ""),
        "operation does not match": (
            policy(ONE, constraints={"resourceRules": [{**RULE, "operations": ["UPDATE"]}]}),
            binding(),
            201,
            ""),
        "excluded rules": (
            policy(ONE, constraints={"resourceRules": [RULE], "excludeResourceRules": [RULE]}),
            binding(),
            201,
            ""),
        "scope": (
            policy(ONE, constraints={"resourceRules": [{**RULE, "scope": "Cluster"}]}), binding(), 201, ""),
        "resource name does not match": (
            policy(ONE, constraints={"resourceRules": [{**RULE, "resourceNames": ["d"]}]}),
            binding(),
            201,
            ""),
        "object selector does not match": (
            policy(ONE, constraints={"resourceRules": [RULE], "objectSelector": {"matchLabels": {"x": "z"}}}),
            binding(),
            201,
            ""),
        "namespace selector does not match": (
            policy(ONE),
            binding(matchResources={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}),
            201,
            ""),
        "missing parameters": (
            policy(ONE, paramKind={"apiVersion": "v1", "kind": "Secret"}),
            binding(paramRef={"name": "none", "parameterNotFoundAction": "Deny"}),
            422,
            DENIED + "failed to configure binding: no params found for policy binding with `Deny` "
            "parameterNotFoundAction"),
        "parameters that may be missing": (
            policy(ONE, paramKind={"apiVersion": "v1", "kind": "Secret"}),
            binding(paramRef={"name": "none", "parameterNotFoundAction": "Allow"}),
            201,
            ""),
        "parameters of no kind": (
            policy(ONE, paramKind={"apiVersion": "v1", "kind": "Nothing"}),
            binding(paramRef={"name": "none", "parameterNotFoundAction": "Allow"}),
            422,
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
            "failed to find resource referenced by paramKind: 'v1, Kind=Nothing'"),
        "audit only": (
            policy(
                ONE,
                auditAnnotations=[{"key": "k", "valueExpression": "string(object.data.b)"}],
                failurePolicy="Ignore",
            ),
            binding(validationActions=["Audit"]),
            201,
            ""),
    },
)  # fmt: skip
async def test_create_with_a_policy(api: Api, policy_spec: Object, bound: Object, code: int, message: str) -> None:
    answer = await post_with_policy(api, config_map(a="2"), policy_spec, bound)
    assert (answer.status, answer.message) == (code, message)
    if code == 422:
        details = answer.body["details"]
        assert details == {
            "name": "c",
            "kind": "configmaps",
            "causes": [{"message": message.removeprefix('configmaps "c" is forbidden: ')}],
        }
        assert answer.body["reason"] == "Invalid"


async def test_binding_with_warn_action(api: Api) -> None:
    policy_object = policy({**ONE, "message": "m"})
    answer = await post_with_policy(api, config_map(a="2"), policy_object, binding(validationActions=["Warn"]))
    assert answer.status == 201
    assert "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m" in answer.headers["warning"]


async def test_param_ref_by_name_or_selector(api: Api) -> None:
    wanted = config_map("params", a="1")
    await api.create(CONFIG_MAPS, wanted)
    policy_object = policy(
        {"expression": "object.data.a == params.data.a", "messageExpression": "'want ' + params.data.a"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "m", "expression": "object.metadata.name != 'params'"}],
    )
    named = {"name": "params", "parameterNotFoundAction": "Deny"}
    by_name = await post_with_policy(api, config_map(a="2"), policy_object, binding(paramRef=named))
    chosen = {"selector": {"matchLabels": {"x": "y"}}, "parameterNotFoundAction": "Deny"}
    obj = (await api.get(BINDINGS + "/b")).body
    obj["spec"]["paramRef"] = chosen
    assert (await api.put(BINDINGS + "/b", obj)).status == 200
    by_selector = await api.post(CONFIG_MAPS, config_map(a="2"))
    good = await api.post(CONFIG_MAPS, config_map(a="1"))
    assert by_name.message == by_selector.message == DENIED + "want 1"
    assert good.status == 201


async def test_updates_and_deletes_are_validated(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map(a="1"))
    await api.create(
        POLICIES,
        policy(
            {"expression": "request.operation != 'DELETE' || oldObject.data.a == '9'", "message": "stays"},
            {"expression": "object == null || object.data.a == oldObject.data.a", "message": "fixed"},
        ),
    )
    await api.create(BINDINGS, binding())
    changed, added, deleted = [
        await api.patch(CONFIG_MAPS + "/c", {"data": {"a": "2"}}),
        await api.patch(CONFIG_MAPS + "/c", {"data": {"b": "2"}}),
        await api.delete(CONFIG_MAPS + "/c"),
    ]
    assert (changed.message, added.status, deleted.message) == (DENIED + "fixed", 200, DENIED + "stays")


@pytest.mark.parametrize(("match_policy", "code"), [("Equivalent", 422), ("Exact", 201)])
async def test_an_equivalent_version_is_converted(api: Api, match_policy: str, code: int) -> None:
    rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["*"]}
    expression = "has(object.spec.metrics) ? string(object.apiVersion) : 'v1'"
    policy_object = policy(
        {"expression": "false", "messageExpression": expression},
        constraints={"resourceRules": [rule], "matchPolicy": match_policy},
    )
    scaler: Object = {
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 50,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        },
    }
    await api.create(POLICIES, policy_object)
    await api.create(BINDINGS, binding())
    answer = await api.post(SCALERS, scaler)
    assert answer.status == code
    assert code == 201 or answer.message.endswith("denied request: autoscaling/v2")


async def test_policies_do_not_apply_to_policies(api: Api) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    await api.create(POLICIES, policy({"expression": "false"}, constraints={"resourceRules": [rule]}))
    await api.create(BINDINGS, binding())
    assert (await api.delete(BINDINGS + "/b")).status == 200


@cases(
    "spec, problem",
    {
        "a syntax error": (
            policy({"expression": "object.a =="}),
            'spec.validations[0].expression: Invalid value: "object.a ==": compilation failed: ERROR: <input>:1:12: '
            "Syntax error: mismatched input '<EOF>' expecting",
        ),
        "parameters without a kind": (
            policy({"expression": "params.a == 1"}),
            'spec.validations[0].expression: Invalid value: "params.a == 1": compilation failed: ERROR: <input>:1:1: '
            "undeclared reference to 'params' (in container '')",
        ),
        "expression that is not a bool": (
            policy({"expression": "1 + 1"}),
            'spec.validations[0].expression: Invalid value: "1 + 1": must evaluate to bool but got int',
        ),
        "an expression whose type is not known": (
            policy({"expression": "object.spec.paused"}),
            'spec.validations[0].expression: Invalid value: "object.spec.paused": must evaluate to bool but got dyn',
        ),
        "a variable of another type": (
            policy(
                {"expression": "variables.b"},
                variables=[{"name": "a", "expression": "[1.5]"}, {"name": "b", "expression": "variables.a"}],
            ),
            'spec.validations[0].expression: Invalid value: "variables.b": must evaluate to bool but got list(double)',
        ),
        "an unknown field of the request": (
            policy({"expression": "request.subresource == ''"}),
            "ERROR: <input>:1:8: undefined field 'subresource'",
        ),
        "the type of the request": (
            policy({"expression": "request.userInfo"}),
            "must evaluate to bool but got kubernetes.UserInfo",
        ),
        "a variable of a type of Kubernetes": (
            policy({"expression": "variables.q"}, variables=[{"name": "q", "expression": "quantity('1')"}]),
            "must evaluate to bool but got dyn",
        ),
        "a variable of a policy without variables": (
            policy({"expression": "variables.z"}),
            "ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')",
        ),
        "an unknown variable": (
            policy({"expression": "variables.z"}, variables=[{"name": "a", "expression": "1"}]),
            "undefined field 'z'",
        ),
        "an invalid messageExpression": (
            policy({"expression": "true", "messageExpression": "1"}),
            'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
        ),
        "neither validations nor audit annotations": (
            policy(),
            "spec.validations: Required value: validations or audit",
        ),
        "an unknown reason": (
            policy({"expression": "true", "reason": "Why"}),
            'spec.validations[0].reason: Unsupported value: "Why": supported values: "Forbidden", "Invalid", '
            '"RequestEntityTooLarge"',
        ),
    },
)
async def test_rejected_policies(api: Api, spec: Object, problem: str) -> None:
    answer = await api.post(POLICIES, spec)
    assert answer.status == 422
    assert problem in answer.message


# Objects that were written into the store past the server

KEY = "admissionregistration.k8s.io/validatingadmissionpolicies/p"
BINDING_KEY = "admissionregistration.k8s.io/validatingadmissionpolicybindings/b"


SELECTED: Object = {"objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
NO_OPERATOR = 'Internal error occurred: "Is" is not a valid label selector operator'


@cases(
    "key, failure_policy, message",
    {
        "a policy": (
            KEY,
            "Fail",
            "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: " + NO_OPERATOR,
        ),
        "a binding": (
            BINDING_KEY,
            "Fail",
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: "
            + NO_OPERATOR,
        ),
        "failurePolicy Ignore": (KEY, "Ignore", ""),
        "a binding of such a policy": (BINDING_KEY, "Ignore", ""),
    },
)
async def test_invalid_selector_follows_the_failure_policy(
    api: Api, key: str, failure_policy: str, message: str
) -> None:
    """Only writes that match the rules are rejected."""
    constraints = {"resourceRules": [RULE], **SELECTED}
    policy_object = policy({"expression": "true"}, failurePolicy=failure_policy, constraints=constraints)
    await api.create(POLICIES, policy_object)
    await api.create(BINDINGS, binding(matchResources=SELECTED))
    before = await api.post(CONFIG_MAPS, config_map("before"))
    await api.rewrite(key, '"Exists"', '"Is"')
    other = await api.post(CONFIG_MAPS.replace("configmaps", "secrets"), {"metadata": {"name": "s"}})
    last = await api.post(CONFIG_MAPS, config_map())
    assert (before.status, other.status, last.status) == (201, 201, 422 if message else 201)
    assert not message or last.message == f'configmaps "c" is forbidden: {message}'


@pytest.mark.not_on("etcd", reason="what no server writes can not be encoded")
async def test_policy_that_becomes_undecodable_stays_in_force(api: Api) -> None:
    await api.create(POLICIES, policy(ONE))
    await api.create(BINDINGS, binding())
    await api.rewrite(KEY, '"validations":[', '"validations":"x","was":[')
    rejected = await api.post(CONFIG_MAPS, config_map(a="2"))
    granted = await api.post(CONFIG_MAPS, config_map("d", a="1"))
    await api.delete(POLICIES + "/p")
    assert [answer.status for answer in [rejected, granted, await api.post(CONFIG_MAPS, config_map(a="2"))]] == [
        422,
        201,
        201,
    ]


@pytest.mark.parametrize("key", [KEY, BINDING_KEY])
@pytest.mark.not_on("etcd", reason="what no server writes can not be encoded")
async def test_undecodable_policy_at_startup_makes_the_server_unready(api: Api, key: str) -> None:
    await api.create(POLICIES, policy(ONE))
    await api.create(BINDINGS, binding())
    await api.rewrite(key, '"spec":{', '"spec":"x","was":{')
    api.transport = ApiServer(api.env, api.store).transport("admin", ("system:masters",))
    rejected = await api.post(CONFIG_MAPS, config_map(a="1"))
    read = await api.get(CONFIG_MAPS)
    deleted = await api.delete((POLICIES if key == KEY else BINDINGS) + key[key.rindex("/") :])
    granted = await api.post(CONFIG_MAPS, config_map(a="2"))
    assert rejected.status == 403
    assert rejected.message == 'configmaps "c" is forbidden: not yet ready to handle request'
    assert [read.status, deleted.status, granted.status] == [200, 200, 201]


@pytest.mark.parametrize("key", [KEY, BINDING_KEY])
@pytest.mark.not_on("etcd", reason="what no server writes can not be encoded")
async def test_undecodable_new_policy_does_not_affect_a_running_server(api: Api, key: str) -> None:
    """The previous state, in which the policy does not exist, remains in force."""
    before = await api.post(CONFIG_MAPS, config_map("before"))
    kind = "ValidatingAdmissionPolicy" if key == KEY else "ValidatingAdmissionPolicyBinding"
    name = key[key.rindex("/") + 1 :]
    text = '{"kind":"%s","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"%s"},"spec":"x"}'
    await api.store.commit(api.store.stage(key, lambda _revision: (text % (kind, name)).encode(), expected=0))
    assert [answer.status for answer in [before, await api.post(CONFIG_MAPS, config_map())]] == [201, 201]


ANY: Object = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
NEVER = policy({"expression": "false"}, constraints={"resourceRules": [ANY]})
REVIEWED: Object = {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}


@cases(
    "group, kind, spec",
    {
        "SelfSubjectReview": ("authentication", "SelfSubjectReview", {}),
        "TokenReview": ("authentication", "TokenReview", {"token": "t"}),
        "LocalSubjectAccessReview": ("authorization", "LocalSubjectAccessReview", REVIEWED),
        "SelfSubjectAccessReview": (
            "authorization",
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        ),
        "SelfSubjectRulesReview": ("authorization", "SelfSubjectRulesReview", {"namespace": "default"}),
        "SubjectAccessReview": ("authorization", "SubjectAccessReview", REVIEWED),
    },
)
async def test_reviews_are_not_matched(world: World, group: str, kind: str, spec: Object) -> None:
    """``pkg/kubeapiserver/admission/exclusion/resources.go`` (v1.36)."""
    assert (await world.request("POST", POLICIES, NEVER))[0] == 201
    assert (await world.request("POST", BINDINGS, binding()))[0] == 201
    version = f"{group}.k8s.io/v1"
    namespace = "default" if kind.startswith("Local") else ""
    metadata = {"namespace": namespace} if namespace else {}
    path = f"/apis/{version}/{f'namespaces/{namespace}/' if namespace else ''}{kind.lower()}s"
    review = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    status, answer = await world.request("POST", path, review)
    assert status == 201, answer
    assert (await world.request("POST", CONFIG_MAPS, config_map()))[0] == 422


async def test_configurations_of_webhooks_are_matched_and_policies_are_not(api: Api) -> None:
    """``admissionResources`` in apiserver's ``policy/generic/plugin.go`` (v0.36)."""
    await api.create(POLICIES, NEVER)
    await api.create(BINDINGS, binding())
    group = "/apis/admissionregistration.k8s.io/v1"
    messages = [
        (await api.post(f"{group}/{resource}", {"metadata": {"name": "w"}})).message
        for resource in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
    ]
    assert all("denied request: failed expression: false" in message for message in messages)
    assert [(await api.delete(BINDINGS + "/b")).status, (await api.delete(POLICIES + "/p")).status] == [200, 200]
