"""Matches a failed pod with a Job's ``podFailurePolicy``. Pure.

Upstream: v1.36 ``pkg/controller/job/pod_failure_policy.go``.
"""

from collections.abc import Iterable

import msgspec

from pilothouse.api.batch import ExitCodesRequirement, PodConditionPattern, PodFailurePolicy
from pilothouse.api.core import ContainerStatus, Pod, PodCondition


class PolicyMatch(msgspec.Struct, frozen=True, kw_only=True):
    """``action`` is that of the first matching rule; if there is none it is empty, and the failure is counted."""

    counts: bool = True
    action: str = ""
    message: str = ""
    """Why the Job fails; only with the action FailJob."""


NO_RULE = PolicyMatch()


def match_pod_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> PolicyMatch:
    """The result of the first rule that matches the failed pod."""
    if policy is None:
        return NO_RULE
    for number, rule in enumerate(policy.rules):
        reason = ""
        if rule.on_exit_codes is not None:
            container = _container(rule.on_exit_codes, pod)
            if container is None:
                continue
            terminated = container.state.terminated
            assert terminated is not None, "only containers that have ended are matched"
            reason = (
                f"Container {container.name} for pod {pod.metadata.namespace}/{pod.metadata.name} "
                f"failed with exit code {terminated.exit_code}"
            )
        elif rule.on_pod_conditions:
            condition = _condition(rule.on_pod_conditions, pod)
            if condition is None:
                continue
            reason = f"Pod {pod.metadata.namespace}/{pod.metadata.name} has condition {condition.type}"
        else:
            continue
        if rule.action == "Ignore":
            return PolicyMatch(counts=False, action="Ignore")
        if rule.action == "FailIndex":
            return PolicyMatch(action="FailIndex")
        if rule.action == "Count":
            return PolicyMatch(action="Count")
        if rule.action == "FailJob":
            return PolicyMatch(action="FailJob", message=f"{reason} matching FailJob rule at index {number}")
    return NO_RULE


def _container(requirement: ExitCodesRequirement, pod: Pod) -> ContainerStatus | None:
    """The first container, or else init container, with a matching exit code. Exit code 0 never matches."""
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        terminated = status.state.terminated
        if terminated is None or terminated.exit_code == 0:
            continue
        if requirement.container_name not in (None, status.name):
            continue
        listed = terminated.exit_code in requirement.values
        if (requirement.operator == "In" and listed) or (requirement.operator == "NotIn" and not listed):
            return status
    return None


def _condition(patterns: Iterable[PodConditionPattern], pod: Pod) -> PodCondition | None:
    desired = {(pattern.type, pattern.status) for pattern in patterns}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in desired:
            return condition
    return None
