"""Escalation checks: users cannot grant rights that they lack.

The texts are kube-apiserver's (see ``test_rights_answers.py``).
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.apiserver.api import Answer, Api
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"
JANE = Identity("jane", ("crew", "system:authenticated"))
MINE = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
WRITES = {"verbs": ["create", "update", "patch"], "apiGroups": [GROUP], "resources": ["*"]}
SECRETS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}
ATTEMPT = (
    'user "jane" (groups=["crew" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:'
)


def role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, kind: str, to: str, user: str = "bob") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": to},
        "subjects": [{"kind": "User", "name": user}],
    }


async def as_jane(api: Api, method: str, path: str, body: Any, more: Sequence[dict[str, Any]] = ()) -> Answer:
    """The response for jane, who may read pods and write roles, and has the rights ``more``."""
    await HandlerChain(api.server, address="", authorization="RBAC").start()
    await api.create(CLUSTER_ROLES, role("jane", MINE, WRITES, *more))
    await api.create(CLUSTER_BINDINGS, binding("jane", "ClusterRole", "jane", "jane"))
    await api.create(CLUSTER_ROLES, role("secrets", SECRETS))
    await api.create(ROLES, role("there", SECRETS))
    raw = json.dumps(body).encode()
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await api.server.handle(Request(method, path, {"content-type": kind}, raw), JANE)
    assert isinstance(response, Response)
    return Answer(response.status, response.headers, response.body)


@cases(
    "method, path, body, more",
    {
        "own permissions": ("POST", ROLES, role("r", MINE), ()),
        "a part of it": ("POST", ROLES, role("r", {**MINE, "resourceNames": ["a"]}), ()),
        "a role of which she has all": ("POST", BINDINGS, binding("b", "ClusterRole", "jane"), ()),
        "escalate": (
            "POST",
            ROLES,
            role("r", SECRETS),
            ({"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"]},),
        ),
        "bind": (
            "POST",
            BINDINGS,
            binding("b", "ClusterRole", "secrets"),
            ({"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["secrets"]},),
        ),
        "finalizers are not checked": ("PATCH", f"{ROLES}/there", {"metadata": {"finalizers": ["a.com/b"]}}, ()),
    },
)
async def test_allowed_grants(api: Api, method: str, path: str, body: Any, more: Sequence[dict[str, Any]]) -> None:
    answer = await as_jane(api, method, path, body, more)
    assert answer.status in (200, 201), answer.text


@cases(
    "method, path, body, missing",
    {
        "permissions beyond her own": (
            "POST",
            ROLES,
            role("r", MINE, SECRETS, {"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]}),
            '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        ),
        "a subresource": (
            "POST",
            ROLES,
            role("r", {**MINE, "resources": ["pods/log"]}),
            '{APIGroups:[""], Resources:["pods/log"], Verbs:["get" "list"]}',
        ),
        "a path": (
            "POST",
            CLUSTER_ROLES,
            role("r", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}),
            '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
        ),
        "a change of a role": (
            "PUT",
            f"{ROLES}/there",
            role("there", {**SECRETS, "resourceNames": ["a"]}),
            '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get" "list"]}',
        ),
        "labels of a role with more": (
            "PATCH",
            f"{ROLES}/there",
            {"metadata": {"labels": {"a": "b"}}},
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        ),
        "a role with more": (
            "POST",
            BINDINGS,
            binding("r", "ClusterRole", "secrets"),
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        ),
        "cluster-admin": (
            "POST",
            CLUSTER_BINDINGS,
            binding("r", "ClusterRole", "cluster-admin"),
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}',
        ),
    },
)
async def test_rejected_grants(api: Api, method: str, path: str, body: Any, missing: str) -> None:
    answer = await as_jane(api, method, path, body)
    assert answer.status == 403, answer.text
    assert answer.message.endswith(f" is forbidden: {ATTEMPT}\n{missing}")


async def test_aggregation_rules_require_all_rights(api: Api) -> None:
    rule = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    answer = await as_jane(api, "POST", CLUSTER_ROLES, role("r", aggregationRule=rule))
    assert (answer.status, answer.message) == (
        403,
        f'clusterroles.{GROUP} "r" is forbidden: must have cluster-admin privileges to use the aggregationRule',
    )


async def test_binding_a_missing_role_is_rejected(api: Api) -> None:
    answer = await as_jane(api, "POST", BINDINGS, binding("b", "Role", "absent"))
    assert (answer.status, answer.message) == (404, f'rolebindings.{GROUP} "absent" not found')


@cases(
    "rules",
    {
        "of many combinations": [
            {
                "verbs": [f"v{number}" for number in range(300)],
                "apiGroups": [f"g{number}" for number in range(300)],
                "resources": [f"r{number}" for number in range(300)],
            }
        ],
        "many": [{**MINE, "resourceNames": [f"n{number}"]} for number in range(30_000)],
        "of many equal members": [{"verbs": ["get"] * 5000, "apiGroups": [""], "resources": ["pods"] * 5000}],
    },
)
async def test_comparisons_are_limited(api: Api, rules: list[dict[str, Any]]) -> None:
    answer = await as_jane(api, "POST", ROLES, role("r", *rules))
    assert answer.status == 403
    assert "have too many combinations of verbs, groups, resources and names" in answer.message
    allowed = [{**MINE, "resourceNames": [f"n{number}"]} for number in range(3000)]
    assert (await api.post(ROLES, role("q", *allowed))).status == 201
