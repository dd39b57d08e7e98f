"""Builders of the input of Job decisions: pods by phase and index, failures, policies."""

import datetime
from collections.abc import Iterable
from typing import Any

from tests.controllers.job.builders import T0, pod

from pilothouse.api.batch import ExitCodesRequirement, Job, PodConditionPattern, PodFailurePolicy, PodFailurePolicyRule
from pilothouse.api.core import Pod, PodCondition
from pilothouse.controllers.workloads.job.backoff import NONE, BackoffRecord
from pilothouse.controllers.workloads.job.decide import Observed

NEVER, ON_FAILURE = b'{"spec":{"restartPolicy":"Never"}}', b'{"spec":{"restartPolicy":"OnFailure"}}'


def observed(
    owner: Job, *groups: Iterable[Pod], failures: BackoffRecord = NONE, now: datetime.datetime = T0
) -> Observed:
    pods = tuple(item for group in groups for item in group)
    tracked = frozenset(item.metadata.uid for item in pods if item.metadata.finalizers)
    return Observed(job=owner, pods=pods, tracked=tracked, now=now, failures=failures)


def running(count: int, *, ready: int = 0) -> list[Pod]:
    return [pod(f"r{number}", ready=number < ready or None) for number in range(count)]


def pending(count: int) -> list[Pod]:
    return [pod(f"p{number}", "Pending") for number in range(count)]


def succeeded(count: int) -> list[Pod]:
    return [pod(f"s{number}", "Succeeded", finished=0) for number in range(count)]


def failed(count: int) -> list[Pod]:
    return [pod(f"f{number}", "Failed", finished=0) for number in range(count)]


def going(count: int) -> list[Pod]:
    return [pod(f"g{number}", deleted=0) for number in range(count)]


def indexed(*pods: tuple[int | None, str]) -> list[Pod]:
    return [pod(f"i{number}", phase, index=index) for number, (index, phase) in enumerate(pods)]


R, P, S, F = "Running", "Pending", "Succeeded", "Failed"
ANY_FAILURE = PodFailurePolicy()
JUST_FAILED = BackoffRecord(1, T0)
EVICTED = (PodCondition(type="DisruptionTarget", status="True"),)
IGNORE_EVICTIONS = PodFailurePolicy(
    rules=(PodFailurePolicyRule(action="Ignore", on_pod_conditions=(PodConditionPattern(type="DisruptionTarget"),)),)
)


def on_exit(action: str, *codes: int) -> PodFailurePolicy:
    requirement = ExitCodesRequirement(operator="In", values=codes)
    return PodFailurePolicy(rules=(PodFailurePolicyRule(action=action, on_exit_codes=requirement),))


INDEXED: dict[str, Any] = {"completion_mode": "Indexed", "completions": 3}
