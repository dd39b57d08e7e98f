"""What may be written to a job's status (kubernetes ``pkg/registry/batch/job/strategy_test.go``, v1.36)."""

from typing import Any

import pytest
from tests.apiserver.api import Api, Object

from pilothouse.apiserver.registry.batch.jobs.status_validation import validate_job_status

JOBS = "/apis/batch/v1/namespaces/default/jobs"
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
INDEXED: Object = {"completionMode": "Indexed", "completions": 5}
PER_INDEX = {**INDEXED, "backoffLimitPerIndex": 1}
SUCCESS = {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
C = "status.conditions"
END = "status.completionTime"
START = "status.startTime"


def _are(*names: str, **fields: Any) -> Object:
    """A status with these conditions; those that begin with "-" are false."""
    told = [{"type": name.removeprefix("-"), "status": "False" if name.startswith("-") else "True"} for name in names]
    return {**({"conditions": told} if told else {}), **fields}


COMPLETE = _are("SuccessCriteriaMet", "Complete", startTime=NOW, completionTime=LATER)
FAILED = _are("FailureTarget", "Failed", startTime=NOW)


def _told(spec: Object, before: Object, after: Object) -> list[str]:
    of_others = {**spec, "managedBy": "example.com/jobs"}
    return [f"{each.field}: {each.text}" for each in validate_job_status(of_others, after, before)]


@pytest.mark.parametrize("manager", [None, "kubernetes.io/job-controller"])
def test_what_an_old_manager_says_of_its_jobs_is_taken(manager: str | None) -> None:
    """One before v1.31 does not say that a job has done enough, and begins it twice when its view is old."""
    spec = {} if manager is None else {"managedBy": manager}
    ended = _are("Complete", startTime=LATER, completionTime=LATER, succeeded=1)
    assert validate_job_status(spec, ended, {"startTime": NOW, "succeeded": 2}) == []
    assert [each.field for each in validate_job_status(spec, {"failed": -1}, {})] == ["status.failed"]


@pytest.mark.parametrize(
    ("spec", "before", "after"),
    [
        pytest.param({}, {}, {"startTime": NOW, "active": 1, "ready": 1, "terminating": 0}, id="a job begins"),
        pytest.param({}, {"startTime": NOW, "active": 1}, {"startTime": NOW, "succeeded": 1}, id="a pod succeeds"),
        pytest.param({}, _are("SuccessCriteriaMet", startTime=NOW), COMPLETE, id="a job completes"),
        pytest.param({}, _are("FailureTarget", startTime=NOW, active=1), FAILED, id="a job fails"),
        pytest.param(
            {"suspend": True}, {"startTime": NOW, "active": 2}, _are("Suspended"), id="a suspended job has not started"
        ),
        pytest.param(
            {},
            _are("Suspended", startTime=NOW),
            _are("-Suspended", startTime=LATER),
            id="a job that goes on starts anew",
        ),
        pytest.param(
            {"suspend": True, "completions": 0},
            {},
            _are("SuccessCriteriaMet", "Complete", completionTime=NOW),
            id="a suspended job with nothing to do never starts",
        ),
        pytest.param({}, {}, _are("SuccessCriteriaMet"), id="any job may say that it has done enough"),
        pytest.param(
            {}, {"completionTime": NOW}, {"completionTime": NOW, "active": 1}, id="what was wrong before may stay"
        ),
        pytest.param(
            INDEXED,
            {"completedIndexes": "x"},
            {"completedIndexes": "x", "active": 1},
            id="indexes that were wrong stay",
        ),
        pytest.param(
            PER_INDEX,
            {"failedIndexes": "0,2", "completedIndexes": "2-4"},
            {"failedIndexes": "0,2", "completedIndexes": "2-4", "active": 1},
            id="indexes that were twice may stay",
        ),
        pytest.param(
            {"completions": 5}, {"active": 1, "ready": 2}, {"active": 1, "ready": 2, "succeeded": 1}, id="ready pods"
        ),
        pytest.param(
            {**INDEXED, "parallelism": 5}, {"succeeded": 3}, {"succeeded": 1}, id="an elastic job may become smaller"
        ),
    ],
)
def test_what_may_be_said_of_a_job(spec: Object, before: Object, after: Object) -> None:
    assert _told(spec, before, after) == []


NEGATIVE = "must be greater than or equal to 0"


@pytest.mark.parametrize(
    ("spec", "before", "after", "told"),
    [
        pytest.param(
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
            id="counts are not negative",
        ),
        pytest.param(
            {},
            {},
            {"uncountedTerminatedPods": {"succeeded": ["a", "b", "a"], "failed": ["", "b"]}},
            [
                'status.uncountedTerminatedPods.succeeded[2]: Duplicate value: "a"',
                'status.uncountedTerminatedPods.failed[0]: Invalid value: "": must not be empty',
                'status.uncountedTerminatedPods.failed[1]: Duplicate value: "b"',
            ],
            id="each uncounted pod is there once",
        ),
        pytest.param(
            {},
            {},
            _are("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed", startTime=NOW, completionTime=NOW),
            [
                f"{C}: Invalid value: cannot set Complete=True and Failed=true conditions",
                f"{C}: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
                f"{C}: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
                f"{C}: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            ],
            id="a job ends in one way",
        ),
        pytest.param(
            {},
            {},
            _are("Complete", "FailureTarget", startTime=NOW, completionTime=NOW),
            [
                f"{C}: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
                f"{C}: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ],
            id="a job that is to fail does not complete",
        ),
        pytest.param(
            {},
            {},
            {"completionTime": NOW},
            [f'{END}: Invalid value: "{NOW}": cannot set completionTime when there is no Complete=True condition'],
            id="only what is complete has a time of completion",
        ),
        pytest.param(
            {},
            _are("SuccessCriteriaMet", startTime=NOW),
            _are("SuccessCriteriaMet", "Complete", startTime=NOW),
            [f"{END}: Required value: completionTime is required for Complete jobs"],
            id="what is complete has a time of completion",
        ),
        pytest.param(
            {},
            _are("SuccessCriteriaMet", startTime=LATER),
            _are("SuccessCriteriaMet", "Complete", startTime=LATER, completionTime=NOW),
            [f'{END}: Invalid value: "{NOW}": must be equal to or after `startTime`'],
            id="a job starts before it completes",
        ),
        pytest.param(
            {},
            {"startTime": NOW},
            _are("Failed", startTime=NOW),
            [f"{C}: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"],
            id="a job is to fail before it fails",
        ),
        pytest.param(
            {},
            {},
            _are("FailureTarget", "Failed", active=1, terminating=2, uncountedTerminatedPods={"failed": ["a"]}),
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                f"{START}: Required value: startTime is required for finished job",
                'status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty for '
                "finished job",
                "status.terminating: Invalid value: 2: terminating>0 is invalid for finished job",
            ],
            id="nothing of a job is left when it has ended",
        ),
        pytest.param(
            {},
            COMPLETE,
            {**COMPLETE, "active": 1, "completionTime": "2026-01-01T00:02:00Z"},
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                f'{END}: Invalid value: "2026-01-01T00:02:00Z": field is immutable',
            ],
            id="an end is an end",
        ),
        pytest.param(
            {},
            FAILED,
            {"startTime": NOW},
            [
                f"{C}: Invalid value: cannot disable the terminal Failed=True condition",
                f"{C}: Invalid value: cannot disable the terminal FailureTarget=True condition",
            ],
            id="a job that has failed has failed",
        ),
        pytest.param(
            {},
            COMPLETE,
            _are("-SuccessCriteriaMet", "-Complete", startTime=NOW),
            [
                f"{C}: Invalid value: cannot disable the terminal Complete=True condition",
                f"{C}: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ],
            id="a job that has completed has completed",
        ),
        pytest.param(
            {},
            _are("Complete", startTime=NOW, completionTime=NOW),
            COMPLETE | {"completionTime": NOW},
            [f"{C}: Invalid value: cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"],
            id="a job does enough before it completes",
        ),
        pytest.param(
            SUCCESS,
            {},
            _are("Complete", startTime=NOW, completionTime=NOW),
            [
                f"{C}: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                f"{C}: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless "
                "SuccessCriteriaMet=True",
            ],
            id="a policy says what is enough",
        ),
        pytest.param(
            {"completions": 5},
            {"failed": 3, "succeeded": 3},
            {"failed": 1, "succeeded": 1},
            [
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
                "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
            ],
            id="what has ended stays so",
        ),
        pytest.param(
            {},
            {"startTime": NOW},
            {},
            [f"{START}: Invalid value: null: field is immutable for unsuspended job once set"],
            id="a job that runs has started",
        ),
        pytest.param(
            {},
            {"startTime": NOW},
            {"startTime": LATER},
            [f'{START}: Invalid value: "{LATER}": field is immutable for unsuspended job once set'],
            id="a job starts once",
        ),
        pytest.param(
            {"completions": 5},
            {},
            {"active": 1, "ready": 2},
            ["status.ready: Invalid value: 2: cannot set more ready pods than active"],
            id="what is ready is active",
        ),
        pytest.param(
            {"completions": 5},
            {},
            {"completedIndexes": "0", "failedIndexes": ""},
            [
                'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
                "completion mode",
                'status.failedIndexes: Invalid value: "": cannot set non-null failedIndexes when backoffLimitPerIndex '
                "is null",
            ],
            id="only some jobs have indexes",
        ),
        pytest.param(
            PER_INDEX,
            {},
            {"completedIndexes": "3,1", "failedIndexes": "x"},
            [
                'status.completedIndexes: Invalid value: "3,1": error parsing completedIndexes: non-increasing order, '
                "previous: 3, current: 1",
                'status.failedIndexes: Invalid value: "x": error parsing failedIndexes: cannot convert string to '
                'integer for index: "x"',
            ],
            id="indexes can be read",
        ),
        pytest.param(
            PER_INDEX,
            {"failedIndexes": "0,2", "completedIndexes": "3-4"},
            {"failedIndexes": "0,2", "completedIndexes": "1-4"},
            ['status.failedIndexes: Invalid value: "0,2": failedIndexes and completedIndexes overlap at index: 2'],
            id="an index ends in one way",
        ),
    ],
)
def test_what_may_not_be_said_of_a_job(spec: Object, before: Object, after: Object, told: list[str]) -> None:
    assert _told(spec, before, after) == told


@pytest.mark.parametrize(
    ("text", "why"),
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
def test_texts_that_name_no_indexes(text: str, why: str) -> None:
    (told,) = _told(INDEXED, {}, {"completedIndexes": text})
    assert f"error parsing completedIndexes: {why}" in told


async def test_a_status_is_judged_when_it_is_written(api: Api) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    await api.made(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    answer = await api.patch(f"{JOBS}/j/status", {"status": {"failed": -1}})
    assert answer.status == 422, answer.text
    assert "status.failed: Invalid value: -1: must be greater than or equal to 0" in answer.message


async def test_times_are_compared_whatever_their_zone(api: Api) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    await api.made(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    await api.patch(f"{JOBS}/j/status", {"status": {"startTime": NOW}})
    answer = await api.patch(f"{JOBS}/j/status", {"status": {"startTime": "2026-01-01T02:00:00+02:00"}})
    assert answer.status == 200, answer.text
