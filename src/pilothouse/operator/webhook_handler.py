"""The webhooks of an operator as an ASGI application: ``/validate-…``, ``/mutate-…`` and ``/convert``.

Any client that reaches the port may send requests: the API server does not authenticate itself to webhooks by default.
So the size of bodies, the time to receive them and the number of requests are limited before anything is read, and a
function is stopped after its ``timeout_seconds``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from pilothouse.client import Client
from pilothouse.machinery.json_bounds import exceeded
from pilothouse.machinery.metrics import Registry
from pilothouse.operator.admission import Webhook, review
from pilothouse.operator.conversion import BadReview, Conversions
from pilothouse.operator.custom_resource import CONVERT_PATH, CustomResource
from pilothouse.serving.budget import Budget

Message = MutableMapping[str, Any]

ADMISSION_BYTES = 7 * 1024 * 1024
"""``maxRequestSize`` of controller-runtime's ``pkg/webhook/admission/http.go`` (v0.22)."""
CONVERSION_BYTES = 16 * 1024 * 1024
"""An object may have 3 MiB in JSON, and API servers may send several at a time."""
UNFINISHED_BYTES = 48 * 1024 * 1024
"""Maximum bytes of all incomplete bodies; the oldest request is rejected."""
BODY_SECONDS = 10.0
CONVERSION_SECONDS = 30.0
"""The API server waits that long for a conversion (``conversion/webhook_converter.go``)."""
MAX_REQUESTS = 256
"""Maximum concurrent requests; further ones get 503."""
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WebhookHandler:
    """Handles the webhooks and conversions of one app."""

    def __init__(
        self,
        webhooks: Iterable[Webhook],
        resources: Iterable[CustomResource[Any]],
        *,
        client: Client,
        metrics: Registry | None = None,
    ) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        self._conversions = Conversions(resources)
        self._client = client
        self._budget = Budget(UNFINISHED_BYTES)
        self._requests = 0
        metrics = metrics if metrics is not None else Registry()
        self._counts = metrics.counter(
            "controller_runtime_webhook_requests_total",
            "Total number of admission requests by HTTP status code.",
            ("webhook", "code"),
        )
        self._latency = metrics.histogram(
            "controller_runtime_webhook_latency_seconds",
            "Histogram of the latency of processing admission requests",
            ("webhook",),
            _LATENCY_BUCKETS,
        )
        self._in_flight = metrics.gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served.",
            ("webhook",),
        )

    async def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the response to a review for ``path``."""
        if not self._is_known(path):
            return 404, b"404 page not found\n"
        in_flight, started = self._in_flight.labels(path), asyncio.get_running_loop().time()
        in_flight.inc()
        code = 500
        try:
            if reason := exceeded(body):
                raise BadReview(f"the review: {reason}")
            if path == CONVERT_PATH:
                async with asyncio.timeout(CONVERSION_SECONDS):
                    answer, code = await self._conversions.review(body), 200
            else:
                answer, code = await review(self._webhooks[path], body, self._client)
        except BadReview as error:
            code = 400
            return code, f"{error}\n".encode()
        except TimeoutError:
            code = 504
            return code, f"the conversion took longer than {CONVERSION_SECONDS:g} seconds\n".encode()
        else:
            return 200, answer
        finally:
            in_flight.inc(-1)
            self._counts.labels(path, str(code)).inc()
            self._latency.labels(path).observe(asyncio.get_running_loop().time() - started)

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Serve one HTTP request."""
        if self._requests >= MAX_REQUESTS:
            await _send(send, 503, b"too many requests at a time\n")
            return
        self._requests += 1
        try:
            status, body = await self._http(scope, receive)
        finally:
            self._requests -= 1
        await _send(send, status, body)

    async def _http(self, scope: Message, receive: Callable[[], Awaitable[Message]]) -> tuple[int, bytes]:
        path, headers = scope["path"], dict(scope["headers"])
        if not self._is_known(path):
            return 404, b"404 page not found\n"
        if scope["method"] != "POST":
            return 405, b"webhooks are called with POST\n"
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
        if media_type != b"application/json":
            return 415, b"expected the content type application/json\n"
        max_bytes = CONVERSION_BYTES if path == CONVERT_PATH else ADMISSION_BYTES
        length = headers.get(b"content-length", b"0")
        if len(length) > 18 or int(length) > max_bytes:
            return 413, f"limit is {max_bytes} bytes\n".encode()
        body = await self._read(receive, max_bytes)
        return await self.respond(path, body) if isinstance(body, bytes) else body

    async def _read(self, receive: Callable[[], Awaitable[Message]], max_bytes: int) -> bytes | tuple[int, bytes]:
        """A body, or the response if it is not read completely."""
        pieces, size, more = [], 0, True
        try:
            async with asyncio.timeout(BODY_SECONDS) as limit:
                with self._budget.hold(limit) as held_memory:
                    while more:
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            return 400, b"unexpected EOF\n"
                        piece, more = message.get("body", b""), message.get("more_body", False)
                        size += len(piece)
                        if size > max_bytes:
                            return 413, f"limit is {max_bytes} bytes\n".encode()
                        self._budget.grow(held_memory, len(piece))
                        pieces.append(piece)
        except TimeoutError:
            return 408, b"the body came too slowly\n"
        return b"".join(pieces)

    def _is_known(self, path: str) -> bool:
        return path in self._webhooks or (path == CONVERT_PATH and self._conversions.any)


async def _send(send: Callable[[Message], Awaitable[None]], status: int, body: bytes) -> None:
    media_type = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
    headers = [(b"content-type", media_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
