"""Which messages are rejections by an object."""

import time
from typing import Any, cast

from pilothouse.why.states.rejections import rejected_by


async def test_long_message_takes_linear_time() -> None:
    """Who may write the status of a ReplicaSet decides how long it is."""
    no_view = cast("Any", None)
    started_at = time.process_time()
    assert await rejected_by(no_view, "maximum " * 30_000) == []
    assert time.process_time() - started_at < 2.0
