"""What to do with an object, given its owners. Pure."""

import enum
from typing import TypeAlias

import msgspec

from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.cleanup.garbage_collector.graph import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Node


class OwnerState(enum.Enum):
    """State of the owner to which a reference refers (``classifyReferences``)."""

    SOLID = "it exists, and does not wait for its dependents"
    DANGLING = "it does not exist"
    WAITING = "it is being deleted in the foreground and waits for its dependents"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    finalizers: tuple[str, ...] = ()
    owners: tuple[tuple[OwnerReference, OwnerState], ...] = ()
    has_dependents: bool = False
    dependent_waits: bool = False
    """Some dependent is itself being deleted in the foreground: there may be a cycle."""


class Keep(msgspec.Struct, frozen=True):
    """Leave the object as it is."""


class RemoveOwners(msgspec.Struct, frozen=True):
    """Remove these references; the object stays because of another owner."""

    uids: tuple[str, ...]


class Delete(msgspec.Struct, frozen=True):
    """Delete the object. ``unblock``: first clear ``blockOwnerDeletion`` in its references."""

    propagation_policy: str
    unblock: bool = False


Decision: TypeAlias = Keep | RemoveOwners | Delete


def decide(observed: Observed) -> Decision:
    """Keep an object with an existing owner; delete others with the propagation policy that results from their owners
    and finalizers."""
    by_state = {
        state: tuple(ref.uid for ref, state_of_owner in observed.owners if state_of_owner is state)
        for state in (OwnerState.SOLID, OwnerState.DANGLING, OwnerState.WAITING)
    }
    dangling, waiting = by_state[OwnerState.DANGLING], by_state[OwnerState.WAITING]
    if not observed.owners:
        return Keep()
    if by_state[OwnerState.SOLID]:
        # References to waiting owners are removed, too: otherwise those owners would wait forever for an object that
        # stays.
        return RemoveOwners(dangling + waiting) if dangling or waiting else Keep()
    if waiting and observed.has_dependents:
        # The owner waits for this object, so this object must wait for its own dependents. If one of them is also
        # waiting there may be a cycle (there may be false positives): unblock the references, and delete in the
        # background.
        return Delete("Foreground", unblock=observed.dependent_waits)
    if ORPHAN_FINALIZER in observed.finalizers:
        return Delete("Orphan")
    if FOREGROUND_FINALIZER in observed.finalizers:
        return Delete("Foreground")
    return Delete("Background")


def classify_reference(owner: ObjectMeta | None, reference: OwnerReference) -> OwnerState:
    if owner is None or owner.uid != reference.uid:
        return OwnerState.DANGLING
    if owner.deletion_timestamp is not None and FOREGROUND_FINALIZER in owner.finalizers:
        return OwnerState.WAITING
    return OwnerState.SOLID


class RemoveForegroundFinalizer(msgspec.Struct, frozen=True):
    """No dependent blocks the owner any more: remove its foreground finalizer."""


class SyncDependents(msgspec.Struct, frozen=True):
    """These dependents still block the owner and must be synced. Empty: they are being deleted already.

    ``unblock``: the owner must stop blocking its own owners, because of a cycle.
    """

    nodes: tuple[Node, ...]
    unblock: bool = False


def decide_foreground(owner: Node, *, is_in_cycle: bool = False) -> RemoveForegroundFinalizer | SyncDependents:
    """The dependents for which an owner in foreground deletion waits.

    Dependents that do not block are deleted, too, but not waited for.
    """
    blocking = owner.blocking_dependents()
    if not blocking:
        return RemoveForegroundFinalizer()
    # Dependents in foreground deletion are not processed; if one of them waits for this owner, nothing else would end
    # that.
    return SyncDependents(tuple(node for node in blocking if not node.deleting_dependents), unblock=is_in_cycle)
