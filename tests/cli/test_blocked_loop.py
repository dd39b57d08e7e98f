"""The warning of ``run --dev`` about code that blocks the event loop."""

import asyncio
import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.cli import blocked_loop
from pilothouse.cli.blocked_loop import warn_when_blocked
from pilothouse.env import Log, TaskGroup

SLOW = "import time\n\n\ndef sync(seconds):\n    end = time.monotonic() + seconds\n    time.sleep(seconds)\n"


@cases(
    "file, seconds, warned",
    {
        "a sleep": ("operator.py", 0.5, True),
        "a short one": ("operator.py", 0.01, False),
        "of a library": (".venv/lib/site-packages/library.py", 0.5, False),
        "under a debugger": ("pdb.py", 0.5, False),
    },
)
@pytest.mark.real_loop(timeout=20)
async def test_code_that_blocks_the_loop_is_named_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    file: str,
    seconds: float,
    warned: bool,
) -> None:
    monkeypatch.setattr(blocked_loop, "LIMIT_SECONDS", 0.1)
    monkeypatch.setattr(blocked_loop, "BEAT_SECONDS", 0.02)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SLOW)
    sync = runpy.run_path(str(path))["sync"]
    async with TaskGroup("test") as group:
        group.start(warn_when_blocked(tmp_path, Log("greeter")), name="blocked loop")
        await asyncio.sleep(0.05)
        for _ in range(2):
            sync(seconds)
            await asyncio.sleep(0.05)
        group.cancel()
    warnings = [record.getMessage() for record in caplog.records if "is blocked" in record.getMessage()]
    assert len(warnings) == warned
    for warning in warnings:
        assert 'at="operator.py:6" function="sync" code="time.sleep(seconds)"' in warning


@pytest.mark.real_loop(timeout=20)
async def test_code_of_nobody_else_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor code without a file, such as ``<frozen runpy>`` at the bottom of the stack."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocked_loop, "LIMIT_SECONDS", 0.1)
    generated: dict[str, Any] = {}
    exec(compile(SLOW, "<generated>", "exec"), generated)
    async with TaskGroup("test") as group:
        group.start(warn_when_blocked(tmp_path, Log("greeter")), name="blocked loop")
        await asyncio.sleep(0.05)
        generated["sync"](0.4)
        group.cancel()
    assert "is blocked" not in caplog.text
