"""Evaluates the rules of an audit policy for a request. Pure.

After apiserver's ``pkg/audit/policy/checker.go`` (v0.36).
"""

import msgspec

from pilothouse.apiserver.audit.policy import NONE, Policy, PolicyRule
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes


class RequestAuditConfig(msgspec.Struct, frozen=True):
    """The level and the omissions that apply to one request."""

    level: str
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


class PolicyRuleEvaluator:
    """Evaluates the rules of one policy."""

    def __init__(self, policy: Policy) -> None:
        default = policy.omit_managed_fields
        self._rules = [
            (
                rule,
                RequestAuditConfig(
                    rule.level,
                    frozenset(policy.omit_stages + rule.omit_stages),
                    default if rule.omit_managed_fields is None else rule.omit_managed_fields,
                ),
            )
            for rule in policy.rules
        ]
        self._default = RequestAuditConfig(NONE, frozenset(policy.omit_stages), default)

    def evaluate_policy_rule(self, identity: Identity | None, attributes: Attributes) -> RequestAuditConfig:
        """The result of the first matching rule. ``identity`` is None if the request was not authenticated."""
        for rule, config in self._rules:
            if _rule_matches(rule, identity, attributes):
                return config
        return self._default


def _rule_matches(rule: PolicyRule, identity: Identity | None, attributes: Attributes) -> bool:
    if rule.users and (identity is None or identity.user not in rule.users):
        return False
    if rule.user_groups and (identity is None or not any(group in rule.user_groups for group in identity.groups)):
        return False
    if rule.verbs and attributes.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        return _matches_resource(rule, attributes)
    if rule.non_resource_urls:
        return bool(attributes.path) and any(_path_matches(attributes.path, url) for url in rule.non_resource_urls)
    return True


def _path_matches(path: str, url: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def _matches_resource(rule: PolicyRule, attributes: Attributes) -> bool:
    if attributes.path:
        return False
    # Resources without a namespace are in the namespace "".
    if rule.namespaces and attributes.namespace not in rule.namespaces:
        return False
    if not rule.resources:
        return True
    for group_resources in rule.resources:
        if group_resources.group not in (attributes.group, "*"):
            continue
        if not group_resources.resources:
            return True
        if group_resources.resource_names and attributes.name not in group_resources.resource_names:
            continue
        if any(_resource_matches(resource, attributes) for resource in group_resources.resources):
            return True
    return False


def _resource_matches(resource: str, attributes: Attributes) -> bool:
    if resource in ("*", attributes.full_resource):
        return True
    if attributes.subresource and resource == f"*/{attributes.subresource}":
        return True
    return resource == f"{attributes.resource}/*"
