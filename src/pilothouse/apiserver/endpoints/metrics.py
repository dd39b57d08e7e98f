"""``/metrics`` of the API server: requests, their durations and the sizes of responses.

kube-apiserver's series under their names, labels and buckets (apiserver ``pkg/endpoints/metrics/metrics.go``, v0.36),
so that what is made for those reads these. Labels are what the table of resources knows, never what a request says:
requests for things that are not served must not make series. ``sources`` add what else the process has to show.
"""

from collections.abc import Callable, Sequence

import msgspec

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.machinery.metrics import Counter, Gauge, Histogram, Registry, exponential_buckets

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_OTHER = "other"
"""The verb of methods that are not served (``cleanVerb``)."""
_CONNECT = ("log", "exec", "portforward", "attach", "proxy")
_APPLY = "application/apply-patch+yaml"
_SYSTEM_CLIENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "cluster-policy-controller")
_COMPONENT = "apiserver"
_HEALTH = ("/healthz", "/livez", "/readyz")

_OF_RESOURCE = ("group", "version", "resource", "subresource", "scope", "component")
_LATENCIES = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0),
    *(30.0, 45.0, 60.0),
)
_SLI_LATENCIES = tuple(bound for bound in _LATENCIES if bound not in (0.005, 0.025))

_TEXT = {"content-type": "text/plain; version=0.0.4; charset=utf-8", "cache-control": "no-cache, private"}


class _Series(msgspec.Struct, gc=False):
    """What is counted of requests that have all labels but the code in common."""

    labels: tuple[str, ...]
    seconds: Histogram
    sli_seconds: Histogram | None
    """None for dry runs."""
    sizes: Histogram | None
    """Of what is read only."""
    totals: dict[tuple[int, str], Counter]
    """By code and client."""


class RequestMetrics:
    """Counts requests of one server. ``sources``: what else ``/metrics`` shows, texts with families of other names."""

    def __init__(self, sources: Sequence[Callable[[], str]] = ()) -> None:
        registry = self.registry = Registry()
        self._total = registry.counter(
            "apiserver_request_total",
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, "
            "scope, component, and HTTP response code.",
            ("verb", "dry_run", *_OF_RESOURCE, "code", "system_client"),
        )
        self._seconds = registry.histogram(
            "apiserver_request_duration_seconds",
            "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
            "subresource, scope and component.",
            ("verb", "dry_run", *_OF_RESOURCE),
            _LATENCIES,
        )
        self._sli_seconds = registry.histogram(
            "apiserver_request_sli_duration_seconds",
            "[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness queue wait "
            "times) in seconds for each verb, group, version, resource, subresource, scope and component.",
            ("verb", *_OF_RESOURCE),
            _SLI_LATENCIES,
        )
        self._sizes = registry.histogram(
            "apiserver_response_sizes",
            "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope "
            "and component.",
            ("verb", *_OF_RESOURCE),
            exponential_buckets(1000, 10, 7),
        )
        self._longrunning = registry.gauge(
            "apiserver_longrunning_requests",
            "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, "
            "resource, scope and component. Not all requests are tracked this way.",
            ("verb", *_OF_RESOURCE),
        )
        self._series: dict[tuple[str, ...], _Series] = {}
        self._sources = sources

    def observe(
        self, request: Request, info: RequestInfo | None, status: int, seconds: float, size: int | None = None
    ) -> None:
        """One request was answered with so many bytes; ``info`` is None for one that was not authenticated."""
        series = self._series_of(request, info)
        series.seconds.observe(seconds)
        if series.sli_seconds is not None:
            series.sli_seconds.observe(seconds)
        if series.sizes is not None and size is not None:
            series.sizes.observe(size)
        client = request.headers.get("user-agent", "").partition("/")[0]
        key = (status, client if client in _SYSTEM_CLIENTS else "")
        total = series.totals.get(key)
        if total is None:
            total = series.totals[key] = self._total.labels(*series.labels, str(status), key[1])
        total.value += 1.0

    def long_running(self, request: Request, info: RequestInfo | None) -> Gauge:
        """What counts watches like this one."""
        verb, _dry_run, *labels = self._series_of(request, info).labels
        return self._longrunning.labels(verb, *labels)

    def response(self) -> Response:
        """The text exposition."""
        texts = [self.registry.exposition(), *(source() for source in self._sources)]
        return Response(200, _TEXT, "".join(texts).encode())

    def _series_of(self, request: Request, info: RequestInfo | None) -> _Series:
        resource = info.info if info is not None else None
        labels: tuple[str, ...]
        if info is None or resource is None:
            path = info.path if info is not None and info.path in _HEALTH else ""
            labels = (_verb(request, None, ""), "", "", "", "", path, "", "" if path else _COMPONENT)
        else:
            scope = _scope(info)
            verb, dry_run = _verb(request, info, scope), _dry_run(info) if "dryRun" in request.target else ""
            subresource = info.subresource if info.sub is not None else ""
            of_resource = (resource.group, resource.version, resource.resource, subresource, scope, _COMPONENT)
            labels = (verb, dry_run, *of_resource)
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = self._new_series(*labels)
        return series

    def _new_series(self, verb: str, dry_run: str, *labels: str) -> _Series:
        return _Series(
            (verb, dry_run, *labels),
            self._seconds.labels(verb, dry_run, *labels),
            None if dry_run else self._sli_seconds.labels(verb, *labels),
            self._sizes.labels(verb, *labels) if verb in ("GET", "LIST") else None,
            {},
        )


def _verb(request: Request, info: RequestInfo | None, scope: str) -> str:
    """The verb that is counted: the method, but for lists, watches, applies and connections (``cleanVerb``)."""
    if request.method not in _METHODS:
        return _OTHER
    if info is not None:
        if info.sub is not None and info.subresource in _CONNECT:
            return "CONNECT"
        if info.verb == "watch":
            return "WATCH"
        if request.method == "PATCH" and request.headers.get("content-type", "") == _APPLY:
            return "APPLY"
    if request.method in ("GET", "HEAD"):
        return "GET" if scope in ("resource", "") else "LIST"
    return request.method


def _scope(info: RequestInfo) -> str:
    """``CleanScope``."""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"


def _dry_run(info: RequestInfo) -> str:
    values = set(info.query.get("dryRun") or ())
    return "" if not values else "All" if values == {"All"} else "invalid"
