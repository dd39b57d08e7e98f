"""What the client reports about itself. ``runtime.metrics`` has the ``rest_client_*`` families behind it."""

from typing import Protocol


class ClientMetrics(Protocol):
    """Receives one call per event; each must be quick and must not raise.

    ``method`` is the HTTP method, ``host`` the API server's host and port, as in upstream's labels.
    """

    def request_done(
        self, method: str, host: str, code: str, *, seconds: float, request_bytes: int, response_bytes: int
    ) -> None:
        """One attempt is over. ``code`` is the status, or ``<error>`` when there was no answer.

        Feeds ``rest_client_requests_total``, ``rest_client_request_duration_seconds``,
        ``rest_client_request_size_bytes`` and ``rest_client_response_size_bytes``.
        """
        ...

    def throttled(self, method: str, host: str, seconds: float) -> None:
        """A request waited for its token, or did not have to (0.0): ``rest_client_rate_limiter_duration_seconds``."""
        ...

    def retried(self, method: str, host: str, code: str) -> None:
        """An attempt after the first one is over: ``rest_client_request_retries_total``."""
        ...
