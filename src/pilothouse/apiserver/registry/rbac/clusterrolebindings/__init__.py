"""ClusterRoleBindings."""

from pilothouse.apiserver.registry.generic.printers import ROLE_BINDING
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.rbac.rolebindings import RoleBindingStrategy


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    kinds = ("ClusterRole",)
    namespaced = False


REGISTRATION = Registration(
    ClusterRoleBindingStrategy(),
    printer=lambda: ROLE_BINDING,
)
