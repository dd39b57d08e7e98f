"""What the client reports about itself. ``runtime.client_metrics`` has the ``rest_client_*`` families behind it."""

import datetime
from typing import Literal, Protocol


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


PluginOutcome = Literal["no_error", "plugin_execution_error", "plugin_not_found_error", "client_internal_error"]
"""How a run of an exec plugin ended (client-go ``plugin/pkg/client/auth/exec/metrics.go``, v0.36)."""


class ConnectionMetrics(Protocol):
    """Receives what happens below requests: names, certificates, plugins. Quick, and never raises, as above."""

    def resolved(self, host: str, seconds: float) -> None:
        """A name was resolved: ``rest_client_dns_resolution_duration_seconds``. Addresses need no resolving."""
        ...

    def ca_reloaded(self, result: str, reason: str) -> None:
        """The file of the certificate authority has changed: ``rest_client_transport_ca_reload_total``."""
        ...

    def plugin_ran(self, code: int, outcome: PluginOutcome) -> None:
        """An exec plugin was called: ``rest_client_exec_plugin_call_total``. Code 0 if and only if all went well."""
        ...

    def plugin_issued(self, expires_at: datetime.datetime | None, former_age_seconds: float | None) -> None:
        """Its certificate is another one now (None: it has none), and how old the one before had become.

        Feeds ``rest_client_exec_plugin_ttl_seconds`` and ``rest_client_exec_plugin_certificate_rotation_age``.
        """
        ...
