"""What an object asks for, by its deletion and its finalizer (v1.36 ``protectionutil``)."""

import datetime

import pytest

from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.in_use_protection import Due, what_is_due

OURS, OTHER = "kubernetes.io/pvc-protection", "example.com/hold"
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("going", "finalizers", "expected"),
    [
        pytest.param(False, (), Due.PROTECT, id="lives without"),
        pytest.param(False, (OTHER,), Due.PROTECT, id="lives with another's only"),
        pytest.param(False, (OTHER, OURS), Due.NOTHING, id="lives and is protected"),
        pytest.param(True, (OURS,), Due.LET_GO, id="is being deleted"),
        pytest.param(True, (OURS, OTHER), Due.LET_GO, id="is being deleted, and others hold it, too"),
        pytest.param(True, (OTHER,), Due.NOTHING, id="is being deleted, and only others hold it"),
    ],
)
def test_what_is_due(going: bool, finalizers: tuple[str, ...], expected: Due) -> None:
    meta = ObjectMeta(name="c", finalizers=finalizers, deletion_timestamp=NOW if going else None)
    assert what_is_due(meta, OURS) is expected
