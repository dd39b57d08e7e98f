"""Conversion webhooks over HTTPS with oversized, slow or invalid responses; and long lists."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, Object
from tests.apiserver.apiextensions.conversion.things import V1, V2, definition, good, v1_thing
from tests.custom_resources import DEFINITIONS
from tests.tables import cases

from pilothouse.apiserver.apiextensions.conversion import webhook_converter
from pilothouse.env import Env
from pilothouse.serving.certificates import create_authority, issue_server

FAILED = "conversion webhook for example.com/v1, Kind=Thing failed: "
Serve = Callable[[bytes, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Answers the body of a request."""


class Hooks:
    """A webhook on a socket; ``serve`` answers."""

    def __init__(self, directory: Path) -> None:
        authority = create_authority("webhooks", Env().now())
        pair = issue_server(authority, ["localhost"], Env().now())
        pair.save(directory / "tls.crt", directory / "tls.key")
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
        self.ca_bundle = base64.b64encode(authority.certificate).decode()
        self.serve: Serve = convert
        self.calls = 0
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        self.calls += 1
        try:
            await self.serve(body, writer)
        except ConnectionError:
            return  # it was given up
        writer.close()


def answer_of(body: bytes, change: Callable[[Object], Any] = good) -> bytes:
    review = json.loads(body)
    return json.dumps({**review, "response": change(review["request"])}).encode()


async def convert(body: bytes, writer: asyncio.StreamWriter) -> None:
    result = answer_of(body)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(result) + result)
    await writer.drain()


def answers(head: bytes, body: bytes | Callable[[bytes], bytes], *, length: int | None = None) -> Serve:
    async def serve(sent: bytes, writer: asyncio.StreamWriter) -> None:
        result = body if isinstance(body, bytes) else body(sent)
        size = len(result) if length is None else length
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (head, size) + result)
        await writer.drain()

    return serve


async def drip(_body: bytes, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, forever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless(_body: bytes, writer: asyncio.StreamWriter) -> None:
    """Without a length, and without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"[" * 65536)
        await writer.drain()


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    hooks = Hooks(tmp_path)
    server = await hooks.start()
    yield hooks
    server.close()


async def served(hooks: Hooks, things: int = 1) -> Api:
    api = Api(Env())
    config = {"url": f"https://localhost:{hooks.port}/convert", "caBundle": hooks.ca_bundle}
    await api.create(DEFINITIONS, definition(clientConfig=config))
    for number in range(things):
        await api.create(V1, v1_thing(f"t{number:04}"))
    return api


TOO_LARGE = "the response is too large"
NO_JSON = "couldn't get version/kind; json parse error: "


@cases(
    "serve, expected",
    {
        "a huge answer": (answers(b"200 OK", b" " * (9 << 20)), TOO_LARGE),
        "an endless answer": (endless, TOO_LARGE),
        "truncated body": (answers(b"200 OK", b"{}", length=100), "unexpected EOF"),
        "a web page": (answers(b"200 OK\r\nContent-Type: text/html", b"<html></html>"), NO_JSON),
        "no text": (answers(b"200 OK", b"\xff\xfe"), NO_JSON),
        "an empty answer": (answers(b"200 OK", b""), "0-length response with status code: 200"),
        "deep": (answers(b"200 OK", b'{"a":' * 100_000), NO_JSON + "exceeded max depth"),
        "too many arrays": (
            answers(b"200 OK", b"[" + b"{}," * 300_000 + b"{}]"),
            NO_JSON + "exceeded max number of objects and arrays",
        ),
        "an object as deep as one may be": (
            answers(
                b"200 OK", lambda body: answer_of(body).replace(b'"host": "h"', b'"host": ' + b"[" * 280 + b"]" * 280)
            ),
            "",
        ),
        "redirect to http": (
            answers(b"307 T\r\nLocation: http://localhost/x", b""),
            "which is not an https URL",
        ),
        "endless redirects": (answers(b"307 T\r\nLocation: /again", b""), "stopped after 10 redirects"),
        "error with a long message": (
            answers(b"500 E", b"x" * 100_000),
            'an error on the server ("' + "x" * 2048 + '")',
        ),
        "204 without body": (answers(b"204 N", b""), "0-length response with status code: 204"),
        "switches protocols": (answers(b"101 Switching", b""), ""),
        "invalid HTTP": (answers(b"nonsense", b""), ""),
        "a message without an end": (
            answers(
                b"200 OK",
                lambda body: answer_of(
                    body,
                    lambda request: {
                        "uid": request["uid"],
                        "result": {"status": "Failure", "message": "m" * 1_000_000},
                    },
                ),
            ),
            "m" * 3000,
        ),
    },
)
@pytest.mark.real_loop(timeout=60)
async def test_hostile_webhook_fails_only_its_own_requests(hooks: Hooks, serve: Serve, expected: str) -> None:
    api = await served(hooks)
    hooks.serve = serve
    response = await api.get(V2 + "/t0000")
    assert response.status == 500 or (response.status == 200 and not expected), response.text[:300]
    assert expected in response.message
    assert len(response.text) < 20_000
    hooks.serve = convert
    assert (await api.get(V2 + "/t0000")).body["spec"]["host"] == "h"
    assert (await api.get(V1 + "/t0000")).status == 200
    await api.server.close()


@pytest.mark.real_loop(timeout=60)
async def test_slow_response_times_out(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_converter, "TIMEOUT_SECONDS", 1)
    api = await served(hooks)
    hooks.serve = drip
    slow = asyncio.ensure_future(api.get(V2 + "/t0000"))
    others = 0
    while not slow.done():
        assert (await api.get(V1 + "/t0000")).status == 200
        others += 1
        await asyncio.sleep(0.01)
    assert others > 1, "others are served meanwhile"
    response = slow.result()
    assert (response.status, "context deadline exceeded (Client.Timeout" in response.message) == (500, True)
    await api.server.close()


@pytest.mark.real_loop(timeout=60)
async def test_list_of_a_thousand_is_converted_in_few_calls(hooks: Hooks) -> None:
    api = await served(hooks, things=1000)
    listed: Answer = await api.get(V2)
    assert [item["spec"]["host"] for item in listed.body["items"]] == ["h"] * 1000
    assert hooks.calls == 1
    assert len((await api.get(V2 + "?limit=500")).body["items"]) == 500
    assert hooks.calls == 1
    deleted = await api.delete(V2)
    assert (deleted.status, len(deleted.body["items"])) == (200, 1000)
    assert hooks.calls == 1
    assert (await api.get(V1)).body["items"] == []
    await api.server.close()


@pytest.mark.real_loop(timeout=60)
async def test_large_responses_are_read_completely(hooks: Hooks) -> None:
    """Also from a webhook that closes its connection right after the response."""
    api = await served(hooks, things=0)
    for number in range(8):
        await api.create(V1, v1_thing(f"t{number}", metadata={"annotations": {"big": "x" * 250_000}}))
    listed = await api.get(V2)
    assert [len(item["metadata"]["annotations"]["big"]) for item in listed.body["items"]] == [250_000] * 8
    assert hooks.calls == 2
    await api.server.close()
