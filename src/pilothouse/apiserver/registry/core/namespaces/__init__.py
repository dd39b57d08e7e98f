"""Namespaces. After kubernetes' ``pkg/registry/core/namespace`` (v1.36)."""

from typing import Literal

from pilothouse.apiserver.field_errors import ErrorList, FieldError, invalid, of_named_type
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.object_meta import validate_finalizer_name
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, fields_of
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.names import dns_label_errors

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """Namespaces: every write sets the label with the name; ``spec.finalizers`` delay the deletion."""

    checks_delete_preconditions = True
    return_deleted_object = True
    selectable = {"status.phase": ("status", "phase")}  # read only
    selectable_namespace = False
    validate_name = staticmethod(dns_label_errors)
    update_steps = ("object meta", "object meta update")  # the spec stays as it was
    # pkg/registry/core/namespace/storage, shouldHaveDeleteDependentsFinalizer (v1.36)
    non_orphan_policy = "Foreground"

    def set_defaults(self, obj: Object) -> None:
        meta = obj["metadata"]
        if meta.get("name"):
            meta["labels"] = {**(meta.get("labels") or {}), NAME_LABEL: meta["name"]}
        status = ensure_object(obj, "status")
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_for_create(self, obj: Object, now: str) -> None:
        spec = obj.setdefault("spec", {})
        finalizers = list(spec.get("finalizers") or ())
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        spec["finalizers"] = finalizers
        obj["status"] = {"phase": "Active"}
        self.set_defaults(obj)

    def validate(self, obj: Object) -> ErrorList:
        # Upstream's path has no index.
        all_errors = validate_finalizer_name(obj["spec"]["finalizers"], "")
        return [FieldError("spec.finalizers", error.reason, error.text) for error in all_errors]

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = dict(old.get("spec") or {})

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        phase = (obj.get("status") or {}).get("phase") or ""
        deleting = bool(obj["metadata"].get("deletionTimestamp"))
        if deleting and phase != "Terminating":
            return [
                invalid(
                    "status.Phase",
                    of_named_type(phase),
                    "may only be 'Terminating' if `deletionTimestamp` is not empty",
                )
            ]
        if not deleting and phase != "Active":
            return [
                invalid("status.Phase", of_named_type(phase), "may only be 'Active' if `deletionTimestamp` is empty")
            ]
        return []

    def before_delete(self, obj: Object, now: str) -> Literal["", "mark", "wait"]:
        if not obj["metadata"].get("deletionTimestamp"):
            obj["metadata"]["deletionTimestamp"] = now
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            return "mark"
        return "wait" if obj.get("spec", {}).get("finalizers") else ""

    def should_delete_during_update(self, obj: Object) -> bool:
        return not obj.get("spec", {}).get("finalizers")

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"


REGISTRATION = Registration(
    NamespaceStrategy(),
    printer=lambda: Printer((NAME, *columns("Status"), AGE), fields_of("status.phase")),
)
