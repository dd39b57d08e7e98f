"""Starting the process of the programs."""

import asyncio
from typing import Any

import pytest
from tests.plane.processes.linked import link

from pilothouse.apiserver import ApiServer
from pilothouse.env import Env
from pilothouse.plane.processes.failure import ProgramsFailed
from pilothouse.plane.processes.framing import Framing
from pilothouse.plane.processes.messages import Start
from pilothouse.plane.processes.remote_programs import RemotePrograms
from pilothouse.storage import MemoryStore

START = Start(("--nodes=1",), {}, (), "manager", None, b"")


class _Process:
    """A process that ends with exit code 1 a second after its first frame."""

    pid = 1
    returncode: int | None = None

    async def wait(self) -> int:
        await asyncio.sleep(1)
        self.returncode = 1
        return 1


async def test_the_first_frame_has_the_flags_even_if_metrics_are_requested_before(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ApiServer(env, MemoryStore(env))
    remote = RemotePrograms(env, server, START)
    frames: list[bytes] = []
    pages: list[Any] = []

    async def create_process(*_words: str, **_options: Any) -> _Process:
        return _Process()

    async def create_connection(new_protocol: Any, *, sock: Any) -> None:
        sock.close()
        link(new_protocol(), Framing(lambda payload: frames.append(bytes(payload)), lambda: None), 1 << 16)
        async with asyncio.timeout(0.5):
            pages.append(await remote.metrics())

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create_process)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    with pytest.raises(ProgramsFailed, match="exit code 1"):
        await remote.run()
    assert pages == [{}]
    assert b"--nodes=1" in frames[0]
    await server.close()
