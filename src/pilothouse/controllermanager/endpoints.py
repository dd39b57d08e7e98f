"""The secure port's answers: ``/healthz``, ``/metrics``, ``/configz`` as upstream, ``/livez`` and ``/readyz`` in
addition.

An ASGI application. ``serving`` below it has the sockets, ``delegation`` says who may read what. Facts: upstream/flags
of kube-controller-manager v1.36 (only the exact path ``/healthz`` is routed; anything unknown is a plain 404).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from pilothouse.controllermanager.delegation import Authenticator, Authorizer, User
from pilothouse.controllermanager.health import Health, Report
from pilothouse.env import Log
from pilothouse.runtime.metrics import Registry

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """Everything served on the secure port. ``config`` returns the JSON of ``/configz``."""

    def __init__(
        self,
        *,
        health: Health,
        readiness: Health,
        metrics: Registry,
        authenticator: Authenticator,
        authorizer: Authorizer,
        config: Callable[[], bytes],
        certificate_user: Callable[[Scope], User | None],
    ) -> None:
        self._health = health
        self._readiness = readiness
        self._metrics = metrics
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._config = config
        self._certificate_user = certificate_user
        self._log = Log("serving")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        user = await self._authenticator.user(self._certificate_user(scope), headers.get("authorization", ""))
        if user is None:
            await _answer(send, 401, "Unauthorized", _TEXT)
        elif not await self._authorizer.allows(user, method.lower(), path):
            why = f'forbidden: User "{user.username}" cannot {method.lower()} path "{path}"'
            await _answer(send, 403, why, _TEXT)
        else:
            status, body, content_type = self._page(path, scope.get("query_string", b"").decode("latin-1"))
            await _answer(send, status, body, content_type)

    def _page(self, path: str, query: str) -> tuple[int, str | bytes, str]:
        if path in {"/healthz", "/livez"}:
            return self._report(self._health.report(path[1:], **_health_options(query)))
        if path == "/readyz":
            return self._report(self._readiness.report("readyz", **_health_options(query)))
        if path == "/metrics":
            return 200, self._metrics.exposition(), _METRICS
        if path == "/configz":
            return 200, self._config(), "application/json"
        return 404, "404 page not found\n", _TEXT

    def _report(self, report: Report) -> tuple[int, str, str]:
        for name, reason in report.failures.items():
            self._log.info("Health check failed", v=2, check=name, reason=reason)
        return (200 if report.healthy else 500), report.text, _TEXT


def _health_options(query: str) -> dict[str, Any]:
    asked = parse_qs(query, keep_blank_values=True)
    return {"verbose": "verbose" in asked, "exclude": asked.get("exclude", ())}


async def _answer(send: Send, status: int, body: str | bytes, content_type: str) -> None:
    payload = body.encode() if isinstance(body, str) else body
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(payload)).encode()),
        (b"cache-control", b"no-cache, private"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload})
