"""What an object asks for, by its deletion and its finalizer (v1.36 ``protectionutil``)."""

import datetime

from tests.tables import cases

from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.in_use_protection import Due, what_is_due

OURS, OTHER = "kubernetes.io/pvc-protection", "example.com/hold"
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@cases(
    "going, finalizers, expected",
    {
        "lives without": (False, (), Due.PROTECT),
        "lives with another's only": (False, (OTHER,), Due.PROTECT),
        "lives and is protected": (False, (OTHER, OURS), Due.NOTHING),
        "is being deleted": (True, (OURS,), Due.LET_GO),
        "is being deleted, and others hold it, too": (True, (OURS, OTHER), Due.LET_GO),
        "is being deleted, and only others hold it": (True, (OTHER,), Due.NOTHING),
    },
)
def test_what_is_due(going: bool, finalizers: tuple[str, ...], expected: Due) -> None:
    meta = ObjectMeta(name="c", finalizers=finalizers, deletion_timestamp=NOW if going else None)
    assert what_is_due(meta, OURS) is expected
