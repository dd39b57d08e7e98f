"""SubjectAccessReviews and related reviews: requests and responses."""

import json
import re
from typing import Any

import pytest
from tests.apiserver.admission.test_webhooks import RULE, VALIDATING, Hooks, configuration, webhook
from tests.apiserver.api import Answer, Api
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.env import Env

REVIEWS = "/apis/authorization.k8s.io/v1"
JANE = Identity("jane", ("system:authenticated",))
POD: dict[str, Any] = {"verb": "list", "resource": "pods", "namespace": "default"}
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


async def review(
    api: Api, path: str, spec: dict[str, Any], identity: Identity = JANE, mode: str = "RBAC", **headers: str
) -> Answer:
    return await send(api, path, {"spec": spec}, identity, mode, **headers)


async def send(
    api: Api, path: str, review: Any, identity: Identity = JANE, mode: str = "RBAC", **headers: str
) -> Answer:
    await HandlerChain(api.server, address="", authorization=mode).start()
    sent = {"content-type": "application/json", **headers}
    request = Request("POST", f"{REVIEWS}/{path}", sent, json.dumps(review).encode())
    response = await api.server.handle(request, identity)
    assert isinstance(response, Response)
    return Answer(response.status, response.headers, response.body)


@cases(
    "selectors, message",
    {
        "an empty selector": (
            {"fieldSelector": {}},
            "spec.resourceAttributes.fieldSelector.requirements: Required value: when "
            "spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
        ),
        "rawSelector and requirements": (
            {"labelSelector": {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]}},
            'spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a=b": '
            "may not specified at the same time as requirements",
        ),
        "a requirement of no field": (
            {"fieldSelector": {"requirements": [{"key": "", "operator": "In", "values": ["a"]}]}},
            "spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified",
        ),
        "In without values": (
            {"fieldSelector": {"requirements": [{"key": "a", "operator": "In"}]}},
            "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        "a value that no label has": (
            {"labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b", "c d"]}]}},
            'spec.resourceAttributes.labelSelector.requirements[0].values[1]: Invalid value: "c d": a valid label '
            "must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
            "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    },
)
async def test_rejected_selectors(api: Api, selectors: dict[str, Any], message: str) -> None:
    answer = await review(api, "selfsubjectaccessreviews", {"resourceAttributes": {**POD, **selectors}})
    assert (answer.status, answer.message) == (422, f'.authorization.k8s.io "" is invalid: {message}')


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ({"fieldSelector": {"rawSelector": "spec.nodeName=n1"}}, None),
        (
            {"fieldSelector": {"rawSelector": "a in b"}},
            "spec.resourceAttributes.fieldSelector ignored due to parse error",
        ),
        (
            {"labelSelector": {"rawSelector": "a==="}},
            "spec.resourceAttributes.labelSelector ignored due to parse error",
        ),
        (
            {"labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Odd"}]}},
            "spec.resourceAttributes.labelSelector partially ignored due to parse error",
        ),
    ],
)
async def test_unparsable_selectors_are_reported(api: Api, selectors: dict[str, Any], message: str | None) -> None:
    answer = await review(api, "selfsubjectaccessreviews", {"resourceAttributes": {**POD, **selectors}})
    assert answer.status == 201
    assert answer.body["status"]["allowed"] is False
    assert answer.body["status"].get("evaluationError") == message


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        ({"rawSelector": "spec.nodeName=n1"}, True),
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}, True),
        ({"rawSelector": "spec.nodeName=n2"}, False),
        (None, False),
    ],
)
async def test_node_may_list_its_own_pods(api: Api, selector: Any, allowed: bool) -> None:
    resource = POD if selector is None else {**POD, "fieldSelector": selector}
    spec = {"user": "system:node:n1", "groups": ["system:nodes"], "resourceAttributes": resource}
    answer = await review(api, "subjectaccessreviews", spec, Identity("admin", ("system:masters",)), "Node,RBAC")
    assert answer.body["status"]["allowed"] is allowed


async def test_rules_of_nodes_are_incomplete(api: Api) -> None:
    """As in v1.36: the authorizer of nodes cannot list theirs, and has none for others."""
    for user, group, reported in (
        ("system:node:n1", "system:nodes", "node authorizer does not support user rule resolution"),
        ("jane", "staff", None),
    ):
        identity = Identity(user, (group, "system:authenticated"))
        answer = await review(api, "selfsubjectrulesreviews", {"namespace": "a"}, identity, "Node,RBAC")
        status = answer.body["status"]
        assert (status["incomplete"], status.get("evaluationError")) == (reported is not None, reported)


async def test_self_subject_rules_review(env: Env) -> None:
    answer = await review(Api(env), "selfsubjectrulesreviews", {"namespace": "default"})
    status = answer.body["status"]
    assert status["incomplete"] is False
    assert {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    } in status["resourceRules"]
    assert any("/version" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    admin = await review(
        Api(env), "selfsubjectrulesreviews", {"namespace": "default"}, Identity("admin", ("system:masters",))
    )
    assert everything in admin.body["status"]["resourceRules"]


@pytest.mark.parametrize(
    ("path", "namespace", "owned", "but"),
    [
        ("subjectaccessreviews", "", '"f:user":{}', ""),
        ("selfsubjectaccessreviews", "", "", ""),
        (
            "namespaces/default/localsubjectaccessreviews",
            '"namespace":"default",',
            '"f:user":{}',
            " except for namespace",
        ),
    ],
)
async def test_metadata_error_shows_the_whole_metadata(
    api: Api, path: str, namespace: str, owned: str, but: str
) -> None:
    """With the namespace of the path, and with owner references (``ValidateSubjectAccessReview``, v1.36)."""
    spec = {"resourceAttributes": POD, **({"user": "jane"} if owned else {})}
    admin = Identity("admin", ("system:masters",))
    answer = await send(api, path, {"metadata": {"name": "x"}, "spec": spec}, admin, **{"user-agent": "test/1"})
    attributes = '"f:resourceAttributes":{".":{},"f:namespace":{},"f:resource":{},"f:verb":{}}'
    fields = f'{{"f:spec":{{{",".join(filter(None, [attributes, owned]))}}}}}'
    owner = (
        '{"manager":"test","operation":"Update","apiVersion":"authorization.k8s.io/v1","time":"TIME",'
        f'"fieldsType":"FieldsV1","fieldsV1":{fields}}}'
    )
    message = re.sub(r'"time":"[^"]*"', '"time":"TIME"', answer.body["details"]["causes"][0]["message"])
    assert message == f'Invalid value: {{"name":"x",{namespace}"managedFields":[{owner}]}}: must be empty{but}'


async def test_reviews_are_not_served_as_tables(api: Api) -> None:
    answer = await review(api, "selfsubjectaccessreviews", {"resourceAttributes": POD}, accept=TABLE)
    assert answer.status == 406


async def test_reviews_and_token_requests_are_admitted(api: Api) -> None:
    await api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "s"}})
    hooks = Hooks(api, lambda _name, request: {"allowed": "spec" not in request["object"]})
    rules = [{**RULE, "apiGroups": ["*"], "resources": ["*", "*/token"]}]
    await api.create(VALIDATING, configuration(webhook(rules=rules)))
    admin = Identity("admin", ("system:masters",))
    answers = [
        await send(api, "subjectaccessreviews", {"spec": {"user": "jane", "resourceAttributes": POD}}, admin),
        await review(api, "selfsubjectaccessreviews", {"resourceAttributes": POD}),
        await review(api, "selfsubjectrulesreviews", {"namespace": "default"}),
        await review(
            api, "namespaces/default/localsubjectaccessreviews", {"user": "x", "resourceAttributes": POD}, admin
        ),
        await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}}),
        await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
    ]
    assert [answer.status for answer in answers] == [400] * 5 + [201]
    kinds = [request["kind"]["kind"] for _name, request in hooks.requests]
    assert [answer.message for answer in answers][:5] == [
        'admission webhook "a.example.com" denied the request without explanation'
    ] * 5
    assert kinds == [
        "SubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "LocalSubjectAccessReview",
        "TokenReview",
        "SelfSubjectReview",
    ]
