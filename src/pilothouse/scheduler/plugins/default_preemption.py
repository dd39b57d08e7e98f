"""DefaultPreemption: which pods of lower priority would have to go so that a pod fits, and on which node.

Nothing is written here. As kube-scheduler v1.36 ``framework/preemption/preemption.go`` and
``plugins/defaultpreemption/default_preemption.go``: on every node where preemption can help, all pods of lower priority
are removed in a dry run and as many as possible are put back, the most important first, but before the others those
whose eviction would violate a PodDisruptionBudget. Violations are avoided, not ruled out.
"""

import datetime
import random  # noqa: TID251  # the type of a stream
from collections.abc import Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.api.policy import PodDisruptionBudget
from pilothouse.controllers.shared.disruption import DISRUPTION_TARGET
from pilothouse.machinery.conditions import find_condition
from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.framework.fit_error import FitError, count_statuses, unavailable_nodes
from pilothouse.scheduler.framework.runtime import Framework
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo, PodState, selector_or_nothing

REASON_PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
NO_VICTIMS = Status("DefaultPreemption", ("No preemption victims found for incoming pod",), unresolvable=True)
NOT_HELPFUL = Status("DefaultPreemption", ("Preemption is not helpful for scheduling",), unresolvable=True)
_MIN_CANDIDATE_NODES_ABSOLUTE = 100
_MIN_CANDIDATE_NODES_PERCENTAGE = 10
_PRIORITY_OFFSET = 1 << 31
"""Makes every priority positive in sums: many victims of negative priority are not better than few."""

_Budgets = Sequence[tuple[PodDisruptionBudget, Selector]]


class Candidate(msgspec.Struct, frozen=True):
    """A node on which the pod would fit without the victims, sorted by descending importance."""

    node_info: NodeInfo
    victims: tuple[PodState, ...]
    num_pdb_violations: int


class PostFilterResult(msgspec.Struct, frozen=True):
    """The best of the candidates, or why there is none. With ``keep_nomination`` an earlier nomination is not
    cleared."""

    candidate: Candidate | None = None
    num_candidates: int = 0
    message: str = ""
    keep_nomination: bool = False


def post_filter(
    framework: Framework,
    pod_info: PodInfo,
    fit_error: FitError,
    pdbs: Sequence[PodDisruptionBudget],
    now: datetime.datetime,
    rng: random.Random,
) -> PostFilterResult:
    """Find the victims for a pod that fits no node."""
    message = _not_eligible_to_preempt_others(framework, pod_info, fit_error)
    if message:
        return PostFilterResult(message=f"preemption: {message}", keep_nomination=True)
    diagnosis = fit_error.diagnosis
    potential_nodes = [
        node_info
        for node_info, status in zip(diagnosis.node_infos, diagnosis.statuses, strict=True)
        if not status.unresolvable
    ]
    candidates, statuses = _dry_run_preemption(framework, pod_info, potential_nodes, pdbs, now, rng)
    if candidates:
        return PostFilterResult(_pick_one_node_for_preemption(candidates, now), len(candidates))
    counts = count_statuses(statuses)
    if fit_error.num_all_nodes > len(statuses):
        counts[NOT_HELPFUL] = fit_error.num_all_nodes - len(statuses)
    return PostFilterResult(message=f"preemption: {unavailable_nodes(fit_error.num_all_nodes, counts)}")


def _not_eligible_to_preempt_others(framework: Framework, pod_info: PodInfo, fit_error: FitError) -> str:
    """Why the pod may not preempt, or an empty text (``PodEligibleToPreemptOthers``)."""
    if pod_info.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    cache, diagnosis = framework.cache, fit_error.diagnosis
    nominated = cache.nodes.get(cache.nominator.nominated_node_name(pod_info.key))
    if nominated is None:
        return ""
    filtered = zip(diagnosis.node_infos, diagnosis.statuses, strict=True)
    if any(node_info is nominated and status.unresolvable for node_info, status in filtered):
        return ""
    for pod_state in nominated.pods.values():
        # Its room becomes free anyway: there is no need for more victims.
        if pod_state.pod_info.priority < pod_info.priority and _pod_terminating_by_preemption(pod_state.pod):
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def _pod_terminating_by_preemption(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    return condition is not None and condition.status == "True" and condition.reason == REASON_PREEMPTION_BY_SCHEDULER


def calculate_num_candidates(num_nodes: int) -> int:
    """How many nodes to consider: a tenth, at least a hundred."""
    return min(num_nodes, max(num_nodes * _MIN_CANDIDATE_NODES_PERCENTAGE // 100, _MIN_CANDIDATE_NODES_ABSOLUTE))


def _dry_run_preemption(
    framework: Framework,
    pod_info: PodInfo,
    potential_nodes: Sequence[NodeInfo],
    pdbs: Sequence[PodDisruptionBudget],
    now: datetime.datetime,
    rng: random.Random,
) -> tuple[list[Candidate], list[Status]]:
    """The candidates, those without PDB violations first, and the statuses of the other nodes.

    The search starts at a random node. It ends when there are enough candidates and one has no PDB violation.
    """
    if not potential_nodes:
        return [], []
    num_candidates = calculate_num_candidates(len(potential_nodes))
    offset = rng.randrange(len(potential_nodes))
    non_violating: list[Candidate] = []
    violating: list[Candidate] = []
    statuses: list[Status] = []
    selected = [(pdb, selector_or_nothing(pdb.spec.selector)) for pdb in pdbs]
    budgets = [(pdb, selector) for pdb, selector in selected if not selector.empty and not selector.selects_nothing]
    for node_info in (*potential_nodes[offset:], *potential_nodes[:offset]):
        result = _select_victims_on_node(framework, pod_info, node_info, budgets, now)
        if isinstance(result, Status):
            statuses.append(result)
            continue
        (violating if result.num_pdb_violations else non_violating).append(result)
        if non_violating and len(non_violating) + len(violating) >= num_candidates:
            break
    return non_violating + violating, statuses


def _select_victims_on_node(
    framework: Framework, pod_info: PodInfo, node_info: NodeInfo, budgets: _Budgets, now: datetime.datetime
) -> Candidate | Status:
    if min(node_info.pods_by_priority, default=pod_info.priority) >= pod_info.priority:
        return NO_VICTIMS
    potential_victims = [state for state in node_info.pods.values() if state.pod_info.priority < pod_info.priority]
    potential_victims.sort(key=lambda pod_state: _importance(pod_state, now))
    removed = dict.fromkeys(potential_victims)
    for pod_state in potential_victims:
        framework.remove_pod(pod_state, node_info)
    try:
        status = framework.filter_node(pod_info, node_info)
        if status is not None:
            return status
        violating, non_violating = _filter_pods_with_pdb_violation(potential_victims, budgets)
        num_pdb_violations = 0
        for pod_state in (*violating, *non_violating):
            framework.add_pod(pod_state, node_info)
            if framework.filter_node(pod_info, node_info) is None:
                del removed[pod_state]
            else:
                framework.remove_pod(pod_state, node_info)
                num_pdb_violations += pod_state in violating
    finally:
        victims = tuple(removed)
        for pod_state in victims:
            framework.add_pod(pod_state, node_info)
    if not victims:
        return NO_VICTIMS
    return Candidate(node_info, tuple(sorted(victims, key=lambda state: _importance(state, now))), num_pdb_violations)


def _importance(pod_state: PodState, now: datetime.datetime) -> tuple[int, datetime.datetime, str]:
    """Sorts by higher priority, then by earlier start (``MoreImportantPod``), then by name."""
    return -pod_state.pod_info.priority, pod_state.pod.status.start_time or now, pod_state.key


def _filter_pods_with_pdb_violation(
    pods: Sequence[PodState], budgets: _Budgets
) -> tuple[list[PodState], list[PodState]]:
    """The pods whose eviction would violate a PodDisruptionBudget, and the others. Both keep their order."""
    if not budgets:
        return [], list(pods)
    pdbs_allowed = [pdb.status.disruptions_allowed for pdb, _selector in budgets]
    violating: list[PodState] = []
    non_violating: list[PodState] = []
    for pod_state in pods:
        labels, meta = pod_state.pod.metadata.labels, pod_state.pod.metadata
        violates = False
        for position, (pdb, selector) in enumerate(budgets):
            if pdb.metadata.namespace != meta.namespace or not labels or not selector.matches(labels):
                continue
            # The API server has evicted it already, and lowered ``disruptionsAllowed`` then.
            if meta.name in pdb.status.disrupted_pods:
                continue
            pdbs_allowed[position] -= 1
            violates = violates or pdbs_allowed[position] < 0
        (violating if violates else non_violating).append(pod_state)
    return violating, non_violating


def _pick_one_node_for_preemption(candidates: Sequence[Candidate], now: datetime.datetime) -> Candidate:
    """The candidate with the fewest PDB violations; then the lowest highest priority; the lowest sum of priorities; the
    fewest victims; the latest start of its most important victims; then the first."""

    def rank(candidate: Candidate) -> tuple[int, int, int, int, float]:
        victims = candidate.victims
        priorities = [pod_state.pod_info.priority for pod_state in victims]
        highest = priorities[0]
        started_at = min(
            pod_state.pod.status.start_time or now for pod_state in victims if pod_state.pod_info.priority == highest
        )
        total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
        return candidate.num_pdb_violations, highest, total, len(priorities), -started_at.timestamp()

    return min(candidates, key=rank)


def describe(pod_info: PodInfo, result: PostFilterResult) -> str:
    """Why these victims, in a sentence."""
    candidate = result.candidate
    assert candidate is not None, "without a candidate there are no victims"
    victims = ", ".join(f"{state.key} (priority {state.pod_info.priority})" for state in candidate.victims)
    return (
        f"preempted for {pod_info.key} (priority {pod_info.priority}), which then fits {candidate.node_info.name}, the "
        f"best of {result.num_candidates} candidate nodes; {candidate.num_pdb_violations} PodDisruptionBudgets are "
        f"violated; victims: {victims}"
    )


def lower_priority_nominated_pods(framework: Framework, pod_info: PodInfo, node_name: str) -> list[PodInfo]:
    """The pods of lower priority that are nominated for the node (``getLowerPriorityNominatedPods``)."""
    nominated = framework.cache.nominator.nominated_pods.get(node_name, {})
    return [other for other in nominated.values() if other.priority < pod_info.priority]
