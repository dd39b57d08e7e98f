"""The garbage collector's patches. Pure.

Strategic merge patches include the object's uid, so that the patch is a conflict for a later object with the same name.
Custom resources do not support them (415): they get a JSON merge patch, which replaces the whole list and therefore
includes the resourceVersion (patch.go, v1.36).
"""

from collections.abc import Iterable

from pilothouse.api.meta import ObjectMeta, OwnerReference

Body = dict[str, object]


def delete_owner_refs_strategic_merge_patch(uid: str, owner_uids: Iterable[str]) -> Body:
    """Remove the references to these owners."""
    references = [{"$patch": "delete", "uid": owner} for owner in owner_uids]
    return {"metadata": {"uid": uid, "ownerReferences": references}}


def unblock_owner_references_strategic_merge_patch(uid: str, references: Iterable[OwnerReference]) -> Body:
    """Set ``blockOwnerDeletion`` to false in the references that have it."""
    blocking = [_unblocked(reference) for reference in references if reference.block_owner_deletion]
    return {"metadata": {"uid": uid, "ownerReferences": blocking}}


def delete_owner_refs_json_merge_patch(meta: ObjectMeta, owner_uids: Iterable[str]) -> Body:
    """The list of ``meta`` without the references to these owners."""
    removed = frozenset(owner_uids)
    return _with_owners(meta, [_reference(ref) for ref in meta.owner_references if ref.uid not in removed])


def unblock_owner_references_json_merge_patch(meta: ObjectMeta) -> Body:
    """The list of ``meta``, all with ``blockOwnerDeletion: false``."""
    return _with_owners(meta, [_unblocked(ref) for ref in meta.owner_references])


def remove_finalizer(meta: ObjectMeta, finalizer: str) -> Body:
    """JSON merge patch: the finalizers of ``meta`` without this one."""
    remaining = [name for name in meta.finalizers if name != finalizer]
    return {"metadata": {"resourceVersion": meta.resource_version, "finalizers": remaining or None}}


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
