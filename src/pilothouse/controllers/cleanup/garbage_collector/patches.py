"""The garbage collector's patches. Pure.

Strategic merge patches include the object's uid, so that the patch is a conflict for a later object with the same name.
Custom resources do not support them (415): they get a JSON merge patch, which replaces the whole list and therefore
includes the resourceVersion (patch.go, v1.36).
"""

from collections.abc import Iterable

from pilothouse.api.meta import ObjectMeta, OwnerReference

Body = dict[str, object]


def remove_owners(uid: str, owner_uids: Iterable[str]) -> Body:
    """Strategic merge: take the references to these owners out."""
    references = [{"$patch": "delete", "uid": owner} for owner in owner_uids]
    return {"metadata": {"uid": uid, "ownerReferences": references}}


def unblock_owners(uid: str, references: Iterable[OwnerReference]) -> Body:
    """Strategic merge: no reference of the object blocks its owner any more. Only those that did are named."""
    blocking = [_unblocked(reference) for reference in references if reference.block_owner_deletion]
    return {"metadata": {"uid": uid, "ownerReferences": blocking}}


def remove_owners_whole(meta: ObjectMeta, owner_uids: Iterable[str]) -> Body:
    """JSON merge: the list as it is at ``meta``, without the references to these owners."""
    gone = frozenset(owner_uids)
    return _with_owners(meta, [_reference(ref) for ref in meta.owner_references if ref.uid not in gone])


def unblock_owners_whole(meta: ObjectMeta) -> Body:
    """JSON merge: the list as it is at ``meta``, all of it with ``blockOwnerDeletion: false``."""
    return _with_owners(meta, [_unblocked(ref) for ref in meta.owner_references])


def remove_finalizer(meta: ObjectMeta, finalizer: str) -> Body:
    """JSON merge: the finalizers at ``meta`` without this one."""
    rest = [name for name in meta.finalizers if name != finalizer]
    return {"metadata": {"resourceVersion": meta.resource_version, "finalizers": rest or None}}


def _with_owners(meta: ObjectMeta, references: list[Body]) -> Body:
    return {"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": references or None}}


def _reference(reference: OwnerReference) -> Body:
    body: Body = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller:
        body["controller"] = True
    if reference.block_owner_deletion:
        body["blockOwnerDeletion"] = True
    return body


def _unblocked(reference: OwnerReference) -> Body:
    return {**_reference(reference), "blockOwnerDeletion": False}
