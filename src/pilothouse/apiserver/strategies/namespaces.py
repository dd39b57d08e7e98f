"""Namespaces: spec.finalizers keep them until their content is gone.

After kubernetes' ``pkg/registry/core/namespace`` (v1.36).
"""

from typing import Literal

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.metadata import finalizer_name_problems
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child
from pilothouse.machinery.names import dns_label_errors

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    """The label with the name is there after every write, whatever the client sent."""

    selectable = {"status.phase": ("status", "phase")}  # read only
    selectable_namespace = False
    name_problems = staticmethod(dns_label_errors)
    # pkg/registry/core/namespace/storage, shouldHaveDeleteDependentsFinalizer (v1.36)
    unorphaned = "Foreground"

    def default(self, obj: Object) -> None:
        meta = obj["metadata"]
        if meta.get("name"):
            meta["labels"] = {**(meta.get("labels") or {}), NAME_LABEL: meta["name"]}
        status = child(obj, "status")
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_create(self, obj: Object, now: str) -> None:
        spec = obj.setdefault("spec", {})
        finalizers = list(spec.get("finalizers") or ())
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        spec["finalizers"] = finalizers
        obj["status"] = {"phase": "Active"}
        self.default(obj)

    def validate(self, obj: Object) -> list[FieldError]:
        # Upstream leaves out which of them it is.
        problems = finalizer_name_problems(obj["spec"]["finalizers"], "")
        return [FieldError("spec.finalizers", problem.reason, problem.text) for problem in problems]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return []

    def prepare_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = dict(old.get("spec") or {})

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        phase = (obj.get("status") or {}).get("phase") or ""
        deleting = bool(obj["metadata"].get("deletionTimestamp"))
        if deleting and phase != "Terminating":
            return [
                errors.invalid_value(
                    "status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"
                )
            ]
        if not deleting and phase != "Active":
            return [errors.invalid_value("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        return []

    def begin_delete(self, obj: Object, now: str) -> Literal["", "mark", "wait"]:
        if not obj["metadata"].get("deletionTimestamp"):
            obj["metadata"]["deletionTimestamp"] = now
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            return "mark"
        return "wait" if obj.get("spec", {}).get("finalizers") else ""

    def may_go(self, obj: Object) -> bool:
        return not obj.get("spec", {}).get("finalizers")

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"
