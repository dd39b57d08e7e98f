"""Watches over WebSocket: the handshake, frames on both sides, and a watch from its head to its close frame."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apiserver.application import MAPS, World, config_map
from tests.tables import cases

from pilothouse.apiserver import websockets
from pilothouse.apiserver.websockets import CLOSE, PING, PONG, ClientFrames, FrameError, Rejected

ASKED = {
    "upgrade": "websocket",
    "connection": "keep-alive, Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "origin": "https://127.0.0.1",
}
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""RFC 6455, section 1.3."""


def masked(kind: int, payload: bytes = b"", *, final: bool = True) -> bytes:
    """A frame as clients send it."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2)
    mask = b"\x01\x02\x03\x04"
    return bytes([0x80 * final | kind]) + length + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


def served(data: bytes) -> list[tuple[int, bytes]]:
    """First byte and payload of the frames that a server sent."""
    result = []
    while data:
        size, start = data[1], 2
        if size > 125:
            start = 4 if size == 126 else 10
            size = int.from_bytes(data[2:start])
        result.append((data[0], data[start : start + size]))
        data = data[start + size :]
    return result


@cases(
    "changed, answer",
    {
        "valid handshake": ({}, None),
        "missing key": ({"sec-websocket-key": ""}, Rejected(400, "missing or bad challenge response")),
        "unsupported version": ({"sec-websocket-version": "8"}, Rejected(400, "missing or bad WebSocket Version")),
        "missing origin": ({"origin": ""}, Rejected(403, "null origin")),
        "two subprotocols": ({"sec-websocket-protocol": "a, b"}, Rejected(400, "missing or bad WebSocket-Protocol")),
    },
)
def test_handshakes(changed: dict[str, str], answer: Rejected | None) -> None:
    accepted = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-accept": ACCEPT}
    assert websockets.handshake({**ASKED, **changed}) == (answer or accepted)


def test_subprotocol_is_echoed() -> None:
    accepted = websockets.handshake({**ASKED, "sec-websocket-protocol": "v1"})
    assert isinstance(accepted, dict)
    assert accepted["sec-websocket-protocol"] == "v1"


@cases(
    "upgrade, connection, wanted",
    {
        "WebSocket upgrade": ("WebSocket", "Upgrade", True),
        "among others": ("websocket", "close, upgrade , x", True),
        "another protocol": ("SPDY/3.1", "Upgrade", False),
        "Connection without upgrade": ("websocket", "keep-alive", False),
        "Connection with another token": ("websocket", "upgrades", False),
    },
)
def test_websocket_requests(upgrade: str, connection: str, wanted: bool) -> None:
    assert websockets.is_websocket_request({"upgrade": upgrade, "connection": connection}) is wanted


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_message_is_split_into_frames(size: int) -> None:
    message = b"x" * size
    frames = served(b"".join(websockets.text_frames(message, 70_000)))
    assert b"".join(payload for _first, payload in frames) == message
    assert [first for first, _payload in frames] == {1: [0x81], 3: [0x01, 0x00, 0x80]}[len(frames)]


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(0, 300))
def test_control_frames_are_parsed_from_any_chunks(cuts: list[int], size: int) -> None:
    sent = masked(1, b"a" * size, final=False) + masked(PING, b"are you there") + masked(0, b"b" * size) + masked(CLOSE)
    frames, received_frames = ClientFrames(), []
    for cut in cuts:
        received_frames += frames.feed(sent[:cut])
        sent = sent[cut:]
    assert received_frames + frames.feed(sent) == [(PING, b"are you there"), (CLOSE, b"")]


@cases("flood", {"text": masked(1), "ping": masked(PING, b"?")})
def test_last_of_many_pings_is_answered(flood: bytes) -> None:
    # Time that grows with the square of the bytes would be minutes.
    sent = flood * 50_000 + masked(PING, b"last") + masked(1, b"abc")[:-1]
    frames = ClientFrames()
    assert frames.feed(sent) == [(PING, b"last")]
    assert frames.feed(b"c" + masked(CLOSE) + masked(PING, b"after the end")) == [(CLOSE, b"")]


@cases("data", {"unmasked frame": b"\x81\x01a", "a control frame too long": masked(PING, b"x" * 126)})
def test_rejected_client_frames(data: bytes) -> None:
    with pytest.raises(FrameError):
        ClientFrames().feed(data)


async def test_watch_sends_one_message_per_event_and_ends_on_close(world: World) -> None:
    await world.request("POST", MAPS, config_map("a"))
    exchange = world.begin("GET", f"{MAPS}?watch=true", headers=ASKED)
    running = asyncio.create_task(exchange.run())
    event = await next_event(exchange)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert exchange.status == 101
    assert exchange.headers["sec-websocket-accept"] == ACCEPT

    exchange.receive(masked(PING, b"?") + masked(1, b"whatever"))
    assert served(await exchange.events.get()) == [(0x80 | PONG, b"?")]
    await world.request("POST", MAPS, config_map("b"))
    assert (await next_event(exchange))["object"]["metadata"]["name"] == "b"

    exchange.receive(masked(CLOSE, b"\x03\xe8"))
    assert served(await running) == [(0x80 | CLOSE, b"\x03\xe8")]


async def test_ended_watch_sends_a_close_frame(world: World) -> None:
    exchange = world.begin("GET", f"{MAPS}?watch=true&timeoutSeconds=1", headers=ASKED)
    assert served(await exchange.run()) == [(0x80 | CLOSE, b"\x03\xe8")]


async def test_non_watch_and_rejected_requests_are_plain_http(world: World) -> None:
    plain = world.begin("GET", MAPS, headers=ASKED)
    assert json.loads(await plain.run())["kind"] == "ConfigMapList"
    rejected = world.begin("GET", f"{MAPS}?watch=true", headers={**ASKED, "origin": ""})
    assert await rejected.run() == b"null origin"
    assert (plain.status, rejected.status) == (200, 403)


async def next_event(exchange: Any) -> Any:
    while not (data := await exchange.events.get()):
        pass
    ((first, payload),) = served(data)
    assert first == 0x81
    return json.loads(payload)
