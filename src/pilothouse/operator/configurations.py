"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration of an app's webhooks."""

from collections.abc import Iterable
from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.machinery.names import dns_label_errors
from pilothouse.operator.admission import OPERATIONS, Webhook
from pilothouse.operator.client_config import ClientConfig

GROUP = "admissionregistration.k8s.io"
CONFIGURATIONS: dict[str, Kind[Object]] = {
    kind: Kind(GROUP, "v1", f"{kind.lower()}s", kind, False, Object)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
"""By kind."""
_MAX_SECONDS = 30


def configurations(app: str, webhooks: Iterable[Webhook], at: ClientConfig) -> list[dict[str, Any]]:
    """Both, as far as there are such webhooks. Webhooks are called in the order of their declaration."""
    webhooks = tuple(webhooks)
    objects = []
    for kind, mutating in (("MutatingWebhookConfiguration", True), ("ValidatingWebhookConfiguration", False)):
        listed = [webhook.configuration(at) for webhook in webhooks if webhook.mutating is mutating]
        if listed:
            body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": app}}
            objects.append({**body, "webhooks": listed})
    return objects


def checked(webhook: Webhook, others: Iterable[Webhook]) -> Webhook:
    """The webhook. Raises ``ValueError`` for values that the API server would reject, and for a duplicate name."""
    if errors := dns_label_errors(webhook.name):
        raise ValueError(f"the name of a webhook, {webhook.name!r}, is invalid: {errors[0]}")
    if any(other.full_name == webhook.full_name and other.mutating is webhook.mutating for other in others):
        raise ValueError(f"there is a webhook {webhook.full_name} already; give this one another name=")
    if not 1 <= webhook.timeout_seconds <= _MAX_SECONDS:
        raise ValueError(
            f"webhook {webhook.full_name}: timeout_seconds is between 1 and {_MAX_SECONDS}, got "
            f"{webhook.timeout_seconds}"
        )
    allowed = OPERATIONS[:2] if webhook.mutating else OPERATIONS
    if not webhook.operations or not set(webhook.operations) <= set(allowed):
        raise ValueError(
            f"webhook {webhook.full_name}: operations are some of {', '.join(allowed)}, got "
            f"{', '.join(webhook.operations) or 'none'}"
        )
    return webhook
