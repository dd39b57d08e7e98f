"""HTTP/1.1 edge cases, and misbehaving clients and applications."""

import asyncio
import contextlib
import datetime
import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serving.test_server import answer, connected, echo, exchange, get, read_body, read_head

from pilothouse.serving import Server
from pilothouse.serving.limits import Limits
from pilothouse.serving.protocol import HEAD_BYTES, Receive, Scope, Send, http_date

pytestmark = pytest.mark.real_loop

CHUNKED = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"


async def rest(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


async def test_chunked_body_is_assembled_without_trailers() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        body = b"2\r\nab\r\n1;what=ever\r\nc\r\n0\r\nexpect: 100-continue\r\nx-more: y\r\n\r\n"
        for _ in range(2):
            assert (await exchange(reader, writer, CHUNKED + body))[2] == b"POST /? abc"


async def test_upgraded_connection_is_bidirectional() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"upgrade", b"echo"), (b"connection", b"Upgrade")]
        await send({"type": "http.response.start", "status": 101, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        body = b""
        while not body.endswith(b"end"):
            body = (await receive())["body"]
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"."})

    async with Server(app) as server, connected(server) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: here\r\nupgrade: echo\r\nconnection: Upgrade\r\n\r\n")
        status, headers = await read_head(reader)
        assert (status, headers["connection"]) == (101, "Upgrade")
        assert "transfer-encoding" not in headers
        writer.write(b"\x00GET / HTTP/1.1\r\n\r\n")
        assert await reader.readexactly(19) == b"\x00GET / HTTP/1.1\r\n\r\n"
        writer.write(b"end")
        assert await rest(reader) == b"end."


async def test_truncated_body_is_a_bad_request_and_a_disconnect() -> None:
    received: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (message := await receive())["type"] == "http.request":
            pass
        received.set_result(message["type"])

    async with Server(app) as server, connected(server) as (reader, writer):
        writer.write(CHUNKED + b"2\r\nab\r\nnot a length\r\n")
        assert (await read_head(reader))[0] == 400
        assert await received == "http.disconnect"


async def test_requests_before_invalid_input_are_answered() -> None:
    going = asyncio.Event()

    async def slow(scope: Scope, _receive: Receive, send: Send) -> None:
        await going.wait()
        await answer(send, scope["path"].encode())

    async with Server(slow) as server, connected(server) as (reader, writer):
        writer.write(get("/1") + get("/2") + b"nonsense\r\n\r\n")
        await asyncio.sleep(0.02)
        going.set()
        received = await rest(reader)
        assert [received.count(b"\r\n\r\n/1"), received.count(b"\r\n\r\n/2"), received.count(b"HTTP/1.1")] == [1, 1, 2]


async def test_endless_head_after_a_request_does_not_affect_its_response() -> None:
    going = asyncio.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        await going.wait()
        await answer(send, b"whole")

    async with Server(slow) as server, connected(server) as (reader, writer):
        writer.write(get())
        await asyncio.sleep(0.02)
        writer.write(b"GET / HTTP/1.1\r\na: ")
        await asyncio.sleep(0.02)
        writer.write(b"x" * 3 * HEAD_BYTES)
        await asyncio.sleep(0.05)
        going.set()
        received = await rest(reader)
        assert received.endswith(b"\r\n\r\nwhole")
        assert received.count(b"HTTP/1.1") == 1


async def test_pipelined_requests_are_not_a_too_long_head() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        body = b"x" * 1000
        one = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\n" + body
        writer.write(one * 300 + one[:20])
        for _ in range(300):
            status, headers = await read_head(reader)
            assert status == 200
            assert await reader.readexactly(int(headers["content-length"])) == b"POST /? " + body
        writer.write(one[20:])
        assert (await read_head(reader))[0] == 200


async def test_endless_trailers_close_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse.serving.protocol.UNREAD_BYTES", 100_000)
    async with Server(echo) as server, connected(server) as (reader, writer):
        writer.write(CHUNKED + b"0\r\nx-more: ")
        writer.write(b"y" * 110_000)
        assert (await read_head(reader))[0] == 431


async def test_http_1_0_stream_ends_with_the_connection() -> None:
    async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one ", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async with Server(stream) as server, connected(server) as (reader, writer):
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        status, headers = await read_head(reader)
        assert (status, headers["connection"]) == (200, "close")
        assert "transfer-encoding" not in headers
        assert await rest(reader) == b"one two"


async def test_head_request_has_no_body() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        writer.write(b"HEAD /a HTTP/1.1\r\nhost: here\r\n\r\n" + get("/b"))
        status, headers = await read_head(reader)
        assert (status, headers["content-length"]) == (200, "9")
        assert (await read_head(reader))[0] == 200
        assert await reader.readexactly(8) == b"GET /b? "


async def test_absolute_url_is_served_by_its_path() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        assert (await exchange(reader, writer, get("http://there/a?b=c#d")))[2] == b"GET /a?b=c "
        assert (await exchange(reader, writer, get("/a?b=c#d")))[2] == b"GET /a?b=c "


async def test_rejection_before_100_continue_closes_the_connection() -> None:
    """Whether a client that expected 100 sends the body now, or the next request, is unknown."""

    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, b"no", 401)

    async with Server(refuse) as server, connected(server) as (reader, writer):
        writer.write(b"PUT / HTTP/1.1\r\nhost: here\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        status, headers = await read_head(reader)
        assert (status, headers["connection"]) == (401, "close")
        assert await rest(reader) == b"no"


async def test_no_100_continue_if_the_body_was_sent() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        head = b"PUT / HTTP/1.1\r\nhost: here\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        assert (await exchange(reader, writer, head + b"ok"))[2] == b"PUT /? ok"


@pytest.mark.parametrize("start", [b"", b"GET /slow HTTP/1.1\r\nhost: he"], ids=["empty", "incomplete header"])
async def test_slow_body_times_out(start: bytes) -> None:
    limits = Limits(idle_seconds=0.1)
    async with Server(echo, limits=limits) as server, connected(server) as (reader, writer):
        assert (await exchange(reader, writer, get()))[0] == 200
        writer.write(start)
        async with asyncio.timeout(2):
            assert await rest(reader) == b""


async def test_long_response_is_not_idle() -> None:
    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.2)
        await answer(send, b"at last")

    async with Server(slow, limits=Limits(idle_seconds=0.05)) as server, connected(server) as (reader, writer):
        assert (await exchange(reader, writer, get()))[2] == b"at last"


async def _nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    return


async def _a_head_alone(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})


async def _two_heads(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def _a_body_alone(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"x"})


async def _a_split_header(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"x-name", b"a\r\nset-cookie: b"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body"})


async def _too_much(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": b"xx"})


async def _too_little(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": b"xx"})


@pytest.mark.parametrize(
    "app", [_nothing, _a_head_alone, _two_heads, _a_body_alone, _a_split_header, _too_much, _too_little]
)
async def test_asgi_violation_before_the_response_is_500(app: object) -> None:
    async with Server(app) as server, connected(server) as (reader, writer):  # type: ignore[arg-type]
        for _ in range(2):
            assert (await exchange(reader, writer, get()))[::2] == (500, b"Internal Server Error")


async def test_response_exceeding_content_length_is_aborted() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"xx", "more_body": True})
        await send({"type": "http.response.body", "body": b"xx"})

    async with Server(app) as server, connected(server) as (reader, writer):
        writer.write(get())
        assert (await read_head(reader))[0] == 200
        assert await rest(reader) == b"xx"


async def test_large_response_is_complete() -> None:
    body = bytes(range(256)) * 20_000

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await answer(send, body)

    async with Server(app) as server, connected(server) as (reader, writer):
        for _ in range(2):
            assert (await exchange(reader, writer, get()))[2] == body


@given(st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(9999, 12, 31)))
def test_date_header_format(moment: datetime.datetime) -> None:
    utc = moment.replace(tzinfo=datetime.UTC)
    assert http_date(utc) == email.utils.format_datetime(utc, usegmt=True)
