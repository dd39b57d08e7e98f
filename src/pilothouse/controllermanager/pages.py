"""The pages of the secure port by path: ``app`` adds them, ``endpoints`` serves them.

Health and metrics pages are here, others in ``zpages``, ``profiling`` and ``slis``. Sources: v1.36
``staging/src/k8s.io/controller-manager/app/serve.go`` and the apiserver library's ``pkg/server/healthz``.
"""

import inspect
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec

from pilothouse.controllermanager.health import Health, Report
from pilothouse.env import Log
from pilothouse.machinery.metrics import Registry

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"

_log = Log("serving")


async def _no_body() -> bytes:
    return b""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """An authorized request. ``body`` reads it on demand."""

    method: str = "GET"
    path: str
    query: dict[str, list[str]] = {}
    accept: str = ""
    body: Callable[[], Awaitable[bytes]] = _no_body

    def first(self, name: str) -> str:
        """The first value of a query parameter, or ""."""
        return self.query.get(name, [""])[0]


class Response(msgspec.Struct, frozen=True):
    """A response."""

    status: int
    body: str | bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


Page = Callable[[Request], Response | Awaitable[Response]]
NOT_FOUND = Response(HTTPStatus.NOT_FOUND, "404 page not found\n")


class Pages:
    """The pages by path. A path that ends with ``/`` also serves all paths below."""

    def __init__(self) -> None:
        self._exact: dict[str, Page] = {}
        self._below: dict[str, Page] = {}

    def add(self, path: str, page: Page, *, below: bool = False) -> None:
        """Serve ``page`` at ``path``, and with ``below`` at all paths that start with it and have no page of their
        own."""
        self._exact[path] = page
        if below:
            self._below[path] = page

    @property
    def paths(self) -> list[str]:
        """All paths, sorted."""
        return sorted(self._exact)

    async def answer(self, request: Request) -> Response:
        """The response, 404 for an unknown path."""
        page = self._exact.get(request.path)
        if page is None:
            longest = max((path for path in self._below if request.path.startswith(path)), key=len, default="")
            page = self._below.get(longest)
        if page is None:
            return NOT_FOUND
        response = page(request)
        return await response if inspect.isawaitable(response) else response


def health_page(health: Health, endpoint: str) -> Page:
    """``/healthz``, ``/livez`` or ``/readyz``."""

    def page(request: Request) -> Response:
        excluded = request.query
        return _report_page(health.report(endpoint, verbose="verbose" in excluded, exclude=excluded.get("exclude", ())))

    return page


def single_checks(health: Health, endpoint: str) -> Page:
    """``/healthz/NAME``: a single check. Upstream's manager had these until 1.22."""

    def page(request: Request) -> Response:
        report = health.single(request.path.removeprefix(f"/{endpoint}/"))
        return NOT_FOUND if report is None else _report_page(report)

    return page


def _report_page(report: Report) -> Response:
    for name, reason in report.failures.items():
        _log.info("Health check failed", v=2, check=name, reason=reason)
    return Response(HTTPStatus.OK if report.healthy else HTTPStatus.INTERNAL_SERVER_ERROR, report.text)


def metrics_page(metrics: Registry) -> Page:
    """``/metrics``."""
    return lambda _request: Response(HTTPStatus.OK, metrics.exposition(), METRICS)
