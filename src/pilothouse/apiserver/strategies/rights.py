"""Roles and bindings of RBAC: what is filled in and how they must look. Who may write them is ``escalation``'s.

After kubernetes' ``pkg/apis/rbac/{v1/defaults.go,validation}`` (v1.36).
"""

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import dns_subdomain_errors, path_segment_errors


def _no_problems(_name: str) -> list[str]:
    """Names only have to fit into a path, which is asked of all."""
    return []


_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class _RightsStrategy(Strategy):
    name_problems = staticmethod(_no_problems)


class RoleStrategy(_RightsStrategy):
    """Roles, which are about one namespace's resources."""

    namespaced = True

    def finish(self, obj: Object) -> None:
        obj.setdefault("rules", None)

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        for position, rule in enumerate(obj.get("rules") or ()):
            problems += self._rule_problems(rule, f"rules[{position}]")
        return problems

    def _rule_problems(self, rule: Object, path: str) -> list[FieldError]:
        problems: list[FieldError] = []
        if not rule.get("verbs"):
            problems.append(errors.required(f"{path}.verbs", "verbs must contain at least one value"))
        urls = rule.get("nonResourceURLs")
        if urls:
            if self.namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                problems.append(errors.invalid_value(f"{path}.nonResourceURLs", urls, text))
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                problems.append(errors.invalid_value(f"{path}.nonResourceURLs", urls, text))
            return problems
        if not rule.get("apiGroups"):
            text = "resource rules must supply at least one api group"
            problems.append(errors.required(f"{path}.apiGroups", text))
        if not rule.get("resources"):
            problems.append(errors.required(f"{path}.resources", "resource rules must supply at least one resource"))
        return problems


class ClusterRoleStrategy(RoleStrategy):
    """ClusterRoles, which may also be about paths, and may be made of others."""

    namespaced = False

    def validate(self, obj: Object) -> list[FieldError]:
        problems = super().validate(obj)
        rule = obj.get("aggregationRule")
        if rule is not None and not rule.get("clusterRoleSelectors"):
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            problems.append(errors.required("aggregationRule.clusterRoleSelectors", text))
        for position, selector in enumerate((rule or {}).get("clusterRoleSelectors") or ()):
            where = f"aggregationRule.clusterRoleSelectors[{position}]"
            found = selector_problems(selector, where)
            problems += found
            if found:
                # Upstream shows the selector that could not be made of it.
                problems.append(errors.invalid_value(where, "null", "invalid label selector."))
        return problems


class BindingStrategy(_RightsStrategy):
    """RoleBindings. The role that one is about never changes."""

    kinds: tuple[str, ...] = ("Role", "ClusterRole")
    namespaced = True

    def default(self, obj: Object) -> None:
        reference = child(obj, "roleRef")
        if not reference.get("apiGroup"):
            reference["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = _GROUP

    def validate(self, obj: Object) -> list[FieldError]:
        reference = obj["roleRef"]
        problems: list[FieldError] = []
        if reference["apiGroup"] != _GROUP:
            problems.append(errors.not_supported("roleRef.apiGroup", reference["apiGroup"], (_GROUP,)))
        if reference.get("kind") not in self.kinds:
            problems.append(errors.not_supported("roleRef.kind", reference.get("kind") or "", self.kinds))
        name = reference.get("name") or ""
        if not name:
            problems.append(errors.required("roleRef.name"))
        else:
            problems += [errors.invalid_value("roleRef.name", name, text) for text in path_segment_errors(name)]
        for position, subject in enumerate(obj.get("subjects") or ()):
            problems += self._subject_problems(subject, f"subjects[{position}]")
        return problems

    def _subject_problems(self, subject: Object, path: str) -> list[FieldError]:
        kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
        problems: list[FieldError] = []
        if not name:
            problems.append(errors.required(f"{path}.name"))
        if kind == "ServiceAccount":
            if name:
                problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_subdomain_errors(name)]
            if group:
                problems.append(errors.not_supported(f"{path}.apiGroup", group, ("",)))
            if not self.namespaced and not subject.get("namespace"):
                problems.append(errors.required(f"{path}.namespace"))
        elif kind in _SUBJECTS:
            if group != _GROUP:
                problems.append(errors.not_supported(f"{path}.apiGroup", group, (_GROUP,)))
        else:
            problems.append(errors.not_supported(f"{path}.kind", kind, _SUBJECTS))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = self.validate_again(obj)
        if obj["roleRef"] != old["roleRef"]:
            reference = obj["roleRef"]
            shown = {
                "APIGroup": reference["apiGroup"],
                "Kind": reference.get("kind") or "",
                "Name": reference.get("name") or "",
            }
            problems.append(errors.invalid_value("roleRef", shown, "cannot change roleRef"))
        return problems


class ClusterBindingStrategy(BindingStrategy):
    """ClusterRoleBindings."""

    kinds = ("ClusterRole",)
    namespaced = False
