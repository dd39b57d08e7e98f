"""``OperatorProcess``: the process of an operator in ``run --dev``, for the session."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from pilothouse.cli.program import UserError

_LOAD_SECONDS = 60.0
_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0
"""Running syncs have ten."""
_MAX_BYTES = 64 << 20


class Loaded(msgspec.Struct, frozen=True):
    """The content of an operator's file."""

    app: str
    definitions: list[dict[str, Any]]
    """Its CustomResourceDefinitions."""


class LoadFailed(UserError):
    """The file of the operator cannot be loaded. Its error was printed."""


class OperatorProcess:
    """Created by ``load``; ``begin`` starts the controllers, ``stop`` ends the process."""

    def __init__(self, process: asyncio.subprocess.Process, loaded: Loaded) -> None:
        self._process = process
        self.loaded = loaded

    @classmethod
    async def load(cls, args: Sequence[str]) -> Self:
        """Start a process that loads the file, with the ``args`` of ``pilothouse run``. Raises ``LoadFailed``."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "pilothouse.cli.operator_process",
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C is handled by the session, which stops the operator before its API server.
            start_new_session=True,
            limit=_MAX_BYTES,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                report = await process.stdout.readline()
                if not report:
                    await process.wait()
        except TimeoutError as error:
            await _kill(process)
            raise LoadFailed(f"the operator was not loaded within {_LOAD_SECONDS:.0f} s") from error
        except BaseException:
            await _kill(process)
            raise
        if not report:
            raise LoadFailed("the operator cannot be loaded")
        return cls(process, msgspec.json.decode(report, type=Loaded))

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.returncode

    async def begin(self) -> None:
        """Start webhooks and controllers, and wait until they are ready, or the process has ended. Returns after half a
        minute in any case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"run\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_SECONDS):
                if not await self._process.stdout.readline():
                    await self._process.wait()

    async def stop(self) -> None:
        """Stop it; running syncs have ten seconds to finish."""
        if self.code is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            await _kill(self._process)


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
