"""What happens to an object, given how it stands with its owners."""

import pytest
from tests.controllers.garbage_collector.histories import History, identity, meta, reference

from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.cleanup.garbage_collector.decide import (
    Decision,
    Delete,
    Keep,
    Observed,
    PressDependents,
    ReleaseOwner,
    RemoveOwners,
    Standing,
    decide,
    decide_foreground,
    standing_of,
)

SOLID, DANGLING, WAITING = Standing.SOLID, Standing.DANGLING, Standing.WAITING
OWNER = identity("v1/ConfigMap ns1/owner=owner")


def owners(*standings: Standing) -> tuple[tuple[OwnerReference, Standing], ...]:
    return tuple((OwnerReference(uid=f"u{i}"), standing) for i, standing in enumerate(standings))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(Observed(), Keep(), id="no owners: nobody's business"),
        pytest.param(Observed(owners=owners(SOLID)), Keep(), id="a solid owner: keep"),
        pytest.param(Observed(owners=owners(SOLID, SOLID)), Keep(), id="solid owners: keep"),
        pytest.param(
            Observed(owners=owners(SOLID, DANGLING)), RemoveOwners(("u1",)), id="one owner is left: drop the other"
        ),
        pytest.param(
            Observed(owners=owners(WAITING, SOLID, DANGLING)),
            RemoveOwners(("u2", "u0")),
            id="one owner is left: those that wait must not wait for this one; dangling ones are named first",
        ),
        pytest.param(Observed(owners=owners(DANGLING)), Delete("Background"), id="no owner is left: delete"),
        pytest.param(
            Observed(owners=owners(DANGLING), finalizers=("orphan",)),
            Delete("Orphan"),
            id="no owner is left, but its dependents are to be orphaned",
        ),
        pytest.param(
            Observed(owners=owners(DANGLING), finalizers=("foregroundDeletion",)),
            Delete("Foreground"),
            id="no owner is left, and it was to be deleted in the foreground",
        ),
        pytest.param(
            Observed(owners=owners(DANGLING), finalizers=("foregroundDeletion", "orphan")),
            Delete("Orphan"),
            id="orphaning goes before foreground",
        ),
        pytest.param(
            Observed(owners=owners(WAITING)), Delete("Background"), id="the owner waits, nobody waits for this: delete"
        ),
        pytest.param(
            Observed(owners=owners(WAITING), has_dependents=True),
            Delete("Foreground"),
            id="the owner waits, and so must this for its own dependents",
        ),
        pytest.param(
            Observed(owners=owners(WAITING, DANGLING), has_dependents=True, dependent_waits=True),
            Delete("Foreground", unblock=True),
            id="perhaps a circle of waiting: stop blocking",
        ),
        pytest.param(
            Observed(owners=owners(DANGLING), has_dependents=True, dependent_waits=True),
            Delete("Background"),
            id="without a waiting owner there is no circle",
        ),
    ],
)
def test_decide(seen: Observed, expected: Decision) -> None:
    assert decide(seen) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(None, DANGLING, id="nothing there"),
        pytest.param(meta(identity("v1/ConfigMap ns1/owner=reborn")), DANGLING, id="another object of the same name"),
        pytest.param(meta(OWNER), SOLID, id="there"),
        pytest.param(meta(OWNER, deleting=True), SOLID, id="being deleted in the background: there until it is gone"),
        pytest.param(meta(OWNER, finalizers=("foregroundDeletion",)), SOLID, id="a finalizer alone means nothing"),
        pytest.param(
            meta(OWNER, deleting=True, finalizers=("foregroundDeletion",)),
            WAITING,
            id="being deleted in the foreground",
        ),
    ],
)
def test_standing(found: object, expected: Standing) -> None:
    assert standing_of(found, reference(OWNER)) is expected  # type: ignore[arg-type]


def test_a_foreground_owner_goes_once_nobody_blocks_it() -> None:
    """Those that do not block, and those that wait themselves, are not pressed."""
    history = History()
    history.show(OWNER)
    free, busy, waiting = (identity(f"v1/ConfigMap ns1/{name}={name}") for name in ("free", "busy", "waiting"))
    history.show(free, OWNER)
    owner = history.graph.get("owner")
    assert owner is not None
    assert decide_foreground(owner) == ReleaseOwner()
    history.show(busy, reference(OWNER, blocking=True))
    history.show(waiting, reference(OWNER, blocking=True), deleting=True, finalizers=("foregroundDeletion",))
    pressed = decide_foreground(owner)
    assert isinstance(pressed, PressDependents)
    assert [node.name for node in pressed.nodes] == ["busy"]
    assert decide_foreground(owner, waits_in_circle=True) == PressDependents(pressed.nodes, unblock=True)
    history.gone(busy)
    assert decide_foreground(owner) == PressDependents(()), "only wait"
