"""Descriptions of changes."""

from typing import Any

from tests.tables import cases

from pilothouse.why.changes import (
    CONDITION,
    CREATED,
    DELETED,
    FAILED,
    METADATA,
    NOTHING,
    PHASE,
    SPEC,
    STATUS,
    summary,
)
from pilothouse.why.evidence import ObjectChange, Reference


def _change(type_: str, resource: str = "pods") -> ObjectChange:
    return ObjectChange(Reference(resource, "default", "web"), type_, 7)


def _object(*, metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", **(metadata or {})}, **fields}


MARKED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
JOB_FAILED = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]
EXITED = [{"name": "app", "state": {"terminated": {"exitCode": 3}}}]


@cases(
    "before, after, text, weight",
    {
        "the spec, and its status with it": (
            _object(spec={"replicas": 1}, status={"replicas": 1}),
            _object(spec={"replicas": 2}, status={"replicas": 2}),
            "changed: spec.replicas: 1 -> 2",
            SPEC,
        ),
        "more fields than shown": (
            _object(spec={}),
            _object(spec={"a": 1, "b": 1, "c": 1, "d": 1}),
            "changed: spec.a added (1); spec.b added (1); spec.c added (1) and 1 more fields",
            SPEC,
        ),
        "a mark for deletion": (
            _object(),
            _object(metadata=MARKED),
            "was marked for deletion with 30 seconds of grace",
            DELETED,
        ),
        "deletionTimestamp, one finalizer": (
            _object(metadata={"finalizers": ["a/b"]}),
            _object(metadata={**MARKED, "finalizers": ["a/b"]}),
            "was marked for deletion, and kept by its finalizer a/b",
            DELETED,
        ),
        "deletionTimestamp, two finalizers": (
            _object(metadata={"finalizers": ["a/b", "c/d"]}),
            _object(metadata={**MARKED, "finalizers": ["a/b", "c/d"]}),
            "was marked for deletion, and kept by its finalizers a/b, c/d",
            DELETED,
        ),
        "labels": (
            _object(),
            _object(metadata={"labels": {"a": "b"}}),
            'changed: metadata.labels added ({"a": "b"})',
            METADATA,
        ),
        "a phase": (
            _object(status={"phase": "Pending"}),
            _object(status={"phase": "Running"}),
            'changed: status.phase: "Pending" -> "Running"',
            PHASE,
        ),
        "a pod that failed": (
            _object(status={"phase": "Running"}),
            _object(status={"phase": "Failed", "containerStatuses": EXITED}),
            "failed: container app exited with 3",
            FAILED,
        ),
        "a Job that failed": (
            _object(status={}),
            _object(status={"conditions": JOB_FAILED}),
            "failed: BackoffLimitExceeded: too often",
            FAILED,
        ),
        "a condition": (
            _object(status={"conditions": [{"type": "Ready", "status": "False"}]}),
            _object(status={"conditions": [{"type": "Ready", "status": "True"}]}),
            'changed: status.conditions[type=Ready].status: "False" -> "True"',
            CONDITION,
        ),
        "status count": (
            _object(status={"replicas": 1}),
            _object(status={"replicas": 2}),
            "changed: status.replicas: 1 -> 2",
            STATUS,
        ),
        "a heartbeat": (
            _object(status={"conditions": [{"type": "Ready", "lastHeartbeatTime": "a"}]}),
            _object(status={"conditions": [{"type": "Ready", "lastHeartbeatTime": "b"}]}),
            "was written unchanged",
            NOTHING,
        ),
    },
)
def test_changes(before: dict[str, Any], after: dict[str, Any], text: str, weight: int) -> None:
    result = summary(_change("MODIFIED"), before, after)
    assert (result.text, result.weight) == (text, weight)


def test_creation_and_deletion() -> None:
    assert summary(_change("ADDED"), None, _object()).weight == CREATED
    assert summary(_change("DELETED"), _object(), _object()).text == "was deleted"
    assert summary(_change("DELETED"), _object(metadata=MARKED), None).text == (
        "was removed once its deletion was complete"
    )
    assert summary(_change("MODIFIED"), None, None).text == "was changed"


def test_secret_values_are_not_included() -> None:
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    before = _object(metadata={"annotations": {applied: "c2VjcmV0"}}, data={"password": "c2VjcmV0"})
    for after in (
        _object(data={"password": "b3RoZXI="}),
        _object(metadata={"annotations": {applied: "b3RoZXI="}}, data={"password": "c2VjcmV0"}),
        _object(),
    ):
        text = summary(_change("MODIFIED", "secrets"), before, after).text
        assert "c2VjcmV0" not in text
        assert "b3RoZXI=" not in text
