"""Claims and volumes with their JSON, and the write that binds a volume to a claim: for the binder and the scheduler.
Pure."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import object_reference
from pilothouse.runtime.cache import Cached
from pilothouse.semantics.volumes import BOUND_BY_CONTROLLER, refers_to

T = TypeVar("T", bound=Cached)

YES = "yes"
_json = msgspec.json.Encoder().encode


class Decoded(msgspec.Struct, Generic[T], frozen=True):
    """An object, and its JSON, which is written back."""

    object: T
    raw: bytes


Volume = Decoded[PersistentVolume]
Claim = Decoded[PersistentVolumeClaim]


def decode_object(raw: bytes, view: type[T]) -> Decoded[T]:
    """The object of a response, without managedFields, which must not be written back."""
    if b'"managedFields"' in raw:
        raw = replace_fields(raw, {"metadata.managedFields": None})
    return Decoded(msgspec.json.decode(raw, type=view), raw)


def with_annotations(decoded: Decoded[Any], annotations: Mapping[str, str]) -> bytes:
    return replace_fields(decoded.raw, {"metadata.annotations": _json(annotations) if annotations else None})


def bound_volume(volume: Volume, claim: PersistentVolumeClaim) -> bytes | None:
    """The volume bound to the claim, or None if it is already. If it was not reserved for the claim, it gets the
    annotation ``bound-by-controller`` (``GetBindVolumeToClaim``, v1.36 component-helpers
    ``storage/volume/pv_helpers.go``)."""
    view, meta = volume.object, claim.metadata
    reference, annotations = view.spec.claim_ref, view.metadata.annotations
    changes: dict[str, bytes | None] = {}
    if reference is None or (reference.namespace, reference.name, reference.uid) != (
        meta.namespace,
        meta.name,
        meta.uid,
    ):
        changes["spec.claimRef"] = _json(object_reference(PERSISTENT_VOLUME_CLAIMS, meta))
    if not refers_to(view, claim) and BOUND_BY_CONTROLLER not in annotations:
        changes["metadata.annotations"] = _json({**annotations, BOUND_BY_CONTROLLER: YES})
    return replace_fields(volume.raw, changes) if changes else None
