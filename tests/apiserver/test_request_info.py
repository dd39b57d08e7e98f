"""What a request is authorized for is what it is about: the name that counts is the one that is read or deleted.

After apiserver's ``pkg/endpoints/request/requestinfo.go`` and ``pkg/endpoints/handlers/get.go`` (v0.36).
"""

import pytest
from tests.apiserver.api import Api

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.request_info import read_request
from pilothouse.apiserver.resources import ResourceTable

SECRETS = "/api/v1/namespaces/a/secrets"
WATCHED = "/api/v1/watch/namespaces/a/secrets"
MALLORY = Identity("mallory", ("system:authenticated",))


@pytest.mark.parametrize(
    ("method", "target", "verb", "name"),
    [
        pytest.param("GET", f"{SECRETS}?fieldSelector=metadata.name%3Dx", "list", "x", id="a list of one name"),
        pytest.param("GET", f"{SECRETS}?fieldSelector=metadata.name%3D%3Dx", "list", "x", id="the other operator"),
        pytest.param("GET", f"{SECRETS}?watch=1&fieldSelector=metadata.name%3Dx", "watch", "x", id="a watch of one"),
        pytest.param(
            "GET", f"{SECRETS}?fieldSelector=type%3Dt,metadata.name%3Dx", "list", "x", id="beside other terms"
        ),
        pytest.param("GET", f"{SECRETS}?fieldSelector=metadata.name!%3Dx", "list", "", id="any name but one"),
        pytest.param(
            "GET", f"{SECRETS}?fieldSelector=metadata.name%3Dz,metadata.name%3Dx", "list", "x", id="the first, sorted"
        ),
        pytest.param(
            "GET", rf"{SECRETS}?fieldSelector=type!%3Dt\,metadata.name%3Dx", "list", "", id="a name within a value"
        ),
        pytest.param(
            "GET", rf"{SECRETS}?fieldSelector=type!%3Dt\,metadata.name\%3Dx", "list", "", id="all of it a value"
        ),
        pytest.param("GET", f"{SECRETS}?fieldSelector=metadata.name%3Dx,odd", "list", "", id="a selector that is none"),
        pytest.param("GET", f"{SECRETS}?fieldSelector=metadata.name%3Dx%2Fy", "list", "", id="no name of an object"),
        pytest.param("GET", f"{SECRETS}?fieldSelector=metadata.name%3D..", "list", "", id="nor a step in a path"),
        pytest.param("DELETE", f"{SECRETS}?fieldSelector=metadata.name%3Dx", "deletecollection", "", id="a collection"),
        pytest.param("GET", f"{WATCHED}/x", "watch", "x", id="a name in the path"),
    ],
)
def test_the_name_of_a_request(method: str, target: str, verb: str, name: str) -> None:
    info = read_request(method, target, ResourceTable(()))
    assert (info.verb, info.name) == (verb, name)


@pytest.mark.parametrize(
    ("target", "selector"),
    [
        pytest.param("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn", "spec.nodeName=n", id="a watch"),
        pytest.param("/api/v1/watch/pods?fieldSelector=spec.nodeName%3Dn", "", id="the old way to watch"),
        pytest.param("/api/v1/watch/namespaces/a/pods/x?fieldSelector=spec.nodeName%3Dn", "", id="one object that way"),
    ],
)
def test_the_field_selector_that_is_authorized(target: str, selector: str) -> None:
    assert Attributes.of(read_request("GET", target, ResourceTable(()))).field_selector == selector


ONE = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["allowed"]}
OTHER = "fieldSelector metadata.name doesn't match requested name"


@pytest.mark.parametrize(
    ("method", "target", "code", "message", "seen"),
    [
        pytest.param("GET", f"{WATCHED}/allowed", 200, "", ["allowed"], id="the one by path"),
        pytest.param(
            "GET", f"{WATCHED}/allowed?fieldSelector=metadata.name%3Dallowed", 200, "", ["allowed"], id="and by field"
        ),
        pytest.param("GET", f"{WATCHED}/allowed?fieldSelector=,", 200, "", ["allowed"], id="a selector of nothing"),
        pytest.param("GET", f"{WATCHED}/allowed?labelSelector=a%3Db", 200, "", [], id="labels count, too"),
        pytest.param("GET", f"{WATCHED}/allowed?fieldSelector=type!%3Dx", 400, OTHER, None, id="another selector"),
        pytest.param(
            "GET", f"{WATCHED}/allowed?fieldSelector=metadata.name%3Dother", 400, OTHER, None, id="another name"
        ),
        pytest.param(
            "GET", f"{WATCHED}/allowed?fieldSelector=metadata.name!%3Dallowed", 400, OTHER, None, id="all others"
        ),
        pytest.param("GET", f"{SECRETS}?fieldSelector=metadata.name%3Dallowed", 200, "", ["allowed"], id="a list"),
        pytest.param(
            "GET", rf"{SECRETS}?fieldSelector=type!%3Dt\,metadata.name%3Dallowed", 403, "forbidden", None, id="no name"
        ),
        pytest.param(
            "DELETE", f"{SECRETS}?fieldSelector=metadata.name%3Dallowed", 403, "forbidden", None, id="a collection"
        ),
    ],
)
async def test_a_right_to_one_object_reads_that_one(
    api: Api, method: str, target: str, code: int, message: str, seen: list[str] | None
) -> None:
    await HandlerChain(api.server, address="", authorization="RBAC").start()
    await api.made("/api/v1/namespaces", {"metadata": {"name": "a"}})
    for name in ("allowed", "other"):
        await api.made(SECRETS, {"metadata": {"name": name}})
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    binding = {
        "metadata": {"name": "one"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "one"},
        "subjects": [{"kind": "User", "name": MALLORY.user}],
    }
    verbs = ["get", "list", "watch", "delete", "deletecollection"]
    await api.made(role, {"metadata": {"name": "one"}, "rules": [{**ONE, "verbs": verbs}]})
    await api.made(f"{role}bindings".replace("rolesb", "roleb"), binding)
    timed = f"{target}{'&' if '?' in target else '?'}timeoutSeconds=1"
    answer = await api.server.handle(Request(method, timed), MALLORY)
    if not isinstance(answer, Response):
        answer = Response(answer.status, answer.headers, b"".join([piece async for piece in answer]))
    assert answer.status == code
    text = answer.body.decode()
    if seen is None:
        assert message in text
    else:
        assert [name for name in ("allowed", "other") if f'"name":"{name}"' in text] == seen
