"""StatefulSet decisions. Mirrors v1.36 ``stateful_set_control_test.go`` where a decision can be tested alone."""

from typing import Any

import pytest
from tests.controllers.statefulset.builders import BY_SET, DATA, NEW, OLD, by_pod, claim, observed, pod, pods
from tests.tables import cases

from pilothouse.controllers.workloads.statefulset.decide import (
    CreateMissingClaims,
    CreatePod,
    DeletePod,
    Plan,
    UpdateClaimOwners,
    UpdateStatefulPod,
    decide,
    unavailable_replicas,
)
from pilothouse.controllers.workloads.statefulset.replicas import MAX_MISSING
from pilothouse.controllers.workloads.statefulset.retention import DELETE, RETAIN, Policy


def create(ordinal: int, *, from_current: bool = False) -> tuple[CreatePod]:
    return (CreatePod(f"web-{ordinal}", from_current),)


def delete(ordinal: int, revision: str = NEW) -> DeletePod:
    return DeletePod(f"web-{ordinal}", revision)


@cases(
    "states, expected",
    {
        "no pods: the first": ("...", [create(0)]),
        "the first is available: the second": ("+..", [create(1)]),
        "the first is not ready: wait": ("-..", []),
        "the first is pending: wait": ("p..", []),
        "the first terminates: wait": ("x..", []),
        "a gap is filled": ("+.+", [create(1)]),
        "a gap waits for the one before": ("-.+", []),
        "the first again": (".++", [create(0)]),
        "all available": ("+++", []),
        "failed pod is deleted": ("f++", [(delete(0),)]),
        "succeeded pod is deleted": ("s++", [(delete(0),)]),
        "none is created after a failed pod": ("+f.", [(delete(1),)]),
        "none is deleted after an unavailable pod": ("-f.", []),
    },
)
def test_ordered_ready_creates_pods_one_by_one(states: str, expected: list[Any]) -> None:
    plan = decide(observed(pods(*states)))
    assert plan == Plan(living=tuple(expected))


@cases(
    "states, expected",
    {
        "all in parallel": ("...", [create(0), create(1), create(2)]),
        "parallel: pods do not wait for each other": ("-.x", [(), create(1), ()]),
        "failed pods are deleted, missing ones created": ("ff.", [(delete(0),), (delete(1),), create(2)]),
        "all available": ("+++", []),
    },
)
def test_parallel_creates_pods_together(states: str, expected: list[Any]) -> None:
    plan = decide(observed(pods(*states), ordered=False))
    assert plan == Plan(ordered=False, living=tuple(expected))


@cases(
    "names, replaced",
    {
        "the highest is old": (("web-0", "web-2147483646"), ("web-2147483646",)),
        "missing ordinals": (("web-0", "web-7"), ()),
    },
)
def test_as_many_replicas_as_the_field_holds(names: tuple[str, ...], replaced: tuple[str, ...]) -> None:
    state = observed([pod(name, revision=OLD) for name in names], desired=2**31 - 1, ordered=False)
    plan = decide(state)
    created = [actions for actions in plan.living if actions]
    assert len(created) == MAX_MISSING
    assert created[0] == create(1)
    assert tuple(item.name for item in plan.update) == replaced
    assert unavailable_replicas(state) == 2**31 - 3
    assert decide(observed([], desired=2**31 - 1)).living == (create(0),)


def test_failed_terminating_pod_is_awaited() -> None:
    going = pod("web-0", phase="Failed", terminating=True)
    assert decide(observed([going])) == Plan()


def test_min_ready_seconds_delay_the_next_pod() -> None:
    """TestStatefulSetControlWithStartOrdinal's neighbours on minReadySeconds: TestStatefulSetAvailability."""
    for since, expected in ((29.0, ()), (31.0, (create(1),))):
        assert decide(observed([pod("web-0", since=since)], min_ready_seconds=30)).living == expected


@cases(
    "states, doomed",
    {
        "the highest ordinal is deleted first": ("+++", [delete(2)]),
        "one terminates: wait": ("++x", []),
        "the condemned pod itself is unavailable": ("++-", [delete(2)]),
        "an unavailable pod between condemned ones": ("+-+", [delete(2)]),
        "two unavailable condemned pods": ("+--", []),
        "unavailable retained pod": ("-++", []),
        "missing retained pod": (".++", []),
    },
)
def test_ordered_ready_scales_down_one_by_one(states: str, doomed: list[DeletePod]) -> None:
    plan = decide(observed(pods(*states), desired=1))
    assert plan.condemned == tuple(doomed)
    assert plan.update == ()


def test_parallel_scales_down_together() -> None:
    plan = decide(observed(pods("-", "x", "-", "+"), desired=1, ordered=False))
    assert plan.condemned == (delete(3), delete(2), None), "a terminating pod has its place in the batches, as upstream"


@cases(
    "start, expected, condemned",
    {
        "from zero": (0, [], []),
        "start ordinal increased by one": (1, [create(3)], []),
        "start ordinal far higher": (5, [create(5)], []),
    },
)
def test_start_ordinal(start: int, expected: list[Any], condemned: list[Any]) -> None:
    """TestStatefulSetControlWithStartOrdinal; TestStatefulSetStartOrdinal of test/integration/statefulset."""
    plan = decide(observed(pods("+++"[0], "+", "+"), start=start))
    assert (plan.living, plan.condemned) == (tuple(expected), tuple(condemned))


def test_ordinals_below_the_start_are_condemned() -> None:
    plan = decide(observed(pods("+", "+", "+", "+"), start=1))
    assert plan.condemned == (delete(0),)


def test_terminating_set_only_updates_its_status() -> None:
    """``updateStatefulSet``: its first return."""
    assert decide(observed(pods("f", ".", "+", "+"), being_deleted=True)) == Plan()


# The update


@cases(
    "states, partition, update",
    {
        "the highest first": (["+o", "+o", "+o"], 0, [2]),
        "next highest": (["+o", "+o", "+"], 0, [1]),
        "all updated": (["+", "+", "+"], 0, []),
        "down to the partition": (["+o", "+o", "+o"], 2, [2]),
        "stops at the partition": (["+o", "+o", "+"], 2, []),
        "all below the partition": (["+o", "+o", "+o"], 3, []),
        "no rollingUpdate": (["+o", "+o", "+o"], None, [2]),
        "outdated pod above an updated one": (["+o", "+", "+o"], 0, [2]),
    },
)
def test_rolling_update_starts_at_the_highest_ordinal(
    states: list[str], partition: int | None, update: list[int]
) -> None:
    """TestStatefulSetControlRollingUpdate, …WithPartition."""
    plan = decide(observed(pods(*states), partition=partition))
    assert plan.update == tuple(delete(ordinal, OLD) for ordinal in update)


@pytest.mark.parametrize("state", ["-", "p", "x"])
@pytest.mark.parametrize("ordered", [True, False])
def test_rolling_update_waits_for_the_previous_pod(state: str, ordered: bool) -> None:
    """Parallel management is of scaling only (without maxUnavailable)."""
    plan = decide(observed(pods("+o", "+o", state), ordered=ordered))
    assert plan.update == ()


def test_parallel_update_replaces_an_unhealthy_pod() -> None:
    assert decide(observed(pods("+o", "-o", "-o"), ordered=False)).update == (delete(2, OLD),)
    assert decide(observed(pods("-o", "+", "+"), ordered=False)).update == (delete(0, OLD),)


def test_ordered_update_waits_for_an_unhealthy_pod() -> None:
    """kubernetes#67250: also not when it is of the old revision and would be replaced."""
    assert decide(observed(pods("-o", "+o", "+o"))) == Plan()


def test_on_delete_replaces_no_pods() -> None:
    """TestStatefulSetControlOnDeleteUpdate."""
    assert decide(observed(pods("+o", "+o", "+o"), strategy="OnDelete")).update == ()


def test_scaling_comes_before_updating() -> None:
    plan = decide(observed(pods("+o", "+o", "+o"), desired=2))
    assert (plan.condemned, plan.update) == ((delete(2, OLD),), ())
    plan = decide(observed(pods("+o", "+o", "+o"), desired=2, ordered=False))
    assert (plan.condemned, plan.update) == ((delete(2, OLD),), (delete(1, OLD),))


@cases(
    "states, bound, update",
    {
        "two at once": (["+o", "+o", "+o", "+o"], 2, [3, 2]),
        "unavailable updated pod counts": (["+o", "+o", "+o", "-"], 2, [2]),
        "maxUnavailable reached": (["+o", "+o", "-", "-"], 2, []),
        "unavailable outdated pod counts, and is not preferred": (["-o", "+o", "+o", "+o"], 2, [3]),
        "unavailable above maxUnavailable, as v1.36 has it": (["-o", "-o", "-o", "-o"], 2, []),
        "terminating pod is not deleted again": (["+o", "+o", "+o", "xo"], 2, [2]),
        "failed outdated pod": (["+o", "+o", "+o", "fo"], 2, []),
        "failed outdated pod with maxUnavailable 3": (["+o", "+o", "+o", "fo"], 3, [2]),
        "failed updated pod": (["+o", "+o", "+o", "f"], 2, [2]),
        "highest ordinals first": (["fo", "+o", "+o", "+o"], 2, [3]),
        "maxUnavailable 1": (["+o", "+o", "+o", "+o"], 1, [3]),
        "all updated": (["+", "+", "+", "+"], 4, []),
    },
)
def test_max_unavailable_bounds_an_update(states: list[str], bound: int, update: list[int]) -> None:
    """TestStatefulSetControlRollingUpdateWithMaxUnavailable, its rows of ParallelPodManagement."""
    plan = decide(observed(pods(*states), desired=4, max_unavailable=bound, ordered=False))
    assert plan.update == tuple(delete(ordinal, OLD) for ordinal in update)


def test_max_unavailable_respects_the_partition() -> None:
    plan = decide(observed(pods("+o", "+o", "+o", "+o"), desired=4, max_unavailable=4, partition=3))
    assert plan.update == (delete(3, OLD),)


@cases(
    "ordinal, rules, from_current",
    {
        "below the partition": (0, {"partition": 1}, True),
        "at the partition": (1, {"partition": 1}, False),
        "partition 0": (0, {"partition": 0}, False),
        "no rollingUpdate, below currentReplicas": (1, {"partition": None, "current_replicas": 2}, True),
        "no rollingUpdate, above currentReplicas": (1, {"partition": None, "current_replicas": 1}, False),
        "partition with OnDelete": (1, {"partition": 2, "strategy": "OnDelete"}, True),
        "OnDelete: new": (0, {"partition": None, "current_replicas": 2, "strategy": "OnDelete"}, False),
    },
)
def test_missing_pod_is_created_from_the_revision_of_its_ordinal(
    ordinal: int, rules: dict[str, Any], from_current: bool
) -> None:
    """``newVersionedStatefulSetPod``; kubernetes#70442."""
    states = ["+o", "+o", "+o"]
    states[ordinal] = "."
    plan = decide(observed(pods(*states), **rules))
    assert plan.living == (create(ordinal, from_current=from_current),)


def test_partition_is_relative_to_the_start_ordinal() -> None:
    result = [pod("web-6", revision=OLD), pod("web-7", revision=OLD)]
    plan = decide(observed(result, start=5, partition=1))
    assert plan.living == (create(5, from_current=True),)
    plan = decide(observed([pod(f"web-{n}", revision=OLD) for n in (5, 6, 7)], start=5, partition=2))
    assert plan.update == (delete(7, OLD),)


# Identity and claims


def test_identity_and_storage_are_updated() -> None:
    """TestStatefulPodControlUpdatesIdentity, TestStatefulPodControlUpdatesPodStorage."""
    assert decide(observed([pod("web-0", labelled=False)], desired=1)).living == ((UpdateStatefulPod("web-0"),),)
    for name, expected in (
        ("data-web-0", ()),
        ("", ((UpdateStatefulPod("web-0"),),)),
        ("data-web-1", ((UpdateStatefulPod("web-0"),),)),
    ):
        plan = decide(observed([pod("web-0", claim=name)], desired=1, templates=DATA))
        assert plan.living == expected, name


def test_ordered_set_continues_after_an_identity_update() -> None:
    plan = decide(observed([pod("web-0", labelled=False)]))
    assert plan.living == ((UpdateStatefulPod("web-0"),), create(1))


SCALED = Policy(when_deleted=DELETE, when_scaled=DELETE)
KEPT = Policy(when_deleted=DELETE, when_scaled=RETAIN)


@cases(
    "claims, expected",
    {
        "missing": ((), [(CreateMissingClaims("web-0"),)]),
        "owned by the StatefulSet": ((claim("data-web-0", BY_SET),), []),
        "without owner reference": ((claim("data-web-0"),), [(CreateMissingClaims("web-0"),)]),
        "terminating claim": ((claim("data-web-0", BY_SET, terminating=True),), [(CreateMissingClaims("web-0"),)]),
    },
)
def test_missing_claims_of_a_pending_pod_are_created(claims: Any, expected: list[Any]) -> None:
    """TestStatefulSetControl: RecreatesPVCForPendingPod; TestStatefulPodControlUpdatePodClaimForRetentionPolicy."""
    waiting = pod("web-0", phase="Pending", claim="data-web-0")
    plan = decide(observed([waiting], templates=DATA, claims=claims, policy=SCALED))
    assert plan == Plan(living=tuple(expected))


def test_claim_owner_references_of_running_pods_are_updated() -> None:
    result = [pod("web-0", claim="data-web-0"), pod("web-1", claim="data-web-1")]
    claims = (claim("data-web-0", BY_SET), claim("data-web-1", by_pod("web-1")))
    plan = decide(observed(result, desired=2, templates=DATA, claims=claims, policy=SCALED))
    assert plan.living == ((UpdateStatefulPod("web-1"),),)


def test_claim_owner_references_of_condemned_pods_are_updated_before_the_deletion() -> None:
    result = [pod(f"web-{n}", claim=f"data-web-{n}") for n in range(3)]
    claims = tuple(claim(f"data-web-{n}", BY_SET) for n in range(3))
    plan = decide(observed(result, desired=1, templates=DATA, claims=claims, policy=SCALED))
    assert plan.claim_updates == (UpdateClaimOwners("web-2"), UpdateClaimOwners("web-1"))
    assert plan.condemned == (delete(2),)
    assert decide(observed(result, desired=1, templates=DATA, claims=claims, policy=KEPT)).claim_updates == ()


@cases(
    "policy, expected, awaited",
    {
        "claim to be deleted: wait": (SCALED, (), ("data-web-0",)),
        "claim retained when scaled down": (KEPT, (create(0),), ()),
    },
)
def test_stale_claim_of_the_previous_pod_is_awaited(policy: Policy, expected: Any, awaited: Any) -> None:
    """TestPodClaimIsStale."""
    remaining = claim("data-web-0", by_pod("web-0", "uid of the one before"))
    plan = decide(observed([], templates=DATA, claims=(remaining,), policy=policy))
    assert (plan.living, plan.waits_for) == (expected, awaited)
