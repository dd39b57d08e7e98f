"""Jobs and CronJobs.

After kubernetes' ``pkg/apis/batch/{v1/defaults.go,validation/validation.go}`` and ``pkg/registry/batch`` (v1.36). The
selector of a job and the labels that it looks for are made here, of the job's own uid.
"""

import re
from collections.abc import Iterable

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import IMMUTABLE, child, fill, fixed, go_named, number_problems
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.apiserver.strategies.warnings import pod_spec_warnings
from pilothouse.machinery.cron import CronError, check_schedule
from pilothouse.machinery.labels import SelectorError, selector_from
from pilothouse.machinery.names import dns_label_errors
from pilothouse.machinery.zones import UnknownZone, load_zone
from pilothouse.semantics.pod_defaults import default_template

_MAX_INT32 = 2**31 - 1
_POLICIES = ("Allow", "Forbid", "Replace")
_PREFIX = "batch.kubernetes.io/"
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_CRON_NAME = 52
_STEERED = ("nodeSelector", "tolerations", "schedulingGates")
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def _labels(obj: Object) -> dict[str, str]:
    found: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return found


class JobStrategy(Strategy):
    """Counts of one, a selector of its own, and a template that does not change under it."""

    selectable = {"status.successful": ("status", "succeeded")}  # read only
    selectable_defaults = {"status.successful": "0"}  # read only

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = spec["parallelism"] = 1
        limit = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
        replacement = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
        fill(
            spec,
            {
                "parallelism": 1,
                "backoffLimit": limit,
                "completionMode": "NonIndexed",
                "suspend": False,
                "manualSelector": False,
                "podReplacementPolicy": replacement,
            },
        )
        for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
            for condition in rule.get("onPodConditions") or ():
                fill(condition, {"status": "True"})
        default_template(child(spec, "template"))

    def warnings(self, obj: Object) -> Iterable[str]:
        return pod_spec_warnings(obj["spec"]["template"].get("spec") or {}, "spec.template.spec")

    def prepare_create(self, obj: Object, now: str) -> None:
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        template = child(spec["template"], "metadata")
        labels: dict[str, str] = {**(template.get("labels") or {})}
        for prefix in ("", _PREFIX):
            # A label that is there already is the client's mistake, which validation tells.
            labels.setdefault(prefix + "job-name", meta.get("name") or "")
            labels.setdefault(prefix + "controller-uid", meta["uid"])
        template["labels"] = labels
        selector = child(spec, "selector")
        wanted = {**(selector.get("matchLabels") or {})}
        wanted.setdefault(_PREFIX + "controller-uid", meta["uid"])
        selector["matchLabels"] = wanted

    def finish(self, obj: Object) -> None:
        super().finish(obj)
        if not obj["metadata"].get("labels"):
            labels = _labels(obj["spec"].get("template") or {})
            if labels:
                obj["metadata"]["labels"] = dict(labels)

    def validate(self, obj: Object) -> list[FieldError]:
        return _generated_problems(obj, prefixed=True) + _spec_problems(obj["spec"]) + _host_name_problems(obj)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        if spec == before and obj["metadata"].get("uid") == old["metadata"].get("uid"):
            return []
        # The whole job, and its spec again.
        known = _labels(before.get("template") or {})
        prefixed = all(_PREFIX + name in known for name in ("job-name", "controller-uid"))
        problems = _generated_problems(obj, prefixed=prefixed)
        found = _spec_problems(spec)
        problems += found + _host_name_problems(obj) + found * (self.judgements.spec - 1)
        problems += _completions_problems(spec, before) + fixed(spec, before, "spec", ("selector",))
        return problems + _template_problems(spec["template"], old) + fixed(spec, before, "spec", _FIXED)

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        from pilothouse.apiserver.strategies.job_statuses import job_status_problems  # which no start needs

        return job_status_problems(obj["spec"], obj.get("status") or {}, old.get("status") or {})

    def refuses_field(self, path: str) -> str:
        return f'field label "{path}" not supported for Job'


def _job_problems(spec: Object, path: str) -> list[FieldError]:
    from pilothouse.apiserver.strategies.job_specs import job_spec_problems  # which no start needs

    return job_spec_problems(spec, path)


def _spec_problems(spec: Object) -> list[FieldError]:
    problems = _job_problems(spec, "spec")
    selector = spec.get("selector")
    labels = _labels(spec.get("template") or {})
    if selector is None:
        problems.append(errors.required("spec.selector"))
    else:
        problems += selector_problems(selector, "spec.selector")
    if selector is None or not _matches(selector, labels):
        text = "`selector` does not match template `labels`"
        problems.append(errors.invalid_value("spec.template.metadata.labels", labels, text))
    return problems


def _generated_problems(obj: Object, *, prefixed: bool) -> list[FieldError]:
    """A selector that is generated, and the labels that it looks for. Old jobs have no prefixed ones."""
    spec = obj["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = _labels(spec.get("template") or {})
    problems: list[FieldError] = []
    where = "spec.template.metadata.labels"
    made = {"controller-uid": obj["metadata"].get("uid"), "job-name": obj["metadata"].get("name") or ""}
    expected = made | {_PREFIX + key: value for key, value in made.items()} if prefixed else made
    for key, value in expected.items():
        if key not in labels:
            problems.append(errors.required(f"{where}[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            problems.append(errors.invalid_value(f"{where}[{key}]", labels, f"must be '{value}'"))
    if not _matches(spec["selector"], expected):
        problems.append(errors.invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return problems


def _host_name_problems(obj: Object) -> list[FieldError]:
    """Pods of an indexed job are hosts, named after it and their index."""
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) <= 0:
        return []
    last = f"{name}-{spec['completions'] - 1}"
    if not dns_label_errors(last):
        return []
    told = f"will not able to create pod with invalid DNS label: {last}"
    return [errors.invalid_value("metadata.name", name, told)]


def _completions_problems(spec: Object, before: Object) -> list[FieldError]:
    wanted = spec.get("completions")
    if wanted == before.get("completions"):
        return []
    if spec.get("completionMode") != "Indexed":
        return [errors.invalid_value("spec.completions", wanted, IMMUTABLE)]
    if wanted is None or wanted == spec.get("parallelism"):
        return []
    text = "can only be modified in tandem with spec.parallelism"
    return [errors.invalid_value("spec.completions", wanted, text)]


def _template_problems(template: Object, old: Object) -> list[FieldError]:
    """A template does not change, but as long as a job has no pods it may still be steered to other nodes, and its
    pods may be made larger or smaller."""
    before: Object = old["spec"]["template"]
    if template == before:
        return []
    if not _is_at_rest(old):
        return [errors.invalid_value("spec.template", go_named(template), IMMUTABLE)]
    if _fixed_metadata(template) != _fixed_metadata(before):
        return [errors.invalid_value("spec.template", go_named(template), IMMUTABLE)]
    if _fixed_pod(template) != _fixed_pod(before):
        return [errors.invalid_value("spec.template.spec", go_named(template.get("spec")), IMMUTABLE)]
    return []


def _is_at_rest(job: Object) -> bool:
    """Whether a job is suspended, and was before it ever began or has come to a halt."""
    status: Object = job.get("status") or {}
    if not job["spec"].get("suspend") or status.get("active"):
        return False
    return status.get("startTime") is None or any(
        each.get("type") == "Suspended" and each.get("status") == "True" for each in status.get("conditions") or ()
    )


def _fixed_metadata(template: Object) -> Object:
    meta: Object = template.get("metadata") or {}
    return {name: value for name, value in meta.items() if name not in ("labels", "annotations")}


def _fixed_pod(template: Object) -> Object:
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in _STEERED}
    affinity = {k: v for k, v in (spec.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [{k: v for k, v in each.items() if k != "resources"} for each in spec[field]]
    return {**spec, "affinity": affinity}


def _matches(selector: Object, labels: Object) -> bool:
    try:
        return selector_from(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (SelectorError, msgspec.ValidationError):
        # Said already, by the selector's own problems.
        return True


class CronJobStrategy(Strategy):
    """Of the job it makes only the pod template is filled in; the rest is, when the job is made."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        fill(
            spec,
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            },
        )
        job = child(spec, "jobTemplate")
        child(job, "metadata")
        default_template(child(child(job, "spec"), "template"))

    def validate(self, obj: Object) -> list[FieldError]:
        problems, name = _cron_problems(obj["spec"], None), obj["metadata"].get("name") or ""
        if len(name) > _CRON_NAME:
            # Names of jobs add eleven characters and must remain labels.
            text = f"must be no more than {_CRON_NAME} characters"
            problems.append(errors.invalid_value("metadata.name", name, text))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [] if obj["spec"] == old["spec"] else _cron_problems(obj["spec"], old["spec"])


def _cron_problems(spec: Object, before: Object | None) -> list[FieldError]:
    schedule, zone, policy = spec.get("schedule") or "", spec.get("timeZone"), spec.get("concurrencyPolicy")
    problems: list[FieldError] = []
    if not schedule:
        problems.append(errors.required("spec.schedule"))
    else:
        problems += _schedule_problems(schedule, zone, tolerated="TZ" in ((before or {}).get("schedule") or ""))
    problems += number_problems(spec, "spec", ("startingDeadlineSeconds",))
    if before is None or zone != before.get("timeZone"):
        problems += _zone_problems(zone)
    if policy not in _POLICIES:
        problems.append(errors.not_supported("spec.concurrencyPolicy", policy, _POLICIES))
    job: Object = spec["jobTemplate"].get("spec") or {}
    problems += _job_problems(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        text = "`selector` will be auto-generated"
        problems.append(errors.invalid_value("spec.jobTemplate.spec.selector", job["selector"], text))
    if job.get("manualSelector"):
        where = "spec.jobTemplate.spec.manualSelector"
        problems.append(errors.not_supported(where, job["manualSelector"], ("nil", "false")))
    return problems + number_problems(spec, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


def _schedule_problems(schedule: str, zone: str | None, *, tolerated: bool) -> list[FieldError]:
    """What is wrong with a schedule. A zone of its own is tolerated where it had one before."""
    problems: list[FieldError] = []
    try:
        check_schedule(schedule)
    except CronError as error:
        problems.append(errors.invalid_value("spec.schedule", schedule, str(error)))
    if "TZ" in schedule and not tolerated:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        problems.append(errors.invalid_value("spec.schedule", schedule, text))
    elif "TZ" in schedule and zone is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        problems.append(errors.invalid_value("spec.schedule", schedule, text))
    return problems


def _zone_problems(zone: str | None) -> list[FieldError]:
    if zone is None:
        return []
    if not zone:
        return [errors.invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [errors.invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")]
    problems: list[FieldError] = []
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        problems.append(errors.invalid_value("spec.timeZone", zone, text))
    try:
        if zone != "Local":  # which Go knows, as that of the machine
            load_zone(zone)
    except UnknownZone as error:
        problems.append(errors.invalid_value("spec.timeZone", zone, str(error)))
    return problems
