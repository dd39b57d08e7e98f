"""The verbs of the client, its retries and its throttle, on the virtual loop with a transport of canned answers."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.core import NODES, PODS, Pod
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import (
    Client,
    DecodeMemo,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from pilothouse.client.decode import Decoders
from pilothouse.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ConnectionLost,
    ConnectionRefused,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    UndecodableObject,
    has_cause,
)
from pilothouse.client.watch import MAX_SHARED_BYTES
from pilothouse.env import Env
from pilothouse.operator import CustomResource


class Thing(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


Canned = wire.Response | Exception | list[bytes | Exception]


class Script:
    """A transport with scripted responses; records the requests and their times."""

    def __init__(self, *answers: Canned) -> None:
        self.answers = list(answers)
        self.requests: list[wire.Request] = []
        self.times: list[float] = []

    def _next(self, request: wire.Request) -> Any:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def request(self, request: wire.Request) -> wire.Response:
        answer: wire.Response = self._next(request)
        return answer

    async def open(self, request: wire.Request) -> wire.Stream:
        answer = self._next(request)
        if isinstance(answer, wire.Response):
            return Pieces([answer.body], answer.status, answer.headers)
        return Pieces(answer)

    async def close(self) -> None:
        pass


class Pieces:
    def __init__(self, pieces: list[Any], status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status: int = status
        self.headers: Mapping[str, str] = headers or {}
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            if piece is None:
                await asyncio.get_running_loop().create_future()
            yield piece

    async def close(self) -> None:
        self.closed = True


def ok(body: object = None, status: int = 200) -> wire.Response:
    return wire.Response(status, {}, body if isinstance(body, bytes) else msgspec.json.encode(body or {}))


def refused(
    code: int, reason: str = "", message: str = "no", *, retry_after: str = "", **details: Any
) -> wire.Response:
    headers = {"retry-after": retry_after} if retry_after else {}
    status = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return wire.Response(code, headers, msgspec.json.encode(status))


def line(type_: str, object_: object) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), msgspec.json.encode(object_))


POD = {"metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"}}


@cases(
    "call, method, target, body",
    {
        "get": (lambda c: c.get(PODS, "a", "ns"), "GET", "/api/v1/namespaces/ns/pods/a", b""),
        "get, cluster-scoped": (lambda c: c.get(NODES, "a", "ignored"), "GET", "/api/v1/nodes/a", b""),
        "get a subresource from the cache": (
            lambda c: c.get(PODS, "a", "ns", subresource="status", resource_version="0"),
            "GET",
            "/api/v1/namespaces/ns/pods/a/status?resourceVersion=0",
            b"",
        ),
        "list everywhere": (lambda c: c.list(PODS), "GET", "/api/v1/pods", b""),
        "list a page by selectors": (
            lambda c: c.list(PODS, "ns", label_selector="a=b,c", field_selector="x!=y", limit=5, continue_="t=="),
            "GET",
            "/api/v1/namespaces/ns/pods?labelSelector=a%3Db%2Cc&fieldSelector=x%21%3Dy&limit=5&continue=t%3D%3D",
            b"",
        ),
        "create": (lambda c: c.create(PODS, {"a": 1}, "ns"), "POST", "/api/v1/namespaces/ns/pods", b'{"a":1}'),
        "create sends raw JSON byte for byte": (
            lambda c: c.create(PODS, msgspec.Raw(b'{ "a" : 1 }'), "ns", dry_run=True, field_manager="me"),
            "POST",
            "/api/v1/namespaces/ns/pods?dryRun=All&fieldManager=me",
            b'{ "a" : 1 }',
        ),
        "create a subresource": (
            lambda c: c.create(PODS, {}, "ns", name="a", subresource="binding"),
            "POST",
            "/api/v1/namespaces/ns/pods/a/binding",
            b"{}",
        ),
        "update status": (
            lambda c: c.update(PODS, "a", b"{}", "ns", subresource="status"),
            "PUT",
            "/api/v1/namespaces/ns/pods/a/status",
            b"{}",
        ),
        "apply": (
            lambda c: c.patch(PODS, "a", apply_patch({"x": 1}), "ns", field_manager="me", force=True),
            "PATCH",
            "/api/v1/namespaces/ns/pods/a?fieldManager=me&force=true",
            b'{"x":1}',
        ),
        "delete": (
            lambda c: c.delete(PODS, "a", "ns"),
            "DELETE",
            "/api/v1/namespaces/ns/pods/a",
            b'{"kind":"DeleteOptions","apiVersion":"v1"}',
        ),
        "delete with everything": (
            lambda c: c.delete(
                PODS, "a", "ns", uid="u", resource_version="7", propagation_policy="Background", grace_period_seconds=0
            ),
            "DELETE",
            "/api/v1/namespaces/ns/pods/a",
            b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,'
            b'"preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Background"}',
        ),
        "delete a collection": (
            lambda c: c.delete_collection(PODS, "ns", label_selector="a", propagation_policy="Background"),
            "DELETE",
            "/api/v1/namespaces/ns/pods?labelSelector=a",
            b'{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}',
        ),
        "names are encoded": (lambda c: c.get(NODES, "a:b c"), "GET", "/api/v1/nodes/a:b%20c", b""),
    },
)
async def test_each_verb_sends_one_request(
    env: Env, call: Callable[[Client], Any], method: str, target: str, body: bytes
) -> None:
    script = Script(ok())
    await call(Client(script, env))
    (request,) = script.requests
    assert (request.method, request.target, request.body) == (method, target, body)


@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        (json_patch([{"op": "test", "path": "/a", "value": 1}]), "application/json-patch+json"),
        (merge_patch({"a": None}), "application/merge-patch+json"),
        (strategic_merge_patch(b"{}"), "application/strategic-merge-patch+json"),
        (apply_patch({}), "application/apply-patch+yaml"),
    ],
)
async def test_patch_content_types(env: Env, patch: Any, content_type: str) -> None:
    script = Script(ok())
    await Client(script, env).patch(PODS, "a", patch, "ns")
    assert script.requests[0].headers["content-type"] == content_type


async def test_metadata_only_accept_header(env: Env) -> None:
    script = Script(ok({"items": []}), ok(POD))
    await Client(script, env).list(PODS.metadata)
    assert "as=PartialObjectMetadataList;" in script.requests[0].headers["accept"]
    await Client(script, env).get(PODS.metadata, "a", "ns")
    assert "as=PartialObjectMetadata;" in script.requests[1].headers["accept"]


@cases(
    "call",
    {
        "create without a namespace": lambda c: c.create(PODS, {}),
        "get without a namespace": lambda c: c.get(PODS, "a"),
        "get without a name: it would be a list": lambda c: c.get(PODS, "", "ns"),
        "delete without a name: it would be all of them": lambda c: c.delete(PODS, "", "ns"),
        "delete a collection without a namespace": lambda c: c.delete_collection(PODS),
        "a name with a slash": lambda c: c.get(PODS, "a/status", "ns"),
        "a name that climbs": lambda c: c.get(PODS, "..", "ns"),
        "a name with a percent sign": lambda c: c.get(PODS, "a%2fb", "ns"),
    },
)
async def test_invalid_arguments_are_rejected(env: Env, call: Callable[[Client], Any]) -> None:
    script = Script(ok())
    with pytest.raises(ValueError):
        await call(Client(script, env))
    assert script.requests == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(404, "NotFound"), NotFound),
        (refused(409, "Conflict"), Conflict),
        (refused(409, "AlreadyExists"), AlreadyExists),
        (refused(410, "Expired"), Expired),
        (refused(403, "Forbidden"), Forbidden),
        (refused(422, "Invalid"), Invalid),
        (refused(500, "ServerTimeout"), ServerTimeout),
        (refused(500, "InternalError"), InternalError),
        pytest.param(refused(404), NotFound, id="without reason: by status code"),
        pytest.param(refused(503, "SomethingNew"), ServiceUnavailable, id="unknown reason: by status code"),
        pytest.param(wire.Response(502, {}, b"<html>bad gateway</html>"), InternalError, id="a proxy's page"),
        pytest.param(wire.Response(503, {}, b""), ServiceUnavailable, id="empty body"),
        pytest.param(wire.Response(418, {}, b"teapot"), ApiError, id="an unknown code"),
    ],
)
async def test_error_class_by_reason(env: Env, answer: wire.Response, kind: type[ApiError]) -> None:
    with pytest.raises(ApiError) as caught:
        await Client(Script(answer), env).get(PODS, "a", "ns")
    assert type(caught.value) is kind
    assert caught.value.code == answer.status
    assert isinstance(AlreadyExists, type)
    assert not issubclass(AlreadyExists, Conflict)


async def test_has_cause(env: Env) -> None:
    answer = refused(403, "Forbidden", causes=[{"reason": "NamespaceTerminating", "field": "metadata.namespace"}])
    with pytest.raises(Forbidden) as caught:
        await Client(Script(answer), env).create(PODS, {}, "ns")
    assert has_cause(caught.value, "NamespaceTerminating")
    assert not has_cause(caught.value, "Other")
    assert not has_cause(OSError(), "NamespaceTerminating")


# Retries


@cases(
    "first, method, waited",
    {
        "429 with Retry-After": (refused(429, retry_after="3"), "GET", 3.0),
        "5xx with Retry-After, also a write": (refused(503, retry_after="2"), "POST", 2.0),
        "Retry-After 0 repeats at once": (refused(500, retry_after="0"), "PUT", 0.0),
        "a read whose connection was lost": (ConnectionLost("EOF"), "GET", 1.0),
        "429 without the header": (refused(429), "GET", None),
        "a date is not waited for": (refused(503, retry_after="Thu, 01 Jan 2026 00:00:00 GMT"), "GET", None),
        "no retry of other status codes": (refused(404, retry_after="1"), "GET", None),
        "a write whose connection was lost may have happened": (ConnectionLost("EOF"), "POST", None),
        "a delete likewise": (ConnectionLost("EOF"), "DELETE", None),
        "refused": (ConnectionRefused("no"), "GET", None),
        "a timeout": (TimeoutError("slow"), "GET", None),
    },
)
async def test_retried_responses(env: Env, first: Canned, method: str, waited: float | None) -> None:
    script = Script(first, ok())
    client = Client(script, env)
    if waited is None:
        with pytest.raises((ApiError, OSError)):
            await client.request(method, "/x")
        assert len(script.requests) == 1
    else:
        await client.request(method, "/x")
        assert script.times == [0.0, waited]


async def test_at_most_ten_retries(env: Env) -> None:
    script = Script(
        *[refused(503, message="first", retry_after="1")] * 10, refused(503, message="last", retry_after="1")
    )
    with pytest.raises(ServiceUnavailable, match=r"^last - error from a previous attempt: first$"):
        await Client(script, env).create(PODS, {}, "ns")
    assert len(script.requests) == 11


@pytest.mark.parametrize("method", ["POST", "watch"])
@pytest.mark.parametrize("first", [refused(503, retry_after="1"), refused(413)])
async def test_errors_are_freed_without_the_collector(env: Env, first: Canned, method: str) -> None:
    client, freed = Client(Script(first, refused(404)), env), None
    gc.disable()  # what an error holds is as large as the body that was sent
    try:
        if method == "watch":
            await client.watch(PODS).__aenter__()
        else:
            await client.request(method, "/x", body=b"{}")
    except ApiError as error:
        freed = weakref.ref(error)
    finally:
        gc.enable()
    assert freed is not None
    assert freed() is None


async def test_retries_take_tokens(env: Env) -> None:
    script = Script(refused(503, retry_after="0"), ok())
    await Client(script, env, qps=0.1, burst=1).request("GET", "/x")
    assert script.times == [0.0, 10.0]


# Throttle and fence


async def test_requests_wait_for_tokens_and_opening_a_watch_does_not(env: Env) -> None:
    script = Script(ok({"items": []}))
    client = Client(script, env, qps=2, burst=3)
    await asyncio.gather(*(client.list(PODS) for _ in range(5)))
    script.answers = [[]]
    async with client.watch(PODS) as batches:
        assert [batch async for batch in batches] == []
    assert script.times == [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]


async def test_throttle_is_fifo_and_cancelled_waiters_return_their_token(env: Env) -> None:
    script = Script(ok())
    client = Client(script, env, qps=1, burst=1)
    await client.request("GET", "/0")
    tasks = [asyncio.ensure_future(client.request("GET", f"/{i}")) for i in (1, 2, 3)]
    await asyncio.sleep(0.5)
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.request("GET", "/4")
    assert [request.target for request in script.requests] == ["/0", "/2", "/3", "/4"]
    assert script.times == [0.0, 2.0, 3.0, 3.0]


async def test_fence_stops_writes_but_not_reads(env: Env) -> None:
    script = Script(ok())

    def fence() -> None:
        raise PermissionError("no longer the leader")

    await Client(script, env, fence=fence).get(PODS, "a", "ns")
    writes: list[Callable[[Client], Any]] = [
        lambda c: c.create(PODS, {}, "ns"),
        lambda c: c.update(PODS, "a", b"{}", "ns"),
        lambda c: c.patch(PODS, "a", merge_patch({}), "ns"),
        lambda c: c.delete(PODS, "a", "ns"),
        lambda c: c.delete_collection(PODS, "ns"),
        lambda c: c.request("POST", "/x"),
    ]
    for write in writes:
        with pytest.raises(PermissionError):
            await write(Client(script, env, fence=fence))
    assert len(script.requests) == 1


async def test_fence_stops_retries(env: Env) -> None:
    script = Script(refused(503, retry_after="5"), ok())

    def fence() -> None:
        if env.monotonic() > 1:
            raise PermissionError("no longer the leader")

    with pytest.raises(PermissionError):
        await Client(script, env, fence=fence).create(PODS, {}, "ns")
    assert len(script.requests) == 1


# Decoding


async def test_nulls_are_decoded_as_in_go(env: Env) -> None:
    body = b'{"metadata":{"name":"a","labels":null,"ownerReferences":null},"spec":{"containers":null},"status":null}'
    pod: Pod = await Client(Script(ok(body)), env).get(PODS, "a", "ns")
    assert pod == Pod(metadata=pod.metadata)
    assert pod.metadata.labels == {}


async def test_undecodable_object_is_named_or_skipped(env: Env) -> None:
    good, bad = POD, {"metadata": {"name": "b", "namespace": "ns"}, "spec": {"nodeName": 5}}
    script = Script(ok({"items": [good, bad, good], "metadata": {"resourceVersion": "9"}}))
    with pytest.raises(
        UndecodableObject, match=r"pods ns/b cannot be read: Expected `str`, got `int` - at `\$.spec.nod"
    ):
        await Client(script, env).list(PODS)
    left_out: list[UndecodableObject] = []
    result = await Client(script, env).list(PODS, on_undecodable=left_out.append)
    assert [pod.metadata.name for pod in result.items] == ["web", "web"]
    assert result.metadata.resource_version == "9"
    assert [error.what for error in left_out] == ["pods ns/b"]


async def test_page_with_raw_keeps_the_bytes_of_each_object(env: Env) -> None:
    script = Script(ok(b'{"metadata":{"resourceVersion":"9"},"items":[{ "metadata" : {"name":"a"}, "new": 1 }]}'))
    page = await Client(script, env).list_page(PODS)
    assert page.items[0].raw == b'{ "metadata" : {"name":"a"}, "new": 1 }'
    assert page.items[0].object.metadata.name == "a"
    raw = await Client(script, env).list(PODS.raw)
    assert bytes(raw.items[0]) == page.items[0].raw


async def test_list_all_restarts_when_the_continue_token_expires(env: Env) -> None:
    def page(name: str, token: str) -> wire.Response:
        return ok({"metadata": {"continue": token, "resourceVersion": "5"}, "items": [{"metadata": {"name": name}}]})

    script = Script(page("a", "t1"), refused(410, "Expired"), page("whole", ""))
    result = await Client(script, env).list_all(PODS, page_size=1)
    assert [entry.object.metadata.name for entry in result.items] == ["whole"]
    assert [request.target for request in script.requests] == [
        "/api/v1/pods?limit=1",
        "/api/v1/pods?limit=1&continue=t1",
        "/api/v1/pods",
    ]


# Watches


async def read(client: Client, **options: Any) -> list[tuple[str, str]]:
    observed: list[tuple[str, str]] = []
    async with client.watch(PODS, **options) as batches:
        async for batch in batches:
            assert batch, "no batch is empty"
            observed += [(event.type, event.object.metadata.name) for event in batch]
    return observed


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
async def test_watch_lines_are_split_from_any_chunks(env: Env, size: int) -> None:
    expected = [(type_, f"pod-{i}") for i, type_ in enumerate(["ADDED", "MODIFIED"] * 3)]
    text = b"".join(line(type_, {"metadata": {"name": name}}) for type_, name in expected)
    script = Script([text[i : i + size] for i in range(0, len(text), size)])
    assert await read(Client(script, env)) == expected


@cases(
    "text",
    {
        "object before type": b'{"object":{"metadata":{"name":"a"}},"type":"DELETED"}\n',
        "with white space": b'{ "type": "DELETED", "object": {"metadata":{"name":"a"}} }\n',
        "with CRLF": b'{"type":"DELETED","object":{"metadata":{"name":"a"}}}\r\n\n',
        "additional field": b'{"type":"DELETED","object":{"metadata":{"name":"a"}},"more":{}}\n',
    },
)
async def test_unusual_watch_lines(env: Env, text: bytes) -> None:
    assert await read(Client(Script([text]), env)) == [("DELETED", "a")]


async def test_raw_is_the_json_of_the_object(env: Env) -> None:
    client = Client(Script([b'{"type":"ADDED","object":{"metadata":{"name":"a"},"x":[1, 2]}}\n']), env)
    raw = []
    async with client.watch(PODS, keep_raw=True) as batches:
        async for batch in batches:
            raw += [event.raw for event in batch]
    async with client.watch(PODS.raw) as batches_of_raw:
        async for batch_of_raw in batches_of_raw:
            raw += [bytes(event.object) for event in batch_of_raw]
    assert raw == [b'{"metadata":{"name":"a"},"x":[1, 2]}'] * 2


async def test_bookmark_with_zero_values_is_decoded(env: Env) -> None:
    bookmark = {
        "kind": "Pod",
        "metadata": {
            "resourceVersion": "12",
            "creationTimestamp": None,
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
        "spec": {"containers": None, "nodeName": 5},
        "status": {},
    }
    async with Client(Script([line("BOOKMARK", bookmark)]), env).watch(PODS) as batches:
        result = (await anext(batches))[0].object
    assert result.metadata.resource_version == "12"
    assert result.metadata.annotations == {"k8s.io/initial-events-end": "true"}


@cases(
    "text",
    {
        "without optional fields": b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12"}}',
        "metadata only": (
            b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"12"}}'
        ),
        "with the empty values that Go writes": (
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12","creationTimestamp":null},'
            b'"spec":{"containers":null},"status":{}}'
        ),
    },
)
async def test_bookmark_has_resource_version_and_raw(env: Env, text: bytes) -> None:
    client = Client(Script([b'{"type":"BOOKMARK","object":' + text + b"}\n"]), env)
    for keep_raw in (False, True):
        async with client.watch(PODS, keep_raw=keep_raw) as batches:
            (event,) = await anext(batches)
        assert (event.type, event.object.metadata.resource_version) == ("BOOKMARK", "12")
        assert event.raw == (text if keep_raw else b"")


async def test_events_before_an_error_are_delivered_first(env: Env) -> None:
    error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}
    client = Client(Script([line("ADDED", POD) + line("ERROR", error)]), env)
    async with client.watch(PODS) as batches:
        assert [event.object.metadata.name for event in await anext(batches)] == ["web"]
        with pytest.raises(Expired, match="too old"):
            await anext(batches)


async def test_rejected_watch_raises_the_servers_error(env: Env) -> None:
    with pytest.raises(Forbidden):
        await read(Client(Script(refused(403, "Forbidden")), env))


async def test_watch_is_reopened_after_a_lost_connection(env: Env) -> None:
    script = Script(ConnectionLost("EOF"), TimeoutError(), refused(429, retry_after="2"), [line("ADDED", POD)])
    assert await read(Client(script, env)) == [("ADDED", "web")]
    assert script.times == [0.0, 1.0, 2.0, 4.0]
    script = Script(ConnectionLost("EOF"))
    assert await read(Client(script, env)) == []
    assert len(script.requests) == 11


async def test_broken_watch_and_truncated_event_raise(env: Env) -> None:
    endings: list[bytes | Exception] = [ConnectionLost("reset"), b'{"type":"ADD']
    for ending in endings:
        with pytest.raises(ConnectionLost):
            await read(Client(Script([line("ADDED", POD), ending]), env))


async def test_silent_server_is_detected_after_the_watch_timeout(env: Env) -> None:
    client = Client(Script([line("ADDED", POD), None]), env)  # type: ignore[list-item]
    with pytest.raises(ConnectionLost, match="did not end when its 300 s were over"):
        await read(client, timeout_seconds=300)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "nobody has asked this task to end"
    assert env.monotonic() == 330.0


async def test_cancelled_reader_gets_cancelled_error(env: Env) -> None:
    client = Client(Script([None]), env)  # type: ignore[list-item]
    reader = asyncio.ensure_future(read(client, timeout_seconds=300))
    await asyncio.sleep(1)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


async def test_undecodable_event_is_skipped_with_a_callback(env: Env) -> None:
    bad = line("ADDED", {"metadata": {"name": "b", "namespace": "ns"}, "spec": {"nodeName": 5}})
    pieces: Canned = [line("ADDED", POD) + bad + line("DELETED", POD)]
    left_out: list[UndecodableObject] = []
    assert await read(Client(Script(pieces), env), on_undecodable=left_out.append) == [
        ("ADDED", "web"),
        ("DELETED", "web"),
    ]
    assert [error.what for error in left_out] == ["pods ns/b"]
    with pytest.raises(UndecodableObject, match="pods ns/b"):
        await read(Client(Script(pieces), env))


async def test_clients_with_one_memo_share_decoded_objects(env: Env) -> None:
    text = line("ADDED", POD)
    memo = DecodeMemo(capacity=2)

    async def first(text: bytes) -> Any:
        async with Client(Script([text]), env, memo=memo).watch(PODS) as batches:
            return (await anext(batches))[0]

    one = await first(text)
    assert await first(text) is one
    assert memo.hits == 1
    for name in ("x", "y"):
        await first(line("ADDED", {"metadata": {"name": name}}))
    assert await first(text) is not one


async def test_narrower_views_share_the_wider_object(env: Env) -> None:
    class Wide(Pod, frozen=True):
        """A pod with more fields."""

    text = line("ADDED", POD)
    memo = DecodeMemo()
    page = wire.Response(200, body=msgspec.json.encode({"metadata": {}, "items": [POD]}))
    script = Script([text], [text], page, page, wire.Response(200, body=msgspec.json.encode(POD)))
    client = Client(script, env, memo=memo, wider={Pod: Wide})
    async with client.watch(PODS) as narrow, client.watch(PODS.read_as(Wide)) as wide:
        objects = [(await anext(narrow))[0].object, (await anext(wide))[0].object]
    listed = await client.list(PODS, "ns")
    paged = await client.list_page(PODS, "ns")
    result = [*objects, *listed.items, paged.items[0].object, await client.get(PODS, "web", "ns")]
    assert result[0] is result[1]
    assert [type(item) for item in result] == [Wide] * 5


async def test_metrics_count_errors_and_retries(env: Env) -> None:
    messages: list[tuple[object, ...]] = []

    class Metrics:
        def request_done(self, method: str, host: str, code: str, **_: float) -> None:
            messages.append(("done", method, host, code))

        def throttled(self, method: str, host: str, seconds: float) -> None:
            messages.append(("throttled", method, host, seconds))

        def retried(self, method: str, host: str, code: str) -> None:
            messages.append(("retried", method, host, code))

    script = Script(ConnectionLost("EOF"), refused(429))
    with pytest.raises(TooManyRequests):
        await Client(script, env, metrics=Metrics(), host="h:1", qps=1, burst=2).get(PODS, "a", "ns")
    assert messages == [
        ("throttled", "GET", "h:1", 0.0),
        ("done", "GET", "h:1", "<error>"),
        ("throttled", "GET", "h:1", 0.0),
        ("done", "GET", "h:1", "429"),
        ("retried", "GET", "h:1", "429"),
    ]


async def test_large_objects_are_not_kept_to_be_compared(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[str] = []
    monkeypatch.setattr(Decoders, "share", lambda _self, obj: shared.append(obj.metadata.name))
    large = "x" * MAX_SHARED_BYTES
    lines = [
        line("ADDED", {"metadata": {"name": name, "uid": uid}}) for name, uid in (("small", "a"), ("large", large))
    ]
    client = Client(Script([*lines]), env)
    async with client.watch(PODS) as batches:
        async for _batch in batches:
            pass
    assert shared == ["small"]


@pytest.mark.parametrize("kind", ["ConfigMap", CustomResource("example.com/v1", Thing)])
async def test_a_kind_of_another_type_is_rejected(env: Env, kind: Any) -> None:
    client = Client(Script(ok({})), env)
    for call in (
        client.get(kind, "a", "default"),
        client.list(kind),
        client.create(kind, {}, "default"),
        client.patch(kind, "a", merge_patch({}), "default"),
        client.delete(kind, "a", "default"),
    ):
        with pytest.raises(TypeError, match=r"that of a CustomResource is its \.kind; got "):
            await call
