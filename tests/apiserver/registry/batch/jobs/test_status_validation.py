"""Validation of Job statuses (kubernetes ``pkg/registry/batch/job/strategy_test.go``, v1.36)."""

from typing import Any

import pytest
from tests.apiserver.api import Api, Object
from tests.tables import cases

from pilothouse.apiserver.registry.batch.jobs.status_validation import validate_job_status

JOBS = "/apis/batch/v1/namespaces/default/jobs"
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
INDEXED: Object = {"completionMode": "Indexed", "completions": 5}
PER_INDEX = {**INDEXED, "backoffLimitPerIndex": 1}
SUCCESS = {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
C = "status.conditions"
END = "status.completionTime"
START = "status.startTime"


def _status(*names: str, **fields: Any) -> Object:
    """A status with these conditions; those that begin with "-" are false."""
    conditions = [
        {"type": name.removeprefix("-"), "status": "False" if name.startswith("-") else "True"} for name in names
    ]
    return {**({"conditions": conditions} if conditions else {}), **fields}


COMPLETE = _status("SuccessCriteriaMet", "Complete", startTime=NOW, completionTime=LATER)
FAILED = _status("FailureTarget", "Failed", startTime=NOW)


def _errors(spec: Object, old_status: Object, status: Object) -> list[str]:
    managed_spec = {**spec, "managedBy": "example.com/jobs"}
    return [f"{error.field}: {error.text}" for error in validate_job_status(managed_spec, status, old_status)]


@pytest.mark.parametrize("manager", [None, "kubernetes.io/job-controller"])
def test_statuses_of_managers_before_1_31_are_accepted(manager: str | None) -> None:
    """A manager before v1.31 does not set SuccessCriteriaMet, and resets startTime if its cache is stale."""
    spec = {} if manager is None else {"managedBy": manager}
    status = _status("Complete", startTime=LATER, completionTime=LATER, succeeded=1)
    assert validate_job_status(spec, status, {"startTime": NOW, "succeeded": 2}) == []
    assert [error.field for error in validate_job_status(spec, {"failed": -1}, {})] == ["status.failed"]


@cases(
    "spec, old_status, status",
    {
        "start": ({}, {}, {"startTime": NOW, "active": 1, "ready": 1, "terminating": 0}),
        "a pod succeeded": ({}, {"startTime": NOW, "active": 1}, {"startTime": NOW, "succeeded": 1}),
        "completion": ({}, _status("SuccessCriteriaMet", startTime=NOW), COMPLETE),
        "failure": ({}, _status("FailureTarget", startTime=NOW, active=1), FAILED),
        "suspension resets startTime": ({"suspend": True}, {"startTime": NOW, "active": 2}, _status("Suspended")),
        "resumption sets a new startTime": (
            {},
            _status("Suspended", startTime=NOW),
            _status("-Suspended", startTime=LATER),
        ),
        "suspended Job with completions 0 has no startTime": (
            {"suspend": True, "completions": 0},
            {},
            _status("SuccessCriteriaMet", "Complete", completionTime=NOW),
        ),
        "SuccessCriteriaMet without success policy": ({}, {}, _status("SuccessCriteriaMet")),
        "unchanged invalid completionTime": ({}, {"completionTime": NOW}, {"completionTime": NOW, "active": 1}),
        "unchanged invalid completedIndexes": (
            INDEXED,
            {"completedIndexes": "x"},
            {"completedIndexes": "x", "active": 1},
        ),
        "unchanged overlapping indexes": (
            PER_INDEX,
            {"failedIndexes": "0,2", "completedIndexes": "2-4"},
            {"failedIndexes": "0,2", "completedIndexes": "2-4", "active": 1},
        ),
        "unchanged ready count above active": (
            {"completions": 5},
            {"active": 1, "ready": 2},
            {"active": 1, "ready": 2, "succeeded": 1},
        ),
        "succeeded of an elastic Job decreases": ({**INDEXED, "parallelism": 5}, {"succeeded": 3}, {"succeeded": 1}),
    },
)
def test_accepted_job_statuses(spec: Object, old_status: Object, status: Object) -> None:
    assert _errors(spec, old_status, status) == []


NEGATIVE = "must be greater than or equal to 0"


@cases(
    "spec, old_status, status, errors",
    {
        "negative counts": (
            {},
            {},
            {"active": -1, "succeeded": -2, "failed": -3, "ready": -4, "terminating": -5},
            [
                f"status.active: Invalid value: -1: {NEGATIVE}",
                f"status.succeeded: Invalid value: -2: {NEGATIVE}",
                f"status.failed: Invalid value: -3: {NEGATIVE}",
                f"status.ready: Invalid value: -4: {NEGATIVE}",
                f"status.terminating: Invalid value: -5: {NEGATIVE}",
                "status.failed: Invalid value: -3: cannot decrease the failed counter",
                "status.succeeded: Invalid value: -2: cannot decrease the succeeded counter",
            ],
        ),
        "duplicate and empty uncounted pods": (
            {},
            {},
            {"uncountedTerminatedPods": {"succeeded": ["a", "b", "a"], "failed": ["", "b"]}},
            [
                'status.uncountedTerminatedPods.succeeded[2]: Duplicate value: "a"',
                'status.uncountedTerminatedPods.failed[0]: Invalid value: "": must not be empty',
                'status.uncountedTerminatedPods.failed[1]: Duplicate value: "b"',
            ],
        ),
        "Complete and Failed": (
            {},
            {},
            _status("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed", startTime=NOW, completionTime=NOW),
            [
                f"{C}: Invalid value: cannot set Complete=True and Failed=true conditions",
                f"{C}: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
                f"{C}: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
                f"{C}: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            ],
        ),
        "Complete and FailureTarget": (
            {},
            {},
            _status("Complete", "FailureTarget", startTime=NOW, completionTime=NOW),
            [
                f"{C}: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
                f"{C}: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ],
        ),
        "completionTime requires Complete": (
            {},
            {},
            {"completionTime": NOW},
            [f'{END}: Invalid value: "{NOW}": cannot set completionTime when there is no Complete=True condition'],
        ),
        "Complete requires completionTime": (
            {},
            _status("SuccessCriteriaMet", startTime=NOW),
            _status("SuccessCriteriaMet", "Complete", startTime=NOW),
            [f"{END}: Required value: completionTime is required for Complete jobs"],
        ),
        "completionTime before startTime": (
            {},
            _status("SuccessCriteriaMet", startTime=LATER),
            _status("SuccessCriteriaMet", "Complete", startTime=LATER, completionTime=NOW),
            [f'{END}: Invalid value: "{NOW}": must be equal to or after `startTime`'],
        ),
        "Failed without FailureTarget": (
            {},
            {"startTime": NOW},
            _status("Failed", startTime=NOW),
            [f"{C}: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"],
        ),
        "finished Job with active and uncounted pods": (
            {},
            {},
            _status("FailureTarget", "Failed", active=1, terminating=2, uncountedTerminatedPods={"failed": ["a"]}),
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                f"{START}: Required value: startTime is required for finished job",
                'status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty for '
                "finished job",
                "status.terminating: Invalid value: 2: terminating>0 is invalid for finished job",
            ],
        ),
        "changes of a finished Job": (
            {},
            COMPLETE,
            {**COMPLETE, "active": 1, "completionTime": "2026-01-01T00:02:00Z"},
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                f'{END}: Invalid value: "2026-01-01T00:02:00Z": field is immutable',
            ],
        ),
        "removed Failed condition": (
            {},
            FAILED,
            {"startTime": NOW},
            [
                f"{C}: Invalid value: cannot disable the terminal Failed=True condition",
                f"{C}: Invalid value: cannot disable the terminal FailureTarget=True condition",
            ],
        ),
        "removed Complete condition": (
            {},
            COMPLETE,
            _status("-SuccessCriteriaMet", "-Complete", startTime=NOW),
            [
                f"{C}: Invalid value: cannot disable the terminal Complete=True condition",
                f"{C}: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ],
        ),
        "SuccessCriteriaMet after Complete": (
            {},
            _status("Complete", startTime=NOW, completionTime=NOW),
            COMPLETE | {"completionTime": NOW},
            [f"{C}: Invalid value: cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"],
        ),
        "Complete without SuccessCriteriaMet with a success policy": (
            SUCCESS,
            {},
            _status("Complete", startTime=NOW, completionTime=NOW),
            [
                f"{C}: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                f"{C}: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless "
                "SuccessCriteriaMet=True",
            ],
        ),
        "decreasing counters": (
            {"completions": 5},
            {"failed": 3, "succeeded": 3},
            {"failed": 1, "succeeded": 1},
            [
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
                "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
            ],
        ),
        "removed startTime": (
            {},
            {"startTime": NOW},
            {},
            [f"{START}: Invalid value: null: field is immutable for unsuspended job once set"],
        ),
        "changed startTime": (
            {},
            {"startTime": NOW},
            {"startTime": LATER},
            [f'{START}: Invalid value: "{LATER}": field is immutable for unsuspended job once set'],
        ),
        "more ready than active pods": (
            {"completions": 5},
            {},
            {"active": 1, "ready": 2},
            ["status.ready: Invalid value: 2: cannot set more ready pods than active"],
        ),
        "indexes without Indexed": (
            {"completions": 5},
            {},
            {"completedIndexes": "0", "failedIndexes": ""},
            [
                'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
                "completion mode",
                'status.failedIndexes: Invalid value: "": cannot set non-null failedIndexes when backoffLimitPerIndex '
                "is null",
            ],
        ),
        "unparsable indexes": (
            PER_INDEX,
            {},
            {"completedIndexes": "3,1", "failedIndexes": "x"},
            [
                'status.completedIndexes: Invalid value: "3,1": error parsing completedIndexes: non-increasing order, '
                "previous: 3, current: 1",
                'status.failedIndexes: Invalid value: "x": error parsing failedIndexes: cannot convert string to '
                'integer for index: "x"',
            ],
        ),
        "overlapping indexes": (
            PER_INDEX,
            {"failedIndexes": "0,2", "completedIndexes": "3-4"},
            {"failedIndexes": "0,2", "completedIndexes": "1-4"},
            ['status.failedIndexes: Invalid value: "0,2": failedIndexes and completedIndexes overlap at index: 2'],
        ),
    },
)
def test_rejected_job_statuses(spec: Object, old_status: Object, status: Object, errors: list[str]) -> None:
    assert _errors(spec, old_status, status) == errors


@pytest.mark.parametrize(
    ("indexes", "detail"),
    [
        ("1-2-3", 'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts'),
        ("1-", 'cannot convert string to integer for index: ""'),
        ("5", 'too large index: "5"'),
        ("1-5", 'too large index: "5"'),
        ("2-2", "non-increasing order, previous: 2, current: 2"),
        ("0-2,2", "non-increasing order, previous: 2, current: 2"),
        ("9223372036854775808", "cannot convert string to integer"),
    ],
)
def test_invalid_index_texts(indexes: str, detail: str) -> None:
    (error,) = _errors(INDEXED, {}, {"completedIndexes": indexes})
    assert f"error parsing completedIndexes: {detail}" in error


async def test_status_updates_are_validated(api: Api) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    await api.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    answer = await api.patch(f"{JOBS}/j/status", {"status": {"failed": -1}})
    assert answer.status == 422, answer.text
    assert "status.failed: Invalid value: -1: must be greater than or equal to 0" in answer.message


async def test_times_are_compared_across_time_zones(api: Api) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    await api.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    await api.patch(f"{JOBS}/j/status", {"status": {"startTime": NOW}})
    answer = await api.patch(f"{JOBS}/j/status", {"status": {"startTime": "2026-01-01T02:00:00+02:00"}})
    assert answer.status == 200, answer.text
