"""Metrics of requests: counts, durations, sizes, requests in flight.

After apiserver ``pkg/endpoints/metrics/metrics.go`` (v0.36). Labels come from the table of resources, not from
requests: requests for resources that are not served must not create series.
"""

from bisect import bisect_left
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

import msgspec

from pilothouse.api.wire import Request
from pilothouse.apiserver.metrics.in_flight import InFlight
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.metrics import Counter, Gauge, Histogram, Registry, exponential_buckets

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_UNSUPPORTED_METHOD = "other"
"""The verb of unsupported methods (``cleanVerb``)."""
_CONNECT = ("log", "exec", "portforward", "attach", "proxy")
_APPLY = "application/apply-patch+yaml"
_SELF = "kube-apiserver"
_SYSTEM_CLIENTS = (_SELF, "kube-controller-manager", "kube-scheduler", "cluster-policy-controller")
_COMPONENT = "apiserver"
_HEALTH = ("/healthz", "/livez", "/readyz")
_READS = ("GET", "HEAD")
_OF_COLLECTIONS = ("list", "watch")

_OF_RESOURCE = ("group", "version", "resource", "subresource", "scope", "component")
_LATENCIES = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0),
    *(30.0, 45.0, 60.0),
)
_SLI_LATENCIES = _LATENCIES[2:]
_WATCH_LIST_LATENCIES = (*(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),)
_MAX_CACHED_SERIES = 4096
_BATCH_SIZE = 256


_waited: ContextVar[float] = ContextVar("seconds that the request has waited for webhooks", default=0.0)


class ClientMetrics(Protocol):
    """``rest_client_*`` of a program in this process, whose client has no connection that could count."""

    def request_done(
        self, method: str, host: str, code: str, *, seconds: float, request_bytes: int, response_bytes: int
    ) -> None:
        """A response was received."""
        ...


LOCAL_HOST = "local"
"""The label ``host`` of requests in this process."""


class _Series(msgspec.Struct, gc=False):
    """The metrics of requests that have all labels but the code in common."""

    labels: tuple[str, ...]
    seconds: Histogram
    sli_seconds: Histogram | None
    """Derived from ``seconds`` when it is read; None for dry runs."""
    sizes: Histogram | None
    """Of read requests only."""
    webhooks: Histogram
    """The difference of ``sli_seconds`` and ``seconds``, by requests that have waited for webhooks."""


class RequestMetrics:
    """The request metrics of one server."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self.clock = clock
        """The clock of the durations, in seconds."""
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
        self._in_flight_now = registry.gauge(
            "apiserver_current_inflight_requests",
            "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in "
            "last second.",
            ("request_kind",),
        )
        self._terminations = registry.counter(
            "apiserver_request_terminations_total",
            "[ALPHA] Number of requests which apiserver terminated in self-defense.",
            ("verb", *_OF_RESOURCE, "code"),
        )
        self._aborts = registry.counter(
            "apiserver_request_aborts_total",
            "[ALPHA] Number of requests which apiserver aborted possibly due to a timeout, for each group, version, "
            "verb, resource, subresource and scope",
            ("verb", *_OF_RESOURCE[:-1]),
        )
        self._self_requests = registry.counter(
            "apiserver_selfrequest_total",
            "[ALPHA] Counter of apiserver self-requests broken out for each verb, API resource and subresource.",
            ("verb", "group", "resource", "subresource"),
        )
        self._deprecated = registry.gauge(
            "apiserver_requested_deprecated_apis",
            "[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, "
            "subresource, and removed_release.",
            ("group", "version", "resource", "subresource", "removed_release"),
        )
        self._event_sizes = registry.histogram(
            "apiserver_watch_events_sizes",
            "[ALPHA] Watch event size distribution in bytes",
            ("group", "version", "resource"),
            exponential_buckets(1024, 2, 8),
        )
        self._events = registry.counter(
            "apiserver_watch_events_total",
            "[ALPHA] Number of events sent in watch clients",
            ("group", "version", "resource"),
        )
        self._watch_list_seconds = registry.histogram(
            "apiserver_watch_list_duration_seconds",
            "[BETA] Response latency distribution in seconds for watch list requests broken by group, version, "
            "resource and scope.",
            ("group", "version", "resource", "scope"),
            _WATCH_LIST_LATENCIES,
        )
        self.reading = InFlight()
        self.writing = InFlight()
        self._observed: list[
            tuple[RequestInfo | None, str, bool, str, int, float, int | None, float, ClientMetrics | None, int]
        ] = []
        """Requests that are not counted yet: info, method, whether it applies, User-Agent, code, seconds, bytes, waits,
        client metrics, bytes of the request."""
        self._has_waited = False
        """Whether any request has waited for an admission webhook."""
        self._series: dict[tuple[str, ...], _Series] = {}
        self._cached_series: dict[tuple[object, ...], tuple[_Series, Counter]] = {}
        """Series by cheap keys of a request; cleared when there are too many."""
        registry.on_collect(self._derive)

    def in_flight(self, request: Request) -> InFlight:
        """The in-flight gauge of a request."""
        return self.reading if request.method in _READS else self.writing

    def observe(
        self,
        request: Request,
        info: RequestInfo | None,
        status: int,
        seconds: float,
        size: int | None = None,
        client: ClientMetrics | None = None,
    ) -> None:
        """A response with this many bytes was sent; ``info`` is None if the request was not authenticated. ``client``
        are the client metrics of a program in this process."""
        waited = 0.0
        if self._has_waited and (waited := _waited.get()):
            _waited.set(0.0)
        method, headers = request.method, request.headers
        is_apply = method == "PATCH" and headers.get("content-type") == _APPLY
        observed = self._observed
        agent, request_bytes = headers.get("user-agent", ""), len(request.body) if client is not None else 0
        observed.append((info, method, is_apply, agent, status, seconds, size, waited, client, request_bytes))
        if len(observed) >= _BATCH_SIZE:
            self.count()

    def count(self) -> None:
        """Count the observed requests. Batches take half the time of single ones."""
        observed, self._observed = self._observed, []
        # Most requests of a batch have few targets, and share their info.
        batch_series: dict[tuple[int, str, bool, str, int], tuple[_Series, Counter, bool]] = {}
        fastest = _LATENCIES[0]
        for info, method, is_apply, agent, status, seconds, size, waited, client, request_bytes in observed:
            key = (id(info), method, is_apply, agent, status)
            entry = batch_series.get(key)
            if entry is None:
                entry = batch_series[key] = self._find(info, method, agent, status, is_apply=is_apply)
            series, total, by_server = entry
            total.value += 1.0
            histogram = series.seconds
            histogram.counts[0 if seconds <= fastest else bisect_left(_LATENCIES, seconds)] += 1
            histogram.sum += seconds
            if size is not None and series.sizes is not None:
                series.sizes.observe(size)
            if by_server:
                labels = series.labels
                self._self_requests.labels(labels[0], labels[2], labels[4], labels[5]).inc()
            if waited:
                series.webhooks.observe(seconds, -1)
                series.webhooks.observe(max(0.0, seconds - waited))
            if client is not None:
                code = str(status)
                client.request_done(
                    method, LOCAL_HOST, code, seconds=seconds, request_bytes=request_bytes, response_bytes=size or 0
                )

    def _find(
        self, info: RequestInfo | None, method: str, agent: str, status: int, *, is_apply: bool
    ) -> tuple[_Series, Counter, bool]:
        """The series of a request, and whether it is a request of the server to itself."""
        client = agent.partition("/")[0]
        if client not in _SYSTEM_CLIENTS:
            client = ""
        if info is None or info.info is None or "dryRun" in info.query:
            return *self._series_and_counter(method, info, status, client, is_apply=is_apply), client == _SELF
        # The values that the labels depend on, without computing them.
        route = (method, is_apply, bool(info.name), bool(info.namespace), info.watch_prefix)
        subresource = info.subresource if info.sub is not None else ""
        key = (info.info, info.verb, subresource, route, status, client)
        cached = self._cached_series.get(key)
        if cached is None:
            if len(self._cached_series) >= _MAX_CACHED_SERIES:
                self._cached_series.clear()
            cached = self._cached_series[key] = self._series_and_counter(
                method, info, status, client, is_apply=is_apply
            )
        return *cached, client == _SELF

    def waited(self, seconds: float) -> None:
        """The request of this task has waited this long for admission webhooks."""
        self._has_waited = True
        _waited.set(_waited.get() + seconds)

    def long_running(self, request: Request, info: RequestInfo | None) -> Gauge:
        """The gauge of long-running requests like this one."""
        verb, labels = self._clean_labels(request, info)
        return self._longrunning.labels(verb, *labels)

    def terminated(self, request: Request, info: RequestInfo | None, code: int) -> None:
        """A request was terminated with this code, by its timeout or a limit."""
        verb, labels = self._clean_labels(request, info)
        self._terminations.labels(verb, *labels, str(code)).inc()

    def aborted(self, request: Request, info: RequestInfo | None) -> None:
        """The client disconnected before the response, or did not read it."""
        verb, labels = self._clean_labels(request, info)
        self._aborts.labels(verb, *labels[:-1]).inc()

    def deprecated(self, info: RequestInfo, removed_release: str) -> None:
        """A deprecated version was requested."""
        resource = info.info
        assert resource is not None, "a deprecated resource is served"
        subresource = info.subresource if info.sub is not None else ""
        labels = (resource.group, resource.version, resource.resource, subresource, removed_release)
        self._deprecated.labels(*labels).set(1)

    def event_sizes(self, resource: ResourceInfo) -> Histogram:
        """The histogram of the sizes of watch events of the resource."""
        return self._event_sizes.labels(resource.group, resource.version, resource.resource)

    def watch_listed(self, info: RequestInfo, seconds: float) -> None:
        """A watch has sent its initial events."""
        resource = info.info
        assert resource is not None, "a watched resource is served"
        labels = (resource.group, resource.version, resource.resource, _scope(info))
        self._watch_list_seconds.labels(*labels).observe(seconds)

    def _clean_labels(self, request: Request, info: RequestInfo | None) -> tuple[str, list[str]]:
        """The verb and other labels of metrics which upstream labels by the request, not by its route."""
        is_apply = request.headers.get("content-type") == _APPLY
        verb, _dry_run, *labels = self._series_of(request.method, info, is_apply=is_apply).labels
        if info is not None and info.info is not None:
            labels[-2] = _scope(info)
        return verb, labels

    def _series_and_counter(
        self, method: str, info: RequestInfo | None, status: int, client: str, *, is_apply: bool
    ) -> tuple[_Series, Counter]:
        series = self._series_of(method, info, is_apply=is_apply)
        return series, self._total.labels(*series.labels, str(status), client)

    def _series_of(self, method: str, info: RequestInfo | None, *, is_apply: bool) -> _Series:
        resource = info.info if info is not None else None
        labels: tuple[str, ...]
        if info is None or resource is None:
            path = info.path if info is not None and info.path in _HEALTH else ""
            labels = (_verb(method, None, "", is_apply=False), "", "", "", "", path, "", "" if path else _COMPONENT)
        else:
            scope = _route_scope(info)
            subresource = info.subresource if info.sub is not None else ""
            of_resource = (resource.group, resource.version, resource.resource, subresource, scope, _COMPONENT)
            labels = (_verb(method, info, scope, is_apply=is_apply), _dry_run(info), *of_resource)
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
            Histogram(_LATENCIES),
        )

    def _derive(self) -> None:
        """Set the derived metrics."""
        self.count()
        for series in self._series.values():
            if series.sli_seconds is not None:
                sli, seconds, webhooks = series.sli_seconds, series.seconds, series.webhooks
                counts = [
                    count + webhook_count for count, webhook_count in zip(seconds.counts, webhooks.counts, strict=True)
                ]
                sli.counts[:] = [sum(counts[:3]), *counts[3:]]
                sli.sum = seconds.sum + webhooks.sum
        for labels, sizes in self._event_sizes.children.items():
            self._events.labels(*labels).value = float(sizes.count)
        now = self.clock()
        self._in_flight_now.labels("readOnly").set(self.reading.maximum(now))
        self._in_flight_now.labels("mutating").set(self.writing.maximum(now))


def _verb(method: str, info: RequestInfo | None, scope: str, *, is_apply: bool) -> str:
    """The ``verb`` label: the method, except for lists, watches, applies and connects (``cleanVerb``)."""
    if method not in _METHODS:
        return _UNSUPPORTED_METHOD
    if info is not None:
        if info.sub is not None and info.subresource in _CONNECT:
            return "CONNECT"
        if info.verb == "watch":
            return "WATCH"
        if method == "PATCH" and is_apply:
            return "APPLY"
    if method in _READS:
        return "GET" if scope in ("resource", "") else "LIST"
    return method


def _route_scope(info: RequestInfo) -> str:
    """The scope of the path (apiserver ``pkg/endpoints/installer.go``, v0.36): a name from a field selector does not
    count."""
    if info.name and info.verb in _OF_COLLECTIONS and not info.watch_prefix:
        return "namespace" if info.namespace else "cluster"
    return _scope(info)


def _scope(info: RequestInfo) -> str:
    """``CleanScope``."""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"


def _dry_run(info: RequestInfo) -> str:
    values = set(info.query.get("dryRun") or ())
    return "" if not values else "All" if values == {"All"} else "invalid"
