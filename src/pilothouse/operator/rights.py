"""The RBAC rules of declared controllers."""

from collections.abc import Iterable
from typing import Any

from pilothouse.operator.admission import Webhook
from pilothouse.operator.custom_resource import kind_of
from pilothouse.operator.declaration import Declaration

_READ = ("get", "list", "watch")
_OWN = (*_READ, "create", "delete", "patch")


def rules(declarations: Iterable[Declaration], webhooks: Iterable[Webhook] = ()) -> list[dict[str, Any]]:
    """Rules of a ClusterRole, by API group, each with the resources of one set of verbs."""
    verbs: dict[tuple[str, str], set[str]] = {}

    def allow(group: str, resource: str, *allowed: str) -> None:
        verbs.setdefault((group, resource), set()).update(allowed)

    for declaration in declarations:
        kind = declaration.kind
        allow(kind.group, kind.resource, *_READ)
        allow(kind.group, f"{kind.resource}/status", "patch")
        if declaration.finalizer:
            allow(kind.group, kind.resource, "patch")
        if declaration.owns:
            # blockOwnerDeletion needs it (OwnerReferencesPermissionEnforcement).
            allow(kind.group, f"{kind.resource}/finalizers", "update")
        for owned in declaration.owns:
            allow(owned.group, owned.resource, *_OWN)
        allow("", "events", "create", "patch")
        for read in (*(kind_of(each.kind) for each in declaration.references), *declaration.reads):
            allow(read.group, read.resource, *_READ)
    for webhook in webhooks:
        for read in webhook.reads:
            allow(read.group, read.resource, "get", "list")
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed in sorted(verbs.items()):
        grouped.setdefault((group, tuple(sorted(allowed))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in grouped.items()
    ]


def lease_rules(name: str) -> list[dict[str, Any]]:
    """Rules of a Role in the namespace of an app's Lease."""
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return [
        {**lease, "verbs": ["create"]},
        {**lease, "resourceNames": [name], "verbs": ["get", "update"]},
    ]
