"""The rules of an aggregated role. Pure. Upstream: v1.36
``pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go``."""

from collections.abc import Sequence
from typing import Any

from pilothouse.api.meta import ObjectMeta
from pilothouse.api.rbac import CLUSTER_ROLES, ClusterRole, PolicyRule
from pilothouse.machinery.labels import selector_from

Rules = tuple[PolicyRule, ...]


def desired_rules(role: ClusterRole, roles: Sequence[ClusterRole]) -> Rules | None:
    """The rules to write; ``None`` if they are correct. Raises ``SelectorError``."""
    if role.aggregation_rule is None:
        return None
    selected = _selected_roles(role, roles)
    rules = aggregated_rules(selected)
    if rules == role.rules:
        return None
    # Roles that select each other can exchange two orders forever: A is B's rules and y, B is A's and x, so that (x y),
    # (y x) becomes (y x), (x y). Upstream keeps writing as long as both are synced alternately.
    nested = any(selected_role.aggregation_rule is not None for selected_role in selected)
    if nested and len(rules) == len(role.rules) and set(rules) == set(role.rules):
        return None
    return rules


def _selected_roles(role: ClusterRole, roles: Sequence[ClusterRole]) -> list[ClusterRole]:
    """The roles that its selectors match, selector by selector, then by name, so that the result is stable."""
    assert role.aggregation_rule is not None, "it has an aggregationRule"
    by_name = sorted(roles, key=lambda cluster_role: cluster_role.metadata.name)
    selected = []
    for selector in role.aggregation_rule.cluster_role_selectors:
        matches = selector_from(selector).matches
        selected += [o for o in by_name if o.metadata.name != role.metadata.name and matches(o.metadata.labels)]
    return selected


def aggregated_rules(selected: Sequence[ClusterRole]) -> Rules:
    """All their rules without duplicates: rules are equal if all their lists are, in their order."""
    return tuple(dict.fromkeys(rule for role in selected for rule in role.rules))


def rules_to_apply(meta: ObjectMeta, rules: Rules) -> dict[str, Any]:
    """The apply configuration: only the rules. Without any it has no ``rules``, as upstream's (``WithRules()``): rules
    that the controller applied before are then removed, those that somebody else wrote remain.

    With the uid, so that a deleted role is not created again: without an aggregationRule nothing would remove its
    rules.
    """
    configuration: dict[str, Any] = {
        "kind": CLUSTER_ROLES.kind,
        "apiVersion": CLUSTER_ROLES.api_version,
        "metadata": {"name": meta.name, "uid": meta.uid},
    }
    return {**configuration, "rules": rules} if rules else configuration
