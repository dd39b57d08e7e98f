"""What happens to whom. Mirrors v1.36 ``stateful_set_control_test.go`` where a decision can be judged by itself."""

from typing import Any

import pytest
from tests.controllers.statefulset.builders import BY_SET, DATA, NEW, OLD, by_pod, claim, observed, pod, pods

from pilothouse.controllers.workloads.statefulset.decide import (
    CreatePod,
    DeletePod,
    FillClaims,
    Plan,
    RepairPod,
    SettleClaims,
    decide,
)
from pilothouse.controllers.workloads.statefulset.retention import DELETE, RETAIN, Policy


def create(ordinal: int, *, from_current: bool = False) -> tuple[CreatePod]:
    return (CreatePod(f"web-{ordinal}", from_current),)


def delete(ordinal: int, revision: str = NEW) -> DeletePod:
    return DeletePod(f"web-{ordinal}", revision)


@pytest.mark.parametrize(
    ("states", "living"),
    [
        pytest.param("...", [create(0)], id="nothing there: the first"),
        pytest.param("+..", [create(1)], id="the first is well: the second"),
        pytest.param("-..", [], id="the first is not ready: wait"),
        pytest.param("p..", [], id="the first is pending: wait"),
        pytest.param("x..", [], id="the first is on its way out: wait"),
        pytest.param("+.+", [create(1)], id="a gap is filled"),
        pytest.param("-.+", [], id="a gap waits for the one before"),
        pytest.param(".++", [create(0)], id="the first again"),
        pytest.param("+++", [], id="all is well"),
        pytest.param("f++", [(delete(0),)], id="one that failed is deleted"),
        pytest.param("s++", [(delete(0),)], id="one that succeeded is deleted too"),
        pytest.param("+f.", [(delete(1),)], id="none is made beyond one that failed"),
        pytest.param("-f.", [], id="nor is one deleted beyond one that is not well"),
    ],
)
def test_ordered_pods_are_attended_to_one_after_the_other(states: str, living: list[Any]) -> None:
    plan = decide(observed(pods(*states)))
    assert plan == Plan(living=tuple(living))


@pytest.mark.parametrize(
    ("states", "living"),
    [
        pytest.param("...", [create(0), create(1), create(2)], id="all at once"),
        pytest.param("-.x", [create(1)], id="nobody waits for anybody"),
        pytest.param("ff.", [(delete(0),), (delete(1),), create(2)], id="those that failed go, the rest comes"),
        pytest.param("+++", [], id="all is well"),
    ],
)
def test_parallel_pods_are_attended_to_together(states: str, living: list[Any]) -> None:
    plan = decide(observed(pods(*states), ordered=False))
    assert plan == Plan(ordered=False, living=tuple(living))


def test_a_pod_that_failed_and_goes_is_waited_for() -> None:
    going = pod("web-0", phase="Failed", terminating=True)
    assert decide(observed([going])) == Plan()


def test_a_pod_must_be_ready_for_long_enough() -> None:
    """TestStatefulSetControlWithStartOrdinal's neighbours on minReadySeconds: TestStatefulSetAvailability."""
    for since, living in ((29.0, ()), (31.0, (create(1),))):
        assert decide(observed([pod("web-0", since=since)], min_ready_seconds=30)).living == living


@pytest.mark.parametrize(
    ("states", "doomed"),
    [
        pytest.param("+++", [delete(2)], id="the highest goes first"),
        pytest.param("++x", [], id="one at a time"),
        pytest.param("++-", [delete(2)], id="the one that is not well may go itself"),
        pytest.param("+-+", [delete(2)], id="one that is too many itself holds nobody up"),
        pytest.param("+--", [], id="of two only the lowest may, and it is not its turn"),
        pytest.param("-++", [], id="one that stays and is not well holds it up"),
        pytest.param(".++", [], id="one that is missing comes first"),
    ],
)
def test_ordered_pods_that_are_too_many_go_one_after_the_other(states: str, doomed: list[DeletePod]) -> None:
    plan = decide(observed(pods(*states), wanted=1))
    assert plan.condemned == tuple(doomed)
    assert plan.update == ()


def test_parallel_pods_that_are_too_many_go_together() -> None:
    plan = decide(observed(pods("-", "x", "-", "+"), wanted=1, ordered=False))
    assert plan.condemned == (delete(3), delete(2))


@pytest.mark.parametrize(
    ("start", "living", "condemned"),
    [
        pytest.param(0, [], [], id="from zero"),
        pytest.param(1, [create(3)], [], id="one higher: the new one comes first"),
        pytest.param(5, [create(5)], [], id="far higher"),
    ],
)
def test_ordinals_begin_at_their_start(start: int, living: list[Any], condemned: list[Any]) -> None:
    """TestStatefulSetControlWithStartOrdinal; TestStatefulSetStartOrdinal of test/integration/statefulset."""
    plan = decide(observed(pods("+++"[0], "+", "+"), start=start))
    assert (plan.living, plan.condemned) == (tuple(living), tuple(condemned))


def test_ordinals_below_the_first_are_too_many() -> None:
    plan = decide(observed(pods("+", "+", "+", "+"), start=1))
    assert plan.condemned == (delete(0),)


def test_a_set_that_is_being_deleted_only_reports() -> None:
    """``updateStatefulSet``: its first return."""
    assert decide(observed(pods("f", ".", "+", "+"), being_deleted=True)) == Plan()


# The update


@pytest.mark.parametrize(
    ("states", "partition", "update"),
    [
        pytest.param(["+o", "+o", "+o"], 0, [2], id="the highest first"),
        pytest.param(["+o", "+o", "+"], 0, [1], id="then the next"),
        pytest.param(["+", "+", "+"], 0, [], id="all are updated"),
        pytest.param(["+o", "+o", "+o"], 2, [2], id="down to the partition"),
        pytest.param(["+o", "+o", "+"], 2, [], id="but not below"),
        pytest.param(["+o", "+o", "+o"], 3, [], id="all are below"),
        pytest.param(["+o", "+o", "+o"], None, [2], id="no rollingUpdate: all"),
        pytest.param(["+o", "+", "+o"], 0, [2], id="one that was left over"),
    ],
)
def test_an_update_goes_from_the_top_down(states: list[str], partition: int | None, update: list[int]) -> None:
    """TestStatefulSetControlRollingUpdate, …WithPartition."""
    plan = decide(observed(pods(*states), partition=partition))
    assert plan.update == tuple(delete(ordinal, OLD) for ordinal in update)


@pytest.mark.parametrize("state", ["-", "p", "x"])
@pytest.mark.parametrize("ordered", [True, False])
def test_an_update_waits_for_the_pod_before(state: str, ordered: bool) -> None:
    """Parallel management is of scaling only (without maxUnavailable)."""
    plan = decide(observed(pods("+o", "+o", state), ordered=ordered))
    assert plan.update == ()


def test_a_parallel_update_replaces_a_pod_that_is_not_well() -> None:
    assert decide(observed(pods("+o", "-o", "-o"), ordered=False)).update == (delete(2, OLD),)
    assert decide(observed(pods("-o", "+", "+"), ordered=False)).update == (delete(0, OLD),)


def test_an_ordered_update_does_not_pass_a_pod_that_is_not_well() -> None:
    """kubernetes#67250: also not when it is of the old revision and would be replaced."""
    assert decide(observed(pods("-o", "+o", "+o"))) == Plan()


def test_on_delete_replaces_nothing() -> None:
    """TestStatefulSetControlOnDeleteUpdate."""
    assert decide(observed(pods("+o", "+o", "+o"), strategy="OnDelete")).update == ()


def test_scaling_comes_before_updating() -> None:
    plan = decide(observed(pods("+o", "+o", "+o"), wanted=2))
    assert (plan.condemned, plan.update) == ((delete(2, OLD),), ())
    plan = decide(observed(pods("+o", "+o", "+o"), wanted=2, ordered=False))
    assert (plan.condemned, plan.update) == ((delete(2, OLD),), (delete(1, OLD),))


@pytest.mark.parametrize(
    ("states", "bound", "update"),
    [
        pytest.param(["+o", "+o", "+o", "+o"], 2, [3, 2], id="two at once"),
        pytest.param(["+o", "+o", "+o", "-"], 2, [2], id="one that is missing counts"),
        pytest.param(["+o", "+o", "-", "-"], 2, [], id="no room"),
        pytest.param(["-o", "+o", "+o", "+o"], 2, [3], id="also one below counts, and is not preferred"),
        pytest.param(["-o", "-o", "-o", "-o"], 2, [], id="over the bound nothing goes, as v1.36 has it"),
        pytest.param(["+o", "+o", "+o", "xo"], 2, [2], id="one on its way out is not deleted again"),
        pytest.param(["+o", "+o", "+o", "fo"], 2, [], id="an old one that has ended takes the room again"),
        pytest.param(
            ["+o", "+o", "+o", "fo"], 3, [2], id="an old one that has ended takes the room again, not all of it"
        ),
        pytest.param(["+o", "+o", "+o", "f"], 2, [2], id="a new one that has ended only counts as missed"),
        pytest.param(["fo", "+o", "+o", "+o"], 2, [3], id="room is given from the top"),
        pytest.param(["+o", "+o", "+o", "+o"], 1, [3], id="one: one after the other"),
        pytest.param(["+", "+", "+", "+"], 4, [], id="all are updated"),
    ],
)
def test_max_unavailable_bounds_an_update(states: list[str], bound: int, update: list[int]) -> None:
    """TestStatefulSetControlRollingUpdateWithMaxUnavailable, its rows of ParallelPodManagement."""
    plan = decide(observed(pods(*states), wanted=4, max_unavailable=bound, ordered=False))
    assert plan.update == tuple(delete(ordinal, OLD) for ordinal in update)


def test_max_unavailable_keeps_to_the_partition() -> None:
    plan = decide(observed(pods("+o", "+o", "+o", "+o"), wanted=4, max_unavailable=4, partition=3))
    assert plan.update == (delete(3, OLD),)


@pytest.mark.parametrize(
    ("ordinal", "rules", "from_current"),
    [
        pytest.param(0, {"partition": 1}, True, id="below the partition: as it was"),
        pytest.param(1, {"partition": 1}, False, id="at the partition: updated"),
        pytest.param(0, {"partition": 0}, False, id="no partition: updated"),
        pytest.param(1, {"partition": None, "current_replicas": 2}, True, id="no rollingUpdate, below currentReplicas"),
        pytest.param(1, {"partition": None, "current_replicas": 1}, False, id="no rollingUpdate, above"),
        pytest.param(1, {"partition": 2, "strategy": "OnDelete"}, True, id="the partition counts whatever the type"),
        pytest.param(0, {"partition": None, "current_replicas": 2, "strategy": "OnDelete"}, False, id="OnDelete: new"),
    ],
)
def test_a_missing_pod_is_made_from_the_revision_of_its_place(
    ordinal: int, rules: dict[str, Any], from_current: bool
) -> None:
    """``newVersionedStatefulSetPod``; kubernetes#70442."""
    states = ["+o", "+o", "+o"]
    states[ordinal] = "."
    plan = decide(observed(pods(*states), **rules))
    assert plan.living == (create(ordinal, from_current=from_current),)


def test_the_partition_counts_from_the_first_ordinal() -> None:
    found = [pod("web-6", revision=OLD), pod("web-7", revision=OLD)]
    plan = decide(observed(found, start=5, partition=1))
    assert plan.living == (create(5, from_current=True),)
    plan = decide(observed([pod(f"web-{n}", revision=OLD) for n in (5, 6, 7)], start=5, partition=2))
    assert plan.update == (delete(7, OLD),)


# Identity and claims


def test_labels_and_volumes_are_put_right() -> None:
    """TestStatefulPodControlUpdatesIdentity, TestStatefulPodControlUpdatesPodStorage."""
    assert decide(observed([pod("web-0", labelled=False)], wanted=1)).living == ((RepairPod("web-0"),),)
    for name, living in (("data-web-0", ()), ("", ((RepairPod("web-0"),),)), ("data-web-1", ((RepairPod("web-0"),),))):
        plan = decide(observed([pod("web-0", claim=name)], wanted=1, templates=DATA))
        assert plan.living == living, name


def test_after_a_repair_an_ordered_set_goes_on() -> None:
    plan = decide(observed([pod("web-0", labelled=False)]))
    assert plan.living == ((RepairPod("web-0"),), create(1))


SCALED = Policy(when_deleted=DELETE, when_scaled=DELETE)
KEPT = Policy(when_deleted=DELETE, when_scaled=RETAIN)


@pytest.mark.parametrize(
    ("claims", "living"),
    [
        pytest.param((), [(FillClaims("web-0"),)], id="missing"),
        pytest.param((claim("data-web-0", BY_SET),), [], id="as it should be"),
        pytest.param((claim("data-web-0"),), [(FillClaims("web-0"),)], id="without owner"),
        pytest.param((claim("data-web-0", BY_SET, terminating=True),), [(FillClaims("web-0"),)], id="on its way out"),
    ],
)
def test_a_pending_pod_gets_the_claims_that_it_lacks(claims: Any, living: list[Any]) -> None:
    """TestStatefulSetControl: RecreatesPVCForPendingPod; TestStatefulPodControlUpdatePodClaimForRetentionPolicy."""
    waiting = pod("web-0", phase="Pending", claim="data-web-0")
    plan = decide(observed([waiting], templates=DATA, claims=claims, policy=SCALED))
    assert plan == Plan(living=tuple(living))


def test_claims_of_running_pods_get_their_owners() -> None:
    found = [pod("web-0", claim="data-web-0"), pod("web-1", claim="data-web-1")]
    claims = (claim("data-web-0", BY_SET), claim("data-web-1", by_pod("web-1")))
    plan = decide(observed(found, wanted=2, templates=DATA, claims=claims, policy=SCALED))
    assert plan.living == ((RepairPod("web-1"),),)


def test_claims_of_pods_that_are_too_many_are_settled_before_the_pod_goes() -> None:
    found = [pod(f"web-{n}", claim=f"data-web-{n}") for n in range(3)]
    claims = tuple(claim(f"data-web-{n}", BY_SET) for n in range(3))
    plan = decide(observed(found, wanted=1, templates=DATA, claims=claims, policy=SCALED))
    assert plan.settle == (SettleClaims("web-2"), SettleClaims("web-1"))
    assert plan.condemned == (delete(2),)
    assert decide(observed(found, wanted=1, templates=DATA, claims=claims, policy=KEPT)).settle == ()


@pytest.mark.parametrize(
    ("policy", "living", "awaited"),
    [
        pytest.param(SCALED, (), ("data-web-0",), id="it will be deleted: wait"),
        pytest.param(KEPT, (create(0),), (), id="claims are kept when pods are scaled away: take it"),
    ],
)
def test_a_claim_of_the_pod_before_is_not_given_to_a_new_one(policy: Policy, living: Any, awaited: Any) -> None:
    """TestPodClaimIsStale."""
    left = claim("data-web-0", by_pod("web-0", "uid of the one before"))
    plan = decide(observed([], templates=DATA, claims=(left,), policy=policy))
    assert (plan.living, plan.waits_for) == (living, awaited)
