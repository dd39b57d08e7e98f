"""RBAC responses: a sequence of requests with code, reason, message and details.

``golden/rights.json`` has the answers. They were compared with those of a kube-apiserver v1.20.2 with RBAC; what has
changed since (values in messages are JSON, the namespace of the path is filled in before a review is validated, a body
is decoded by Go's own package, impersonation without a user is a bad request, the error about a missing role names the
resource of the binding) is as in v1.36.2.
"""

# ruff: noqa: E501  # a table is read one question to a line

import json
from typing import Any

from tests.apiserver.api import Api
from tests.golden import Golden

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.env import Env

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
LOGINS = "/apis/authentication.k8s.io/v1"
ADMIN = "admin-token"
JANE = {"Impersonate-User": "jane", "Impersonate-Group": "system:authenticated"}
GROUP = "rbac.authorization.k8s.io"

Step = tuple[str, str, str, Any, dict[str, str]]
"""(what it is about, method, path, body, headers besides the administrator's token)."""


def rule(verbs: str, group: str, resources: str, *names: str) -> dict[str, Any]:
    role_rule: dict[str, Any] = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**role_rule, "resourceNames": list(names)} if names else role_rule


def role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, kind: str, role_name: str, user: str = "jane") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role_name},
        "subjects": [{"kind": "User", "name": user}],
    }


PATHS = {"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}
ROLES, BINDINGS = f"{RBAC}/namespaces/d1/roles", f"{RBAC}/namespaces/d1/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"


def access(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


POD = {"verb": "get", "resource": "pods", "namespace": "d1"}

STEPS: list[Step] = [
    ("a namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": "d1"}}, {}),
    ("another", "POST", "/api/v1/namespaces", {"metadata": {"name": "d2"}}, {}),
    ("rights", "POST", CLUSTER_ROLES, role("some", rule("get list", "", "pods"), rule("create update", GROUP, "*")), {}),
    ("given", "POST", CLUSTER_BINDINGS, binding("some-jane", "ClusterRole", "some"), {}),
    ("a role without users", "POST", CLUSTER_ROLES, role("secret-reader", rule("get list", "", "secrets")), {}),
    # What jane may not do at all.
    ("list", "GET", "/api/v1/pods", None, JANE),
    ("list of nodes", "GET", "/api/v1/nodes", None, JANE),
    ("list in a namespace", "GET", "/api/v1/namespaces/d1/configmaps", None, JANE),
    ("get", "GET", "/api/v1/namespaces/d1/configmaps/x", None, JANE),
    ("get of what is not there", "GET", "/api/v1/namespaces/d1/pods/x", None, JANE),
    ("log", "GET", "/api/v1/namespaces/d1/pods/x/log", None, JANE),
    ("in a group", "GET", "/apis/apps/v1/namespaces/d1/deployments/x", None, JANE),
    ("delete", "DELETE", "/api/v1/namespaces/d1/pods/x", None, JANE),
    ("delete of many", "DELETE", "/api/v1/namespaces/d1/pods", None, JANE),
    ("watch", "GET", "/api/v1/namespaces/d1/secrets?watch=true", None, JANE),
    ("a named watch", "GET", "/api/v1/secrets?watch=true&fieldSelector=metadata.name%3Dx", None, JANE),
    ("create", "POST", "/api/v1/namespaces/d1/configmaps", {"metadata": {"name": "x"}}, JANE),
    ("patch", "PATCH", "/api/v1/namespaces/d1/configmaps/x", {}, JANE),
    ("a namespace itself", "GET", "/api/v1/namespaces/d1", None, JANE),
    ("a group that nobody has", "GET", "/apis/none.example.com/v1/foos", None, JANE),
    ("metrics", "GET", "/metrics", None, JANE),
    ("a path with marks", "GET", "/x<y>&z", None, JANE),
    ("posting to a path", "POST", "/metrics", {}, JANE),
    ("a user with marks", "GET", "/api/v1/nodes", None, {"Impersonate-User": "a<b>&c"}),
    # What jane may hand out.
    ("a role with what she has", "POST", ROLES, role("mine", rule("get", "", "pods")), JANE),
    ("a role with more", "POST", ROLES, role("more", rule("get delete", "", "pods secrets")), JANE),
    ("names narrow", "POST", ROLES, role("named", rule("get list", "", "pods", "a", "b")), JANE),
    ("subresources are apart", "POST", ROLES, role("log", rule("get", "", "pods/log")), JANE),
    ("stars", "POST", CLUSTER_ROLES, role("stars", rule("*", "*", "*")), JANE),
    ("paths", "POST", CLUSTER_ROLES, role("paths", PATHS), JANE),
    ("names of what she has not", "POST", ROLES, role("n", rule("get list", "", "secrets", "a", "b")), JANE),
    ("growing a role", "PUT", f"{ROLES}/mine", role("mine", rule("get watch", "", "pods")), JANE),
    ("keeping it", "PUT", f"{ROLES}/mine", role("mine", rule("list", "", "pods")), JANE),
    ("an aggregate", "POST", CLUSTER_ROLES, role("agg", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}), JANE),
    ("binding to what she has", "POST", BINDINGS, binding("b1", "ClusterRole", "some", "bob"), JANE),
    ("binding to more", "POST", BINDINGS, binding("b2", "ClusterRole", "secret-reader", "bob"), JANE),
    ("binding to her role", "POST", BINDINGS, binding("b3", "Role", "mine", "bob"), JANE),
    ("binding to nothing", "POST", BINDINGS, binding("b4", "Role", "absent", "bob"), JANE),
    ("binding to no cluster role", "POST", CLUSTER_BINDINGS, binding("b5", "ClusterRole", "absent", "bob"), JANE),
    ("binding everywhere", "POST", CLUSTER_BINDINGS, binding("b6", "ClusterRole", "cluster-admin", "bob"), JANE),
    ("escalate", "POST", CLUSTER_ROLES, role("escalating", rule("escalate", GROUP, "roles clusterroles")), {}),
    ("given to jane", "POST", CLUSTER_BINDINGS, binding("escalating-jane", "ClusterRole", "escalating"), {}),
    ("now more may go into a role", "POST", ROLES, role("more", rule("get delete", "", "pods secrets")), JANE),
    ("but not be bound", "POST", BINDINGS, binding("b7", "Role", "more", "bob"), JANE),
    ("bind", "POST", ROLES, role("binder", rule("bind", GROUP, "clusterroles", "secret-reader")), {}),
    ("given to jane in d1", "POST", BINDINGS, binding("binder-jane", "Role", "binder"), {}),
    ("which allows this one", "POST", BINDINGS, binding("b2", "ClusterRole", "secret-reader", "bob"), JANE),
    ("and no other", "POST", BINDINGS, binding("b8", "ClusterRole", "cluster-admin", "bob"), JANE),
    ("nor elsewhere", "POST", CLUSTER_BINDINGS, binding("b9", "ClusterRole", "secret-reader", "bob"), JANE),
    ("the reference stays", "PUT", f"{BINDINGS}/b1", binding("b1", "ClusterRole", "view", "bob"), {}),
    # Reviews.
    ("may she", "POST", f"{REVIEWS}/subjectaccessreviews", access(user="jane", resourceAttributes=POD), {}),
    ("may she delete", "POST", f"{REVIEWS}/subjectaccessreviews", access(user="jane", resourceAttributes={**POD, "verb": "delete"}), {}),
    ("may a group", "POST", f"{REVIEWS}/subjectaccessreviews", access(groups=["system:authenticated"], nonResourceAttributes={"path": "/openapi/v2", "verb": "get"}), {}),
    ("nobody", "POST", f"{REVIEWS}/subjectaccessreviews", access(resourceAttributes=POD), {}),
    ("nothing", "POST", f"{REVIEWS}/subjectaccessreviews", access(user="jane"), {}),
    ("nothing by nobody", "POST", f"{REVIEWS}/subjectaccessreviews", access(), {}),
    ("with metadata", "POST", f"{REVIEWS}/subjectaccessreviews", {"metadata": {"name": "x"}, **access(user="jane", resourceAttributes=POD)}, {}),
    ("may I", "POST", f"{REVIEWS}/selfsubjectaccessreviews", access(resourceAttributes=POD), JANE),
    ("may I, everywhere", "POST", f"{REVIEWS}/selfsubjectaccessreviews", access(resourceAttributes={"verb": "*", "resource": "*", "group": "*"}), JANE),
    ("may the admin", "POST", f"{REVIEWS}/selfsubjectaccessreviews", access(resourceAttributes=POD), {}),
    ("may I do nothing", "POST", f"{REVIEWS}/selfsubjectaccessreviews", access(), JANE),
    ("local", "POST", f"{REVIEWS}/namespaces/d1/localsubjectaccessreviews", access(user="jane", resourceAttributes=POD), {}),
    ("local elsewhere", "POST", f"{REVIEWS}/namespaces/d1/localsubjectaccessreviews", access(user="jane", resourceAttributes={**POD, "namespace": "d2"}), {}),
    ("local without namespace", "POST", f"{REVIEWS}/namespaces/d1/localsubjectaccessreviews", access(user="jane", resourceAttributes={"verb": "get", "resource": "pods"}), {}),
    ("local in two places", "POST", f"{REVIEWS}/namespaces/d1/localsubjectaccessreviews", {"metadata": {"namespace": "d2"}, **access(user="jane", resourceAttributes=POD)}, {}),
    ("local by a stranger", "POST", f"{REVIEWS}/namespaces/d1/localsubjectaccessreviews", access(user="jane", resourceAttributes=POD), JANE),
    ("all that I may, nowhere", "POST", f"{REVIEWS}/selfsubjectrulesreviews", access(), JANE),
    ("asked to read a review", "GET", f"{REVIEWS}/selfsubjectrulesreviews", None, {}),
    ("a wrong type", "POST", f"{REVIEWS}/subjectaccessreviews", access(user=3), {}),
    ("an empty token", "POST", f"{LOGINS}/tokenreviews", {"spec": {}}, {}),
    ("a bad token", "POST", f"{LOGINS}/tokenreviews", {"spec": {"token": "x"}}, {}),
    ("for another audience", "POST", f"{LOGINS}/tokenreviews", {"spec": {"token": ADMIN, "audiences": ["else"]}}, {}),
    # Methods that are not for a path.
    ("creating one by its path", "POST", "/api/v1/namespaces/d1/configmaps/x", {"metadata": {"name": "x"}}, {}),
    ("putting to all", "PUT", "/api/v1/namespaces/d1/configmaps", {"metadata": {"name": "x"}}, {}),
    ("patching all", "PATCH", "/api/v1/namespaces/d1/configmaps", {"metadata": {"name": "x"}}, {}),
    ("a review by its path", "POST", f"{REVIEWS}/subjectaccessreviews/x", access(), {}),
    # Roles that are not there.
    ("a role that goes away", "POST", CLUSTER_BINDINGS, binding("dangling", "ClusterRole", "gone", "carl"), {}),
    ("leaves a word", "GET", "/api/v1/nodes", None, {"Impersonate-User": "carl"}),
    ("and in a namespace", "POST", BINDINGS, binding("dangling", "Role", "gone", "carl"), {}),
    ("two", "GET", "/api/v1/namespaces/d1/pods", None, {"Impersonate-User": "carl"}),
    ("in a review", "POST", f"{REVIEWS}/subjectaccessreviews", access(user="carl", resourceAttributes=POD), {}),
    # Token requests.
    ("an account", "POST", "/api/v1/namespaces/d1/serviceaccounts", {"metadata": {"name": "sa"}}, {}),
    ("too short", "POST", "/api/v1/namespaces/d1/serviceaccounts/sa/token", {"spec": {"expirationSeconds": 1}}, {}),
    ("too long", "POST", "/api/v1/namespaces/d1/serviceaccounts/sa/token", {"spec": {"expirationSeconds": 1 << 33}}, {}),
    ("of nobody", "POST", "/api/v1/namespaces/d1/serviceaccounts/nobody/token", {"spec": {}}, {}),
    ("bound to nothing", "POST", "/api/v1/namespaces/d1/serviceaccounts/sa/token", {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}}, {}),
    ("bound to the wrong kind", "POST", "/api/v1/namespaces/d1/serviceaccounts/sa/token", {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}}, {}),
    ("by jane", "POST", "/api/v1/namespaces/d1/serviceaccounts/sa/token", {"spec": {}}, JANE),
    # Credentials.
    ("no user in a group", "GET", "/api", None, {"Impersonate-Group": "bob"}),
    ("no user with extra", "GET", "/api", None, {"Impersonate-Extra-scopes": "x"}),
    ("a bad bearer", "GET", "/api", None, {"Authorization": "Bearer nope"}),
    ("basic", "GET", "/api/v1/nodes", None, {"Authorization": "Basic YTpi"}),
    ("nobody in particular", "GET", "/api/v1/nodes", None, {"Authorization": ""}),
    ("nobody's health", "GET", "/healthz", None, {"Authorization": ""}),
    ("nobody's discovery", "GET", "/api", None, {"Authorization": ""}),
]  # fmt: skip


def normal(status: int, body: Any) -> Any:
    """The compared part: a Status without ids, the status of a review."""
    if not isinstance(body, dict):
        return status, str(body)[:40]
    if body.get("kind") == "Status":
        return status, body.get("reason"), body.get("message"), body.get("details") or {}
    reported = body.get("status")
    return status, reported if str(body.get("kind", "")).endswith("Review") else None


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def content_type(method: str) -> str:
    return "application/merge-patch+json" if method == "PATCH" else "application/json"


async def answers_of(api: Api) -> list[Any]:
    tokens = StaticTokenAuthenticator({ADMIN: Identity("admin", ("system:masters",))})
    handler_chain = HandlerChain(
        api.server,
        address="",
        token_authenticators=[tokens],
        authorization="RBAC",
        issuer="https://kubernetes.default.svc",
    )
    await handler_chain.start()
    result = []
    for _about, method, path, body, more in STEPS:
        headers = {"Content-Type": content_type(method), "Authorization": f"Bearer {ADMIN}", **more}
        sent = {name.lower(): value for name, value in headers.items() if value}
        raw = b"" if body is None else json.dumps(body).encode()
        answer = await handler_chain.handle(Request(method, path, sent, raw))
        assert isinstance(answer, Response), f"{method} {path} was to be refused"
        result.append(normal(answer.status, _decoded(answer.body.decode())))
    return result


async def test_rbac_responses(env: Env, golden: Golden) -> None:
    golden.check("rights", {step[0]: [answer] for step, answer in zip(STEPS, await answers_of(Api(env)), strict=True)})
