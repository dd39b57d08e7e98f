"""ClusterRoleBindings."""

from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, print_role_binding, wide
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.rbac.rolebindings import RoleBindingStrategy


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """ClusterRoleBindings."""

    kinds = ("ClusterRole",)
    namespaced = False


REGISTRATION = Registration(
    ClusterRoleBindingStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Role"), AGE, *wide("Users", "Groups", "ServiceAccounts")), print_role_binding
    ),
)
