"""The condition ``EvictionInProgress`` of a DeviceTaintRule. Pure. Upstream: ``maybeUpdateRuleStatus``, v1.36
``pkg/controller/devicetainteviction/device_taint_eviction.go``."""

import datetime

import msgspec

from pilothouse.api.meta import Condition
from pilothouse.api.resource import DeviceTaintRule
from pilothouse.machinery.conditions import find_condition
from pilothouse.semantics.devices import NO_EXECUTE

IN_PROGRESS = "EvictionInProgress"
PERIOD_SECONDS = 10.0
"""The shortest time between two updates while evictions are in progress."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    pending: int = 0
    """Pods to evict because of it, or that would be if its effect were NoExecute."""
    namespaces: int = 0
    """The number of their namespaces."""
    evicted: int = 0
    """Pods that it has evicted since the program started."""
    published: int = 0
    allocated: int = 0
    """Devices that it selects, in slices and in claims."""


def wait_seconds(rule: DeviceTaintRule, now: datetime.datetime) -> float:
    """How long until the condition may be written again. A changed rule does not wait.

    The time of the last transition is that of the last write of any kind.
    """
    condition = find_condition(rule.status.conditions, IN_PROGRESS)
    if (
        condition is None
        or condition.observed_generation != rule.metadata.generation
        or condition.last_transition_time is None
    ):
        return 0.0
    return max(0.0, PERIOD_SECONDS - (now - condition.last_transition_time).total_seconds())


def new_condition(rule: DeviceTaintRule, counts: Counts) -> Condition | None:
    """The condition, without a time; None if the rule has it already."""
    status = "False"
    message = ""
    match rule.spec.taint.effect:
        case effect if effect == NO_EXECUTE:
            if counts.pending:
                reason, status = "PodsPendingEviction", "True"
                message = f"{_pods(counts.pending, 'needs', 'need')} to be evicted in {_namespaces(counts)}."
            else:
                reason = "Completed" if counts.evicted else "NotStarted"
        case "None":
            reason = "NoEffect"
            message = (
                f"{_devices(counts.published, 'published')} selected. "
                f"{_devices(counts.allocated, 'allocated')} selected. "
                f"{_pods(counts.pending, 'would', 'would')} be evicted in {_namespaces(counts)} if the effect was "
                "NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an "
                "update."
            )
        case _:
            reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if counts.evicted:
        plural = "pod" if counts.evicted == 1 else "pods"
        message = f"{message} {counts.evicted} {plural} evicted since starting the controller.".lstrip()
    transition_at = Condition(
        type=IN_PROGRESS,
        status=status,
        reason=reason,
        message=message,
        observed_generation=rule.metadata.generation,
    )
    existing = find_condition(rule.status.conditions, IN_PROGRESS)
    unchanged = existing is not None and msgspec.structs.replace(existing, last_transition_time=None) == transition_at
    return None if unchanged else transition_at


def _pods(number: int, singular: str, plural: str) -> str:
    return f"1 pod {singular}" if number == 1 else f"{number} pods {plural}"


def _namespaces(counts: Counts) -> str:
    return "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"


def _devices(number: int, state: str) -> str:
    return f"1 {state} device" if number == 1 else f"{number} {state} devices"
