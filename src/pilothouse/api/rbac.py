"""``rbac.authorization.k8s.io/v1``: roles, their bindings, and the aggregation of roles."""

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class PolicyRule(View, frozen=True):
    """One rule. The fields are in the order in which upstream sends them."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class AggregationRule(View, frozen=True):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(View, frozen=True):
    """A ClusterRole. If it has an aggregation rule, a controller sets its rules."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None


class Role(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()


class RoleRef(View, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(View, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleRef | None = None
    subjects: tuple[Subject, ...] = ()


class ClusterRoleBinding(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleRef | None = None
    subjects: tuple[Subject, ...] = ()


CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, ClusterRole)
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", True, Role)
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True, RoleBinding)
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False, ClusterRoleBinding
)
