"""When the protection finalizer is added or removed (v1.36 ``protectionutil``)."""

import datetime

from tests.tables import cases

from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.in_use_protection import FinalizerAction, finalizer_action

OURS, OTHER = "kubernetes.io/pvc-protection", "example.com/hold"
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@cases(
    "going, finalizers, expected",
    {
        "lives without": (False, (), FinalizerAction.ADD),
        "lives with another's only": (False, (OTHER,), FinalizerAction.ADD),
        "lives and is protected": (False, (OTHER, OURS), FinalizerAction.NOTHING),
        "is being deleted": (True, (OURS,), FinalizerAction.REMOVE),
        "terminating, with other finalizers": (True, (OURS, OTHER), FinalizerAction.REMOVE),
        "terminating, only other finalizers": (True, (OTHER,), FinalizerAction.NOTHING),
    },
)
def test_needs_finalizer_added_or_removed(going: bool, finalizers: tuple[str, ...], expected: FinalizerAction) -> None:
    meta = ObjectMeta(name="c", finalizers=finalizers, deletion_timestamp=NOW if going else None)
    assert finalizer_action(meta, OURS) is expected
