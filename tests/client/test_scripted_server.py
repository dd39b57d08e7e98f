"""The scripted server of client tests."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.certificates import Authority
from tests.client.scripted_server import ReceivedRequest, ScriptedServer
from tests.client.test_tls import server_context


def shake_hands(port: int) -> None:
    """As a client that expects another server at this address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    handshake = context.wrap_bio(received, sent)
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as connected:
        while True:
            try:
                handshake.do_handshake()
            except ssl.SSLWantReadError:
                connected.sendall(sent.read())
                received.write(connected.recv(65536) or b"it is gone")
            else:
                connected.sendall(sent.read())
                connected.recv(65536)
                return


@pytest.fixture
def strangers() -> Iterator[list[threading.Thread]]:
    """They end after the loop."""
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join(5)


@pytest.mark.real_loop(timeout=20)
@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.002, 0.004])
async def test_unfinished_handshakes_are_closed_at_the_end(
    tmp_path: Path, strangers: list[threading.Thread], seconds: float
) -> None:
    """The loop could not be closed otherwise."""
    authority = Authority()
    async with ScriptedServer(
        ReceivedRequest.answer, tls=server_context(tmp_path, authority, client_auth=authority)
    ) as server:
        strangers += [threading.Thread(target=shake_hands, args=[server.port]) for _ in range(5)]
        for stranger in strangers:
            stranger.start()
        await asyncio.sleep(seconds)
