"""Authorization of param references when policies and bindings are written (kubernetes
``pkg/registry/admissionregistration``, ``authz.go``, v1.36)."""

import json
from collections.abc import Sequence
from typing import Any

from tests.apiserver.api import Answer, Api, Object, errors_of
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain

GROUP = "admissionregistration.k8s.io"
POLICIES, BINDINGS = (
    f"/apis/{GROUP}/v1/validatingadmissionpolicies",
    f"/apis/{GROUP}/v1/validatingadmissionpolicybindings",
)
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
JANE = Identity("jane", ("crew", "system:authenticated"))
SHOWN = "&{jane  [crew system:authenticated] map[]}"
WRITES = {"verbs": ["create", "update", "patch"], "apiGroups": [GROUP], "resources": ["*"]}
ALL = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
ONE = {**ALL, "resourceNames": ["mine"]}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def policy(kind: str = "ConfigMap") -> Object:
    """A policy with parameters."""
    constraints = {"resourceRules": [RULE]}
    spec: Object = {"matchConstraints": constraints, "validations": [{"expression": "true"}]}
    return {"metadata": {"name": "p"}, "spec": {**spec, "paramKind": {"apiVersion": "v1", "kind": kind}}}


def binding(name: str, of: str = "p") -> Object:
    """A binding to one object."""
    reference = {"name": name, "namespace": "default", "parameterNotFoundAction": "Deny"}
    spec = {"policyName": of, "validationActions": ["Deny"], "paramRef": reference}
    return {"metadata": {"name": "b"}, "spec": spec}


async def as_jane(api: Api, path: str, body: Any, more: Sequence[Object]) -> Answer:
    """The response for jane, who may write policies, and has the rights ``more``."""
    await HandlerChain(api.server, address="", authorization="RBAC").start()
    await api.create(ROLES, {"metadata": {"name": "jane"}, "rules": [WRITES, *more]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jane"}
    subjects = [{"kind": "User", "name": "jane"}]
    await api.create(ROLE_BINDINGS, {"metadata": {"name": "jane"}, "roleRef": reference, "subjects": subjects})
    if path == BINDINGS:
        await api.create(POLICIES, policy())
    request = Request("POST", path, {"content-type": "application/json"}, json.dumps(body).encode())
    response = await api.server.handle(request, JANE)
    assert isinstance(response, Response)
    return Answer(response.status, response.headers, response.body)


@cases(
    "path, body, more",
    {
        "a policy, with all of its parameters": (POLICIES, policy(), [ALL]),
        "a binding, with its own": (BINDINGS, binding("mine"), [ONE]),
    },
)
async def test_allowed_param_references(api: Api, path: str, body: Object, more: Sequence[Object]) -> None:
    answer = await as_jane(api, path, body, more)
    assert answer.status == 201, answer.text


@cases(
    "path, body, more, expected",
    {
        "parameters of one name only": (
            POLICIES,
            policy(),
            [ONE],
            f'spec.paramKind: Forbidden: user {SHOWN} must have "get" permission on all objects of the referenced '
            "paramKind (kind=ConfigMap, apiVersion=v1)",
        ),
        "parameters of an unknown kind": (
            POLICIES,
            policy("Unknown"),
            [ALL],
            f'spec.paramKind: Forbidden: user {SHOWN} must have "get" permission on all objects of the referenced '
            "paramKind (kind=Unknown, apiVersion=v1)",
        ),
        "binding of another policy's parameters": (
            BINDINGS,
            binding("another"),
            [ONE],
            f'spec.paramRef: Forbidden: user {SHOWN} does not have "get" permission on the object referenced by '
            "paramRef",
        ),
        "binding of a missing policy": (
            BINDINGS,
            binding("mine", "none"),
            [ONE],
            f'spec.paramRef: Forbidden: user {SHOWN} does not have "get" permission on the object referenced by '
            "paramRef",
        ),
    },
)
async def test_rejected_param_references(
    api: Api, path: str, body: Object, more: Sequence[Object], expected: str
) -> None:
    assert errors_of(await as_jane(api, path, body, more)) == [expected]
