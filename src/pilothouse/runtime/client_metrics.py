"""The ``rest_client_*`` metrics: what ``client.ClientMetrics`` reports, under upstream's names and buckets.

Facts: component-base v0.36 ``metrics/prometheus/restclient/metrics.go``.
"""

from pilothouse.runtime.metrics import Counter, Histogram, Registry

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class RestClientMetrics:
    """Counts every request of the clients it is given to."""

    def __init__(self, registry: Registry) -> None:
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
        # Looking a child up by its labels costs more than counting; a program has a handful of them.
        self._counters: dict[tuple[str, str, str], Counter] = {}
        self._observers: dict[tuple[str, str], tuple[Histogram, Histogram, Histogram]] = {}

    def request_done(
        self, method: str, host: str, code: str, seconds: float, request_bytes: int, response_bytes: int
    ) -> None:
        """One attempt is over."""
        counter = self._counters.get((code, method, host))
        if counter is None:
            counter = self._counters[code, method, host] = self._requests.labels_of(code, method, host)
        counter.inc()
        observers = self._observers.get((method, host))
        if observers is None:
            observers = self._observers[method, host] = (
                self._duration.labels_of(method, host),
                self._request_size.labels_of(method, host),
                self._response_size.labels_of(method, host),
            )
        duration, request_size, response_size = observers
        duration.observe(seconds)
        request_size.observe(request_bytes)
        response_size.observe(response_bytes)

    def throttled(self, method: str, host: str, seconds: float) -> None:
        """A request waited for its token."""
        self._throttled.labels_of(method, host).observe(seconds)

    def retried(self, method: str, host: str, code: str) -> None:
        """An attempt after the first one is over."""
        self._retries.labels_of(code, method, host).inc()
