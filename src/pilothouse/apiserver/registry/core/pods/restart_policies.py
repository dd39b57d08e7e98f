"""When containers run again, and what they need when their resources change.

After ``validateContainerRestartPolicy``, ``validateResizePolicy`` and ``validateInitContainers`` in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, duplicate, invalid, named, not_supported, required, too_many
from pilothouse.apiserver.objects import Object

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MOST_RULES, _MOST_CODES = 20, 255
_RESIZABLE = ("cpu", "memory")
_RESIZES = ("NotRequired", "RestartContainer")


def validate_container_restart_policy(container: Object, path: str) -> ErrorList:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors: ErrorList = []
    if policy is None and rules:
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy is not None and policy not in _POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _POLICIES))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), _MOST_RULES))
    for position, rule in enumerate(rules):
        child_path = f"{path}.restartPolicyRules[{position}]"
        action, codes = rule.get("action") or "", rule.get("exitCodes")
        if action not in _ACTIONS:
            errors.append(not_supported(f"{child_path}.action", action, _ACTIONS))
        if codes is None:
            errors.append(required(f"{child_path}.exitCodes", "must be specified"))
            continue
        operator, values = codes.get("operator") or "", codes.get("values") or ()
        if operator not in _OPERATORS:
            errors.append(not_supported(f"{child_path}.exitCodes.operator", operator, _OPERATORS))
        if len(values) > _MOST_CODES:
            errors.append(too_many(f"{child_path}.exitCodes.values", len(values), _MOST_CODES))
    return errors


def validate_init_container_restart_policy(container: Object, path: str) -> ErrorList:
    """The same of an init container, whose rules are not validated without a policy."""
    found = validate_container_restart_policy(container, path)
    return found[:1] if container.get("restartPolicy") is None else found


def validate_resize_policy(policies: Sequence[Object], path: str, of_pod: str | None) -> ErrorList:
    errors: ErrorList = []
    seen: set[str] = set()
    for position, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            errors.append(duplicate(f"{path}[{position}]", named(name)))
        seen.add(name)
        # Upstream names the list rather than the one.
        for value, choices in ((name, _RESIZABLE), (restart, _RESIZES)):
            if not value:
                errors.append(required(path))
            elif value not in choices:
                errors.append(not_supported(path, value, choices))
        if of_pod == "Never" and restart != "NotRequired":
            errors.append(invalid(path, named(restart), "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return errors


def validate_init_container_resize_policy(container: Object, path: str) -> ErrorList:
    """An init container that ends is not restarted to get other resources."""
    detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return [
        invalid(f"{path}.resizePolicy[{position}].restartPolicy", "RestartContainer", detail)
        for position, policy in enumerate(container.get("resizePolicy") or ())
        if policy.get("restartPolicy") == "RestartContainer"
    ]


def runs_again(container: Object, of_pod: str | None, code: int) -> bool:
    """Whether a container that has ended with this code is to run again: by the first of its rules that fits, by its
    own policy, or by the pod's (``ContainerShouldRestart``, ``pkg/api/v1/pod/util.go``)."""
    own = container.get("restartPolicy")
    if own is not None:
        for rule in container.get("restartPolicyRules") or ():
            codes: Object | None = rule.get("exitCodes")
            if codes is not None and (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
                if rule.get("action") in _ACTIONS:
                    return True
                break
    policy = own or of_pod
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def all_containers_could_restart(spec: Object) -> bool:
    """Whether some container, when it ends, may take all others with it (``AllContainersCouldRestart``)."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        for rule in container.get("restartPolicyRules") or ()
    )
