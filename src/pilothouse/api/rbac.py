"""``rbac.authorization.k8s.io/v1``: who may do what, and roles that are made of others."""

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class PolicyRule(View, frozen=True):
    """What one rule allows. The fields are in the order in which upstream sends them."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class AggregationRule(View, frozen=True):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(View, frozen=True):
    """A ClusterRole. With an aggregation rule its rules belong to a controller."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None


CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, ClusterRole)
