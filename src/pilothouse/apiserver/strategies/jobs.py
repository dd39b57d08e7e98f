"""Jobs and CronJobs.

After kubernetes' ``pkg/apis/batch/{v1/defaults.go,validation/validation.go}`` and ``pkg/registry/batch`` (v1.36). The
selector of a job and the labels that it looks for are made here, of the job's own uid.
"""

from collections.abc import Iterable

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import IMMUTABLE, child, fill, fixed, go_named, number_problems
from pilothouse.apiserver.strategies.pod_templates import validate_template
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.apiserver.strategies.warnings import pod_spec_warnings
from pilothouse.machinery.cron import CronError, check_schedule
from pilothouse.machinery.labels import SelectorError, selector_from
from pilothouse.machinery.zones import UnknownZone, load_zone
from pilothouse.semantics.pod_defaults import default_template

_MAX_INT32 = 2**31 - 1
_MODES = ("Indexed", "NonIndexed")
_POLICIES = ("Allow", "Forbid", "Replace")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_RESTART = 'valid values: "OnFailure", "Never"'
_PREFIX = "batch.kubernetes.io/"
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_CRON_NAME = 52
_SUSPENDED_MUTABLE = ("nodeSelector", "tolerations", "schedulingGates")


def _labels(obj: Object) -> dict[str, str]:
    found: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return found


def _restart_problems(spec: Object, path: str) -> list[FieldError]:
    """A pod of a job must be able to end."""
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    where = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        return [errors.required(where, _RESTART)]
    if policy not in ("OnFailure", "Never"):
        return [errors.not_supported(where, policy, ("OnFailure", "Never"))]
    return []


def _job_spec_problems(spec: Object, path: str) -> list[FieldError]:
    """What is wrong with a job, be it one or the template of one."""
    problems = number_problems(spec, path, _NUMBERS)
    mode, policy = spec.get("completionMode"), spec.get("podFailurePolicy")
    if mode is not None and mode not in _MODES:
        problems.append(errors.not_supported(f"{path}.completionMode", mode, _MODES))
    if mode == "Indexed" and spec.get("completions") is None:
        problems.append(errors.required(f"{path}.completions", "when completion mode is Indexed"))
    if spec.get("backoffLimitPerIndex") is not None and mode != "Indexed":
        problems.append(
            errors.invalid_value(
                f"{path}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode"
            )
        )
    elif spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        problems.append(errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    replacement = spec.get("podReplacementPolicy")
    if replacement is not None:
        supported = ("Failed",) if policy else _REPLACEMENTS
        if replacement not in supported:
            problems.append(errors.not_supported(f"{path}.podReplacementPolicy", replacement, supported))
    problems += _failure_policy_problems(spec, policy, f"{path}.podFailurePolicy")
    problems += validate_template(
        spec.get("template") or {}, f"{path}.template", restart_policies=("Always", "OnFailure", "Never")
    )
    return problems + _restart_problems(spec, path)


def _failure_policy_problems(spec: Object, policy: Object | None, path: str) -> list[FieldError]:
    if not policy:
        return []
    problems: list[FieldError] = []
    if ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") != "Never":
        restart = path.removesuffix("podFailurePolicy") + "template.spec.restartPolicy"
        text = 'only "Never" is supported when podFailurePolicy is specified'
        value = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
        problems.append(errors.invalid_value(restart, value, text))
    for position, rule in enumerate(policy.get("rules") or ()):
        where = f"{path}.rules[{position}]"
        action = rule.get("action")
        if not action:
            problems.append(
                errors.required(f"{where}.action", f"valid values: [{' '.join(map(errors.shown, _ACTIONS))}]")
            )
        elif action not in _ACTIONS:
            problems.append(errors.not_supported(f"{where}.action", action, _ACTIONS))
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            problems.append(
                errors.invalid_value(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
            )
        exits, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if bool(exits) == bool(conditions):
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            if exits:
                text = "specifying both OnExitCodes and OnPodConditions is not supported"
            problems.append(errors.invalid_value(where, go_named(rule), text))
    return problems


class JobStrategy(Strategy):
    """Counts of one, a selector of its own, and a template that does not change under it."""

    selectable = {"status.successful": ("status", "succeeded")}  # read only
    selectable_defaults = {"status.successful": "0"}  # read only

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = spec["parallelism"] = 1
        limit = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
        replacement = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
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
        spec = obj["spec"]
        return self._generated_problems(obj) + self._spec_problems(spec)

    @staticmethod
    def _spec_problems(spec: Object) -> list[FieldError]:
        problems = _job_spec_problems(spec, "spec")
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

    @staticmethod
    def _generated_problems(obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        if spec.get("manualSelector") or spec.get("selector") is None:
            return []
        uid, labels = obj["metadata"].get("uid"), _labels(spec.get("template") or {})
        problems: list[FieldError] = []
        where = "spec.template.metadata.labels"
        expected = {
            _PREFIX + "controller-uid": uid,
            "controller-uid": uid,
            _PREFIX + "job-name": obj["metadata"].get("name") or "",
            "job-name": obj["metadata"].get("name") or "",
        }
        for key, value in expected.items():
            if key not in labels:
                problems.append(errors.required(f"{where}[{key}]", f"must be '{value}'"))
            elif labels[key] != value:
                problems.append(errors.invalid_value(f"{where}[{key}]", labels, f"must be '{value}'"))
        if not _matches(spec["selector"], expected):
            problems.append(errors.invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated"))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        if spec == before and obj["metadata"].get("uid") == old["metadata"].get("uid"):
            return []
        # The whole job, and its spec again.
        problems = self._generated_problems(obj) + self._spec_problems(spec) * self.judgements.spec
        problems += _completions_problems(spec, before)
        problems += fixed(spec, before, "spec", ("selector",))
        if _fixed_template(spec["template"], before) != _fixed_template(before["template"], before):
            problems.append(errors.invalid_value("spec.template", go_named(spec["template"]), IMMUTABLE))
        return problems + fixed(spec, before, "spec", _FIXED)

    def refuses_field(self, path: str) -> str:
        return f'field label "{path}" not supported for Job'


def _completions_problems(spec: Object, before: Object) -> list[FieldError]:
    wanted, was = spec.get("completions"), before.get("completions")
    if wanted == was:
        return []
    if before.get("completionMode") != "Indexed":
        return [errors.invalid_value("spec.completions", wanted, IMMUTABLE)]
    if wanted != spec.get("parallelism") or was != before.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        return [errors.invalid_value("spec.completions", wanted, text)]
    return []


def _fixed_template(template: Object, before: Object) -> Object:
    """The part of a template that may not change. A suspended job may still be steered to other nodes."""
    if not before.get("suspend"):
        return template
    meta = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in _SUSPENDED_MUTABLE}
    affinity = {k: v for k, v in (spec.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [{k: v for k, v in each.items() if k != "resources"} for each in spec[field]]
    return {"metadata": meta, "spec": {**spec, "affinity": affinity}}


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
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        problems: list[FieldError] = []
        if len(name) > _CRON_NAME:
            # Names of jobs add eleven characters and must remain labels.
            text = f"must be no more than {_CRON_NAME} characters"
            problems.append(errors.invalid_value("metadata.name", name, text))
        schedule = spec.get("schedule") or ""
        if not schedule:
            problems.append(errors.required("spec.schedule"))
        else:
            problems += _schedule_problems(schedule, spec.get("timeZone"))
        problems += number_problems(spec, "spec", ("startingDeadlineSeconds",))
        policy = spec.get("concurrencyPolicy")
        if policy not in _POLICIES:
            problems.append(errors.not_supported("spec.concurrencyPolicy", policy, _POLICIES))
        problems += number_problems(spec, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))
        job = spec["jobTemplate"].get("spec") or {}
        problems += _job_spec_problems(job, "spec.jobTemplate.spec")
        if job.get("selector") is not None:
            text = "`selector` will be auto-generated"
            problems.append(errors.invalid_value("spec.jobTemplate.spec.selector", job["selector"], text))
        if job.get("manualSelector"):
            problems.append(
                errors.not_supported("spec.jobTemplate.spec.manualSelector", job["manualSelector"], ("nil", "false"))
            )
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [] if obj["spec"] == old["spec"] else self.validate_again(obj)


def _schedule_problems(schedule: str, zone: str | None) -> list[FieldError]:
    problems: list[FieldError] = []
    try:
        check_schedule(schedule)
    except CronError as error:
        problems.append(errors.invalid_value("spec.schedule", schedule, str(error)))
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        problems.append(errors.invalid_value("spec.schedule", schedule, text))
    return problems + _zone_problems(zone)


def _zone_problems(zone: str | None) -> list[FieldError]:
    if zone is None:
        return []
    if not zone:
        return [errors.invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [errors.invalid_value("spec.timeZone", zone, text)]
    try:
        load_zone(zone)
    except UnknownZone as error:
        return [errors.invalid_value("spec.timeZone", zone, str(error))]
    return []
