"""Authorization attributes of requests: the name and selectors that are authorized are those that are used.

After apiserver's ``pkg/endpoints/request/requestinfo.go`` and ``pkg/endpoints/handlers/get.go`` (v0.36).
"""

from tests.apiserver.api import Api
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.request_info import read_request
from pilothouse.apiserver.resources import ResourceTable

SECRETS = "/api/v1/namespaces/a/secrets"
WATCHED = "/api/v1/watch/namespaces/a/secrets"
ONLY_X = "fieldSelector=metadata.name%3Dx"
MALLORY = Identity("mallory", ("system:authenticated",))


@cases(
    "selector, name",
    {
        "metadata.name": ("metadata.name%3Dx", "x"),
        "==": ("metadata.name%3D%3Dx", "x"),
        "among other terms": ("type%3Dt,metadata.name%3Dx", "x"),
        "!=": ("metadata.name!%3Dx", ""),
        "the first, sorted": ("metadata.name%3Dz,metadata.name%3Dx", "x"),
        "escaped comma before the name": (r"type!%3Dt\,metadata.name%3Dx", ""),
        "escaped comma and equals sign": (r"type!%3Dt\,metadata.name\%3Dx", ""),
        "an invalid selector": ("metadata.name%3Dx,odd", ""),
        "invalid object name": ("metadata.name%3Dx%2Fy", ""),
        "path segment as name": ("metadata.name%3D..", ""),
    },
)
def test_name_of_a_list_with_a_field_selector(selector: str, name: str) -> None:
    info = read_request("GET", f"{SECRETS}?fieldSelector={selector}", ResourceTable(()))
    assert (info.verb, info.name) == ("list", name)


@cases(
    "method, target, verb, name",
    {
        "a watch by an empty value": ("GET", f"{SECRETS}?watch=", "watch", ""),
        "no watch": ("GET", f"{SECRETS}?watch=False", "list", ""),
        "a watch of one": ("GET", f"{SECRETS}?watch=1&{ONLY_X}", "watch", "x"),
        "a collection": ("DELETE", f"{SECRETS}?{ONLY_X}", "deletecollection", ""),
        "a name in the path": ("GET", f"{WATCHED}/x", "watch", "x"),
    },
)
def test_name_of_other_requests(method: str, target: str, verb: str, name: str) -> None:
    info = read_request(method, target, ResourceTable(()))
    assert (info.verb, info.name) == (verb, name)


@cases(
    "target, selector",
    {
        "a watch": ("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn", "spec.nodeName=n"),
        "deprecated watch path": ("/api/v1/watch/pods?fieldSelector=spec.nodeName%3Dn", ""),
        "deprecated watch path of one object": (
            "/api/v1/watch/namespaces/a/pods/x?fieldSelector=spec.nodeName%3Dn",
            "",
        ),
    },
)
def test_authorized_field_selector(target: str, selector: str) -> None:
    assert Attributes.of(read_request("GET", target, ResourceTable(()))).field_selector == selector


ONE = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["allowed"]}
OTHER = "fieldSelector metadata.name doesn't match requested name"


@cases(
    "method, target, code, message, parsed",
    {
        "watch by path": ("GET", f"{WATCHED}/allowed", 200, "", ["allowed"]),
        "watch by path and field": (
            "GET",
            f"{WATCHED}/allowed?fieldSelector=metadata.name%3Dallowed",
            200,
            "",
            ["allowed"],
        ),
        "a selector of nothing": ("GET", f"{WATCHED}/allowed?fieldSelector=,", 200, "", ["allowed"]),
        "watch by path with label selector": ("GET", f"{WATCHED}/allowed?labelSelector=a%3Db", 200, "", []),
        "watch by path with another field selector": (
            "GET",
            f"{WATCHED}/allowed?fieldSelector=type!%3Dx",
            400,
            OTHER,
            None,
        ),
        "watch by path with another name": (
            "GET",
            f"{WATCHED}/allowed?fieldSelector=metadata.name%3Dother",
            400,
            OTHER,
            None,
        ),
        "watch by path with != name": (
            "GET",
            f"{WATCHED}/allowed?fieldSelector=metadata.name!%3Dallowed",
            400,
            OTHER,
            None,
        ),
        "a list": ("GET", f"{SECRETS}?fieldSelector=metadata.name%3Dallowed", 200, "", ["allowed"]),
        "list without name": (
            "GET",
            rf"{SECRETS}?fieldSelector=type!%3Dt\,metadata.name%3Dallowed",
            403,
            "forbidden",
            None,
        ),
        "a collection": ("DELETE", f"{SECRETS}?fieldSelector=metadata.name%3Dallowed", 403, "forbidden", None),
    },
)
async def test_right_to_one_object_allows_its_list(
    api: Api, method: str, target: str, code: int, message: str, parsed: list[str] | None
) -> None:
    await HandlerChain(api.server, address="", authorization="RBAC").start()
    await api.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
    for name in ("allowed", "other"):
        await api.create(SECRETS, {"metadata": {"name": name}})
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    binding = {
        "metadata": {"name": "one"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "one"},
        "subjects": [{"kind": "User", "name": MALLORY.user}],
    }
    verbs = ["get", "list", "watch", "delete", "deletecollection"]
    await api.create(role, {"metadata": {"name": "one"}, "rules": [{**ONE, "verbs": verbs}]})
    await api.create(f"{role}bindings".replace("rolesb", "roleb"), binding)
    timed = f"{target}{'&' if '?' in target else '?'}timeoutSeconds=1"
    answer = await api.server.handle(Request(method, timed), MALLORY)
    if not isinstance(answer, Response):
        answer = Response(answer.status, answer.headers, b"".join([piece async for piece in answer]))
    assert answer.status == code
    text = answer.body.decode()
    if parsed is None:
        assert message in text
    else:
        assert [name for name in ("allowed", "other") if f'"name":"{name}"' in text] == parsed
