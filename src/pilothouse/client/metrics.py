"""The interface by which the client reports metrics. ``runtime.client_metrics`` implements it with
``rest_client_*``."""

import datetime
from typing import Literal, Protocol


class ClientMetrics(Protocol):
    """Called once per event; implementations must be quick and must not raise.

    ``method`` is the HTTP method, ``host`` the API server's host and port, as in upstream's labels.
    """

    def request_done(
        self, method: str, host: str, code: str, *, seconds: float, request_bytes: int, response_bytes: int
    ) -> None:
        """One attempt has ended. ``code`` is the status, or ``<error>`` if there was no response.

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
"""The result of a run of an exec plugin (client-go ``plugin/pkg/client/auth/exec/metrics.go``, v0.36)."""


class ConnectionMetrics(Protocol):
    """Called for events below requests: names, certificates, plugins. Must be quick and not raise, as above."""

    def resolved(self, host: str, seconds: float) -> None:
        """A name was resolved: ``rest_client_dns_resolution_duration_seconds``. Addresses need no resolving."""
        ...

    def ca_reloaded(self, result: str, reason: str) -> None:
        """The file of the certificate authority has changed: ``rest_client_transport_ca_reload_total``."""
        ...

    def plugin_ran(self, code: int, outcome: PluginOutcome) -> None:
        """An exec plugin was called: ``rest_client_exec_plugin_call_total``. The code is 0 if and only if it
        succeeded."""
        ...

    def plugin_issued(self, expires_at: datetime.datetime | None, former_age_seconds: float | None) -> None:
        """It has a new certificate (None: it has none), and the age of the previous one.

        Feeds ``rest_client_exec_plugin_ttl_seconds`` and ``rest_client_exec_plugin_certificate_rotation_age``.
        """
        ...
