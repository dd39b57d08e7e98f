"""Spans of requests over HTTP: parents and attributes."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from tests.tables import cases
from tests.tracing.spans import ALWAYS, Spans, id_of, trace_of

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver import ApiServer
from pilothouse.apiserver.admission.dynamic.webhook_calls import Target
from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.env import Env
from pilothouse.storage import MemoryStore
from pilothouse.tracing.propagation import WATCH_HEADER

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
SAMPLED = f"00-{TRACE:032x}-{SPAN:016x}-01"
UNSAMPLED = f"00-{TRACE:032x}-{SPAN:016x}-00"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{CONFIGMAPS}?watch=true&resourceVersion=0"
USERS = {
    "admin": Identity("admin", ("system:masters",)),
    "monitor": Identity("monitor", ("system:monitoring",)),
    "jane": Identity("jane", ("developers",)),
}
TOKENS = StaticTokenAuthenticator(USERS)


class Server:
    """A traced server, called as ``asgi`` does."""

    def __init__(self, env: Env, rate: int | None) -> None:
        self.spans = Spans(env, rate)
        self.server = ApiServer(self.spans.env, MemoryStore(env))
        self.chain = HandlerChain(self.server, address="127.0.0.1:6443", token_authenticators=[TOKENS], anonymous=False)

    async def request(
        self, user: str, method: str, target: str, body: bytes = b"", **headers: str
    ) -> Response | Stream:
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(method, target, {"authorization": f"Bearer {user}", **header_fields})

        async def read() -> bytes:
            return body

        return await self.chain.handle(request, None, read if body else None)

    async def create(self, user: str, name: str, **headers: str) -> Response:
        body = msgspec.json.encode({"metadata": {"name": name}})
        answer = await self.request(user, "POST", CONFIGMAPS, body, content_type="application/json", **headers)
        assert isinstance(answer, Response)
        return answer

    @property
    def requests(self) -> list[ReadableSpan]:
        return [span for span in self.spans.all if span.name.startswith("POST")]


@cases(
    "user, rate, traceparent, expected",
    {
        "administrator: trace is continued": ("admin", ALWAYS, SAMPLED, "child"),
        "monitoring: trace is continued": ("monitor", ALWAYS, SAMPLED, "child"),
        "administrator: sampled flag is honored": ("admin", None, SAMPLED, "child"),
        "administrator: unsampled flag is honored": ("admin", ALWAYS, UNSAMPLED, "nothing"),
        "other user: linked": ("jane", ALWAYS, SAMPLED, "link"),
        "other user: unsampled flag is ignored": ("jane", ALWAYS, UNSAMPLED, "link"),
        "other user: sampled flag is ignored": ("jane", None, SAMPLED, "nothing"),
        "a header that can't be read": ("admin", ALWAYS, "00-1-2-01", "root"),
        "a header without an end": ("admin", ALWAYS, SAMPLED + "0" * 5000, "root"),
        "no header": ("admin", ALWAYS, "", "root"),
        "no header, no sampling": ("admin", None, "", "nothing"),
    },
)
async def test_parent_of_request_spans(env: Env, user: str, rate: int | None, traceparent: str, expected: str) -> None:
    server = Server(env, rate)
    headers = {"traceparent": traceparent} if traceparent else {}
    assert (await server.create(user, "a", **headers)).status == 201
    if expected == "nothing":
        assert server.spans.all == ()
        return
    (span,) = server.requests
    if expected == "child":
        assert span.parent is not None
        assert (trace_of(span), span.parent.span_id, list(span.links)) == (TRACE, SPAN, [])
    else:
        assert span.parent is None
        assert trace_of(span) != TRACE
        assert [link.context.span_id for link in span.links] == ([SPAN] if expected == "link" else [])


async def test_attributes_of_request_spans(env: Env) -> None:
    server = Server(env, ALWAYS)
    await server.create("admin", "a", user_agent="kubectl/v1.36.2", audit_id="4711")
    (span,) = server.requests
    assert span.name == "POST /api/v1/namespaces/{:namespace}/configmaps"
    attributes = dict(span.attributes or {})
    assert int(str(attributes.pop("http.response.body.size"))) > 100
    assert attributes == {
        "http.request.method": "POST",
        "url.path": CONFIGMAPS,
        "http.target": CONFIGMAPS,
        "user_agent.original": "kubectl/v1.36.2",
        "audit-id": "4711",
        "http.response.status_code": 201,
    }
    (create,) = server.spans.named("Create")
    assert dict(create.attributes or {}) == {
        "accept": "",
        "audit-id": "4711",
        "api-group": "",
        "api-version": "v1",
        "name": "",
        "subresource": "",
        "namespace": "default",
        "resource": "configmaps",
        "scope": "namespace",
        "url": CONFIGMAPS,
        "user-agent": "kubectl/v1.36.2",
        "verb": "create",
    }
    (commit,) = server.spans.named("Create etcd3")
    assert dict(commit.attributes or {}) == {
        "audit-id": "4711",
        "key": "/configmaps/default/a",
        "group": "",
        "resource": "configmaps",
        "revision": server.server.store.revision,
    }


@cases(
    "method, target, name",
    {
        "no resource": ("GET", "/version", "GET"),
        "a list": ("GET", CONFIGMAPS, "GET /api/v1/namespaces/{:namespace}/configmaps"),
        "an object": ("GET", f"{CONFIGMAPS}/a", "GET /api/v1/namespaces/{:namespace}/configmaps/{:name}"),
        "cluster-scoped": ("GET", "/api/v1/nodes", "GET /api/v1/nodes"),
        "group": ("GET", "/apis/apps/v1/deployments", "GET /apis/apps/v1/deployments"),
        "a part": (
            "GET",
            "/apis/apps/v1/namespaces/default/deployments/a/scale",
            "GET /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/scale",
        ),
    },
)
async def test_names(env: Env, method: str, target: str, name: str) -> None:
    server = Server(env, ALWAYS)
    await server.request("admin", method, target)
    assert server.spans.all[-1].name == name


async def test_unauthenticated_requests_have_no_span(env: Env) -> None:
    """As upstream: tracing follows authentication."""
    server = Server(env, ALWAYS)
    answer = await server.request("nobody", "GET", CONFIGMAPS)
    assert answer.status == 401
    assert server.spans.all == ()


async def test_client_error_does_not_set_error_status(env: Env) -> None:
    server = Server(env, ALWAYS)
    await server.create("admin", "a")
    server.spans.clear()
    assert (await server.create("admin", "a")).status == 409
    (span,) = server.requests
    assert (span.attributes or {})["http.response.status_code"] == 409
    assert all(item.status.is_unset for item in server.spans.all)


class Broken(Exception):
    """A fault of the program."""


async def test_server_error_sets_error_status(
    env: Env, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(env, ALWAYS)

    def fail(*_arguments: Any, **_more: Any) -> None:
        raise Broken("out of order")

    monkeypatch.setattr(server.server.store, "stage", fail)
    assert (await server.create("admin", "a")).status == 500
    (create,) = server.spans.named("Create")
    assert (create.status.is_ok, create.status.description) == (False, "out of order")
    assert not server.requests[0].status.is_ok
    assert "out of order" in caplog.text


async def watched(stream: Any, count: int) -> list[bytes]:
    """The first events."""
    events: list[bytes] = []
    batches: AsyncIterator[list[bytes]] = stream.batches()
    async for batch in batches:
        events += batch
        if len(events) >= count:
            break
    await stream.close()
    return events


@cases("headers, expected", {"requested": ({WATCH_HEADER: "true"}, True), "not requested": ({}, False)})
async def test_watch_events_have_the_span_of_their_commit(env: Env, headers: dict[str, str], expected: bool) -> None:
    server = Server(env, ALWAYS)
    await server.create("admin", "before")
    stream = await server.request("admin", "GET", WATCH, b"", **headers)
    await server.create("jane", "a")
    before, after = await watched(stream, 2)
    if not expected:
        assert b"traceparent" not in before + after
        return
    for line, commit in zip((before, after), server.spans.named("Create etcd3")[-2:], strict=True):
        event = msgspec.json.decode(line)
        assert event["traceparent"] == f"00-{trace_of(commit):032x}-{id_of(commit):016x}-03"
        assert event["object"]["kind"] == "ConfigMap"


async def test_watch_span_lasts_as_long_as_the_watch(env: Env) -> None:
    server = Server(env, ALWAYS)
    stream = await server.request("admin", "GET", WATCH)
    await server.create("admin", "a")
    name = "GET /api/v1/namespaces/{:namespace}/configmaps"
    assert not server.spans.named(name)
    await watched(stream, 1)
    assert len(server.spans.named(name)) == 1


@cases("kind, name", {"mutating": ("mutating", "a.x.io"), "validating": ("validating", "b.x.io")})
async def test_webhook_calls_propagate_their_span(env: Env, kind: str, name: str) -> None:
    server = Server(env, ALWAYS)
    messages: list[str] = []

    async def handle(target: Target, body: bytes) -> tuple[int, bytes]:
        messages.append(target.traceparent)
        review = msgspec.json.decode(body)
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        return 200, msgspec.json.encode(review)

    server.server.core.send_webhook = handle
    webhook = {
        "name": name,
        "clientConfig": {"url": "https://hooks.test"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
    body = msgspec.json.encode({"metadata": {"name": "all"}, "webhooks": [webhook]})
    created = await server.request("admin", "POST", path, body, content_type="application/json")
    assert created.status == 201
    assert (await server.create("admin", "a")).status == 201
    (span,) = server.spans.named(f"Call {kind} webhook")
    assert dict(span.attributes or {}) == {
        "configuration": "all",
        "webhook": name,
        "resource": "/v1, Resource=configmaps",
        "subresource": "",
        "operation": "CREATE",
    }
    assert server.spans.chain(span)[-2].name == f"{kind.capitalize()} admission"
    assert messages == [f"00-{trace_of(span):032x}-{id_of(span):016x}-03"]
