"""``RemotePrograms``: starts the process of the programs, and stops it."""

import asyncio
import contextlib
import socket  # noqa: TID251  # a pair, without an address
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pilothouse.apiserver import ApiServer
from pilothouse.env import Log
from pilothouse.plane.processes.failure import ProgramsFailed
from pilothouse.plane.processes.messages import Start
from pilothouse.plane.processes.programs_connection import ProgramsConnection

if TYPE_CHECKING:
    from pilothouse.env import Env

_log = Log("plane")
_MODULE = "pilothouse.cli.programs_process"
_STOP_SECONDS = 15.0
"""Running syncs have ten."""
_RESTART_SECONDS = 1.0
_MAX_RESTART_SECONDS = 30.0


class RemotePrograms:
    """The programs of a plane in a process of their own.

    The process is started again if a signal has ended it, such as that of the kernel when memory runs out; any other
    end is an error. Programs continue from the objects in the API server, as after a restart of theirs.
    """

    def __init__(self, env: "Env", server: ApiServer, start: Start) -> None:
        self._env = env
        self._server = server
        self._start = start
        self._ready = asyncio.Event()
        self._connection: ProgramsConnection | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process; 0 while none runs."""
        return self._process.pid if self._process is not None else 0

    async def run(self) -> None:
        """Run the programs until cancelled. Raises ``ProgramsFailed``."""
        pause = _RESTART_SECONDS
        while True:
            started_at = self._env.monotonic()
            code = await self._run_process()
            if code >= 0:
                raise ProgramsFailed(
                    f"the process of the controllers, the scheduler and the nodes has ended with exit code {code}"
                )
            if self._env.monotonic() - started_at > _MAX_RESTART_SECONDS:
                pause = _RESTART_SECONDS
            _log.warning("The process of the programs was killed, and is started again", signal=-code, seconds=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_RESTART_SECONDS)

    async def wait_ready(self) -> None:
        """Return when all programs are ready for the first time."""
        await self._ready.wait()

    async def metrics(self) -> Mapping[str, str]:
        """The metrics of the programs, by component; none while they do not run."""
        return {} if self._connection is None else await self._connection.metrics()

    async def _run_process(self) -> int:
        """The exit code; negative: the signal that has ended it."""
        near, far = socket.socketpair()
        try:
            with far:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-m",
                    _MODULE,
                    stdin=far.fileno(),
                    # Ctrl-C is handled by this process, which stops the programs before the API server.
                    start_new_session=True,
                )
        except BaseException:
            near.close()
            raise
        self._process = process
        connection = ProgramsConnection(self._server.transport, self._ready.set)
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection.framing, sock=near)
            connection.start(self._start)
            self._connection = connection  # not before: the first frame must be ``Start``
            return await process.wait()
        except asyncio.CancelledError:
            connection.stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
            raise
        finally:
            self._connection = self._process = None
            if process.returncode is None:
                process.kill()
                await process.wait()
            await connection.close()
