"""CustomResourceDefinitions: defaults and validation.

After apiextensions-apiserver's ``pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`` and
``pkg/registry/customresourcedefinition`` (v0.36). Schemas are validated in ``apiextensions.structural``.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from pilothouse.apiserver.conditions import set_condition
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import set_default_fields
from pilothouse.apiserver.registry.generic.printers import NAME_AND_CREATION
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_subdomain_errors

with lazy_imports():
    from pilothouse.apiserver.registry.apiextensions.customresourcedefinitions import (
        unions as custom_resource_definition_unions,
    )
    from pilothouse.apiserver.registry.apiextensions.customresourcedefinitions import (
        validation as custom_resource_definition_validation,
    )
    from pilothouse.apiserver.registry.apiextensions.customresourcedefinitions import (
        warnings as custom_resource_definition_warnings,
    )


FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_INVALID_NAME = 'must be spec.names.plural+"."+spec.group'
_DELETION_PENDING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


class CustomResourceDefinitionStrategy(Strategy):
    """``apiextensions.k8s.io/v1`` CustomResourceDefinitions."""

    checks_delete_preconditions = True
    allow_unconditional_update = False
    return_deleted_object = True
    generation_fields = ("spec",)
    increments_generation_on_delete = False
    kube_finalizers = False
    update_steps = ("object meta update", "update")

    def name_errors(self, obj: Object) -> Callable[[str], list[str]]:
        required_name = f"{obj['spec']['names'].get('plural') or ''}.{obj['spec'].get('group') or ''}"

        def name_errors(name: str) -> list[str]:
            return dns_subdomain_errors(name) + ([] if name == required_name else [_INVALID_NAME])

        return name_errors

    def decode_unions(self, obj: Object) -> None:
        custom_resource_definition_unions.decode_unions(obj)

    def set_defaults(self, obj: Object) -> None:
        set_defaults_custom_resource_definition(obj)

    def prepare_for_create(self, obj: Object, now: str) -> None:
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_version(obj["spec"]),
        }

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        status: Object = {**(old.get("status") or {})}
        stored = list(status.get("storedVersions") or ())
        stored += [name for name in _storage_version(obj["spec"]) if name not in stored]
        status["storedVersions"] = stored
        obj["status"] = status

    def canonicalize(self, obj: Object) -> None:
        status: Object = obj.setdefault("status", {})
        status.setdefault("conditions", None)
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})

    def before_delete(self, obj: Object, now: str) -> Literal["", "mark only"]:
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            return ""
        meta["deletionTimestamp"] = now
        if FINALIZER not in (meta.get("finalizers") or ()):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), FINALIZER]
        status = obj["status"] = {**(obj.get("status") or {})}
        set_condition(status, now, "Terminating", True, "InstanceDeletionPending", _DELETION_PENDING)
        return "mark only"

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return custom_resource_definition_warnings.warnings_for_formats(obj)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return custom_resource_definition_warnings.warnings_for_formats(obj, old)

    def validate(self, obj: Object) -> ErrorList:
        return custom_resource_definition_validation.validate_custom_resource_definition(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return custom_resource_definition_validation.validate_custom_resource_definition_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return custom_resource_definition_validation.validate_names(
            (obj.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames"
        )


def set_defaults_custom_resource_definition(obj: Object) -> None:
    spec: Object = obj.setdefault("spec", {})
    names: Object = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = kind + "List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        set_default_fields(service, {"port": 443})
    for version in spec.get("versions") or ():
        version.setdefault("served", False)
        version.setdefault("storage", False)
    status: Object = obj.get("status") or {}
    obj["status"] = {**status, "storedVersions": status.get("storedVersions") or _storage_version(spec)}


def _storage_version(spec: Object) -> list[str]:
    return [version.get("name") or "" for version in spec.get("versions") or () if version.get("storage")][:1]


REGISTRATION = Registration(
    CustomResourceDefinitionStrategy(),
    printer=lambda: NAME_AND_CREATION,
    etcd_prefix="apiextensions.k8s.io/customresourcedefinitions",
)
