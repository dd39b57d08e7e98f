"""Decisions about an object by the state of its owners."""

from tests.controllers.garbage_collector.histories import History, identity, meta, reference
from tests.tables import cases

from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.cleanup.garbage_collector.decide import (
    Decision,
    Delete,
    Keep,
    Observed,
    OwnerState,
    RemoveForegroundFinalizer,
    RemoveOwners,
    SyncDependents,
    classify_reference,
    decide,
    decide_foreground,
)

SOLID, DANGLING, WAITING = OwnerState.SOLID, OwnerState.DANGLING, OwnerState.WAITING
OWNER = identity("v1/ConfigMap ns1/owner=owner")


def owners(*standings: OwnerState) -> tuple[tuple[OwnerReference, OwnerState], ...]:
    return tuple((OwnerReference(uid=f"u{i}"), standing) for i, standing in enumerate(standings))


@cases(
    "state, expected",
    {
        "no owners": (Observed(), Keep()),
        "solid owner": (Observed(owners=owners(SOLID)), Keep()),
        "solid owners": (Observed(owners=owners(SOLID, SOLID)), Keep()),
        "solid and dangling owner: the dangling reference is removed": (
            Observed(owners=owners(SOLID, DANGLING)),
            RemoveOwners(("u1",)),
        ),
        "waiting and dangling owners with a solid one: both references are removed": (
            Observed(owners=owners(WAITING, SOLID, DANGLING)),
            RemoveOwners(("u2", "u0")),
        ),
        "dangling owners: delete": (Observed(owners=owners(DANGLING)), Delete("Background")),
        "dangling owners, orphan finalizer": (
            Observed(owners=owners(DANGLING), finalizers=("orphan",)),
            Delete("Orphan"),
        ),
        "dangling owners, foregroundDeletion finalizer": (
            Observed(owners=owners(DANGLING), finalizers=("foregroundDeletion",)),
            Delete("Foreground"),
        ),
        "orphan precedes foreground": (
            Observed(owners=owners(DANGLING), finalizers=("foregroundDeletion", "orphan")),
            Delete("Orphan"),
        ),
        "the owner waits, no dependents block: delete": (Observed(owners=owners(WAITING)), Delete("Background")),
        "waiting owner, with dependents: foreground": (
            Observed(owners=owners(WAITING), has_dependents=True),
            Delete("Foreground"),
        ),
        "perhaps a circle of waiting: stop blocking": (
            Observed(owners=owners(WAITING, DANGLING), has_dependents=True, dependent_waits=True),
            Delete("Foreground", unblock=True),
        ),
        "no waiting owner: background": (
            Observed(owners=owners(DANGLING), has_dependents=True, dependent_waits=True),
            Delete("Background"),
        ),
    },
)
def test_decide(state: Observed, expected: Decision) -> None:
    assert decide(state) == expected


@cases(
    "references, expected",
    {
        "missing": (None, DANGLING),
        "different uid": (meta(identity("v1/ConfigMap ns1/owner=reborn")), DANGLING),
        "existing": (meta(OWNER), SOLID),
        "background deletion": (meta(OWNER, deleting=True), SOLID),
        "foregroundDeletion finalizer without deletionTimestamp": (
            meta(OWNER, finalizers=("foregroundDeletion",)),
            SOLID,
        ),
        "being deleted in the foreground": (meta(OWNER, deleting=True, finalizers=("foregroundDeletion",)), WAITING),
    },
)
def test_classify_references(references: object, expected: OwnerState) -> None:
    assert classify_reference(references, reference(OWNER)) is expected  # type: ignore[arg-type]


def test_foreground_owner_is_deleted_without_blocking_dependents() -> None:
    """Dependents that do not block, and those that wait themselves, are not deleted."""
    history = History()
    history.show(OWNER)
    free, busy, waiting = (identity(f"v1/ConfigMap ns1/{name}={name}") for name in ("free", "busy", "waiting"))
    history.show(free, OWNER)
    owner = history.graph.get("owner")
    assert owner is not None
    assert decide_foreground(owner) == RemoveForegroundFinalizer()
    history.show(busy, reference(OWNER, blocking=True))
    history.show(waiting, reference(OWNER, blocking=True), deleting=True, finalizers=("foregroundDeletion",))
    pressed = decide_foreground(owner)
    assert isinstance(pressed, SyncDependents)
    assert [node.name for node in pressed.nodes] == ["busy"]
    assert decide_foreground(owner, is_in_cycle=True) == SyncDependents(pressed.nodes, unblock=True)
    history.gone(busy)
    assert decide_foreground(owner) == SyncDependents(()), "only wait"
