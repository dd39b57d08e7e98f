"""Which pods go first when there are too many. Pure; called by the controller for ``DeletePods``.

Eight rules, each a question about one pod whose smaller answer goes first; the first rule on which two pods differ
decides between them (v1.36 ``ActivePodsWithRanks.Less``, ``pkg/controller/controller_utils.go``). All victims of one
scale-down are deleted together, so nobody needs the whole order. ``choose`` asks one rule at a time and keeps asking
only about the group in which the line between staying and going falls: with 5,000 pods, most rules see a few of them,
and the costly ones (pods of related owners per node) often none.
"""

import datetime
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from pilothouse.api.core import Pod
from pilothouse.semantics.pods import deletion_cost, is_ready, max_restart_counts, ready_condition

_PHASES = {"Unknown": 1, "Running": 2}
_MISSING = -2


def choose(
    pods: Sequence[Pod],
    count: int,
    *,
    now: datetime.datetime,
    neighbours: Callable[[], Mapping[str, int]] = dict,
    use_deletion_cost: bool = True,
) -> list[Pod]:
    """The ``count`` pods that go first. The order of ``pods`` has no influence on which, nor does their order matter.

    ``neighbours`` gives the number of active pods of related owners by node; it is called only when rule 5 is reached.
    """
    if count >= len(pods):
        return list(pods)
    chosen: list[Pod] = []
    rest = list(pods)
    for rule in _rules(now, neighbours, use_deletion_cost):
        rest = rule(rest, count - len(chosen), chosen)
        if len(chosen) == count:
            break
    return chosen


Rule = Callable[[list[Pod], int, list[Pod]], list[Pod]]
"""Moves pods that surely go (at most so many) to the list of victims; gives back those it cannot tell apart."""


def _rules(
    now: datetime.datetime, neighbours: Callable[[], Mapping[str, int]], use_deletion_cost: bool
) -> Iterable[Rule]:
    yield _by(lambda pod: pod.spec.node_name != "")
    yield _by(lambda pod: _PHASES.get(pod.status.phase, 0))
    yield _by(is_ready)
    if use_deletion_cost:
        yield _by(lambda pod: deletion_cost(pod.metadata.annotations))
    crowd = neighbours()
    if crowd:
        yield _by(lambda pod: -crowd.get(pod.spec.node_name, 0))
    yield _by(lambda pod: _bucket(_ready_since(pod), now))
    yield lambda pods, count, chosen: _by_ready_time(pods, count, chosen, now)


def _by(question: Callable[[Pod], int]) -> Rule:
    def rule(pods: list[Pod], count: int, chosen: list[Pod]) -> list[Pod]:
        answers = [question(pod) for pod in pods]
        if min(answers) == max(answers):
            return pods
        groups: defaultdict[int, list[Pod]] = defaultdict(list)
        for answer, pod in zip(answers, pods, strict=True):
            groups[answer].append(pod)
        for answer in sorted(groups):
            group = groups[answer]
            if len(group) > count:
                return group
            chosen += group
            count -= len(group)
        raise AssertionError("there are more pods than victims, so some group must be larger than what is left")

    return rule


def _by_ready_time(pods: list[Pod], count: int, chosen: list[Pod], now: datetime.datetime) -> list[Pod]:
    """The last word between pods that the rules up to readiness on a logarithmic scale could not tell apart.

    Ready at different instants: the smaller uid. Ready at the same one, or not ready at all: more restarts, then
    younger on a logarithmic scale, then the smaller uid. Taken pair by pair this is no order: with uids 1, 2, 3, where
    1 and 3 became ready together and 3 restarted more often, 3 goes before 1, 1 before 2, and 2 before 3. Upstream
    sorts all the same and gets what its algorithm makes of it. Here the pods of one instant stand in a line of their
    own, and of the pods at the head of the lines the one with the smallest uid goes: wherever the rules agree on an
    order, this is it.
    """
    lines: defaultdict[datetime.datetime | None, list[Pod]] = defaultdict(list)
    for pod in pods:
        lines[_ready_since(pod)].append(pod)
    for line in lines.values():
        line.sort(key=lambda pod: _by_history(pod, now))
    chosen += islice(_merged(list(lines.values())), count)
    return []


def _by_history(pod: Pod, now: datetime.datetime) -> tuple[int, int, int, str, str]:
    regular, sidecar = max_restart_counts(pod)
    return (-regular, -sidecar, _bucket(pod.metadata.creation_timestamp, now), pod.metadata.uid, pod.metadata.name)


def _merged(lines: list[list[Pod]]) -> Iterable[Pod]:
    heads = [(line[0].metadata.uid, line[0].metadata.name, index, 0) for index, line in enumerate(lines)]
    heapq.heapify(heads)
    while heads:
        _uid, _name, index, place = heads[0]
        line = lines[index]
        yield line[place]
        place += 1
        if place < len(line):
            following = line[place].metadata
            heapq.heapreplace(heads, (following.uid, following.name, index, place))
        else:
            heapq.heappop(heads)


def _ready_since(pod: Pod) -> datetime.datetime | None:
    condition = ready_condition(pod)
    return condition.last_transition_time if condition is not None and condition.status == "True" else None


def _bucket(since: datetime.datetime | None, now: datetime.datetime) -> int:
    """floor(log2(age in nanoseconds)): ages of 35 s and 60 s share bucket 35, 20 s is bucket 34, a month bucket 51.

    -1 for no age at all or one below zero; a missing time counts as younger than that.
    """
    if since is None:
        return _MISSING
    age = now - since
    nanoseconds = ((age.days * 86400 + age.seconds) * 1_000_000 + age.microseconds) * 1000
    return nanoseconds.bit_length() - 1 if nanoseconds > 0 else -1


def age_ratios(pods: Iterable[Pod], victims: Iterable[Pod], now: datetime.datetime) -> list[float]:
    """For every ready victim, how many times as old it is as the youngest ready pod, in whole numbers as upstream.

    Empty when the youngest has no age yet; upstream divides by zero there.
    """
    births = [born for pod in pods if (born := pod.metadata.creation_timestamp) is not None and is_ready(pod)]
    if not births:
        return []
    millisecond = datetime.timedelta(milliseconds=1)
    youngest = (now - max(births)) // millisecond
    if youngest <= 0:
        return []
    return [
        float((now - born) // millisecond // youngest)
        for pod in victims
        if (born := pod.metadata.creation_timestamp) is not None and is_ready(pod)
    ]
