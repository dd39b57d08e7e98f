"""Upstream's metrics (v1.36 ``pkg/controller/resourceclaim/metrics/metrics.go``)."""

from collections import Counter
from collections.abc import Callable, Iterable

from pilothouse.api.resource import ResourceClaim
from pilothouse.runtime import Registry
from pilothouse.semantics.devices import EXTENDED_RESOURCE_CLAIM, POD_CLAIM_NAME, asks_for_admin_access

Key = tuple[str, ...]


class Metrics:
    """Counts created claims, and, on collection, existing ones."""

    def __init__(self, metrics: Registry, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        self._claims = claims
        self._creates = metrics.counter(
            "resourceclaim_controller_creates_total",
            "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status and admin access",
            ("status", "admin_access"),
        )
        self._count = metrics.gauge(
            "resourceclaim_controller_resource_claims",
            "[ALPHA] Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can "
            "be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or "
            "empty (manually created by a user).",
            ("allocated", "admin_access", "source"),
        )
        self.stop = metrics.on_collect(self._refresh)
        """Stop counting on collection."""

    def tried(self, *, success: bool, admin_access: bool) -> None:
        self._creates.labels("success" if success else "failure", _word(admin_access)).inc()

    def _refresh(self) -> None:
        self._count.show(Counter(labels_of(claim) for claim in self._claims()))


def labels_of(claim: ResourceClaim) -> Key:
    """The labels of a claim: allocated, admin access, source."""
    annotations = claim.metadata.annotations
    if POD_CLAIM_NAME in annotations:
        source = "resource_claim_template"
    else:
        source = "extended_resource" if annotations.get(EXTENDED_RESOURCE_CLAIM) == "true" else ""
    return _word(claim.status.allocation is not None), _word(asks_for_admin_access(claim)), source


def _word(value: bool) -> str:
    return "true" if value else "false"
