"""Bodies are read only from authorized clients and within bounds; responses to clients that do not read them are
aborted."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from tests.apiserver.application import ADMIN, JANE, JSON, MAPS, World, config_map
from tests.tables import cases

from pilothouse.apiserver.asgi import LONG_BYTES, REQUEST_SECONDS, _join_small
from pilothouse.apiserver.request_bodies import UNFINISHED_BYTES
from pilothouse.apiserver.serializers.json import ChunkedResponse
from pilothouse.serving.budget import Budget
from pilothouse.serving.peer import AUTHENTICATED

MEBIBYTE = 1024 * 1024
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Client:
    """One request whose body is sent and whose response is read step by step."""

    def __init__(self, world: World, method: str, target: str, headers: dict[str, str], length: int | None) -> None:
        path, _, query = target.partition("?")
        sent = {**JSON, **headers, **({} if length is None else {"content-length": str(length)})}
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "extensions": {AUTHENTICATED: self._authenticated},
        }
        self.has_read = False
        self.logged_in = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.pieces: list[bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self._body: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.work = asyncio.ensure_future(world.application(self.scope, self._receive, self._send))

    def send(self, piece: bytes, *, more: bool = True) -> None:
        self._body.put_nowait({"type": "http.request", "body": piece, "more_body": more})

    def disconnect(self) -> None:
        self._body.put_nowait({"type": "http.disconnect"})

    def _authenticated(self) -> None:
        self.logged_in = True

    async def _receive(self) -> dict[str, Any]:
        self.has_read = True
        return await self._body.get()

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.pieces.append(message.get("body", b""))


def client(
    world: World,
    method: str = "POST",
    target: str = MAPS,
    headers: dict[str, str] | None = None,
    length: int | None = 9,
) -> Client:
    return Client(world, method, target, ADMIN if headers is None else headers, length)


@cases(
    "method, target, headers, length, status",
    {
        "anonymous client": ("POST", MAPS, {}, 9, 403),
        "invalid token": ("POST", MAPS, {"authorization": "Bearer bad"}, 9, 401),
        "client without permission": ("POST", MAPS, JANE, 9, 403),
        "client without permission, body too large": ("POST", MAPS, JANE, 9 * MEBIBYTE, 403),
        "body too large": ("POST", MAPS, ADMIN, 9 * MEBIBYTE, 413),
        "endless body": ("POST", MAPS, ADMIN, 10**30, 413),
        "POST to an object": ("POST", f"{MAPS}/x", ADMIN, 9, 405),
        "POST to an unknown resource": ("POST", "/apis/apps/v1/none", ADMIN, 9, 404),
        "POST to a path without resources": ("POST", "/version", ADMIN, 9, 405),
        "body of a GET is ignored": ("GET", MAPS, ADMIN, 9, 200),
    },
)
async def test_body_is_not_read(
    world: World, method: str, target: str, headers: dict[str, str], length: int, status: int
) -> None:
    sender = client(world, method, target, headers, length)
    await sender.work
    assert (sender.status, sender.has_read) == (status, False)


@pytest.mark.parametrize("authorization", ["RBAC", "AlwaysAllow"])
async def test_connection_is_marked_authenticated(world: World, authorization: str) -> None:
    for headers, logged_in in ((ADMIN, True), (JANE, True), ({}, False), ({"authorization": "Bearer bad"}, False)):
        sender = client(world, "GET", "/version", headers, None)
        await sender.work
        assert sender.logged_in is logged_in, headers


async def test_chunked_body_is_assembled(world: World) -> None:
    body = json.dumps(config_map(a="x" * 1000)).encode()
    sender = client(world, length=len(body))
    for at in range(0, len(body), 100):
        sender.send(body[at : at + 100])
    sender.send(b"", more=False)
    await sender.work
    assert sender.status == 201


@pytest.mark.parametrize("length", [None, 3 * MEBIBYTE])
async def test_too_large_chunked_body_is_rejected(world: World, length: int | None) -> None:
    headers = {**ADMIN, "transfer-encoding": "chunked"}
    sender = client(world, headers=headers, length=length)
    for _ in range(4):
        sender.send(b" " * MEBIBYTE)
    await sender.work
    assert sender.status == 413


async def test_body_read_has_the_request_timeout(world: World) -> None:
    sender = client(world)
    began = world.env.monotonic()
    while not sender.work.done():
        sender.send(b" ")
        await asyncio.wait([sender.work], timeout=1)
    assert (sender.status, round(world.env.monotonic() - began)) == (504, REQUEST_SECONDS)


async def test_disconnected_client_is_not_awaited(world: World) -> None:
    sender = client(world)
    sender.send(b" ")
    sender.disconnect()
    await asyncio.wait_for(sender.work, 1)


async def test_incomplete_bodies_are_bounded_in_memory(world: World) -> None:
    """The longest upload is aborted, and other requests continue."""
    slow = [client(world, target=REVIEWS, headers=JANE, length=3 * MEBIBYTE) for _ in range(10)]
    for sender in slow:
        for _ in range(2):
            sender.send(b" " * MEBIBYTE)
        await asyncio.sleep(0)
    await asyncio.sleep(1)
    left = UNFINISHED_BYTES // (2 * MEBIBYTE)
    assert [sender.status for sender in slow] == [429] * (10 - left) + [0] * left
    assert slow[0].headers[b"retry-after"] == b"1"
    # Complete bodies are not counted.
    body = json.dumps(config_map()).encode()
    quick = client(world, length=len(body))
    quick.send(body, more=False)
    await quick.work
    assert quick.status == 201
    assert [sender.status for sender in slow][-left:] == [0] * left
    for sender in slow:
        sender.disconnect()
        await sender.work


# Answers


@cases(
    "lengths, joined",
    {
        "no objects": ([], []),
        "one object": ([5], [5]),
        "small ones together": ([5, 6, 7], [18]),
        "a large one": ([LONG_BYTES + 1], [LONG_BYTES + 1]),
        "a large one among small ones": ([5, LONG_BYTES + 1, 6, 7], [5, LONG_BYTES + 1, 13]),
        "a full chunk, then the rest": ([LONG_BYTES, 5], [LONG_BYTES, 5]),
        "chunks filled exactly": ([LONG_BYTES - 5, 5, 6], [LONG_BYTES, 6]),
        "large ones": ([LONG_BYTES + 1] * 2, [LONG_BYTES + 1] * 2),
    },
)
def test_small_events_are_batched(lengths: list[int], joined: list[int]) -> None:
    batch = [b"%c" % (65 + index) * length for index, length in enumerate(lengths)]
    pieces = list(_join_small(batch))
    assert [len(piece) for piece in pieces] == joined
    assert b"".join(pieces) == b"".join(batch)


async def _with_large_list(world: World) -> bytes:
    """Three ConfigMaps of 700 kB; the list of them."""
    for name in "abc":
        assert (await world.request("POST", MAPS, config_map(name, key=name * 700_000)))[0] == 201
    return await world.begin("GET", MAPS).run()


async def test_large_list_is_sent_in_chunks(world: World) -> None:
    whole = await _with_large_list(world)
    reader = client(world, "GET", length=None)
    await reader.work
    assert b"".join(reader.pieces) == whole
    assert max(map(len, reader.pieces)) <= 2 * LONG_BYTES
    assert int(reader.headers[b"content-length"]) == len(whole)
    assert [item["metadata"]["name"] for item in json.loads(whole)["items"]] == ["a", "b", "c"]
    packed = client(world, "GET", headers={**ADMIN, "accept-encoding": "gzip"}, length=None)
    await packed.work
    assert gzip.decompress(b"".join(packed.pieces)) == whole
    local = await world.core.transport("admin", ("system:masters",)).request(_get(MAPS))
    assert local.body == whole


def _get(target: str) -> Any:
    from pilothouse.api.wire import Request

    return Request("GET", target)


ACCEPTS = {
    "JSON": "application/json",
    "YAML": "application/yaml",
}


@cases("accept", ACCEPTS)
async def test_client_not_reading_a_large_response_is_disconnected(world: World, accept: str) -> None:
    await _with_large_list(world)
    reader = client(world, "GET", headers={**ADMIN, "accept": accept}, length=None)
    reader.reads.clear()
    began = world.env.monotonic()
    with pytest.raises(ConnectionError):
        await reader.work
    assert round(world.env.monotonic() - began) == REQUEST_SECONDS


@cases(
    "values, options, whole",
    {
        "no parts": ((), {"head": b"<", "end": b">"}, b"<>"),
        "one part": ((b"..abc",), {"head": b"<", "end": b">", "between": b", ", "skip": 2}, b"<abc>"),
        "several parts": (
            (b"..abc", b"..", b"..d"),
            {"head": b"<", "end": b">", "between": b", ", "skip": 2},
            b"<abc, , d>",
        ),
        "one long part": ((b"x" * 100,), {}, b"x" * 100),
    },
)
@pytest.mark.parametrize("size", [1, 4, 10, 1000])
def test_chunks_add_up_to_the_response(
    values: tuple[bytes, ...], options: dict[str, Any], whole: bytes, size: int
) -> None:
    chunked = ChunkedResponse(200, {}, values, **options)
    assert chunked.body() == b"".join(chunked.chunks(size)) == whole
    assert chunked.length == len(whole)


async def _hold(budget: Budget, size: int, *, until: asyncio.Event) -> str:
    try:
        async with asyncio.timeout(None) as limit:
            with budget.hold(limit) as held_memory:
                budget.grow(held_memory, size)
                await until.wait()
    except TimeoutError:
        return "gave up"
    return "kept"


async def test_longest_upload_is_rejected() -> None:
    budget, until = Budget(10), asyncio.Event()
    first = asyncio.ensure_future(_hold(budget, 6, until=until))
    await asyncio.sleep(1)
    others = [asyncio.ensure_future(_hold(budget, 2, until=until)) for _ in range(3)]
    await asyncio.sleep(1)
    assert await first == "gave up"
    until.set()
    assert await asyncio.gather(*others) == ["kept"] * 3
    assert budget._size == 0


async def test_recent_uploads_are_not_rejected() -> None:
    budget, until = Budget(10, patience=5), asyncio.Event()
    holders = [asyncio.ensure_future(_hold(budget, 6, until=until)) for _ in range(3)]
    await asyncio.sleep(4)
    assert not any(holder.done() for holder in holders)
    await asyncio.sleep(2)
    late = asyncio.ensure_future(_hold(budget, 6, until=until))
    await asyncio.sleep(0.1)
    assert [holder.done() for holder in holders] == [True, True, True]
    until.set()
    assert await late == "kept"


async def test_upload_exceeding_the_bound_alone_is_rejected() -> None:
    assert await _hold(Budget(10), 11, until=asyncio.Event()) == "gave up"
