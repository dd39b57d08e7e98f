"""The process of the programs of ``pilothouse up --processes 2``: ``python -m pilothouse.cli.programs_process``.

Standard input is a socket to the process of the API server (``plane.processes``), whose first frame has the flags of
``up``. The process ends when the other one requests it, or has ended.
"""

import asyncio
import os
import socket  # noqa: TID251  # to the parent process
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.cel.sandbox import Sandbox
from pilothouse.cli import plane_flags, up
from pilothouse.cli.apiserver import gates_of
from pilothouse.cli.clientside import decision_log, traced
from pilothouse.cli.program import serve
from pilothouse.env import Env, TaskGroup
from pilothouse.env.memory import begin_startup, collecting_rarely
from pilothouse.env.zones import local_zone
from pilothouse.machinery.jws import Signer, load_key
from pilothouse.machinery.metrics import Registry
from pilothouse.plane.clients import LocalClients, as_it_is
from pilothouse.plane.options import PlaneOptions
from pilothouse.plane.process_exposition import process_exposition
from pilothouse.plane.processes.messages import LENGTH_BYTES, Start
from pilothouse.plane.processes.server_connection import ServerConnection
from pilothouse.plane.programs import Programs
from pilothouse.serving.certificates import Pair
from pilothouse.tracing.flags import NODES

if TYPE_CHECKING:
    from pilothouse.apiserver.metrics.requests import ClientMetrics
    from pilothouse.machinery.flags import Parsed

_INPUT = 0
_END_SECONDS = 1.0
"""In which logs are closed after the API server has ended."""


def main() -> int:
    """Run the programs. Returns the exit code."""
    begin_startup()
    connection = socket.socket(fileno=os.dup(_INPUT))
    start = _first_frame(connection)
    if start is None:
        return 0
    parsed = up.flag_set("pilothouse up").parse(start.words)
    parsed = msgspec.structs.replace(parsed, values={**parsed.values, **start.defaults})
    with collecting_rarely(older=False):
        return serve("pilothouse up", _run(parsed, start, connection), v=parsed["v"] - 1)


def _first_frame(connection: socket.socket) -> Start | None:
    """None if the API server has ended."""
    length = _received(connection, LENGTH_BYTES)
    payload = _received(connection, int.from_bytes(length, "big")) if length else b""
    return msgspec.msgpack.decode(payload, type=Start) if payload else None


def _received(connection: socket.socket, size: int) -> bytes:
    """Exactly this many bytes, or none if the connection was closed."""
    pieces = bytearray()
    while len(pieces) < size:
        piece = connection.recv(size - len(pieces))
        if not piece:
            return b""
        pieces += piece
    return bytes(pieces)


async def _run(parsed: "Parsed", start: Start, connection: socket.socket) -> int:
    metrics = Registry()
    async with (
        traced(parsed, Env(zone=local_zone()), NODES, metrics=metrics) as env,
        decision_log(parsed, env, metrics) as decisions,
    ):
        server = ServerConnection()
        await asyncio.get_running_loop().create_connection(lambda: server.framing, sock=connection)

        def new_clients(wider: Mapping[type[Any], type[Any]], counters: "Mapping[str, ClientMetrics]") -> LocalClients:
            return LocalClients(env, server.transport, as_it_is, wider, decisions, counters, remote=True)

        sandbox: Sandbox | None = None

        def expressions() -> Sandbox:
            nonlocal sandbox
            sandbox = sandbox or Sandbox()
            return sandbox

        programs = Programs(env, _options(parsed, start), new_clients, expressions=expressions)
        process = process_exposition(lambda: gates_of(parsed))

        def metric_pages() -> dict[str, str]:
            shared = process() + metrics.exposition()
            return {component: registry.exposition() + shared for component, registry in programs.metrics.items()}

        server.metric_pages = metric_pages
        try:
            async with TaskGroup("programs") as group:
                running = group.start(programs.run(), name="programs")
                ready = group.start(_report_ready(programs, server), name="readiness")
                await server.stopped.wait()
                if server.lost:
                    # Nothing can be released any more.
                    asyncio.get_running_loop().call_later(_END_SECONDS, os._exit, 1)
                ready.cancel()
                running.cancel()
        finally:
            if sandbox is not None:
                sandbox.stop()
            server.framing.close()
    return 0


async def _report_ready(programs: Programs, server: ServerConnection) -> None:
    await programs.wait_ready()
    server.report_ready()


def _options(parsed: "Parsed", start: Start) -> PlaneOptions:
    return plane_flags.plane_options(
        parsed,
        identity=start.manager_identity,
        authority=None if start.authority is None else Pair(*start.authority),
        signer=Signer(load_key(start.signing_key)),
        restored_nodes=start.nodes,
    )


if __name__ == "__main__":
    sys.exit(main())
