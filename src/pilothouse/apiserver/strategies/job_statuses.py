"""What may be said of a job: validation of writes to its status.

After ``validateJobStatus`` and ``ValidateJobStatusUpdate`` in kubernetes' ``pkg/apis/batch/validation/validation.go``,
with the options that ``pkg/registry/batch/job/strategy.go`` sets (v1.36). Other programs may run a job
(``managedBy``), so the server sees to it that such a job ends once, and as everybody expects it. Most rules hold only
what changes to account: what is wrong already must not keep a controller from writing the rest.

Upstream has held all jobs to these rules since the field is there. Here they hold for jobs that name another manager:
by them a manager before v1.31 can't complete any job, and such managers run against this server.
"""

from collections.abc import Set

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.filling import IMMUTABLE, number_problems
from pilothouse.apiserver.strategies.job_indexes import IndexesError, count_indexes, first_in_both

_OWN = (None, "kubernetes.io/job-controller")
_NUMBERS = ("active", "succeeded", "failed", "ready", "terminating")
_LASTING = ("Failed", "Complete", "FailureTarget")
_MET, _TARGET = "SuccessCriteriaMet", "FailureTarget"
_ENDS = frozenset(("Complete", "Failed"))
_FINISHED = "finished"
"""Among what has changed: whether the job has ended. The others are conditions, which begin upper-case, and fields."""


def job_status_problems(spec: Object, status: Object, before: Object) -> list[FieldError]:
    """What is wrong with ``status``; ``before`` is the stored one."""
    true, was = _true_conditions(status), _true_conditions(before)
    problems = number_problems(status, "status", _NUMBERS)
    if status.get("uncountedTerminatedPods"):
        problems += _uncounted_problems(status["uncountedTerminatedPods"])
    is_of_others = spec.get("managedBy") not in _OWN
    if is_of_others:
        problems += _account_problems(spec, status, before, true, was)
    if true:
        problems += _success_problems(spec, true)
    if is_of_others:
        problems += _change_problems(spec, status, before, true, was)
    return problems


def _account_problems(spec: Object, status: Object, before: Object, true: Set[str], was: Set[str]) -> list[FieldError]:
    """What does not go together."""
    changed = {field for field in (*status, *before) if status.get(field) != before.get(field)}
    # Which conditions became true or ceased to be.
    changed |= true ^ was
    if bool(true & _ENDS) != bool(was & _ENDS):
        changed.add(_FINISHED)
    problems: list[FieldError] = []
    if true or was or status.get("completionTime"):
        problems += _ending_problems(status, true, changed)
    if true & _ENDS:
        problems += _finished_problems(spec, status, changed)
    if "completedIndexes" in changed or "failedIndexes" in changed:
        problems += _index_problems(spec, status, changed)
    return problems + _count_problems(status, true, changed)


def _true_conditions(status: Object) -> set[str]:
    return {each.get("type") or "" for each in status.get("conditions") or () if each.get("status") == "True"}


def _wrong(detail: str) -> FieldError:
    return errors.invalid_field("status.conditions", detail)


def _uncounted_problems(uncounted: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for position, uid in enumerate(uncounted.get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{position}]"
            if not uid:
                problems.append(errors.invalid_value(path, uid, "must not be empty"))
            elif uid in seen:
                problems.append(errors.duplicate(path, uid))
            seen.add(uid)
    return problems


def _ending_problems(status: Object, true: Set[str], changed: Set[str]) -> list[FieldError]:
    """Conditions that exclude or need each other, and the time that goes with them."""
    problems: list[FieldError] = []
    complete = "Complete" in true
    start, end = status.get("startTime"), status.get("completionTime")
    if complete and "Failed" in true and changed & _ENDS:
        problems.append(_wrong("cannot set Complete=True and Failed=true conditions"))
    if complete and _TARGET in true and ("Complete" in changed or _TARGET in changed):
        problems.append(_wrong("cannot set Complete=True and FailureTarget=true conditions"))
    if "Complete" in changed or "completionTime" in changed:
        if end is not None and not complete:
            told = "cannot set completionTime when there is no Complete=True condition"
            problems.append(errors.invalid_value("status.completionTime", end, told))
        elif end is None and complete:
            problems.append(errors.required("status.completionTime", "completionTime is required for Complete jobs"))
    if (
        start is not None
        and end is not None
        and end < start
        and ("startTime" in changed or "completionTime" in changed)
    ):
        problems.append(errors.invalid_value("status.completionTime", end, "must be equal to or after `startTime`"))
    if "Failed" in true and _TARGET not in true and ("Failed" in changed or "failedIndexes" in changed):
        problems.append(_wrong("cannot set Failed=True condition without the FailureTarget=true condition"))
    if complete and _MET not in true and ("Complete" in changed or _MET in changed):
        problems.append(_wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
    return problems


def _finished_problems(spec: Object, status: Object, changed: Set[str]) -> list[FieldError]:
    """What a job that has ended has, and has no more."""
    problems: list[FieldError] = []
    active, uncounted = status.get("active") or 0, status.get("uncountedTerminatedPods") or {}
    ended = _FINISHED in changed
    if active > 0 and (ended or "active" in changed):
        problems.append(errors.invalid_value("status.active", active, "active>0 is invalid for finished job"))
    never_started = spec.get("suspend") and spec.get("completions") == 0
    if status.get("startTime") is None and (ended or "startTime" in changed) and not never_started:
        problems.append(errors.required("status.startTime", "startTime is required for finished job"))
    if (uncounted.get("succeeded") or uncounted.get("failed")) and (ended or "uncountedTerminatedPods" in changed):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        problems.append(errors.invalid_value("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    return problems


def _index_problems(spec: Object, status: Object, changed: Set[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    completions, limit = spec.get("completions"), spec.get("backoffLimitPerIndex")
    completed, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    if "completedIndexes" in changed and completions is not None:
        problems += _unreadable("completedIndexes", completed, completions)
    if "failedIndexes" in changed and failed is not None and completions is not None and limit is not None:
        problems += _unreadable("failedIndexes", failed, completions)
    if "completedIndexes" in changed and completed and spec.get("completionMode") != "Indexed":
        told = "cannot set non-empty completedIndexes when non-indexed completion mode"
        problems.append(errors.invalid_value("status.completedIndexes", completed, told))
    if "failedIndexes" in changed and failed is not None and limit is None:
        told = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        problems.append(errors.invalid_value("status.failedIndexes", failed, told))
    if completions is not None and failed is not None:
        both = first_in_both(completed, failed, completions)
        if both is not None:
            told = f"failedIndexes and completedIndexes overlap at index: {both}"
            problems.append(errors.invalid_value("status.failedIndexes", failed, told))
    return problems


def _unreadable(field: str, text: str, completions: int) -> list[FieldError]:
    try:
        count_indexes(text, completions)
    except IndexesError as error:
        return [errors.invalid_value(f"status.{field}", text, f"error parsing {field}: {error}")]
    return []


def _count_problems(status: Object, true: Set[str], changed: Set[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    terminating, ready = status.get("terminating") or 0, status.get("ready") or 0
    if terminating > 0 and true & _ENDS and (_FINISHED in changed or "terminating" in changed):
        told = "terminating>0 is invalid for finished job"
        problems.append(errors.invalid_value("status.terminating", terminating, told))
    if ready > (status.get("active") or 0) and ("ready" in changed or "active" in changed):
        problems.append(errors.invalid_value("status.ready", ready, "cannot set more ready pods than active"))
    return problems


def _success_problems(spec: Object, true: Set[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    if _MET in true:
        if "Failed" in true:
            problems.append(_wrong("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
        if _TARGET in true:
            problems.append(_wrong("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    elif "Complete" in true and spec.get("successPolicy") is not None:
        problems.append(_wrong("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"))
    return problems


def _change_problems(spec: Object, status: Object, before: Object, true: Set[str], was: Set[str]) -> list[FieldError]:
    """What does not go back."""
    problems = [
        _wrong(f"cannot disable the terminal {name}=True condition")
        for name in _LASTING
        if name in was and name not in true
    ]
    # The indexes of a job that was made smaller count no more.
    smaller = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed",) if smaller else ("failed", "succeeded"):
        count = status.get(field) or 0
        if count < (before.get(field) or 0):
            problems.append(errors.invalid_value(f"status.{field}", count, f"cannot decrease the {field} counter"))
    start, end = before.get("startTime"), before.get("completionTime")
    if end is not None and status.get("completionTime") not in (None, end):
        problems.append(errors.invalid_value("status.completionTime", status["completionTime"], IMMUTABLE))
    if start not in (None, status.get("startTime")) and not spec.get("suspend") and not _resumed(status, was):
        told = "field is immutable for unsuspended job once set"
        problems.append(errors.invalid_value("status.startTime", status.get("startTime"), told))
    if _MET in was and _MET not in true:
        problems.append(_wrong("cannot disable the SuccessCriteriaMet=True condition"))
    if "Complete" in was and _MET not in was and _MET in true:
        told = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        problems.append(_wrong(told))
    return problems


def _resumed(status: Object, was: Set[str]) -> bool:
    """Whether this write says that a suspended job goes on, which begins it anew."""
    conditions = status.get("conditions") or ()
    return "Suspended" in was and any(
        each.get("type") == "Suspended" and each.get("status") == "False" for each in conditions
    )
