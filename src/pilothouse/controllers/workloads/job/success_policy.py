"""Whether a Job's ``successPolicy`` is met. Pure. Upstream: v1.36 ``pkg/controller/job/success_policy.go``."""

from pilothouse.api.batch import SuccessPolicy
from pilothouse.controllers.workloads.job.indexes import Indexes


def match_success_policy(policy: SuccessPolicy, completions: int, succeeded: Indexes) -> int | None:
    """The index of the first rule that is met. None if no index has succeeded."""
    if not succeeded.total:
        return None
    for number, rule in enumerate(policy.rules):
        if rule.succeeded_indexes is not None:
            required = Indexes.parse(rule.succeeded_indexes, completions)
            if not required.total:
                continue
            indexes = _overlap(required, succeeded)
            required_count = required.total if rule.succeeded_count is None else rule.succeeded_count
            if indexes >= required.total or indexes >= required_count:
                return number
        elif rule.succeeded_count is not None and succeeded.total >= rule.succeeded_count:
            return number
    return None


def _overlap(succeeded: Indexes, required: Indexes) -> int:
    count = at = 0
    for first, last in succeeded.intervals:
        while at < len(required.intervals) and required.intervals[at][1] < first:
            at += 1
        ahead = at
        while ahead < len(required.intervals) and required.intervals[ahead][0] <= last:
            low, high = required.intervals[ahead]
            count += min(last, high) - max(first, low) + 1
            ahead += 1
    return count
