"""VolumeAttachments."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import validate_immutable_fields
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    Column,
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
    from pilothouse.apiserver.registry.storage.volumeattachments import validation as volume_attachment_validation


class VolumeAttachmentStrategy(Strategy):
    """``storage.k8s.io`` VolumeAttachments. The spec is immutable."""

    allow_unconditional_update = False
    return_deleted_object = True
    kept_on_status_update = "user metadata"
    update_steps = ("object meta", "object", "update")
    status_steps = ("object meta", "object")

    def canonicalize(self, obj: Object) -> None:
        obj["status"] = {"attached": False, **(obj.get("status") or {})}

    def validate(self, obj: Object) -> ErrorList:
        return volume_attachment_validation.validate_volume_attachment(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj, old, "", {"spec": "storage.VolumeAttachmentSpec"})


def print_volume_attachment(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    volume = nested_field(spec, "source", "persistentVolumeName") or ""
    attached = bool(nested_field(value, "status", "attached"))
    return [spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached]


REGISTRATION = Registration(
    VolumeAttachmentStrategy(),
    printer=lambda: Printer(
        (
            NAME,
            Column("Attacher", "string", "name"),
            *columns("PV", "Node"),
            *columns("Attached", type_="boolean"),
            AGE,
        ),
        print_volume_attachment,
    ),
)
