"""Validation of CronJobs. After kubernetes' ``pkg/apis/batch/validation/validation.go`` (v1.36)."""

import re

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, not_supported, of_named_type, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.cron import CronError, check_schedule
from pilothouse.machinery.zones import UnknownZone, load_zone

with lazy_imports():
    from pilothouse.apiserver.registry.batch.jobs import spec_validation

_POLICIES = ("Allow", "Forbid", "Replace")
_MAX_NAME_LENGTH = 52
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def validate_cron_job(obj: Object) -> ErrorList:
    errors, name = _validate_cron_job_spec(obj["spec"], None), obj["metadata"].get("name") or ""
    if len(name.encode()) > _MAX_NAME_LENGTH:
        # Names of Jobs have eleven more characters, and must be valid label values.
        errors.append(invalid("metadata.name", name, f"must be no more than {_MAX_NAME_LENGTH} characters"))
    return errors


def validate_cron_job_on_update(obj: Object, old: Object) -> ErrorList:
    return [] if obj["spec"] == old["spec"] else _validate_cron_job_spec(obj["spec"], old["spec"])


def _validate_cron_job_spec(spec: Object, old_spec: Object | None) -> ErrorList:
    schedule, time_zone, policy = spec.get("schedule") or "", spec.get("timeZone"), spec.get("concurrencyPolicy")
    errors: ErrorList = []
    if not schedule:
        errors.append(required("spec.schedule"))
    else:
        errors += _validate_schedule(
            schedule, time_zone, allow_tz_in_schedule="TZ" in ((old_spec or {}).get("schedule") or "")
        )
    errors += validate_nonnegative_fields(spec, "spec", ("startingDeadlineSeconds",))
    if old_spec is None or time_zone != old_spec.get("timeZone"):
        errors += _validate_time_zone(time_zone)
    if policy not in _POLICIES:
        errors.append(not_supported("spec.concurrencyPolicy", policy, _POLICIES))
    job_spec: Object = spec["jobTemplate"].get("spec") or {}
    errors += spec_validation.validate_job_spec(job_spec, "spec.jobTemplate.spec")
    if job_spec.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        bad_value = internal_value("*meta.LabelSelector", job_spec["selector"])
        errors.append(invalid("spec.jobTemplate.spec.selector", bad_value, detail))
    if job_spec.get("manualSelector"):
        errors.append(
            not_supported("spec.jobTemplate.spec.manualSelector", job_spec["manualSelector"], ("nil", "false"))
        )
    return errors + validate_nonnegative_fields(spec, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


def _validate_schedule(schedule: str, time_zone: str | None, *, allow_tz_in_schedule: bool) -> ErrorList:
    """``validateScheduleFormat``. ``allow_tz_in_schedule``: the stored schedule has a time zone, so one is accepted."""
    errors: ErrorList = []
    try:
        check_schedule(schedule)
    except CronError as error:
        errors.append(invalid("spec.schedule", schedule, str(error)))
    if "TZ" in schedule and not allow_tz_in_schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid("spec.schedule", schedule, detail))
    elif "TZ" in schedule and time_zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(invalid("spec.schedule", schedule, detail))
    return errors


def _validate_time_zone(time_zone: str | None) -> ErrorList:
    if time_zone is None:
        return []
    if not time_zone:
        return [invalid("spec.timeZone", of_named_type(time_zone), "timeZone must be nil or non-empty string")]
    for segment in time_zone.split("/"):
        if segment in (".", "..") or segment.startswith("-") or not _ZONE_PART.fullmatch(segment):
            return [invalid("spec.timeZone", of_named_type(time_zone), f"unknown time zone {time_zone}")]
    errors: ErrorList = []
    if time_zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid("spec.timeZone", of_named_type(time_zone), detail))
    try:
        if time_zone != "Local":  # valid in Go: the time zone of the machine
            load_zone(time_zone)
    except UnknownZone as error:
        errors.append(invalid("spec.timeZone", of_named_type(time_zone), str(error)))
    return errors
