"""Roles."""

from pilothouse.apiserver.field_errors import ErrorList, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.printers import NAME_AND_CREATION
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.rbac import RbacStrategy


class RoleStrategy(RbacStrategy):
    """``rbac.authorization.k8s.io`` Roles."""

    allow_create_on_update = True
    namespaced = True

    def canonicalize(self, obj: Object) -> None:
        obj.setdefault("rules", None)

    def validate(self, obj: Object) -> ErrorList:
        errors: ErrorList = []
        for position, rule in enumerate(obj.get("rules") or ()):
            errors += self._validate_rule(rule, f"rules[{position}]")
        return errors

    def _validate_rule(self, rule: Object, path: str) -> ErrorList:
        errors: ErrorList = []
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        urls = rule.get("nonResourceURLs")
        if urls:
            if self.namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid(f"{path}.nonResourceURLs", urls, detail))
            return errors
        if not rule.get("apiGroups"):
            errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
        return errors


REGISTRATION = Registration(
    RoleStrategy(),
    printer=lambda: NAME_AND_CREATION,
)
