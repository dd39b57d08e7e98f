"""``/metrics``, ``/healthz`` and ``/readyz`` of an operator, over plain HTTP as operators serve them."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

Message = MutableMapping[str, Any]
Answer = tuple[int, str, str]
"""Status, media type and text."""
_TEXT = "text/plain; charset=utf-8"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """An ASGI application with some paths, each with a function that returns its response."""

    def __init__(self, paths: Mapping[str, Callable[[], Answer]]) -> None:
        self._paths = dict(paths)

    async def __call__(
        self,
        scope: Message,
        _receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Respond to a GET or HEAD of a known path."""
        answer = self._paths.get(scope["path"])
        status, media_type, text = answer() if answer is not None else (404, _TEXT, "404 page not found\n")
        if scope["method"] not in ("GET", "HEAD"):
            status, media_type, text = 405, _TEXT, "Method Not Allowed\n"
        body = text.encode()
        headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def metrics(exposition: Callable[[], str]) -> dict[str, Callable[[], Answer]]:
    """``/metrics``."""
    return {"/metrics": lambda: (200, METRICS_TYPE, exposition())}


def probes(waits_for: Callable[[], Sequence[str]]) -> dict[str, Callable[[], Answer]]:
    """``/healthz``, which responds as long as the event loop runs, and ``/readyz``, with pending checks."""

    def ready() -> Answer:
        missing = waits_for()
        return (500, _TEXT, f"not ready: {', '.join(missing)}") if missing else (200, _TEXT, "ok")

    return {"/healthz": lambda: (200, _TEXT, "ok"), "/readyz": ready}
