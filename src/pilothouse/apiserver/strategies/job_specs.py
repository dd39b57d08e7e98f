"""What a job is to do: validation of its spec, be it a job's or that of the jobs of a CronJob.

After ``validateJobSpec`` and what it calls in kubernetes' ``pkg/apis/batch/validation/validation.go`` (v1.36).
"""

from collections.abc import Iterable

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.domain_paths import domain_path_problems
from pilothouse.apiserver.strategies.filling import number_problems
from pilothouse.apiserver.strategies.job_indexes import IndexesError, count_indexes
from pilothouse.apiserver.strategies.pod_templates import validate_template
from pilothouse.machinery.names import qualified_name_errors

_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_RESTART = 'valid values: "OnFailure", "Never"'
_NEEDS_INDEXES = "requires indexed completion mode"

# The indexes that have ended are listed in the status, which must not grow without bound.
_MOST_INDEXES = 100_000
_MOST_OF_MANY = 10_000
_MOST_RULES = 20
_MOST_EXIT_CODES = 255
_MOST_CONDITIONS = 20
_LONGEST_MANAGER = 63
_LONGEST_INDEXES = 64 * 1024


def job_spec_problems(spec: Object, path: str) -> list[FieldError]:
    """What is wrong with a job's spec, apart from its selector."""
    template: Object = spec.get("template") or {}
    problems = number_problems(spec, path, _NUMBERS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        problems.append(errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        problems += _manager_problems(spec["managedBy"], f"{path}.managedBy")
    problems += _mode_problems(spec, path)
    if spec.get("podFailurePolicy") is not None:
        problems += _failure_policy_problems(spec, template.get("spec") or {}, f"{path}.podFailurePolicy.rules")
    if spec.get("successPolicy") is not None:
        problems += _success_policy_problems(spec, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    supported = _REPLACEMENTS if spec.get("podFailurePolicy") is None else _REPLACEMENTS[:1]
    if replacement is not None and replacement not in supported:
        problems.append(errors.not_supported(f"{path}.podReplacementPolicy", replacement, supported))
    problems += validate_template(template, f"{path}.template", restart_policies=("Always", "OnFailure", "Never"))
    return problems + _restart_problems(spec, template, f"{path}.template.spec.restartPolicy")


def _restart_problems(spec: Object, template: Object, path: str) -> list[FieldError]:
    """A pod of a job must be able to end."""
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in ("Always", "", None):
        return [errors.required(path, _RESTART)]
    if policy not in ("OnFailure", "Never"):
        return [errors.not_supported(path, policy, ("OnFailure", "Never"))]
    if policy != "Never" and spec.get("podFailurePolicy") is not None:
        told = 'only "Never" is supported when podFailurePolicy is specified'
        return [errors.invalid_value(path, policy, told)]
    return []


def _manager_problems(manager: str, path: str) -> list[FieldError]:
    problems = domain_path_problems(manager, path)
    if len(manager.encode()) > _LONGEST_MANAGER:
        problems.append(errors.too_long(path, _LONGEST_MANAGER))
    return problems


def _mode_problems(spec: Object, path: str) -> list[FieldError]:
    """What goes with indexes, and what only with them."""
    mode = spec.get("completionMode")
    if mode == "Indexed":
        return _indexed_problems(spec, path)
    if mode is not None and mode != "NonIndexed":
        return [errors.not_supported(f"{path}.completionMode", mode, _MODES)]
    return [
        errors.invalid_value(f"{path}.{field}", spec[field], _NEEDS_INDEXES)
        for field in ("backoffLimitPerIndex", "maxFailedIndexes")
        if spec.get(field) is not None
    ]


def _indexed_problems(spec: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    completions, parallelism, most = spec.get("completions"), spec.get("parallelism"), spec.get("maxFailedIndexes")
    if completions is None:
        problems.append(errors.required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MOST_INDEXES:
        told = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        problems.append(errors.invalid_value(f"{path}.parallelism", parallelism, told))
    if completions is not None and most is not None and most > completions:
        told = "must be less than or equal to completions"
        problems.append(errors.invalid_value(f"{path}.maxFailedIndexes", most, told))
    if most is not None and most > _MOST_INDEXES:
        told = f"must be less than or equal to {_MOST_INDEXES}"
        problems.append(errors.invalid_value(f"{path}.maxFailedIndexes", most, told))
    if completions is None or completions <= _MOST_INDEXES or spec.get("backoffLimitPerIndex") is None:
        return problems
    told = (
        f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MOST_INDEXES} and used with "
        "backoff limit per index"
    )
    if most is None:
        needed = f"must be specified when completions is above {_MOST_INDEXES}"
        problems.append(errors.required(f"{path}.maxFailedIndexes", needed))
    if parallelism is not None and parallelism > _MOST_OF_MANY:
        problems.append(errors.invalid_value(f"{path}.parallelism", parallelism, told))
    if most is not None and most > _MOST_OF_MANY:
        problems.append(errors.invalid_value(f"{path}.maxFailedIndexes", most, told))
    return problems


# Policies


def _valid(choices: Iterable[str]) -> str:
    return f"valid values: [{' '.join(map(errors.shown, choices))}]"


def _choice_problems(value: str, path: str, choices: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [errors.required(path, _valid(choices))]
    return [] if value in choices else [errors.not_supported(path, value, choices)]


def _failure_policy_problems(spec: Object, pod: Object, path: str) -> list[FieldError]:
    rules = spec["podFailurePolicy"].get("rules") or ()
    problems = [errors.too_many(path, len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    containers = {each.get("name") for field in ("containers", "initContainers") for each in pod.get(field) or ()}
    for position, rule in enumerate(rules):
        where = f"{path}[{position}]"
        action, exits, conditions = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions")
        problems += _choice_problems(action, f"{where}.action", _ACTIONS)
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            told = "requires the backoffLimitPerIndex to be set"
            problems.append(errors.invalid_value(f"{where}.action", action, told))
        if exits is not None:
            problems += _exit_code_problems(exits, f"{where}.onExitCodes", containers)
        if conditions:
            problems += _pod_condition_problems(conditions, f"{where}.onPodConditions")
        if exits is not None and conditions:
            told = "specifying both OnExitCodes and OnPodConditions is not supported"
            problems.append(errors.invalid_field(where, told))
        elif exits is None and not conditions:
            told = "specifying one of OnExitCodes and OnPodConditions is required"
            problems.append(errors.invalid_field(where, told))
    return problems


def _exit_code_problems(exits: Object, path: str, containers: set[str | None]) -> list[FieldError]:
    operator, container, codes = exits.get("operator") or "", exits.get("containerName"), exits.get("values")
    problems = _choice_problems(operator, f"{path}.operator", _OPERATORS)
    if container is not None and container not in containers:
        told = "must be one of the container or initContainer names in the pod template"
        problems.append(errors.invalid_value(f"{path}.containerName", container, told))
    if not codes:
        return [*problems, errors.invalid_value(f"{path}.values", codes, "at least one value is required")]
    if len(codes) > _MOST_EXIT_CODES:
        problems.append(errors.too_many(f"{path}.values", len(codes), _MOST_EXIT_CODES))
    seen: set[int] = set()
    for position, code in enumerate(codes):
        if operator == "In" and code == 0:
            told = "must not be 0 for the In operator"
            problems.append(errors.invalid_value(f"{path}.values[{position}]", code, told))
        if code in seen:
            problems.append(errors.duplicate(f"{path}.values[{position}]", code))
        seen.add(code)
    if codes != sorted(codes):
        problems.append(errors.invalid_value(f"{path}.values", codes, "must be ordered"))
    return problems


def _pod_condition_problems(patterns: list[Object], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    if len(patterns) > _MOST_CONDITIONS:
        problems.append(errors.too_many(path, len(patterns), _MOST_CONDITIONS))
    for position, pattern in enumerate(patterns):
        type_ = pattern.get("type") or ""
        problems += [
            errors.invalid_value(f"{path}[{position}].type", type_, text) for text in qualified_name_errors(type_)
        ]
        problems += _choice_problems(pattern.get("status") or "", f"{path}[{position}].status", _STATUSES)
    return problems


def _success_policy_problems(spec: Object, path: str) -> list[FieldError]:
    rules = spec["successPolicy"].get("rules") or ()
    if spec.get("completionMode") != "Indexed":
        shown = {"Rules": [{name: rule.get(name[0].lower() + name[1:]) for name in _SUCCESS_FIELDS} for rule in rules]}
        return [errors.invalid_value(path, shown, _NEEDS_INDEXES)]
    problems: list[FieldError] = []
    if not rules:
        told = "at least one rules must be specified when the successPolicy is specified"
        problems.append(errors.required(f"{path}.rules", told))
    if len(rules) > _MOST_RULES:
        problems.append(errors.too_many(f"{path}.rules", len(rules), _MOST_RULES))
    # Without completions, which are told to be missing, upstream gives up.
    completions = spec.get("completions")
    for position, rule in enumerate(rules if completions is not None else ()):
        problems += _success_rule_problems(rule, f"{path}.rules[{position}]", completions or 0)
    return problems


_SUCCESS_FIELDS = ("SucceededIndexes", "SucceededCount")


def _success_rule_problems(rule: Object, path: str, completions: int) -> list[FieldError]:
    problems: list[FieldError] = []
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    named = 0
    if count is None and indexes is None:
        told = "at least one of succeededCount or succeededIndexes must be specified"
        return [errors.required(path, told)]
    if indexes is not None:
        if len(indexes.encode()) > _LONGEST_INDEXES:
            problems.append(errors.too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES))
        try:
            named = count_indexes(indexes, completions)
        except IndexesError as error:
            told = f"error parsing succeededIndexes: {error}"
            problems.append(errors.invalid_value(f"{path}.succeededIndexes", indexes, told))
    if count is None:
        return problems
    problems += number_problems(rule, path, ("succeededCount",))
    limits = [(completions, "the number of specified completions")]
    if indexes is not None:
        limits.append((named, "the number of indexes in the specified succeededIndexes field"))
    return problems + [
        errors.invalid_value(f"{path}.succeededCount", count, f"must be less than or equal to {most} ({what})")
        for most, what in limits
        if count > most
    ]
