"""Log records of one object, converted to changes."""

import pytest

from pilothouse.why.evidence import Reference
from pilothouse.why.logs.changes import Write, build_timeline
from pilothouse.why.logs.lines import AUDIT, Record

POD = Reference("pods", "default", "stray")


def write(verb: str, at: int, *, subresource: str = "", version: int = 0) -> Write:
    """A write of the pod, this many microseconds after the first one."""
    code = 201 if verb == "create" else 200
    return Write(
        Record(
            source=AUDIT,
            time="2026-11-28T09:00:00.000000Z",
            at=1_000_000 + at,
            verb=verb,
            subresource=subresource,
            resource="pods",
            namespace="default",
            name="stray",
            version=version,
            code=code,
        )
    )


CREATED = write("create", 0, version=7)
BOUND_LATER = write("create", 300, subresource="binding")
DELETED = write("delete", 200)


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        pytest.param(
            [CREATED, DELETED, BOUND_LATER],
            [("create", ""), ("create", "binding"), ("delete", "")],
            id="a binding logged after the deletion, executed before",
        ),
        pytest.param(
            [CREATED, write("delete", 200, version=9), BOUND_LATER],
            [("create", ""), ("create", "binding"), ("delete", "")],
            id="the deletion has a resourceVersion",
        ),
        pytest.param(
            [CREATED, DELETED, BOUND_LATER, write("patch", 400, subresource="status")],
            [("create", ""), ("create", "binding"), ("patch", "status"), ("delete", "")],
            id="several late writes",
        ),
        pytest.param(
            [CREATED, DELETED, write("patch", 400)],
            [("create", ""), ("delete", ""), ("patch", "")],
            id="an update that removes the last finalizer",
        ),
    ],
)
def test_last_change_of_a_deleted_object_is_its_removal(writes: list[Write], expected: list[tuple[str, str]]) -> None:
    result = build_timeline(POD, writes, lambda at: (7, 1_000_000) if at > 1_000_000 else (6, 0), None)
    assert [(change.origin.verb, change.origin.subresource) for change in result.changes if change.origin] == expected
    assert [change.type for change in result.changes] == ["ADDED", *["MODIFIED"] * (len(writes) - 2), "DELETED"]
    revisions = [change.revision for change in result.changes]
    assert revisions == sorted(revisions)
    assert set(result.writes) == set(revisions)
