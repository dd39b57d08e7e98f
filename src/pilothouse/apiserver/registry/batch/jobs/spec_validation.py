"""Validation of the specs of Jobs, and of the job templates of CronJobs.

After ``validateJobSpec`` and the functions it calls in kubernetes' ``pkg/apis/batch/validation/validation.go`` (v1.36).
"""

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    format_value,
    internal_value,
    invalid,
    invalid_omitting_value,
    not_supported,
    of_named_type,
    required,
    too_long,
    too_many,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.batch.jobs.indexes import IndexesError, count_indexes
from pilothouse.apiserver.registry.core.pods.validation import validate_pod_template_spec
from pilothouse.apiserver.registry.generic.meta_validation import validate_domain_prefixed_path
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields
from pilothouse.machinery.names import qualified_name_errors

_NON_NEGATIVE_FIELDS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_VALID_RESTART_POLICIES = 'valid values: "OnFailure", "Never"'
_REQUIRES_INDEXED = "requires indexed completion mode"

# Finished indexes are listed in the status, whose size must be limited.
_COMPLETIONS_SOFT_LIMIT = 100_000
_LIMIT_FOR_HIGH_COMPLETIONS = 10_000
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_CONDITIONS = 20
_MAX_MANAGER_LENGTH = 63
_MAX_INDEXES_LENGTH = 64 * 1024


def validate_job_spec(spec: Object, path: str) -> ErrorList:
    template: Object = spec.get("template") or {}
    errors = validate_nonnegative_fields(spec, path, _NON_NEGATIVE_FIELDS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        errors += _validate_managed_by(spec["managedBy"], f"{path}.managedBy")
    errors += _validate_completion_mode(spec, path)
    if spec.get("podFailurePolicy") is not None:
        errors += _validate_pod_failure_policy(spec, template.get("spec") or {}, f"{path}.podFailurePolicy.rules")
    if spec.get("successPolicy") is not None:
        errors += _validate_success_policy(spec, f"{path}.successPolicy")
    replacement_policy = spec.get("podReplacementPolicy")
    supported = _REPLACEMENT_POLICIES if spec.get("podFailurePolicy") is None else _REPLACEMENT_POLICIES[:1]
    if replacement_policy is not None and replacement_policy not in supported:
        errors.append(not_supported(f"{path}.podReplacementPolicy", replacement_policy, supported))
    errors += validate_pod_template_spec(template, f"{path}.template")
    return errors + _validate_restart_policy(spec, template, f"{path}.template.spec.restartPolicy")


def _validate_restart_policy(spec: Object, template: Object, path: str) -> ErrorList:
    """Pods of a Job must be able to terminate."""
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in ("Always", "", None):
        return [required(path, _VALID_RESTART_POLICIES)]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if policy != "Never" and spec.get("podFailurePolicy") is not None:
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _validate_managed_by(manager: str, path: str) -> ErrorList:
    errors = validate_domain_prefixed_path(manager, path)
    if len(manager.encode()) > _MAX_MANAGER_LENGTH:
        errors.append(too_long(path, _MAX_MANAGER_LENGTH))
    return errors


def _validate_completion_mode(spec: Object, path: str) -> ErrorList:
    """``completionMode``, and the fields that depend on it."""
    mode = spec.get("completionMode")
    if mode == "Indexed":
        return _validate_indexed_job(spec, path)
    if mode is not None and mode != "NonIndexed":
        return [not_supported(f"{path}.completionMode", mode, _MODES)]
    return [
        invalid(f"{path}.{field}", spec[field], _REQUIRES_INDEXED)
        for field in ("backoffLimitPerIndex", "maxFailedIndexes")
        if spec.get(field) is not None
    ]


def _validate_indexed_job(spec: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    max_failed = spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _COMPLETIONS_SOFT_LIMIT:
        detail = f"must be less than or equal to {_COMPLETIONS_SOFT_LIMIT} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    if completions is not None and max_failed is not None and max_failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", max_failed, "must be less than or equal to completions"))
    if max_failed is not None and max_failed > _COMPLETIONS_SOFT_LIMIT:
        errors.append(
            invalid(f"{path}.maxFailedIndexes", max_failed, f"must be less than or equal to {_COMPLETIONS_SOFT_LIMIT}")
        )
    if completions is None or completions <= _COMPLETIONS_SOFT_LIMIT or spec.get("backoffLimitPerIndex") is None:
        return errors
    detail = (
        f"must be less than or equal to {_LIMIT_FOR_HIGH_COMPLETIONS} when completions are above "
        f"{_COMPLETIONS_SOFT_LIMIT} and used with backoff limit per index"
    )
    if max_failed is None:
        required_detail = f"must be specified when completions is above {_COMPLETIONS_SOFT_LIMIT}"
        errors.append(required(f"{path}.maxFailedIndexes", required_detail))
    if parallelism is not None and parallelism > _LIMIT_FOR_HIGH_COMPLETIONS:
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    if max_failed is not None and max_failed > _LIMIT_FOR_HIGH_COMPLETIONS:
        errors.append(invalid(f"{path}.maxFailedIndexes", max_failed, detail))
    return errors


# Policies


def _validate_choice(value: str, path: str, choices: tuple[str, ...]) -> ErrorList:
    if not value:
        return [required(path, f"valid values: [{' '.join(map(format_value, choices))}]")]
    return [] if value in choices else [not_supported(path, value, choices)]


def _validate_pod_failure_policy(spec: Object, pod_spec: Object, path: str) -> ErrorList:
    rules = spec["podFailurePolicy"].get("rules") or ()
    errors = [too_many(path, len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    containers = {
        container.get("name") for field in ("containers", "initContainers") for container in pod_spec.get(field) or ()
    }
    for position, rule in enumerate(rules):
        child_path = f"{path}[{position}]"
        action, on_exit_codes, conditions = (
            rule.get("action") or "",
            rule.get("onExitCodes"),
            rule.get("onPodConditions"),
        )
        errors += _validate_choice(action, f"{child_path}.action", _ACTIONS)
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            detail = "requires the backoffLimitPerIndex to be set"
            errors.append(invalid(f"{child_path}.action", of_named_type(action), detail))
        if on_exit_codes is not None:
            errors += _validate_on_exit_codes(on_exit_codes, f"{child_path}.onExitCodes", containers)
        if conditions:
            errors += _validate_on_pod_conditions(conditions, f"{child_path}.onPodConditions")
        if on_exit_codes is not None and conditions:
            detail = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(invalid_omitting_value(child_path, detail))
        elif on_exit_codes is None and not conditions:
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(invalid_omitting_value(child_path, detail))
    return errors


def _validate_on_exit_codes(on_exit_codes: Object, path: str, containers: set[str | None]) -> ErrorList:
    operator, container, codes = (
        on_exit_codes.get("operator") or "",
        on_exit_codes.get("containerName"),
        on_exit_codes.get("values"),
    )
    errors = _validate_choice(operator, f"{path}.operator", _OPERATORS)
    if container is not None and container not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, detail))
    if not codes:
        return [*errors, invalid(f"{path}.values", codes, "at least one value is required")]
    if len(codes) > _MAX_EXIT_CODES:
        errors.append(too_many(f"{path}.values", len(codes), _MAX_EXIT_CODES))
    unique_values: set[int] = set()
    for position, code in enumerate(codes):
        if operator == "In" and code == 0:
            errors.append(invalid(f"{path}.values[{position}]", code, "must not be 0 for the In operator"))
        if code in unique_values:
            errors.append(duplicate(f"{path}.values[{position}]", code))
        unique_values.add(code)
    if codes != sorted(codes):
        errors.append(invalid(f"{path}.values", codes, "must be ordered"))
    return errors


def _validate_on_pod_conditions(patterns: list[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    if len(patterns) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(patterns), _MAX_CONDITIONS))
    for position, pattern in enumerate(patterns):
        type_ = pattern.get("type") or ""
        errors += [invalid(f"{path}[{position}].type", type_, msg) for msg in qualified_name_errors(type_)]
        errors += _validate_choice(pattern.get("status") or "", f"{path}[{position}].status", _STATUSES)
    return errors


def _validate_success_policy(spec: Object, path: str) -> ErrorList:
    rules = spec["successPolicy"].get("rules") or ()
    if spec.get("completionMode") != "Indexed":
        return [invalid(path, internal_value("*batch.SuccessPolicy", spec["successPolicy"]), _REQUIRES_INDEXED)]
    errors: ErrorList = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", detail))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    # Missing completions are reported elsewhere; upstream does not validate the rules then.
    completions = spec.get("completions")
    for position, rule in enumerate(rules if completions is not None else ()):
        errors += _validate_success_rule(rule, f"{path}.rules[{position}]", completions or 0)
    return errors


def _validate_success_rule(rule: Object, path: str, completions: int) -> ErrorList:
    errors: ErrorList = []
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    index_count = 0
    if count is None and indexes is None:
        return [required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    if indexes is not None:
        if len(indexes.encode()) > _MAX_INDEXES_LENGTH:
            errors.append(too_long(f"{path}.succeededIndexes", _MAX_INDEXES_LENGTH))
        try:
            index_count = count_indexes(indexes, completions)
        except IndexesError as error:
            errors.append(invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return errors
    errors += validate_nonnegative_fields(rule, path, ("succeededCount",))
    limits = [(completions, "the number of specified completions")]
    if indexes is not None:
        limits.append((index_count, "the number of indexes in the specified succeededIndexes field"))
    return errors + [
        invalid(f"{path}.succeededCount", count, f"must be less than or equal to {limit} ({description})")
        for limit, description in limits
        if count > limit
    ]
