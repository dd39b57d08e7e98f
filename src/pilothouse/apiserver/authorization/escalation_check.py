"""Rejects roles and bindings that grant more than their writer has (privilege escalation).

Runs as the last mutating admission plugin, where upstream's policy-based storage checks (kubernetes
``pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased`` and
``pkg/registry/rbac/validation``, v1.36). Users with the verbs ``escalate`` or ``bind`` are exempt.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.authentication.identity import MASTERS
from pilothouse.apiserver.authorization.authorizer import RBAC_GROUP, Attributes, Authorizer, RbacAuthorizer, Rule
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote

_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")
_ALL_RESOURCES = Rule(verbs=("*",), api_groups=("*",), resources=("*",))
_ALL_PATHS = Rule(verbs=("*",), non_resource_urls=("*",))
_AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"
MAX_COMPARISONS = 50_000
"""A rule of 100 verbs, groups and resources each has a million parts, each of which is compared with the rules of the
writer. The largest bootstrap role has some 1,000."""
_TOO_MANY = (
    "its rules have too many combinations of verbs, groups, resources and names to confirm that the user holds them "
    "all: split it, or have it written by a user with the verb escalate or bind"
)
_FIELDS = (
    ("APIGroups", "api_groups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "non_resource_urls"),
    ("ResourceNames", "resource_names"),
    ("Verbs", "verbs"),
)
_LISTS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


class EscalationCheck(Plugin):
    """Rejects roles and bindings that grant more than their writer has. ``rbac`` resolves the rules of users;
    ``authorizer`` decides about ``escalate`` and ``bind``."""

    def __init__(self, rbac: RbacAuthorizer, authorizer: Authorizer) -> None:
        self._rbac = rbac
        self._authorizer = authorizer

    def admit(self, write: AdmissionAttributes) -> None:
        if write.info.group != RBAC_GROUP or write.obj is None or MASTERS in write.identity.groups:
            return
        if write.old is not None and _is_only_mutating_gc_fields(write.obj, write.old):
            return
        if write.info.resource in _ROLES:
            self._check_role(write, write.obj)
        elif write.info.resource in _BINDINGS:
            self._check_binding(write, write.obj)

    def _check_role(self, write: AdmissionAttributes, obj: Object) -> None:
        resource, namespace = write.info.resource, write.namespace
        # The check is for the name in the path, which a create does not have.
        name = write.name if write.operation == "UPDATE" else ""
        if self._is_authorized(write, Attributes("escalate", RBAC_GROUP, "*", resource, "", namespace, name)):
            return
        self._confirm_no_escalation(write, obj, rules_of(obj))
        if obj.get("aggregationRule") or (write.old or {}).get("aggregationRule"):
            try:
                self._confirm_no_escalation(write, obj, [_ALL_RESOURCES, _ALL_PATHS])
            except StatusError:
                raise errors.forbidden(write.info, _name(obj), _AGGREGATION) from None

    def _check_binding(self, write: AdmissionAttributes, obj: Object) -> None:
        reference = obj.get("roleRef") or {}
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind)
        group = reference.get("apiGroup") or ""
        if resource is None:
            raise errors.plain(f"unsupported role reference kind: {quote(kind)}")
        if self._is_authorized(write, Attributes("bind", group, "*", resource, "", write.namespace, name)):
            return
        if kind == "Role" and not write.namespace:
            raise errors.bad_request("Namespace parameter required.")
        rules = self._rbac.role_rules(kind, write.namespace, name)
        if rules is None:
            # Upstream's store names the resource of the request, not that of the role.
            raise errors.not_found(write.info, name)
        self._confirm_no_escalation(write, obj, rules)

    def _is_authorized(self, write: AdmissionAttributes, attributes: Attributes) -> bool:
        return self._authorizer.authorize(write.identity, attributes).allowed

    def _confirm_no_escalation(self, write: AdmissionAttributes, obj: Object, rules: Iterable[Rule]) -> None:
        """Raise 403 unless the writer has all these rules."""
        identity = write.identity
        owned = self._rbac.rules(identity, write.namespace)
        owned_rules = _OwnedRules(owned.rules)
        try:
            missing = [rule for rule in _breakdown_rules(rules) if not owned_rules.cover(rule)]
        except _Exhausted:
            raise errors.forbidden(write.info, _name(obj), _TOO_MANY) from None
        if not missing:
            return
        groups = " ".join(map(quote, identity.groups))
        rule_texts = "\n".join(sorted(dict.fromkeys(map(_format_rule, _compact_rules(missing)))))
        reason = (
            f"user {quote(identity.user)} (groups=[{groups}]) is attempting to grant RBAC permissions "
            f"not currently held:\n{rule_texts}"
        )
        if owned.errors:
            reason += f"; resolution errors: [{owned.error}]"
        raise errors.forbidden(write.info, _name(obj), reason)


def _name(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")


def rules_of(obj: Object) -> list[Rule]:
    """The rules of a role in a request."""
    rules: list[dict[str, Any]] = [
        {field: rule[field] for field in _LISTS if rule.get(field)} for rule in obj.get("rules") or ()
    ]
    return msgspec.convert(rules, list[Rule])


def _is_only_mutating_gc_fields(obj: Object, old: Object) -> bool:
    """Whether only owner references and finalizers differ, which the garbage collector must be able to change."""
    return _without_owners(obj) == _without_owners(old)


def _without_owners(obj: Object) -> Object:
    excluded = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
    meta = {field: value for field, value in obj["metadata"].items() if field not in excluded and value}
    return {**{field: value for field, value in obj.items() if value is not None}, "metadata": meta}


def _breakdown_rules(rules: Iterable[Rule]) -> Iterator[Rule]:
    """The rules split into one verb, one group, one resource and at most one name each (``BreakdownRule``)."""
    for rule in rules:
        for verb in rule.verbs:
            for url in rule.non_resource_urls:
                yield Rule(verbs=(verb,), non_resource_urls=(url,))
        for group in rule.api_groups:
            for resource in rule.resources:
                for verb in rule.verbs:
                    if not rule.resource_names:
                        yield Rule((verb,), (group,), (resource,))
                    for name in rule.resource_names:
                        yield Rule((verb,), (group,), (resource,), (name,))


class _Exhausted(Exception):
    """There are too many comparisons."""


class _OwnedRules:
    """The rules of the writer, by resource, so that a subrule is compared with few of them."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_resource: dict[str, list[Rule]] = {}
        self._of_urls: list[Rule] = []
        self._comparisons = 0
        for rule in rules:
            if rule.non_resource_urls:
                self._of_urls.append(rule)
            for resource in dict.fromkeys(rule.resources):
                self._by_resource.setdefault(resource, []).append(rule)

    def cover(self, subrule: Rule) -> bool:
        """Whether one of the rules covers a subrule. Raises ``_Exhausted`` after ``MAX_COMPARISONS``."""
        self._compare(1)
        for rule in self._candidates(subrule):
            self._compare(rule.cost)
            if _rule_covers(rule, subrule):
                return True
        return False

    def _compare(self, cost: int) -> None:
        self._comparisons += cost
        if self._comparisons > MAX_COMPARISONS:
            raise _Exhausted

    def _candidates(self, subrule: Rule) -> Iterator[Rule]:
        if subrule.non_resource_urls:
            yield from self._of_urls
            return
        (resource,) = subrule.resources
        _, separator, subresource = resource.partition("/")
        for covering in ("*", resource, *((f"*/{subresource}",) if separator else ())):
            yield from self._by_resource.get(covering, ())


def _rule_covers(owner_rule: Rule, subrule: Rule) -> bool:
    """Whether one rule covers a subrule."""
    if not _has(owner_rule.verbs, subrule.verbs):
        return False
    if subrule.non_resource_urls:
        return all(_non_resource_url_covers(owner_rule.non_resource_urls, url) for url in subrule.non_resource_urls)
    if not _has(owner_rule.api_groups, subrule.api_groups):
        return False
    if not all(_resource_covers(owner_rule.resources, resource) for resource in subrule.resources):
        return False
    if not owner_rule.resource_names:
        return True
    return bool(subrule.resource_names) and all(name in owner_rule.resource_names for name in subrule.resource_names)


def _has(owner_values: tuple[str, ...], requested_values: tuple[str, ...]) -> bool:
    return "*" in owner_values or all(value in owner_values for value in requested_values)


def _resource_covers(owner_resources: tuple[str, ...], resource: str) -> bool:
    if "*" in owner_resources or resource in owner_resources:
        return True
    _, separator, subresource = resource.partition("/")
    return bool(separator) and f"*/{subresource}" in owner_resources


def _non_resource_url_covers(owner_paths: tuple[str, ...], url: str) -> bool:
    return any(
        owner_path == url or (owner_path.endswith("*") and url.startswith(owner_path.rstrip("*")))
        for owner_path in owner_paths
    )


def _compact_rules(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Rules of the same resource combined, for messages (``CompactRules``)."""
    verbs_by_resource: dict[tuple[Any, ...], list[str]] = {}
    for rule in rules:
        if rule.non_resource_urls:
            yield rule
        else:
            verbs_by_resource.setdefault((rule.api_groups, rule.resources, rule.resource_names), []).extend(rule.verbs)
    for (groups, resources, names), verbs in verbs_by_resource.items():
        yield Rule(tuple(verbs), groups, resources, names)


def _format_rule(rule: Rule) -> str:
    fields = [
        f"{label}:[{' '.join(map(quote, values))}]" for label, field in _FIELDS if (values := getattr(rule, field))
    ]
    return f"{{{', '.join(fields)}}}"
