"""RoleBindings."""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.printers import ROLE_BINDING
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.rbac import RbacStrategy
from pilothouse.machinery.names import dns_subdomain_errors, path_segment_errors

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class RoleBindingStrategy(RbacStrategy):
    """``rbac.authorization.k8s.io`` RoleBindings. ``roleRef`` is immutable."""

    allow_create_on_update = True
    kinds: tuple[str, ...] = ("Role", "ClusterRole")
    namespaced = True

    def set_defaults(self, obj: Object) -> None:
        reference = ensure_object(obj, "roleRef")
        if not reference.get("apiGroup"):
            reference["apiGroup"] = _GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = _GROUP

    def validate(self, obj: Object) -> ErrorList:
        reference = obj["roleRef"]
        errors: ErrorList = []
        if reference["apiGroup"] != _GROUP:
            errors.append(not_supported("roleRef.apiGroup", reference["apiGroup"], (_GROUP,), plain=True))
        if reference.get("kind") not in self.kinds:
            errors.append(not_supported("roleRef.kind", reference.get("kind") or "", self.kinds, plain=True))
        name = reference.get("name") or ""
        if not name:
            errors.append(required("roleRef.name"))
        else:
            errors += [invalid("roleRef.name", name, msg) for msg in path_segment_errors(name)]
        for position, subject in enumerate(obj.get("subjects") or ()):
            errors += self._validate_subject(subject, f"subjects[{position}]")
        return errors

    def _validate_subject(self, subject: Object, path: str) -> ErrorList:
        kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
        errors: ErrorList = []
        if not name:
            errors.append(required(f"{path}.name"))
        if kind == "ServiceAccount":
            if name:
                errors += [invalid(f"{path}.name", name, msg) for msg in dns_subdomain_errors(name)]
            if group:
                errors.append(not_supported(f"{path}.apiGroup", group, ("",), plain=True))
            if not self.namespaced and not subject.get("namespace"):
                errors.append(required(f"{path}.namespace"))
        elif kind in _SUBJECTS:
            if group != _GROUP:
                errors.append(not_supported(f"{path}.apiGroup", group, (_GROUP,), plain=True))
        else:
            errors.append(not_supported(f"{path}.kind", kind, _SUBJECTS, plain=True))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        if obj["roleRef"] == old["roleRef"]:
            return []
        return [invalid("roleRef", internal_value("rbac.RoleRef", obj["roleRef"]), "cannot change roleRef")]


REGISTRATION = Registration(
    RoleBindingStrategy(),
    printer=lambda: ROLE_BINDING,
)
