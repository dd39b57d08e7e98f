"""Validation of container restart policies and resize policies.

After ``validateContainerRestartPolicy``, ``validateResizePolicy`` and ``validateInitContainers`` in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    invalid,
    not_supported,
    of_named_type,
    required,
    too_many,
)
from pilothouse.apiserver.objects import Object

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MAX_RULES, _MAX_CODES = 20, 255
_RESIZABLE_RESOURCES = ("cpu", "memory")
_RESIZE_RESTART_POLICIES = ("NotRequired", "RestartContainer")


def validate_container_restart_policy(container: Object, path: str) -> ErrorList:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors: ErrorList = []
    if policy is None and rules:
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy is not None and policy not in _POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _POLICIES))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RULES))
    for position, rule in enumerate(rules):
        child_path = f"{path}.restartPolicyRules[{position}]"
        action, exit_codes = rule.get("action") or "", rule.get("exitCodes")
        if action not in _ACTIONS:
            errors.append(not_supported(f"{child_path}.action", action, _ACTIONS))
        if exit_codes is None:
            errors.append(required(f"{child_path}.exitCodes", "must be specified"))
            continue
        operator, values = exit_codes.get("operator") or "", exit_codes.get("values") or ()
        if operator not in _OPERATORS:
            errors.append(not_supported(f"{child_path}.exitCodes.operator", operator, _OPERATORS))
        if len(values) > _MAX_CODES:
            errors.append(too_many(f"{child_path}.exitCodes.values", len(values), _MAX_CODES))
    return errors


def validate_init_container_restart_policy(container: Object, path: str) -> ErrorList:
    """``validate_container_restart_policy`` for an init container, whose rules are not validated without a policy."""
    errors = validate_container_restart_policy(container, path)
    return errors[:1] if container.get("restartPolicy") is None else errors


def validate_resize_policy(policies: Sequence[Object], path: str, pod_restart_policy: str | None) -> ErrorList:
    errors: ErrorList = []
    unique_resources: set[str] = set()
    for position, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in unique_resources:
            errors.append(duplicate(f"{path}[{position}]", of_named_type(name)))
        unique_resources.add(name)
        # Upstream's path is that of the list.
        for value, choices in ((name, _RESIZABLE_RESOURCES), (restart, _RESIZE_RESTART_POLICIES)):
            if not value:
                errors.append(required(path))
            elif value not in choices:
                errors.append(not_supported(path, value, choices))
        if pod_restart_policy == "Never" and restart != "NotRequired":
            errors.append(
                invalid(path, of_named_type(restart), "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
            )
    return errors


def validate_init_container_resize_policy(container: Object, path: str) -> ErrorList:
    """Init containers that are not sidecars cannot be restarted for a resize."""
    detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return [
        invalid(f"{path}.resizePolicy[{position}].restartPolicy", "RestartContainer", detail)
        for position, policy in enumerate(container.get("resizePolicy") or ())
        if policy.get("restartPolicy") == "RestartContainer"
    ]


def container_should_restart(container: Object, pod_restart_policy: str | None, exit_code: int) -> bool:
    """Whether a container that exited with this code is restarted: by its first matching rule, else its policy, else
    the pod's (``ContainerShouldRestart``, ``pkg/api/v1/pod/util.go``)."""
    container_policy = container.get("restartPolicy")
    if container_policy is not None:
        for rule in container.get("restartPolicyRules") or ():
            exit_codes: Object | None = rule.get("exitCodes")
            if exit_codes is not None and (exit_code in (exit_codes.get("values") or ())) == (
                exit_codes.get("operator") == "In"
            ):
                if rule.get("action") in _ACTIONS:
                    return True
                break
    policy = container_policy or pod_restart_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def all_containers_could_restart(spec: Object) -> bool:
    """Whether a container has a rule to restart all containers (``AllContainersCouldRestart``)."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        for rule in container.get("restartPolicyRules") or ()
    )
