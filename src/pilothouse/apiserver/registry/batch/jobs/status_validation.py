"""Validation of the status of Jobs.

After ``validateJobStatus`` and ``ValidateJobStatusUpdate`` in kubernetes' ``pkg/apis/batch/validation/validation.go``,
with the options that ``pkg/registry/batch/job/strategy.go`` sets (v1.36). Other controllers can manage a Job
(``managedBy``), so the server ensures that it finishes once and consistently. Most rules apply only to fields that
change: an invalid stored status must not block other updates.

Upstream applies these rules to all Jobs. Here some apply only to Jobs with another manager: kube-controller-managers
before v1.31, which also run against this server, do not set all conditions and write statuses computed from a stale
cache.
"""

from collections.abc import Set

from pilothouse.apiserver.field_errors import (
    ErrorList,
    FieldError,
    duplicate,
    internal_value,
    invalid,
    invalid_omitting_value,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.batch.jobs.indexes import IndexesError, count_indexes, first_common_index
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE, validate_nonnegative_fields

_JOB_CONTROLLER = (None, "kubernetes.io/job-controller")
_NON_NEGATIVE_FIELDS = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL_CONDITIONS = ("Failed", "Complete", "FailureTarget")
_SUCCESS_CRITERIA_MET, _FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
_FINISHED_CONDITIONS = frozenset(("Complete", "Failed"))
_FINISHED = "finished"
"""An element of ``changed``: whether the Job is finished has changed. The other elements are condition types
and fields of the status."""


def validate_job_status(spec: Object, status: Object, old_status: Object) -> ErrorList:
    """The errors in ``status``; ``old_status`` is the stored one."""
    true_conditions, old_true_conditions = _true_condition_types(status), _true_condition_types(old_status)
    errors = validate_nonnegative_fields(status, "status", _NON_NEGATIVE_FIELDS)
    if status.get("uncountedTerminatedPods"):
        errors += _validate_uncounted(status["uncountedTerminatedPods"])
    is_managed_by_other = spec.get("managedBy") not in _JOB_CONTROLLER
    errors += _validate_counts_and_conditions(
        spec, status, old_status, true_conditions, old_true_conditions, strict=is_managed_by_other
    )
    if true_conditions:
        errors += _validate_success(spec, true_conditions)
    if is_managed_by_other:
        errors += _validate_status_change(spec, status, old_status, true_conditions, old_true_conditions)
    return errors


def _validate_counts_and_conditions(
    spec: Object,
    status: Object,
    old_status: Object,
    true_conditions: Set[str],
    old_true_conditions: Set[str],
    *,
    strict: bool,
) -> ErrorList:
    """Inconsistent fields and conditions. ``strict``: include the rules that old kube-controller-managers violate."""
    changed = {field for field in (*status, *old_status) if status.get(field) != old_status.get(field)}
    # Conditions that became true or are no longer true.
    changed |= true_conditions ^ old_true_conditions
    if bool(true_conditions & _FINISHED_CONDITIONS) != bool(old_true_conditions & _FINISHED_CONDITIONS):
        changed.add(_FINISHED)
    errors: ErrorList = []
    if true_conditions or old_true_conditions or status.get("completionTime"):
        errors += _validate_finished_conditions(status, true_conditions, changed, strict=strict)
    if true_conditions & _FINISHED_CONDITIONS:
        errors += _validate_finished(spec, status, changed, strict=strict)
    if "completedIndexes" in changed or "failedIndexes" in changed:
        errors += _validate_index(spec, status, changed)
    return errors + _validate_count(status, true_conditions, changed)


def _true_condition_types(status: Object) -> set[str]:
    conditions = status.get("conditions") or ()
    return {condition.get("type") or "" for condition in conditions if condition.get("status") == "True"}


def _invalid_conditions(detail: str) -> FieldError:
    return invalid_omitting_value("status.conditions", detail)


def _validate_uncounted(uncounted: Object) -> ErrorList:
    errors: ErrorList = []
    uids: set[str] = set()
    for field in ("succeeded", "failed"):
        for position, uid in enumerate(uncounted.get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{position}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in uids:
                errors.append(duplicate(path, uid))
            uids.add(uid)
    return errors


def _validate_finished_conditions(
    status: Object, true_conditions: Set[str], changed: Set[str], *, strict: bool
) -> ErrorList:
    """Conditions that exclude or require each other, and ``completionTime``."""
    errors: ErrorList = []
    complete = "Complete" in true_conditions
    start_time, completion_time = status.get("startTime"), status.get("completionTime")
    if complete and "Failed" in true_conditions and changed & _FINISHED_CONDITIONS:
        errors.append(_invalid_conditions("cannot set Complete=True and Failed=true conditions"))
    if complete and _FAILURE_TARGET in true_conditions and ("Complete" in changed or _FAILURE_TARGET in changed):
        errors.append(_invalid_conditions("cannot set Complete=True and FailureTarget=true conditions"))
    if "Complete" in changed or "completionTime" in changed:
        if completion_time is not None and not complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid("status.completionTime", completion_time, detail))
        elif completion_time is None and complete:
            errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if (
        start_time is not None
        and completion_time is not None
        and completion_time < start_time
        and ("startTime" in changed or "completionTime" in changed)
    ):
        errors.append(invalid("status.completionTime", completion_time, "must be equal to or after `startTime`"))
    if not strict:
        return errors
    if (
        "Failed" in true_conditions
        and _FAILURE_TARGET not in true_conditions
        and ("Failed" in changed or "failedIndexes" in changed)
    ):
        errors.append(_invalid_conditions("cannot set Failed=True condition without the FailureTarget=true condition"))
    if (
        complete
        and _SUCCESS_CRITERIA_MET not in true_conditions
        and ("Complete" in changed or _SUCCESS_CRITERIA_MET in changed)
    ):
        errors.append(
            _invalid_conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
        )
    return errors


def _validate_finished(spec: Object, status: Object, changed: Set[str], *, strict: bool) -> ErrorList:
    """The fields of a finished Job."""
    errors: ErrorList = []
    active, uncounted = status.get("active") or 0, status.get("uncountedTerminatedPods") or {}
    finished_changed = _FINISHED in changed
    if strict and active > 0 and (finished_changed or "active" in changed):
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    never_started = spec.get("suspend") and spec.get("completions") == 0
    if status.get("startTime") is None and (finished_changed or "startTime" in changed) and not never_started:
        errors.append(required("status.startTime", "startTime is required for finished job"))
    if (uncounted.get("succeeded") or uncounted.get("failed")) and (
        finished_changed or "uncountedTerminatedPods" in changed
    ):
        bad_value = internal_value("*batch.UncountedTerminatedPods", uncounted)
        errors.append(invalid("status.uncountedTerminatedPods", bad_value, "must be empty for finished job"))
    return errors


def _validate_index(spec: Object, status: Object, changed: Set[str]) -> ErrorList:
    errors: ErrorList = []
    completions, limit = spec.get("completions"), spec.get("backoffLimitPerIndex")
    completed, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    if "completedIndexes" in changed and completions is not None:
        errors += _validate_indexes_format("completedIndexes", completed, completions)
    if "failedIndexes" in changed and failed is not None and completions is not None and limit is not None:
        errors += _validate_indexes_format("failedIndexes", failed, completions)
    if "completedIndexes" in changed and completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, detail))
    if "failedIndexes" in changed and failed is not None and limit is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, detail))
    if completions is not None and failed is not None:
        common_index = first_common_index(completed, failed, completions)
        if common_index is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {common_index}"
            errors.append(invalid("status.failedIndexes", failed, detail))
    return errors


def _validate_indexes_format(field: str, indexes_str: str, completions: int) -> ErrorList:
    try:
        count_indexes(indexes_str, completions)
    except IndexesError as error:
        return [invalid(f"status.{field}", indexes_str, f"error parsing {field}: {error}")]
    return []


def _validate_count(status: Object, true_conditions: Set[str], changed: Set[str]) -> ErrorList:
    errors: ErrorList = []
    terminating, ready = status.get("terminating") or 0, status.get("ready") or 0
    if (
        terminating > 0
        and true_conditions & _FINISHED_CONDITIONS
        and (_FINISHED in changed or "terminating" in changed)
    ):
        errors.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if ready > (status.get("active") or 0) and ("ready" in changed or "active" in changed):
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _validate_success(spec: Object, true_conditions: Set[str]) -> ErrorList:
    errors: ErrorList = []
    if _SUCCESS_CRITERIA_MET in true_conditions:
        if "Failed" in true_conditions:
            errors.append(_invalid_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
        if _FAILURE_TARGET in true_conditions:
            errors.append(_invalid_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    elif "Complete" in true_conditions and spec.get("successPolicy") is not None:
        errors.append(
            _invalid_conditions("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
        )
    return errors


def _validate_status_change(
    spec: Object, status: Object, old_status: Object, true_conditions: Set[str], old_true_conditions: Set[str]
) -> ErrorList:
    """The rules for changes: terminal conditions stay, counters do not decrease, times do not change."""
    errors = [
        _invalid_conditions(f"cannot disable the terminal {name}=True condition")
        for name in _TERMINAL_CONDITIONS
        if name in old_true_conditions and name not in true_conditions
    ]
    # An elastic indexed Job can be scaled down; succeeded indexes above ``completions`` are then not counted.
    is_elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed",) if is_elastic else ("failed", "succeeded"):
        count = status.get(field) or 0
        if count < (old_status.get(field) or 0):
            errors.append(invalid(f"status.{field}", count, f"cannot decrease the {field} counter"))
    old_start_time, old_completion_time = old_status.get("startTime"), old_status.get("completionTime")
    if old_completion_time is not None and status.get("completionTime") not in (None, old_completion_time):
        errors.append(invalid("status.completionTime", status["completionTime"], IMMUTABLE))
    if (
        old_start_time not in (None, status.get("startTime"))
        and not spec.get("suspend")
        and not _is_resumed(status, old_true_conditions)
    ):
        detail = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", status.get("startTime"), detail))
    if _SUCCESS_CRITERIA_MET in old_true_conditions and _SUCCESS_CRITERIA_MET not in true_conditions:
        errors.append(_invalid_conditions("cannot disable the SuccessCriteriaMet=True condition"))
    if (
        "Complete" in old_true_conditions
        and _SUCCESS_CRITERIA_MET not in old_true_conditions
        and _SUCCESS_CRITERIA_MET in true_conditions
    ):
        errors.append(
            _invalid_conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
        )
    return errors


def _is_resumed(status: Object, old_true_conditions: Set[str]) -> bool:
    """Whether this write resumes a suspended Job, which resets its start time."""
    conditions = status.get("conditions") or ()
    return "Suspended" in old_true_conditions and any(
        condition.get("type") == "Suspended" and condition.get("status") == "False" for condition in conditions
    )
