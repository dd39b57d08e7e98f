"""Handshakes that are cancelled, one step later each time. The loop is blocked after each of them, so that the
server's part has arrived when the caller is cancelled."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

STEPS = 12


async def connect_immediately(
    _loop: asyncio.AbstractEventLoop, addresses: Iterable[tuple[Any, ...]], prepare: Callable[[socket.socket], None]
) -> socket.socket:
    """Replaces ``env.dialing.connect``, without a step."""
    sock = socket.create_connection(next(iter(addresses))[4])
    sock.setblocking(False)
    prepare(sock)
    return sock


async def give_up_at_every_step(context: ssl.SSLContext, dial: Callable[[int], Awaitable[Any]]) -> tuple[set[str], Any]:
    """Call a server with ``dial`` and cancel; returns the results of the calls, and errors of the loop."""
    loop = asyncio.get_running_loop()
    complaints: list[str] = []
    outcomes: set[str] = set()
    loop.set_exception_handler(lambda _, told: complaints.append(str(told["message"])))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_shake_hands_with_all, args=[listener, context], daemon=True)
        thread.start()
        for steps in range(STEPS):
            call = asyncio.ensure_future(dial(listener.getsockname()[1]))
            for _ in range(steps):
                await asyncio.sleep(0)
            time.sleep(0.03)  # noqa: ASYNC251 - the loop is held on purpose
            call.cancel()
            answers: list[object] = await asyncio.gather(call, return_exceptions=True)
            outcomes.add(type(answers[0]).__name__)
            await asyncio.sleep(0.01)
        listener.shutdown(socket.SHUT_RDWR)
        await asyncio.to_thread(thread.join, 5)
    return outcomes, complaints


def _shake_hands_with_all(listener: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _address = listener.accept()
            with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                while secured.recv(4096):
                    continue
