"""Owner references: who controls an object, and how a new owner is written down."""

from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, OwnerReference


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner that has ``controller`` set, if any."""
    for owner in meta.owner_references:
        if owner.controller:
            return owner
    return None


def is_controlled_by(meta: ObjectMeta, uid: str) -> bool:
    """Whether the controlling owner is the one with ``uid``."""
    owner = controller_of(meta)
    return owner is not None and owner.uid == uid


def new_controller_reference(owner: ObjectMeta, kind: Kind[Any]) -> OwnerReference:
    """The reference that makes ``owner`` the controller and holds up its foreground deletion."""
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=owner.name,
        uid=owner.uid,
        controller=True,
        block_owner_deletion=True,
    )
