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
            enough = required.total if rule.succeeded_count is None else rule.succeeded_count
            if indexes >= required.total or indexes >= enough:
                return number
        elif rule.succeeded_count is not None and succeeded.total >= rule.succeeded_count:
            return number
    return None


def _overlap(left: Indexes, right: Indexes) -> int:
    count = at = 0
    for first, last in left.intervals:
        while at < len(right.intervals) and right.intervals[at][1] < first:
            at += 1
        ahead = at
        while ahead < len(right.intervals) and right.intervals[ahead][0] <= last:
            low, high = right.intervals[ahead]
            count += min(last, high) - max(first, low) + 1
            ahead += 1
    return count
