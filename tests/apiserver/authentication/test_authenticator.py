"""Authentication: service account and bootstrap tokens, TokenReviews, OpenID documents."""

import asyncio
import base64
import datetime
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.apiserver.api import Answer, Api, pod
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.handler_chain import HandlerChain

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
LOGINS = "/apis/authentication.k8s.io/v1"
ISSUER = "https://kubernetes.default.svc"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PREFIX = "authentication.kubernetes.io"


class AuthenticatedServer:
    """A server's front door."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.handler_chain = HandlerChain(api.server, address="127.0.0.1:6443", issuer=ISSUER, signing_key=KEY)

    async def request(self, path: str, token: str = "", body: Any = None) -> Answer:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        raw = b"" if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        response = await self.handler_chain.handle(
            Request(method, path, {"content-type": "application/json", **headers}, raw)
        )
        assert isinstance(response, Response)
        return Answer(response.status, response.headers, response.body)

    async def authenticated_user(self, token: str) -> dict[str, Any] | int:
        """The user that the token authenticates, or the status of the error."""
        answer = await self.request(f"{LOGINS}/selfsubjectreviews", token, {})
        if answer.status != 201:
            return answer.status
        result: dict[str, Any] = answer.body["status"]["userInfo"]
        return result

    async def token(self, **spec: Any) -> str:
        """A token of the account ``sa``."""
        answer = await self.api.post(f"{ACCOUNTS}/sa/token", {"spec": spec})
        assert answer.status == 201, answer.text
        return str(answer.body["status"]["token"])

    async def review(self, token: str, *audiences: str) -> dict[str, Any]:
        """The status of a TokenReview."""
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        result: dict[str, Any] = (await self.api.post(f"{LOGINS}/tokenreviews", {"spec": spec})).body["status"]
        return result


@pytest.fixture
async def door(api: Api) -> AuthenticatedServer:
    await api.create(ACCOUNTS, {"metadata": {"name": "sa"}})
    return AuthenticatedServer(api)


def claims(token: str) -> dict[str, Any]:
    middle = token.split(".")[1]
    document: dict[str, Any] = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    return document


def reference(kind: str, name: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": "v1", "name": name}


async def a_pod(door: AuthenticatedServer) -> dict[str, Any]:
    node = await door.api.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    created = await door.api.create("/api/v1/namespaces/default/pods", pod("p", serviceAccountName="sa", nodeName="n1"))
    return {"pod": created["metadata"], "node": node["metadata"]}


async def test_token_claims(door: AuthenticatedServer) -> None:
    token = await door.token()
    user = await door.authenticated_user(token)
    uid = (await door.api.get(f"{ACCOUNTS}/sa")).meta["uid"]
    token_claims = claims(token)
    assert user == {
        "username": "system:serviceaccount:default:sa",
        "uid": uid,
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {f"{PREFIX}/credential-id": [f"JTI={token_claims['jti']}"]},
    }
    assert (token_claims["iss"], token_claims["aud"], token_claims["sub"]) == (
        ISSUER,
        [ISSUER],
        "system:serviceaccount:default:sa",
    )
    assert token_claims["exp"] - token_claims["iat"] == 3600
    assert token_claims["kubernetes.io"] == {"namespace": "default", "serviceaccount": {"name": "sa", "uid": uid}}


async def test_pod_bound_token_has_pod_and_node_in_extra(door: AuthenticatedServer) -> None:
    metas = await a_pod(door)
    token = await door.token(boundObjectRef=reference("Pod", "p"))
    user = await door.authenticated_user(token)
    assert isinstance(user, dict)
    extra = {key: value for key, value in user["extra"].items() if key != f"{PREFIX}/credential-id"}
    assert extra == {
        f"{PREFIX}/pod-name": ["p"],
        f"{PREFIX}/pod-uid": [metas["pod"]["uid"]],
        f"{PREFIX}/node-name": ["n1"],
        f"{PREFIX}/node-uid": [metas["node"]["uid"]],
    }
    assert claims(token)["kubernetes.io"]["node"] == {"name": "n1", "uid": metas["node"]["uid"]}


async def _delete_account(door: AuthenticatedServer) -> None:
    await door.api.delete(f"{ACCOUNTS}/sa")


async def _renew_account(door: AuthenticatedServer) -> None:
    await door.api.delete(f"{ACCOUNTS}/sa")
    await door.api.create(ACCOUNTS, {"metadata": {"name": "sa"}})


async def _delete_pod(door: AuthenticatedServer) -> None:
    await door.api.delete("/api/v1/namespaces/default/pods/p", {"gracePeriodSeconds": 0})


async def _delete_secret(door: AuthenticatedServer) -> None:
    await door.api.delete("/api/v1/namespaces/default/secrets/s")


async def _delete_node(door: AuthenticatedServer) -> None:
    await door.api.delete("/api/v1/nodes/n1")


async def _wait(door: AuthenticatedServer) -> None:
    await asyncio.sleep(3601)


@cases(
    "bound, ends",
    {
        "the account is deleted": (None, _delete_account),
        "account recreated": (None, _renew_account),
        "the pod is deleted": (reference("Pod", "p"), _delete_pod),
        "the secret is deleted": (reference("Secret", "s"), _delete_secret),
        "the node is deleted": (reference("Node", "n1"), _delete_node),
        "the time is over": (None, _wait),
    },
)
async def test_token_invalidation(
    door: AuthenticatedServer, bound: Any, ends: Callable[[AuthenticatedServer], Coroutine[Any, Any, None]]
) -> None:
    await a_pod(door)
    await door.api.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    token = await door.token(**({"boundObjectRef": bound} if bound else {}))
    before = await door.authenticated_user(token)
    await ends(door)
    after = await door.authenticated_user(token)
    assert isinstance(before, dict)
    assert after == 401


async def test_bound_token_is_valid_one_minute_past_the_deletion_grace_period(door: AuthenticatedServer) -> None:
    await a_pod(door)
    token = await door.token(boundObjectRef=reference("Pod", "p"))
    await door.api.patch("/api/v1/namespaces/default/pods/p", {"metadata": {"finalizers": ["x.com/hold"]}})
    await door.api.delete("/api/v1/namespaces/default/pods/p", {"gracePeriodSeconds": 30})
    await asyncio.sleep(80)
    still = await door.authenticated_user(token)
    await asyncio.sleep(20)
    ended = await door.authenticated_user(token)
    assert isinstance(still, dict)
    assert ended == 401


async def test_token_for_another_audience_is_rejected(door: AuthenticatedServer) -> None:
    token = await door.token(audiences=["vault", ISSUER + "/other"])
    both = await door.token(audiences=["vault", ISSUER])
    identity = await door.authenticated_user(token)
    plain = await door.review(token)
    review = await door.review(token, "vault", "x")
    status = await door.review(both)
    none = await door.review(both, "x")
    assert identity == 401
    assert plain == none == {"user": {}, "error": "invalid bearer token"}
    assert (review["authenticated"], review["audiences"]) == (True, ["vault"])
    assert review["user"]["username"] == "system:serviceaccount:default:sa"
    assert "system:authenticated" in review["user"]["groups"]
    assert status["audiences"] == [ISSUER]


async def test_tampered_token_is_rejected(door: AuthenticatedServer) -> None:
    head, body, signature = (await door.token()).split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    token_claims = claims(f".{body}.")
    token_claims["sub"] = "system:serviceaccount:kube-system:admin"
    other = base64.urlsafe_b64encode(json.dumps(token_claims).encode()).rstrip(b"=").decode()
    assert [
        await door.authenticated_user(token)
        for token in (f"{head}.{other}.{signature}", f"{none}.{body}.", f"{head}.{body}.", f"{head}.{body}", "x")
    ] == [401] * 5


def _encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@cases(
    "head",
    {
        "a list of keys": b'{"alg":"RS256","kid":["a"]}',
        "a map of keys": b'{"alg":"RS256","kid":{"a":"b"}}',
        "a number for a key": b'{"alg":"RS256","kid":7}',
        "a list of algorithms": b'{"alg":["RS256"],"kid":"a"}',
        "null algorithm": b'{"alg":null}',
        "a list": b'["RS256"]',
        "nested deep": b'{"x":' + b"[" * 15_000 + b"]" * 15_000 + b"}",
        "invalid UTF-8 in the header": b'{"alg":"RS256","kid":"\xff"}',
        "a number without end": b'{"alg":1' + b"0" * 10_000 + b"}",
    },
)
async def test_token_with_an_invalid_header_is_rejected(door: AuthenticatedServer, head: bytes) -> None:
    _head, body, signature = (await door.token()).split(".")
    token = f"{_encoded(head)}.{body}.{signature}"
    status = await door.authenticated_user(token)
    review = await door.review(token)
    assert status == 401
    assert review == {"user": {}, "error": "invalid bearer token"}


@cases(
    "more",
    {
        "exp is a list": {"exp": ["x"]},
        "exp is a string": {"exp": "9999999999"},
        "nbf is an object": {"nbf": {}},
        "a map of audiences": {"aud": {"a": "b"}},
        "lists of audiences": {"aud": [["a"]]},
        "kubernetes.io is a list": {"kubernetes.io": ["x"]},
        "serviceaccount is a string": {"kubernetes.io": {"namespace": ["a"], "serviceaccount": "x"}},
        "pod is a string": {"kubernetes.io": {"namespace": "default", "pod": "x"}},
        "iss is a list": {"iss": ["x"]},
        "sub is a list": {"iss": "kubernetes/serviceaccount", "sub": ["x"]},
        "namespace is an object": {"iss": "kubernetes/serviceaccount", "kubernetes.io/serviceaccount/namespace": {}},
    },
)
async def test_signed_token_with_malformed_claims_is_rejected(door: AuthenticatedServer, more: dict[str, Any]) -> None:
    """Other programs may have a key that the server trusts."""
    assert await door.authenticated_user(signed({**claims(await door.token()), **more})) == 401


@cases(
    "change",
    {
        # 256 bytes of a signature leave four bits of the last character unused, so that 16 characters mean the same.
        "nonzero trailing bits": lambda token: token[:-1] + chr(ord(token[-1]) + 1),
        "padding": lambda token: token + "=",
        "full padding": lambda token: token + "==",
        "a character that is skipped": lambda token: token[:-4] + "!" + token[-4:],
        "standard base64 alphabet": lambda token: token.replace("_", "/").replace("-", "+"),
    },
)
async def test_non_canonical_token_encoding_is_rejected(
    door: AuthenticatedServer, change: Callable[[str], str]
) -> None:
    token = await door.token()
    while not set("-_") & set(token):
        token = await door.token()
    assert isinstance(await door.authenticated_user(token), dict)
    assert await door.authenticated_user(change(token)) == 401


async def test_expiration_of_3607_seconds_is_extended_to_a_year(door: AuthenticatedServer) -> None:
    await a_pod(door)
    token = await door.token(boundObjectRef=reference("Pod", "p"), expirationSeconds=3607)
    token_claims = claims(token)
    assert token_claims["exp"] - token_claims["iat"] == 365 * 24 * 3600
    assert token_claims["kubernetes.io"]["warnafter"] - token_claims["iat"] == 3607


async def test_legacy_secret_token(door: AuthenticatedServer) -> None:
    uid = (await door.api.get(f"{ACCOUNTS}/sa")).meta["uid"]
    claim = "kubernetes.io/serviceaccount"
    reported = {
        "iss": "kubernetes/serviceaccount",
        f"{claim}/namespace": "default",
        f"{claim}/secret.name": "s",
        f"{claim}/service-account.name": "sa",
        f"{claim}/service-account.uid": uid,
        "sub": "system:serviceaccount:default:sa",
    }
    token = signed(reported)
    secret = {
        "metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "sa"}},
        "type": "kubernetes.io/service-account-token",
        "stringData": {"token": token},
    }
    path = "/api/v1/namespaces/default/secrets"
    before = await door.authenticated_user(token)
    await door.api.create(path, secret)
    during = await door.authenticated_user(token)
    beside = asyncio.ensure_future(door.api.server.background["use of tokens"]())
    await asyncio.sleep(1)
    beside.cancel()
    used = (await door.api.get(f"{path}/s")).meta.get("labels")
    marked = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}}
    await door.api.patch(f"{path}/s", marked)
    invalid = await door.authenticated_user(token)
    await _delete_secret(door)
    after = await door.authenticated_user(token)
    now = door.api.env.now()
    assert (before, invalid, after) == (401, 401, 401)
    assert isinstance(during, dict)
    assert during["username"] == "system:serviceaccount:default:sa"
    assert used == {"kubernetes.io/legacy-token-last-used": now.date().isoformat()}


def signed(payload: dict[str, Any]) -> str:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    parts = [json.dumps(part).encode() for part in ({"alg": "RS256"}, payload)]
    text = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    signature = KEY.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def bootstrap(**data: str) -> dict[str, Any]:
    reported = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        **{name.replace("_", "-"): value for name, value in data.items()},
    }
    return {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": reported,
    }


@cases(
    "secret, groups",
    {
        "plain": (bootstrap(), ["system:bootstrappers"]),
        "extra groups": (
            bootstrap(auth_extra_groups="system:bootstrappers:b,system:bootstrappers:a"),
            ["system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b"],
        ),
        "group without the prefix": (bootstrap(auth_extra_groups="system:masters"), None),
        "no usage for authentication": (bootstrap(usage_bootstrap_authentication="false"), None),
        "wrong token secret": (bootstrap(token_secret="0123456789abcdeX"), None),
        "expired": (bootstrap(expiration="2000-01-01T00:00:00Z"), None),
        "an end that cannot be read": (bootstrap(expiration="soon"), None),
        "secret of another type": ({**bootstrap(), "type": "Opaque"}, None),
    },
)
async def test_bootstrap_tokens(door: AuthenticatedServer, secret: dict[str, Any], groups: list[str] | None) -> None:
    await door.api.create("/api/v1/namespaces/kube-system/secrets", secret)
    result = await door.authenticated_user("abcdef.0123456789abcdef")
    if groups is None:
        assert result == 401
    else:
        assert result == {"username": "system:bootstrap:abcdef", "groups": [*groups, "system:authenticated"]}


async def test_openid_discovery_documents(door: AuthenticatedServer) -> None:
    token = await door.token()
    configuration = await door.request("/.well-known/openid-configuration", token)
    keys = await door.request("/openid/v1/jwks", token)
    assert configuration.body == {
        "issuer": ISSUER,
        "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    assert configuration.headers["content-type"] == "application/json"
    assert keys.headers["content-type"] == "application/jwk-set+json"
    assert keys.headers["cache-control"] == "public, max-age=3600"
    (key,) = keys.body["keys"]
    assert {field: key[field] for field in ("use", "kty", "alg", "e")} == {
        "use": "sig",
        "kty": "RSA",
        "alg": "RS256",
        "e": "AQAB",
    }


async def test_anonymous_requests_are_limited_to_health_and_version(door: AuthenticatedServer) -> None:
    paths = ("/healthz", "/livez", "/readyz", "/version", "/api", "/openapi/v2", "/metrics", "/api/v1/namespaces")
    assert [(await door.request(path)).status for path in paths] == [200, 200, 200, 200, 401, 401, 401, 401]


async def test_token_request_returns_the_expiration(door: AuthenticatedServer) -> None:
    answer = await door.api.post(f"{ACCOUNTS}/sa/token", {"spec": {"expirationSeconds": 600}})
    body = answer.body
    now = door.api.env.now()
    ends = datetime.datetime.fromisoformat(body["status"]["expirationTimestamp"])
    assert ends - now < datetime.timedelta(seconds=601)
    assert body["spec"]["expirationSeconds"] == 600
