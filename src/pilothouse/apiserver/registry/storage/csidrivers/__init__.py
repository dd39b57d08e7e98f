"""CSIDrivers."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.storage.csidrivers import validation as csi_driver_validation

_GATED_FIELD = "preventPodSchedulingIfMissing"
"""The field of the gate VolumeLimitScaling, which is off."""


_TOKENS_IN_SECRETS_RECOMMENDED = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


class CSIDriverStrategy(Strategy):
    """``storage.k8s.io`` CSIDrivers."""

    allow_unconditional_update = False
    return_deleted_object = True
    generation_fields = ("spec",)
    generation_on_create = False

    def set_defaults(self, obj: Object) -> None:
        set_defaults_csi_driver(obj)

    def prepare_for_create(self, obj: Object, now: str) -> None:
        obj["spec"].pop(_GATED_FIELD, None)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        if old["spec"].get(_GATED_FIELD) is None:
            obj["spec"].pop(_GATED_FIELD, None)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        if obj["spec"].get("tokenRequests") and obj["spec"].get("serviceAccountTokenInSecrets") is None:
            yield _TOKENS_IN_SECRETS_RECOMMENDED

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        is_changed = obj["spec"].get("tokenRequests") != old["spec"].get("tokenRequests")
        return self.warnings_on_create(obj) if is_changed else ()

    def validate(self, obj: Object) -> ErrorList:
        return csi_driver_validation.validate_csi_driver(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return csi_driver_validation.validate_csi_driver_update(obj, old)


def set_defaults_csi_driver(obj: Object) -> None:
    set_default_fields(
        ensure_object(obj, "spec"),
        {
            "attachRequired": True,
            "podInfoOnMount": False,
            "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "volumeLifecycleModes": ["Persistent"],
            "requiresRepublish": False,
            "seLinuxMount": False,
        },
    )


def print_csi_driver(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    audiences = ",".join(r.get("audience", "") for r in spec.get("tokenRequests") or ())
    attach_required = spec.get("attachRequired")
    return [
        True if attach_required is None else attach_required,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        audiences or UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
    ]


REGISTRATION = Registration(
    CSIDriverStrategy(),
    printer=lambda: Printer(
        (
            NAME,
            *columns("AttachRequired", "PodInfoOnMount", "StorageCapacity", type_="boolean"),
            *columns("TokenRequests"),
            *columns("RequiresRepublish", type_="boolean"),
            *columns("Modes"),
            AGE,
        ),
        print_csi_driver,
    ),
)
