"""Metrics of authentication and authorization: counts and durations by result.

After apiserver ``pkg/endpoints/filters/metrics.go``, ``pkg/authentication/request/x509/x509.go`` and kubernetes'
``pkg/serviceaccount/metrics.go`` (v1.36). With AlwaysAllow the metrics of authorization stay empty.
"""

from pilothouse.machinery.metrics import Histogram, Registry, exponential_buckets

_LATENCIES = exponential_buckets(0.001, 2, 15)
_LIFETIMES = (
    *(0.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0, 172800.0, 345600.0, 604800.0, 2592000.0, 7776000.0),
    *(15552000.0, 31104000.0),
)
_UNCOMPRESSED_USERS = ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")


class AccessMetrics:
    """Counts authentication attempts and authorization decisions."""

    def __init__(self, registry: Registry) -> None:
        self._users = registry.counter(
            "authenticated_user_requests",
            "[ALPHA] Counter of authenticated requests broken out by username.",
            ("username",),
        )
        self._attempts = registry.counter(
            "authentication_attempts", "[ALPHA] Counter of authenticated attempts.", ("result",)
        )
        self._authentication = registry.histogram(
            "authentication_duration_seconds",
            "[ALPHA] Authentication duration in seconds broken out by result.",
            ("result",),
            _LATENCIES,
        )
        self._decisions = registry.counter(
            "authorization_attempts_total",
            "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', "
            "'no-opinion' or 'error'.",
            ("result",),
        )
        self._authorization = registry.histogram(
            "authorization_duration_seconds",
            "[ALPHA] Authorization duration in seconds broken out by result.",
            ("result",),
            _LATENCIES,
        )
        self._lifetimes = registry.histogram(
            "apiserver_client_certificate_expiration_seconds",
            "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
            (),
            _LIFETIMES,
        )
        self.lifetimes = self._lifetimes.labels()
        self.valid_tokens = registry.counter(
            "serviceaccount_valid_tokens_total", "[ALPHA] Cumulative valid projected service account tokens used"
        ).labels()
        self.stale_tokens = registry.counter(
            "serviceaccount_stale_tokens_total", "[ALPHA] Cumulative stale projected service account tokens used"
        ).labels()
        self.legacy_tokens = registry.counter(
            "serviceaccount_legacy_tokens_total", "[ALPHA] Cumulative legacy service account tokens used"
        ).labels()
        self._succeeded = self._authentication.labels("success")
        self.allowed: Histogram = self._authorization.labels("allowed")
        """For the most frequent decision, without a lookup of its labels."""
        registry.on_collect(self._derive)

    def authenticated(self, user: str, seconds: float) -> None:
        """A request was authenticated as this user, or as anonymous."""
        self._succeeded.observe(seconds)
        self._users.labels(compressed(user)).value += 1.0

    def rejected(self, seconds: float, *, credentials: bool) -> None:
        """A request had invalid credentials, or none although they are required."""
        self._authentication.labels("error" if credentials else "failure").observe(seconds)

    def decided(self, *, allowed: bool, seconds: float) -> None:
        """A request was allowed, or no authorizer had an opinion: those of this server never deny."""
        if allowed:
            self.allowed.observe(seconds)
        else:
            self._authorization.labels("no-opinion").observe(seconds)

    def _derive(self) -> None:
        for counter, seconds in ((self._attempts, self._authentication), (self._decisions, self._authorization)):
            for labels, histogram in seconds.children.items():
                counter.labels(*labels).value = float(histogram.count)


def compressed(user: str) -> str:
    """The label of a user. User names are not shown, because their number is not limited (``compressUsername``)."""
    if user in _UNCOMPRESSED_USERS:
        return user
    return "email_id" if "@" in user else "other"
