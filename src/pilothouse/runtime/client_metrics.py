"""The ``rest_client_*`` metrics, with upstream's names and buckets, from ``ClientMetrics`` and ``ConnectionMetrics`` of
``client``.

Facts: component-base v0.36 ``metrics/prometheus/restclient/metrics.go``.
"""

import datetime
import math
from collections.abc import Callable

from pilothouse.machinery.metrics import Counter, Histogram, Registry

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_LOOKUP_SECONDS = _SECONDS[:-1]
_AGES = (600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000)
_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class RestClientMetrics:
    """Counts the requests of the clients that get it, and the activity of their transports."""

    def __init__(self, registry: Registry, now: Callable[[], datetime.datetime]) -> None:
        self._requests = registry.counter(
            "rest_client_requests_total",
            "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
        )
        self._duration = registry.histogram(
            "rest_client_request_duration_seconds",
            "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
            ("verb", "host"),
            _SECONDS,
        )
        self._throttled = registry.histogram(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
            ("verb", "host"),
            _SECONDS,
        )
        self._request_size = registry.histogram(
            "rest_client_request_size_bytes",
            "[ALPHA] Request size in bytes. Broken down by verb and host.",
            ("verb", "host"),
            _BYTES,
        )
        self._response_size = registry.histogram(
            "rest_client_response_size_bytes",
            "[ALPHA] Response size in bytes. Broken down by verb and host.",
            ("verb", "host"),
            _BYTES,
        )
        self._retries = registry.counter(
            "rest_client_request_retries_total",
            "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
            ("code", "verb", "host"),
        )
        self._lookups = registry.histogram(
            "rest_client_dns_resolution_duration_seconds",
            "[ALPHA] DNS resolver latency in seconds. Broken down by host.",
            ("host",),
            _LOOKUP_SECONDS,
        )
        self._transports = registry.gauge(
            "rest_client_transport_cache_entries", "[ALPHA] Number of transport entries in the internal cache."
        ).labels()
        self._transport_calls = registry.counter(
            "rest_client_transport_create_calls_total",
            "[ALPHA] Number of calls to get a new transport, partitioned by the result of the operation hit: obtained "
            "from the cache, miss: created and added to the cache, miss-gc: recreated and added back to the cache "
            "after being garbage collected, uncacheable: created and not cached",
            ("result",),
        )
        self._reloads = registry.counter(
            "rest_client_transport_ca_reload_total",
            "[ALPHA] Number of times a CA reload is attempted, partitioned by the result and reason for the reload "
            "attempt",
            ("result", "reason"),
        )
        self._plugin_calls = registry.counter(
            "rest_client_exec_plugin_call_total",
            "[ALPHA] Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, "
            "plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The "
            "exit code will be set to 0 if and only if the plugin call was successful.",
            ("code", "call_status"),
        )
        self._ages = registry.histogram(
            "rest_client_exec_plugin_certificate_rotation_age",
            "[ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before "
            "being rotated. If auth exec plugin client certificates are unused, histogram will contain no data.",
            buckets=_AGES,
        ).labels()
        seconds_left = registry.gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec "
            "plugin. The value is in seconds until certificate expiry (negative if already expired). If auth exec "
            "plugins are unused or manage no TLS certificates, the value will be +INF.",
        ).labels()
        self._expires_at: datetime.datetime | None = None
        registry.on_collect(
            lambda: seconds_left.set(
                math.inf if self._expires_at is None else (self._expires_at - now()).total_seconds()
            )
        )
        # To find a child by its labels costs more than to count; a program has a handful of them.
        self._counters: dict[tuple[str, str, str], Counter] = {}
        self._observers: dict[tuple[str, str], tuple[Histogram, Histogram, Histogram]] = {}

    def request_done(
        self, method: str, host: str, code: str, seconds: float, request_bytes: int, response_bytes: int
    ) -> None:
        """One attempt is over."""
        counter = self._counters.get((code, method, host))
        if counter is None:
            counter = self._counters[code, method, host] = self._requests.labels(code, method, host)
        counter.inc()
        observers = self._observers.get((method, host))
        if observers is None:
            observers = self._observers[method, host] = (
                self._duration.labels(method, host),
                self._request_size.labels(method, host),
                self._response_size.labels(method, host),
            )
        duration, request_size, response_size = observers
        duration.observe(seconds)
        request_size.observe(request_bytes)
        response_size.observe(response_bytes)

    def throttled(self, method: str, host: str, seconds: float) -> None:
        """A request waited for its token."""
        self._throttled.labels(method, host).observe(seconds)

    def retried(self, method: str, host: str, code: str) -> None:
        """An attempt after the first one is over."""
        self._retries.labels(code, method, host).inc()

    def resolved(self, host: str, seconds: float) -> None:
        """A name was resolved."""
        self._lookups.labels(host).observe(seconds)

    def ca_reloaded(self, result: str, reason: str) -> None:
        """The file of the certificate authority has changed."""
        self._reloads.labels(result, reason).inc()

    def plugin_ran(self, code: int, outcome: str) -> None:
        """An exec plugin was called."""
        self._plugin_calls.labels(str(code), outcome).inc()

    def plugin_issued(self, expires_at: datetime.datetime | None, former_age_seconds: float | None) -> None:
        """An exec plugin's certificate is another one now."""
        self._expires_at = expires_at
        if former_age_seconds is not None:
            self._ages.observe(former_age_seconds)

    def transport_given(self, *, is_new: bool) -> None:
        """A transport was requested: a new or an existing one. Transports are kept until the program ends."""
        self._transport_calls.labels("miss" if is_new else "hit").inc()
        if is_new:
            self._transports.inc()
