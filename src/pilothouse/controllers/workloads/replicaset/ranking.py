"""Which pods to delete first. Pure.

Eight rules give each pod a rank, the smallest is deleted first; the first rule on which two pods differ decides (v1.36
``ActivePodsWithRanks.Less``, ``pkg/controller/controller_utils.go``). The victims of a scale-down are deleted together,
so the whole order is not needed. Pods with the same rank by all rules but the last are one kind: of 20,000 pods there
are some dozen kinds, since times are whole seconds. Each rule is evaluated once per kind, and only for the kinds that
are not decided yet. The kinds are kept while a large owner shrinks burst by burst.
"""

import datetime
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from pilothouse.api.core import Pod
from pilothouse.semantics.pods import deletion_cost, is_ready, max_restart_counts

_PHASES = {"Unknown": 1, "Running": 2}
_PHASE_NAMES = {rank: phase for phase, rank in _PHASES.items()}
_MISSING = -2


class _Kind(NamedTuple):
    """The values of a pod that the rules compare, except its name and, if related owners matter, its node."""

    assigned: bool
    phase: int
    ready: bool
    cost: int
    ready_since: datetime.datetime | None
    restarts: tuple[int, int]
    created: datetime.datetime | None


class PodToDelete(NamedTuple):
    """A pod to delete, and the reason."""

    pod: Pod
    reason: str
    """Its rank, and the rules that decided in their order: ``rank 1 of 3 by upstream's order: not ready, then 2
    restarts``. Rules by which it equals all remaining pods are omitted."""


_Group = tuple[_Kind, list[Pod]]
"""Pods of one kind."""
_Question = Callable[[_Kind], int]
_Reason = Callable[[int], str]
"""The decisive rules, for the record."""


class ActivePodsWithRanks:
    """The active pods of one owner, by kind."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._kinds: dict[_Kind, dict[str, Pod]] = {}
        self._count = 0
        for pod in pods:
            self.add(pod)

    def __len__(self) -> int:
        return self._count

    def add(self, pod: Pod) -> bool:
        """Add a pod. False if the same version is stored already."""
        kind = _kind_of(pod)
        pods = self._kinds.get(kind)
        if pods is None:
            pods = self._kinds[kind] = {}
        elif pod.metadata.name in pods:
            return False
        pods[pod.metadata.name] = pod
        self._count += 1
        return True

    def remove(self, pod: Pod) -> bool:
        """Remove a pod, in the version that was added. False if that version is not stored."""
        kind = _kind_of(pod)
        pods = self._kinds.get(kind)
        if pods is None or pods.pop(pod.metadata.name, None) is None:
            return False
        self._count -= 1
        if not pods:
            del self._kinds[kind]
        return True

    def get_pods_to_delete(
        self,
        count: int,
        *,
        now: datetime.datetime,
        neighbours: Callable[[], Mapping[str, int]] = dict,
        use_deletion_cost: bool = True,
    ) -> list[PodToDelete]:
        """The ``count`` pods to delete, independent of the order in which they were added. ``neighbours`` returns the
        number of active pods of related owners by node; it is called only if rule 5 is reached.

        Pods on which one rule decides together share a range of ranks."""
        groups: list[_Group] = [(kind, list(pods.values())) for kind, pods in self._kinds.items()]
        if count >= self._count:
            return [PodToDelete(pod, "all are deleted") for _kind, pods in groups for pod in pods]
        chosen = _Chosen(self._count)
        bucket = _Buckets(now)
        criteria: tuple[tuple[_Question, _Reason], ...] = (
            (lambda kind: kind.assigned, lambda _answer: "not assigned to a node"),
            (lambda kind: kind.phase, lambda phase: f"in phase {_PHASE_NAMES.get(phase, 'Pending')}"),
            (lambda kind: kind.ready, lambda _answer: "not ready"),
            (lambda kind: kind.cost if use_deletion_cost else 0, lambda cost: f"pod-deletion-cost {cost}"),
        )
        for criterion, reason in criteria:
            groups = _choose_groups(
                [(criterion(kind), (kind, members)) for kind, members in groups], count, chosen, reason
            )
        if len(chosen) < count and (related_by_node := neighbours()):
            related = "{} active pods of related owners on its node"
            groups = _choose_groups(
                list(_by_node(groups, related_by_node)), count, chosen, lambda value: related.format(-value)
            )
        if len(chosen) < count:
            recent = "ready for a shorter time (by powers of two)"
            groups = _choose_groups(
                [(bucket[kind.ready_since], (kind, members)) for kind, members in groups],
                count,
                chosen,
                lambda _answer: recent,
            )
            missing = count - len(chosen)
            last_rules = _LastRules(groups, bucket)
            for pod in islice(_by_ready_time(groups, missing, bucket), missing):
                chosen.add([pod], last_rules.that_decided(pod))
        return chosen.victims

    def age_ratios(self, chosen_pods: Iterable[Pod], now: datetime.datetime) -> list[float]:
        """For every ready pod to delete, its age relative to that of the youngest ready pod, in whole numbers as
        upstream.

        Empty when the youngest has no age yet; upstream divides by zero there.
        """
        creation_times = [kind.created for kind in self._kinds if kind.ready and kind.created is not None]
        if not creation_times:
            return []
        millisecond = datetime.timedelta(milliseconds=1)
        youngest = (now - max(creation_times)) // millisecond
        if youngest <= 0:
            return []
        return [
            float((now - created) // millisecond // youngest)
            for pod in chosen_pods
            if (created := pod.metadata.creation_timestamp) is not None and is_ready(pod)
        ]


def _kind_of(pod: Pod) -> _Kind:
    meta, status = pod.metadata, pod.status
    ready, since = False, None
    for condition in status.conditions:
        if condition.type == "Ready":
            if condition.status == "True":
                ready, since = True, condition.last_transition_time
            break
    return _Kind(
        pod.spec.node_name != "",
        _PHASES.get(status.phase, 0),
        ready,
        deletion_cost(meta.annotations) if meta.annotations else 0,
        since,
        max_restart_counts(pod),
        meta.creation_timestamp,
    )


class _Chosen:
    """The pods chosen so far, of ``total`` pods."""

    def __init__(self, total: int) -> None:
        self.victims: list[PodToDelete] = []
        self._total = total
        self._rules: list[str] = []

    def __len__(self) -> int:
        return len(self.victims)

    def narrow(self, rule: str) -> None:
        """Record that this rule has decided for all pods that are chosen from now on."""
        self._rules.append(rule)

    def add(self, pods: list[Pod], rule: str) -> None:
        """Choose these as well, all by the same rule."""
        rule = ", then ".join([*self._rules, rule])
        first, last = len(self.victims) + 1, len(self.victims) + len(pods)
        ranks = f"rank {first}" if first == last else f"ranks {first} to {last}"
        reason = f"{ranks} of {self._total} by upstream's order: {rule}"
        self.victims += [PodToDelete(pod, reason) for pod in pods]


def _choose_groups(answered: list[tuple[int, _Group]], count: int, chosen: _Chosen, reason: _Reason) -> list[_Group]:
    """Choose the groups that the rule decides on, at most ``count`` pods, and return the undecided ones."""
    by_answer: defaultdict[int, list[_Group]] = defaultdict(list)
    for value, group in answered:
        by_answer[value].append(group)
    for value in sorted(by_answer):
        groups = by_answer[value]
        if len(chosen) + sum(len(members) for _kind, members in groups) > count:
            if value != max(by_answer):
                chosen.narrow(reason(value))
            return groups
        chosen.add([pod for _kind, members in groups for pod in members], reason(value))
    return []


def _by_node(groups: Iterable[_Group], related_by_node: Mapping[str, int]) -> Iterable[tuple[int, _Group]]:
    for kind, pods in groups:
        by_related_count: defaultdict[int, list[Pod]] = defaultdict(list)
        for pod in pods:
            by_related_count[-related_by_node.get(pod.spec.node_name, 0)].append(pod)
        for value, members in by_related_count.items():
            yield value, (kind, members)


def _by_ready_time(groups: Iterable[_Group], count: int, bucket: "_Buckets") -> Iterable[Pod]:
    """The last rule, for pods with equal ranks up to readiness on a logarithmic scale.

    Ready at different instants: the smaller uid. Ready at the same one, or not ready at all: more restarts, then
    younger on a logarithmic scale, then the smaller uid. This is not transitive: with uids 1, 2, 3, where 1 and 3
    became ready together and 3 restarted more often, 3 comes before 1, 1 before 2, and 2 before 3; upstream's result
    depends on its sort algorithm. Here the pods of each instant are sorted, and merged by uid: this is the order of the
    rules wherever they are transitive.
    """
    lines: defaultdict[datetime.datetime | None, list[_Group]] = defaultdict(list)
    for group in groups:
        lines[group[0].ready_since].append(group)
    # No line can contribute more pods than are to be deleted in total.
    return _merged([_first_of_line(line, count, bucket) for line in lines.values()])


def _first_of_line(line: list[_Group], count: int, bucket: "_Buckets") -> list[Pod]:
    """The first ``count`` pods of one line, in order: more restarts, younger on a logarithmic scale, smaller uid."""
    group_: defaultdict[tuple[int, int, int], list[Pod]] = defaultdict(list)
    for kind, pods in line:
        regular, sidecar = kind.restarts
        group_[-regular, -sidecar, bucket[kind.created]] += pods
    front: list[Pod] = []
    for history in sorted(group_):
        if len(front) >= count:
            break
        front += heapq.nsmallest(count - len(front), group_[history], key=_name_of)
    return front


def _name_of(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.uid, pod.metadata.name)


def _merged(lines: list[list[Pod]]) -> Iterable[Pod]:
    heads = [(line[0].metadata.uid, line[0].metadata.name, index, 0) for index, line in enumerate(lines)]
    heapq.heapify(heads)
    while heads:
        _uid, _name, index, position = heads[0]
        line = lines[index]
        yield line[position]
        position += 1
        if position < len(line):
            following = line[position].metadata
            heapq.heapreplace(heads, (following.uid, following.name, index, position))
        else:
            heapq.heappop(heads)


class _LastRules:
    """The rules of ``_by_ready_time`` that order the pods of these groups before the rest."""

    def __init__(self, groups: Iterable[_Group], bucket: "_Buckets") -> None:
        self._bucket = bucket
        self._lines: defaultdict[datetime.datetime | None, Counter[tuple[tuple[int, int], int]]] = defaultdict(Counter)
        for kind, pods in groups:
            self._lines[kind.ready_since][kind.restarts, bucket[kind.created]] += len(pods)

    def that_decided(self, pod: Pod) -> str:
        """In their order."""
        kind = _kind_of(pod)
        line, age = self._lines[kind.ready_since], self._bucket[kind.created]
        reasons = []
        if any(restarts != kind.restarts for restarts, _age in line):
            reasons.append(f"{sum(kind.restarts)} restarts")
        if any(restarts == kind.restarts and other_age != age for restarts, other_age in line):
            reasons.append("created later (by powers of two)")
        if line[kind.restarts, age] > 1 or len(self._lines) > 1:
            reasons.append("smaller uid")
        line[kind.restarts, age] -= 1
        line += Counter()  # drops zero counts
        if not line:
            del self._lines[kind.ready_since]
        return ", then ".join(reasons)


class _Buckets(dict[datetime.datetime | None, int]):
    """floor(log2(age in nanoseconds)) by time: ages of 35 s and 60 s share bucket 35, 20 s is bucket 34, a month
    bucket 51. -1 for no age at all or one below zero; a missing time counts as younger than that.

    Times are whole seconds, and hundreds of pods are created in each: computed once per time.
    """

    def __init__(self, now: datetime.datetime) -> None:
        super().__init__({None: _MISSING})
        self._now = now

    def __missing__(self, since: datetime.datetime) -> int:
        age = self._now - since
        nanoseconds = ((age.days * 86400 + age.seconds) * 1_000_000 + age.microseconds) * 1000
        bucket = self[since] = nanoseconds.bit_length() - 1 if nanoseconds > 0 else -1
        return bucket
