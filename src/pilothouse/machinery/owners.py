"""Owner references: the controller of an object, and new references."""

from typing import Any

from pilothouse.api.core import ObjectReference
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, OwnerReference


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner that controls an object (``metav1.GetControllerOf``), None if there is none."""
    for owner in meta.owner_references:
        if owner.controller:
            return owner
    return None


def is_controlled_by(meta: ObjectMeta, uid: str) -> bool:
    """Whether the object with this uid is its controller (``metav1.IsControlledBy``)."""
    owner = controller_of(meta)
    return owner is not None and owner.uid == uid


def new_controller_reference(owner: ObjectMeta, kind: Kind[Any]) -> OwnerReference:
    """A reference with ``controller`` and ``blockOwnerDeletion``, for ``ownerReferences`` of a request body."""
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=owner.name,
        uid=owner.uid,
        controller=True,
        block_owner_deletion=True,
    )


def object_reference(kind: Kind[Any], meta: ObjectMeta, *, field_path: str = "") -> ObjectReference:
    """A reference to this version of an object (client-go ``tools/reference``), as in events."""
    return ObjectReference(
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        field_path=field_path,
    )
