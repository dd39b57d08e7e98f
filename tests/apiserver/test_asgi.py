"""The ASGI application as HTTP clients see it, without a socket."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from tests.apiserver.application import JANE, MAPS, World, config_map
from tests.tables import cases

from pilothouse.apiserver.serializers import protobuf
from pilothouse.apiserver.serializers.negotiation import PROTOBUF
from pilothouse.apiserver.serializers.protobuf_decoding import fields_of


async def test_response_headers_are_upstreams(world: World) -> None:
    exchange = world.begin("GET", MAPS)
    body = await exchange.run()
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.headers["cache-control"] == "no-cache, private"
    assert exchange.headers["content-length"] == str(len(body))
    assert len(exchange.headers["audit-id"]) == 36


@cases(
    "method, target, headers, status, message",
    {
        "invalid token": ("GET", MAPS, {"authorization": "Bearer bad"}, 401, "Unauthorized"),
        "invalid token for a public path": ("GET", "/version", {"authorization": "Bearer bad"}, 401, "Unauthorized"),
        "resource is forbidden": (
            "GET",
            MAPS,
            JANE,
            403,
            'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace '
            '"default"',
        ),
        "subresource is forbidden": (
            "GET",
            "/apis/apps/v1/namespaces/d/deployments/web/scale",
            JANE,
            403,
            'deployments.apps "web" is forbidden: User "jane" cannot get resource "deployments/scale" in API group '
            '"apps" in the namespace "d"',
        ),
        "path is forbidden": ("GET", "/metrics", JANE, 403, 'forbidden: User "jane" cannot get path "/metrics"'),
        "anonymous is forbidden": (
            "GET",
            "/api/v1/nodes",
            {"authorization": ""},
            403,
            'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster '
            "scope",
        ),
        "method not allowed": (
            "OPTIONS",
            MAPS,
            {},
            405,
            "the server does not allow this method on the requested resource",
        ),
        "invalid timeout": (
            "GET",
            f"{MAPS}?timeout=soon",
            {},
            400,
            "invalid timeout specified in the request URL - ",
        ),
        "not acceptable": (
            "GET",
            MAPS,
            {"accept": "text/html"},
            406,
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf",
        ),
        "invalid includeObject": (
            "GET",
            f"{MAPS}?includeObject=zz",
            {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
            400,
            'Unable to convert to Table as requested: includeObject: Invalid value: "zz": '
            "must be 'Metadata', 'Object', 'None', or empty",
        ),
        "metadata of one, from a list": (
            "GET",
            MAPS,
            {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
            406,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        ),
    },
)
async def test_rejected_requests(
    world: World, method: str, target: str, headers: dict[str, str], status: int, message: str
) -> None:
    code, answer = await world.request(method, target, headers=headers)
    assert (code, answer["code"], answer["kind"]) == (status, status, "Status")
    assert answer["message"].startswith(message)


async def test_unknown_paths_are_plain_text(world: World) -> None:
    """Paths of upstream's own groups are handled by its router, which responds in JSON."""
    for path in ("/apis/apps/v9", "/apis/apps/v9/deployments", "/api/v9", "/api/v9/pods"):
        status, answer = await world.request("GET", path)
        assert (status, answer["message"]) == (404, "the server could not find the requested resource")
    for path in ("/healthz/", "/livez/nothing"):
        assert await world.request("GET", path) == (404, b"404 page not found\n")
    assert await world.request("GET", "/nowhere") == (404, b"404 page not found\n")
    assert await world.request("GET", "/apis/nowhere.example.com/v1") == (404, b"404 page not found\n")
    status, answer = await world.request("GET", "/")
    assert status == 200
    assert "/apis/apps/v1" in answer["paths"]


@pytest.mark.parametrize("authorization", ["RBAC", "AlwaysAllow"])
async def test_anonymous_may_read_health_and_version(world: World, authorization: str) -> None:
    unauthenticated = {"authorization": ""}
    assert (await world.request("GET", "/healthz", headers=unauthenticated)) == (200, b"ok")
    assert (await world.request("GET", "/version/", headers=unauthenticated))[1]["major"] == "1"
    assert (await world.request("GET", "/api", headers=unauthenticated))[0] in (401, 403)
    assert (await world.request("GET", MAPS, headers=unauthenticated))[0] in (401, 403)


@pytest.mark.parametrize("authorization", ["AlwaysAllow", "AlwaysAllow,RBAC", "RBAC,AlwaysAllow"])
@cases(
    "path, headers",
    {
        "no impersonation": (MAPS, {}),
        "Impersonate-User": (MAPS, {"impersonate-user": "x"}),
        "Impersonate-Group system:masters": (
            MAPS,
            {"impersonate-user": "admin", "impersonate-group": "system:masters"},
        ),
        "Impersonate-Uid alone": (MAPS, {"impersonate-uid": "x"}),
        "Impersonate-User for a public path": ("/livez", {"impersonate-user": "x"}),
        "Impersonate-User for another path": ("/metrics", {"impersonate-user": "x"}),
    },
)
async def test_always_allow_serves_anonymous_requests(
    world: World, authorization: str, path: str, headers: dict[str, str]
) -> None:
    assert (await world.request("GET", path, headers={"authorization": "", **headers}))[0] == 401


async def test_health_endpoints_list_checks(world: World) -> None:
    verbose = (await world.request("GET", "/livez?verbose&exclude=etcd&exclude=odd"))[1].decode()
    assert "[+]ping ok\n" in verbose
    assert "[+]etcd excluded: ok\n" in verbose
    assert 'no matches for "odd"' in verbose
    assert verbose.endswith("livez check passed\n")
    assert await world.request("GET", "/readyz/ping") == (200, b"ok")
    assert (await world.request("GET", "/readyz/odd"))[0] == 404
    world.handler_chain.stopping()
    status, failed = await world.request("GET", "/readyz")
    assert status == 500
    assert b"[-]shutdown failed: reason withheld" in failed
    assert await world.request("GET", "/livez") == (200, b"ok"), "a server that stops is alive until it has"


async def test_protobuf_requests_and_responses(world: World) -> None:
    exchange = world.begin(
        "POST",
        MAPS,
        protobuf.encode_object(config_map(a="b")),
        {"content-type": PROTOBUF, "accept": f"{PROTOBUF},application/json"},
    )
    created = protobuf.decode_object(await exchange.run())
    assert (exchange.status, exchange.headers["content-type"]) == (201, PROTOBUF)
    assert created["data"] == {"a": "b"}
    listing = world.begin("GET", MAPS, headers={"accept": PROTOBUF})
    listed = protobuf.decode_object(await listing.run())
    assert listed["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["cm"]
    missing = world.begin("GET", f"{MAPS}/absent", headers={"accept": PROTOBUF})
    status = protobuf.decode_object(await missing.run())
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "NotFound", 404)


async def test_other_encodings(world: World) -> None:
    await world.request("POST", MAPS, config_map(a="b"))
    table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    _, response_table = await world.request("GET", f"{MAPS}/cm", headers=table)
    assert response_table["rows"][0]["cells"] == ["cm", 1, "0s"]
    assert response_table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert (
        response_table["metadata"]["resourceVersion"]
        == response_table["rows"][0]["object"]["metadata"]["resourceVersion"]
    )
    partial = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    _, listed = await world.request("GET", MAPS, headers=partial)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}
    yaml = world.begin("GET", f"{MAPS}/cm", headers={"accept": "application/yaml"})
    assert b"data:\n  a: b\n" in await yaml.run()
    pretty = world.begin("GET", f"{MAPS}/cm?pretty=true")
    assert b'{\n  "kind": "ConfigMap",\n' in await pretty.run()
    failed = world.begin("GET", f"{MAPS}/none?pretty=true", headers={"accept": "*/*"})
    assert b'{\n  "kind": "Status",\n' in await failed.run()


async def test_head_requests(world: World) -> None:
    """Health, metrics and groups support HEAD; the API does not."""
    supported, others = ("/healthz", "/metrics", "/apis", "/apis/apps"), ("/version", "/api", "/apis/apps/v1", MAPS)
    for target, code in ((target, code) for code, targets in ((200, supported), (405, others)) for target in targets):
        exchange = world.begin("HEAD", target)
        assert await exchange.run() == b""
        assert exchange.status == code, target


async def test_large_bodies_are_rejected(world: World) -> None:
    status, answer = await world.request("POST", MAPS, b" " * (3 * 1024 * 1024 + 1))
    assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")


async def test_large_responses_are_compressed(world: World) -> None:
    await world.request("POST", MAPS, config_map(a="x" * 200_000))
    plain = await world.begin("GET", MAPS).run()
    exchange = world.begin("GET", MAPS, headers={"accept-encoding": "gzip, deflate"})
    compressed = await exchange.run()
    assert exchange.headers["content-encoding"] == "gzip"
    assert len(compressed) < 5000
    assert gzip.decompress(compressed) == plain
    small = world.begin("GET", f"{MAPS}?limit=1&labelSelector=a", headers={"accept-encoding": "gzip"})
    await small.run()
    assert "content-encoding" not in small.headers


async def test_watch_sends_headers_immediately_and_ends_with_the_client(world: World) -> None:
    watch = world.begin("GET", f"{MAPS}?watch=true&resourceVersion=0", headers={"accept-encoding": "gzip"})
    task = asyncio.ensure_future(watch.run())
    assert await watch.events.get() == b""
    assert (watch.status, watch.headers["content-type"]) == (200, "application/json")
    await world.request("POST", MAPS, config_map())
    event = json.loads(await watch.events.get())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "cm")
    assert "content-encoding" not in watch.headers
    left_at = world.env.monotonic()
    watch.disconnect()
    await task
    assert world.env.monotonic() == left_at, "it did not wait for the watch's own end"
    assert world.core.core.watches == {}


async def test_watches_end_when_the_server_stops(world: World) -> None:
    watch = world.begin("GET", f"{MAPS}?watch=true")
    task = asyncio.ensure_future(watch.run())
    await watch.events.get()
    stopped_at = world.env.monotonic()
    await world.application.stop()
    await task
    assert world.env.monotonic() == stopped_at


async def test_protobuf_and_table_watches(world: World) -> None:
    frames = world.begin("GET", f"{MAPS}?watch=true", headers={"accept": PROTOBUF})
    tables = world.begin(
        "GET", f"{MAPS}?watch=true", headers={"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    )
    tasks = [asyncio.ensure_future(watch.run()) for watch in (frames, tables)]
    for watch in (frames, tables):
        await watch.events.get()
    assert frames.headers["content-type"] == f"{PROTOBUF};stream=watch"
    await world.request("POST", MAPS, config_map("a"))
    frame = await frames.events.get()
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    (_, _, kind), (_, _, extension) = fields_of(frame[4:])
    ((_, _, envelope),) = fields_of(extension)
    assert kind == b"ADDED"
    assert protobuf.decode_object(envelope)["metadata"]["name"] == "a"
    first = json.loads(await tables.events.get())
    assert first["object"]["rows"][0]["cells"][0] == "a"
    assert first["object"]["columnDefinitions"]
    await world.request("DELETE", f"{MAPS}/a")
    second = json.loads(await tables.events.get())
    assert (second["type"], second["object"]["columnDefinitions"]) == ("DELETED", None)
    for watch in (frames, tables):
        watch.disconnect()
    await asyncio.gather(*tasks)


async def test_role_changes_apply_immediately(world: World) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1"
    role = {
        "kind": "Role",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "reader"},
        "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}],
    }
    binding = {
        "kind": "RoleBinding",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "crew"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "crew"}],
    }
    await world.request("POST", f"{roles}/namespaces/default/rolebindings", binding)
    _, rejected = await world.request("GET", MAPS, headers=JANE)
    assert rejected["message"].endswith(': RBAC: role.rbac.authorization.k8s.io "reader" not found')
    assert (await world.request("POST", f"{roles}/namespaces/default/roles", role))[0] == 201
    assert (await world.request("GET", MAPS, headers=JANE))[0] == 200
    assert (await world.request("GET", "/api/v1/configmaps", headers=JANE))[0] == 403
    assert (await world.request("POST", MAPS, config_map(), JANE))[0] == 403
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default"}}}
    _, answer = await world.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, JANE)
    assert answer["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "crew/default" of Role "reader" to Group "crew"',
    }
    await world.request("DELETE", f"{roles}/namespaces/default/rolebindings/crew")
    assert (await world.request("GET", MAPS, headers=JANE))[0] == 403


async def test_reviews(world: World) -> None:
    authorization = "/apis/authorization.k8s.io/v1"
    review: dict[str, Any] = {
        "spec": {"user": "system:kube-scheduler", "resourceAttributes": {"verb": "create", "resource": "pods"}}
    }
    _, answer = await world.request("POST", f"{authorization}/subjectaccessreviews", review)
    assert answer["status"] == {"allowed": False}
    review["spec"]["resourceAttributes"]["subresource"] = "binding"
    _, answer = await world.request("POST", f"{authorization}/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is True
    status, answer = await world.request("POST", f"{authorization}/subjectaccessreviews", {"spec": {"user": "u"}})
    assert status == 422
    assert answer["message"] == (
        '.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of '
        "nonResourceAttributes or resourceAttributes must be specified"
    )
    status, answer = await world.request(
        "POST",
        f"{authorization}/selfsubjectaccessreviews",
        review,
        {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
    )
    assert status == 406
    tokens = "/apis/authentication.k8s.io/v1/tokenreviews"
    _, answer = await world.request("POST", tokens, {"spec": {"token": "jane"}})
    assert answer["status"]["user"] == {"username": "jane", "uid": "u1", "groups": ["crew", "system:authenticated"]}
    status, answer = await world.request("POST", tokens, {"spec": {"token": "bad"}})
    assert (status, answer["status"]) == (201, {"user": {}, "error": "invalid bearer token"})


async def test_service_account_tokens(world: World) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "bob"}}
    await world.request("POST", accounts, account)
    status, answer = await world.request("POST", f"{accounts}/bob/token", {"spec": {"expirationSeconds": 700}})
    assert status == 201
    token = {"authorization": f"Bearer {answer['status']['token']}"}
    _, user_info = await world.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token)
    user = user_info["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:bob"
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    await asyncio.sleep(699)
    assert (await world.request("GET", "/api", headers=token))[0] == 200
    await asyncio.sleep(2)
    assert (await world.request("GET", "/api", headers=token))[0] == 401, "it has expired"
    assert (await world.request("POST", f"{accounts}/bob/token", {"spec": {"expirationSeconds": 1}}))[0] == 422
    assert (await world.request("POST", f"{accounts}/absent/token", {"spec": {}}))[0] == 404
    _, answer = await world.request("POST", f"{accounts}/bob/token", {"spec": {"audiences": ["vault"]}})
    other = {"authorization": f"Bearer {answer['status']['token']}"}
    assert (await world.request("GET", "/api", headers=other))[0] == 401, "it is meant for somebody else"
    forged = {"authorization": token["authorization"][:-4] + "AAAA"}
    assert (await world.request("GET", "/api", headers=forged))[0] == 401
    _, keys = await world.request("GET", "/.well-known/openid-configuration")
    assert keys["jwks_uri"] == "https://10.0.0.1:6443/openid/v1/jwks"


async def test_bootstrap_roles_are_reconciled(world: World) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    _, listed = await world.request("GET", roles)
    assert len(listed["items"]) == 69
    _, role = await world.request("GET", f"{roles}/system:discovery")
    extra = {"verbs": ["get"], "nonResourceURLs": ["/odd"]}
    role["rules"] = [extra]
    assert (await world.request("PUT", f"{roles}/system:discovery", role))[0] == 200
    await world.handler_chain.start()
    _, again = await world.request("GET", f"{roles}/system:discovery")
    assert again["rules"][0] == extra
    assert len(again["rules"]) == 2
    await world.handler_chain.start()
    _, same = await world.request("GET", f"{roles}/system:discovery")
    assert same["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
