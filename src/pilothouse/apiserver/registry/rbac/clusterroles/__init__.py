"""ClusterRoles."""

from pilothouse.apiserver.field_errors import ErrorList, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.printers import NAME_AND_CREATION
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.rbac.roles import RoleStrategy


class ClusterRoleStrategy(RoleStrategy):
    """ClusterRoles: Roles with non-resource URLs and aggregation."""

    namespaced = False

    def validate(self, obj: Object) -> ErrorList:
        errors = super().validate(obj)
        rule = obj.get("aggregationRule")
        if rule is not None and not rule.get("clusterRoleSelectors"):
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required("aggregationRule.clusterRoleSelectors", detail))
        for position, selector in enumerate((rule or {}).get("clusterRoleSelectors") or ()):
            path = f"aggregationRule.clusterRoleSelectors[{position}]"
            selector_errors = validate_label_selector(selector, path)
            errors += selector_errors
            if selector_errors:
                # Upstream reports the selector that could not be parsed, which is nil.
                errors.append(invalid(path, None, "invalid label selector."))
        return errors


REGISTRATION = Registration(
    ClusterRoleStrategy(),
    printer=lambda: NAME_AND_CREATION,
)
