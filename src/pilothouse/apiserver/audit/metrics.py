"""The audit metrics, with upstream's names (apiserver ``pkg/audit/metrics.go``, v0.36)."""

from pilothouse.machinery.metrics import Registry


class AuditMetrics:
    """The counters of the audit."""

    def __init__(self) -> None:
        registry = self.registry = Registry()
        self.events = registry.counter(
            "apiserver_audit_event_total",
            "[ALPHA] Counter of audit events generated and sent to the audit backend.",
            (),
        ).labels()
        self.errors = registry.counter(
            "apiserver_audit_error_total",
            "[ALPHA] Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected "
            "by the error.",
            ("plugin",),
        )
        self.levels = registry.counter(
            "apiserver_audit_level_total",
            "[ALPHA] Counter of policy levels for audit events (1 per request).",
            ("level",),
        )
        self.rejected = registry.counter(
            "apiserver_audit_requests_rejected_total",
            "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend.",
            (),
        ).labels()
