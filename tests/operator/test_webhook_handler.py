"""Webhooks over HTTP: decoding of requests, and limits."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from tests.operator.test_admission import RANGES, VALIDATE, a_range, review
from tests.operator.test_conversion import PAGES
from tests.operator.test_conversion import review as conversion_review

from pilothouse.env import Env, TaskGroup
from pilothouse.operator import App
from pilothouse.operator.webhook_handler import (
    ADMISSION_BYTES,
    BODY_SECONDS,
    CONVERSION_BYTES,
    MAX_REQUESTS,
    WebhookHandler,
)

Message = MutableMapping[str, Any]


def handler_of(app: App) -> WebhookHandler:
    app.controller(PAGES)
    return app.webhook_handler(None)  # type: ignore[arg-type]  # nothing is read


async def _check(_obj: Any, _request: Any) -> None: ...


@pytest.fixture
async def handler(env: Env) -> WebhookHandler:
    app = App("ranges")
    app.validating(RANGES, name="check")(_check)
    return handler_of(app)


async def call(
    handler: WebhookHandler,
    path: str,
    *pieces: bytes,
    method: str = "POST",
    media_type: str = "application/json",
    length: int | None = None,
    pause: float = 0.0,
    hangs_up: bool = False,
) -> tuple[int, bytes]:
    left, sent = list(pieces), []

    async def receive() -> Message:
        await asyncio.sleep(pause)
        if not left:
            assert hangs_up
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or hangs_up}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"content-type", media_type.encode())]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    await handler({"type": "http", "method": method, "path": path, "headers": headers}, receive, send)
    start, body = sent
    return start["status"], body["body"]


async def test_reviews_are_answered(handler: WebhookHandler) -> None:
    body = review(obj=a_range())
    status, answer = await call(handler, VALIDATE, body[:50], body[50:])
    assert (status, json.loads(answer)["response"]) == (200, {"uid": "7", "allowed": True})
    status, answer = await call(handler, "/convert", conversion_review())
    assert (status, json.loads(answer)["response"]["result"]) == (200, {"status": "Success"})


@pytest.mark.parametrize(
    ("path", "arguments", "status"),
    [
        ("/other", {}, 404),
        (VALIDATE, {"method": "GET"}, 405),
        (VALIDATE, {"media_type": "application/yaml"}, 415),
        (VALIDATE, {"media_type": "application/json; charset=utf-8"}, 400),
        (VALIDATE, {"length": ADMISSION_BYTES + 1}, 413),
        ("/convert", {"length": ADMISSION_BYTES + 1}, 400),
        ("/convert", {"length": CONVERSION_BYTES + 1}, 413),
        (VALIDATE, {"length": 10**30}, 413),
        (VALIDATE, {"hangs_up": True}, 400),
        (VALIDATE, {"pause": BODY_SECONDS + 1}, 408),
    ],
)
async def test_requests_that_are_not_read_are_rejected(
    handler: WebhookHandler, path: str, arguments: dict[str, Any], status: int
) -> None:
    assert (await call(handler, path, b"{", **arguments))[0] == status


async def test_a_body_without_a_length_is_bounded(handler: WebhookHandler) -> None:
    pieces = [b" " * (1024 * 1024)] * 8
    assert (await call(handler, VALIDATE, *pieces))[0] == 413


async def test_the_oldest_of_too_many_bodies_is_dropped(handler: WebhookHandler) -> None:
    """Together they may hold 48 MiB: the fourth of 15 MiB ends the first."""
    async with TaskGroup() as group:
        calls = [
            group.start(call(handler, "/convert", b" " * (15 * 1024 * 1024), b"{", pause=1 + number / 10), name="call")
            for number in range(4)
        ]
    assert [call.result()[0] for call in calls] == [408, 400, 400, 400]


async def test_too_many_requests_at_a_time_are_rejected(env: Env) -> None:
    app, release = App("ranges"), asyncio.Event()

    @app.validating(RANGES)
    async def check(_obj: Any, _request: Any) -> None:
        await release.wait()

    handler, body = handler_of(app), review(obj=a_range())
    async with TaskGroup() as group:
        waiting = [group.start(call(handler, VALIDATE, body), name="call") for _ in range(MAX_REQUESTS)]
        await asyncio.sleep(1)
        assert (await call(handler, VALIDATE, body))[0] == 503
        release.set()
    assert {item.result()[0] for item in waiting} == {200}
    assert (await call(handler, VALIDATE, body))[0] == 200
