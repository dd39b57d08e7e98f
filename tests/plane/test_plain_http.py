"""Over plain HTTP every client is the administrator, and web pages are rejected."""

import asyncio
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.env import Env
from pilothouse.plane.plain_http import everyone_is_admin
from pilothouse.plane.served import ServedApiServer, ServedOptions

pytestmark = pytest.mark.real_loop


def _request(headers: list[tuple[bytes, bytes]]) -> tuple[int, list[Any]]:
    """The response, and the headers that the application received."""
    requests: list[Any] = []
    status = 0

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        requests.append(scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    async def receive() -> Any:
        raise AssertionError("no body is asked for")

    app = everyone_is_admin(application, "secret", ("Test.Example",))
    asyncio.run(_run(app, {"type": "http", "headers": headers}, receive, send))
    return status, requests


async def _run(app: Any, *arguments: Any) -> None:
    await app(*arguments)


OWN_HOST = (b"host", b"127.0.0.1:6443")
OWN_ORIGIN = (b"origin", b"http://127.0.0.1:6443")
LOGIN = (b"authorization", b"Bearer secret")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:6443",
        "LocalHost.",
        "a.localhost:1",
        "127.0.0.1:6443",
        "[::1]:6443",
        "10.1.2.3",
        "test.example:80",
        "",
    ],
)
def test_callers_who_name_this_machine_are_the_administrator(host: str) -> None:
    headers = [(b"host", host.encode())]
    assert _request(headers) == (200, [[*headers, LOGIN]])


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:6443",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.1",
        "[evil]",
        "2130706433",
        "0x7f000001",
        "localhost@evil.example",
    ],
)
def test_callers_that_name_another_host_are_rejected(host: str) -> None:
    assert _request([(b"host", host.encode())]) == (403, [])
    assert _request([LOGIN, (b"host", host.encode())]) == (403, [])


@pytest.mark.parametrize("origin", ["http://localhost:6443", "http://evil.example", "null", ""])
def test_web_pages_are_rejected(origin: str) -> None:
    assert _request([(b"host", b"localhost"), (b"origin", origin.encode())]) == (403, [])


UPGRADE = (b"upgrade", b"WebSocket")


@cases(
    "headers, status",
    {
        "from the address of the server, as kubernetes.stream sends it": ([UPGRADE, OWN_ORIGIN, OWN_HOST], 200),
        "without an origin, which the API server rejects": ([UPGRADE, OWN_HOST], 200),
        "from a page on another port": ([UPGRADE, OWN_HOST, (b"origin", b"http://127.0.0.1:3000")], 403),
        "from a page of another name": ([UPGRADE, OWN_HOST, (b"origin", b"http://evil.example")], 403),
        "from a page with a name for this address": (
            [UPGRADE, (b"host", b"evil.example:6443"), (b"origin", b"http://evil.example:6443")],
            403,
        ),
        "from a page and the server": ([UPGRADE, OWN_HOST, OWN_ORIGIN, (b"origin", b"http://evil.example")], 403),
        "with an origin but no host": ([UPGRADE, (b"origin", b"http://")], 403),
        "a request that is no handshake": ([OWN_HOST, OWN_ORIGIN], 403),
        "another protocol": ([(b"upgrade", b"h2c"), OWN_HOST, OWN_ORIGIN], 403),
    },
)
def test_handshakes_of_websockets(headers: list[tuple[bytes, bytes]], status: int) -> None:
    assert _request(headers)[0] == status


def test_authenticated_users_keep_their_identity() -> None:
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer other")]
    assert _request(headers) == (200, [headers])


async def test_a_server_for_tests_rejects_pages() -> None:
    served = ServedApiServer(Env(), ServedOptions(port=0, secure=False))
    await served.start()
    answers = []
    try:
        for more in ("", "Origin: http://evil.example\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(f"GET /api/v1/secrets HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{more}\r\n".encode())
            answers.append(await reader.readline())
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /api/v1/secrets HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        answers.append(await reader.readline())
        writer.close()
    finally:
        await served.stop()
    assert [answer.split(b" ")[1] for answer in answers] == [b"200", b"403", b"403"]
