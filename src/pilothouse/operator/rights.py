"""The RBAC rules of declared controllers."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pilothouse.operator.admission import Webhook
from pilothouse.operator.configurations import CONFIGURATIONS, GROUP
from pilothouse.operator.custom_resource import kind_of
from pilothouse.operator.declaration import Declaration
from pilothouse.operator.webhook_server import secret_name

_READ = ("get", "list", "watch")
_OWN = (*_READ, "create", "delete", "patch")


class Grant(msgspec.Struct, frozen=True):
    """A right that a declaration implies."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    declared_by: str
    """``owns= of controller website``."""


def grants(declarations: Iterable[Declaration], webhooks: Iterable[Webhook] = ()) -> Iterator[Grant]:
    """All permissions, with the declarations that require them; there may be several for one resource."""
    for declaration in declarations:
        kind, controller = declaration.kind, f"controller {declaration.name}"
        yield Grant(kind.group, kind.resource, _READ, controller)
        yield Grant(kind.group, f"{kind.resource}/status", ("patch",), controller)
        if declaration.finalizer:
            yield Grant(kind.group, kind.resource, ("patch",), f"the finalizer of {controller}")
        if declaration.owns:
            # blockOwnerDeletion needs it (OwnerReferencesPermissionEnforcement).
            yield Grant(kind.group, f"{kind.resource}/finalizers", ("update",), f"owns= of {controller}")
        for owned in declaration.owned_kinds:
            yield Grant(owned.group, owned.resource, _OWN, f"owns= of {controller}")
        for reference in declaration.references:
            read = kind_of(reference.kind)
            yield Grant(read.group, read.resource, _READ, f"references= of {controller}")
        for read in declaration.reads:
            yield Grant(read.group, read.resource, _READ, f"reads= of {controller}")
        yield Grant("", "events", ("create", "patch"), controller)
    for webhook in webhooks:
        for read in webhook.reads:
            yield Grant(read.group, read.resource, ("get", "list"), f"reads= of webhook {webhook.name}")


def rules(declarations: Iterable[Declaration], webhooks: Iterable[Webhook] = ()) -> list[dict[str, Any]]:
    """Rules of a ClusterRole, by API group, each with the resources of one set of verbs; then the controllers' own."""
    declarations = tuple(declarations)
    verbs: dict[tuple[str, str], set[str]] = {}
    for grant in grants(declarations, webhooks):
        verbs.setdefault((grant.group, grant.resource), set()).update(grant.verbs)
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed in sorted(verbs.items()):
        grouped.setdefault((group, tuple(sorted(allowed))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in grouped.items()
    ] + [dict(right) for declaration in declarations for right in declaration.rights]


def missing_right(grants: Iterable[Grant], verb: str, group: str, resource: str) -> str:
    """The declared rights for a resource (or path), and the declaration that would grant this verb."""
    matching = [grant for grant in grants if (grant.group, grant.resource) == (group, resource)]
    declared = ", ".join(f"{' '.join(grant.verbs)} by {grant.declared_by}" for grant in matching)
    if any(verb in grant.verbs for grant in matching):
        return f"declared is {declared}"
    rule: dict[str, Any] = {"apiGroups": [group], "resources": [resource]}
    kind = ""
    if resource.startswith("/"):
        rule = {"nonResourceURLs": [resource]}
    elif "/" not in resource and verb in _OWN:
        kind = f"its kind to {'reads=, references= or owns=' if verb in _READ else 'owns='}, or "
    way_out = f"add {kind}to rights= the rule { ({**rule, 'verbs': [verb]}) }"
    return f"declared is {declared}; {way_out}" if declared else f"no controller declares it: {way_out}"


def certificate_rules(app: str) -> list[dict[str, Any]]:
    """Rules of a Role in the namespace of an app's Service, for the Secret with the certificates of its webhooks."""
    secret = {"apiGroups": [""], "resources": ["secrets"]}
    return [
        {**secret, "verbs": ["create"]},
        {**secret, "resourceNames": [secret_name(app)], "verbs": ["get", "patch"]},
    ]


def trust_rules(webhooks: Iterable[dict[str, Any]], definitions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rules of a ClusterRole, for ``caBundle`` in these webhook configurations and definitions."""
    rules = [
        {
            "apiGroups": [GROUP],
            "resources": [CONFIGURATIONS[webhook["kind"]].resource],
            "resourceNames": [webhook["metadata"]["name"]],
            "verbs": ["get", "patch"],
        }
        for webhook in webhooks
    ]
    names = [crd["metadata"]["name"] for crd in definitions if "webhook" in crd["spec"].get("conversion", {})]
    if names:
        definition = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}
        rules.append({**definition, "resourceNames": names, "verbs": ["get", "patch"]})
    return rules


def lease_rules(name: str) -> list[dict[str, Any]]:
    """Rules of a Role in the namespace of an app's Lease."""
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return [
        {**lease, "verbs": ["create"]},
        {**lease, "resourceNames": [name], "verbs": ["get", "update"]},
    ]
