"""What a budget comes to. Rows mirror ``pkg/controller/disruption/disruption_test.go`` of v1.36."""

import datetime
from typing import Any

import pytest
from tests.controllers.disruption.builders import LABELS, NOW, ago, budget, cache_of, meta, owner, pod

from pilothouse.api.apps import Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec
from pilothouse.api.core import Pod, PodCondition, ReplicationController, ReplicationControllerSpec
from pilothouse.api.meta import Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from pilothouse.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from pilothouse.controllers.policy.disruption.decide import Counts, count, count_healthy, follow, needs_scale
from pilothouse.controllers.policy.disruption.membership import Membership
from pilothouse.controllers.policy.disruption.owners import Caches, NoScale, Scale, cached_scale
from pilothouse.controllers.policy.disruption.stale import reset_patch, seconds_until_stale
from pilothouse.controllers.policy.disruption.status import body, failed, reported
from pilothouse.machinery.int_or_percent import InvalidBound
from pilothouse.machinery.labels import SelectorError

# How many


@pytest.mark.parametrize(
    ("spec", "pods", "scale", "expected", "desired"),
    [
        pytest.param({"min_available": 3}, 0, 0, 0, 3, id="TestNoSelector: a number, and nobody there"),
        pytest.param({"min_available": 3}, 4, 0, 4, 3, id="TestUnavailable: a number is of the pods that there are"),
        pytest.param({"min_available": 0}, 4, 0, 4, 0, id="none need be there"),
        pytest.param({"max_unavailable": 2}, 1, 7, 7, 5, id="TestIntegerMaxUnavailableWithScaling: of 7"),
        pytest.param({"max_unavailable": 2}, 1, 5, 5, 3, id="TestIntegerMaxUnavailableWithScaling: of 5"),
        pytest.param({"max_unavailable": 9}, 1, 5, 5, 0, id="more may be missing than there should be"),
        pytest.param({"max_unavailable": 0}, 1, 5, 5, 5, id="none may be missing"),
        pytest.param({"max_unavailable": "30%"}, 1, 7, 7, 4, id="TestPercentageMaxUnavailableWithScaling: of 7"),
        pytest.param({"max_unavailable": "30%"}, 1, 3, 3, 2, id="TestPercentageMaxUnavailableWithScaling: of 3"),
        pytest.param({"max_unavailable": "100%"}, 1, 3, 3, 0, id="all may be missing"),
        pytest.param({"min_available": "20%"}, 1, 10, 10, 2, id="TestReplicaSet"),
        pytest.param({"min_available": "34%"}, 3, 3, 3, 2, id="TestReplicationController: 34 % of 3 are rounded up"),
        pytest.param({"min_available": "28%"}, 22, 22, 22, 7, id="TestTwoControllers: 28 % of 22"),
        pytest.param(
            {"min_available": "28%"}, 1, 0, 0, 0, id="TestNakedPod: nobody's pods are nothing to be a part of"
        ),
        pytest.param({"min_available": "150%"}, 4, 4, 4, 6, id="more than there should be"),
        pytest.param({"min_available": 1, "max_unavailable": 1}, 4, 4, 4, 3, id="maxUnavailable goes first"),
        pytest.param({}, 4, 4, 0, 0, id="it says nothing"),
    ],
)
def test_how_many_are_expected_and_how_many_must_be_healthy(
    spec: dict[str, Any], pods: int, scale: int, expected: int, desired: int
) -> None:
    assert count(PodDisruptionBudgetSpec(**spec), pods, scale) == Counts(expected=expected, desired=desired)


@pytest.mark.parametrize("bound", ["3", "a%", "", "%"])
def test_text_that_is_no_percentage_is_an_error(bound: str) -> None:
    with pytest.raises(InvalidBound, match="not a percentage"):
        count(PodDisruptionBudgetSpec(min_available=bound), 1, 1)


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        pytest.param({"min_available": 3}, False, id="a number that must be there"),
        pytest.param({"min_available": "3%"}, True, id="a share that must be there"),
        pytest.param({"max_unavailable": 3}, True, id="a number that may be missing"),
        pytest.param({"max_unavailable": "3%"}, True, id="a share that may be missing"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_which_budgets_are_a_part_of_something(spec: dict[str, Any], answer: bool) -> None:
    assert needs_scale(PodDisruptionBudgetSpec(**spec)) is answer


# Who


def test_evicted_pods_are_awaited_until_they_go_or_their_time_is_over() -> None:
    """TestUpdateDisruptedPods."""
    disrupted = {"p1": NOW, "p2": ago(180), "p3": ago(60), "p4": ago(90), "notthere": NOW}
    pods = [pod("p1", terminating=True), pod("p2"), pod("p3"), pod("p4"), pod("p5")]
    found = follow(pods, disrupted, NOW)
    assert found.awaited == {"p3": ago(60), "p4": ago(90)}
    assert [each.metadata.name for each in found.overdue] == ["p2"]
    assert found.recheck_at == NOW + datetime.timedelta(seconds=30)
    assert count_healthy(pods, found.awaited, NOW) == 2


def test_without_evictions_none_are_awaited() -> None:
    found = follow([pod("p1")], {}, NOW)
    assert (found.awaited, found.overdue, found.recheck_at) == ({}, (), None)


@pytest.mark.parametrize(
    ("given", "healthy"),
    [
        pytest.param(pod("a"), 1, id="ready"),
        pytest.param(pod("a", ready=False), 0, id="not ready"),
        pytest.param(pod("a", terminating=True), 0, id="being deleted"),
        pytest.param(pod("a", phase="Succeeded"), 1, id="the phase is not looked at"),
        pytest.param(pod("evicted"), 0, id="evicted"),
        pytest.param(pod("evicted a while ago"), 1, id="evicted exactly two minutes ago, and kept until the next sync"),
    ],
)
def test_who_is_healthy(given: Pod, healthy: int) -> None:
    assert count_healthy([given], {"evicted": ago(1), "evicted a while ago": ago(120)}, NOW) == healthy


# What is said


def said(condition: tuple[str, str] | None = None, **status: Any) -> PodDisruptionBudgetStatus:
    conditions = () if condition is None else (condition_of(*condition),)
    return PodDisruptionBudgetStatus(conditions=conditions, **status)


def condition_of(
    status: str, reason: str, *, message: str = "", generation: int = 0, at: datetime.datetime = NOW
) -> Condition:
    return Condition(
        type="DisruptionAllowed",
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=at,
    )


@pytest.mark.parametrize(
    ("expected", "desired", "healthy", "allowed"),
    [
        pytest.param(4, 3, 4, 1, id="TestUnavailable: one is over"),
        pytest.param(4, 3, 3, 0, id="TestUnavailable: none is over"),
        pytest.param(7, 5, 1, 0, id="too few"),
        pytest.param(3, 2, 4, 2, id="TestReplicationController: a rogue pod is healthy too"),
        pytest.param(0, 0, 1, 0, id="TestNakedPod: nobody is expected"),
        pytest.param(1, 1, 2, 1, id="TestMultipleControllers"),
        pytest.param(10, 5, 4, 0, id="TestScaleResource"),
    ],
)
def test_what_is_allowed(expected: int, desired: int, healthy: int, allowed: int) -> None:
    status = reported(budget(generation=7), Counts(expected=expected, desired=desired), healthy, {}, NOW)
    outcome = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    assert status == PodDisruptionBudgetStatus(
        observed_generation=7,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=(condition_of(*outcome, generation=7),),
    )


FINE: dict[str, Any] = {"observed_generation": 1, "disruptions_allowed": 1, "current_healthy": 3, "desired_healthy": 2}
SURE = ("True", "SufficientPods")


@pytest.mark.parametrize(
    ("before", "writes"),
    [
        pytest.param(said(SURE, expected_pods=3, **FINE), False, id="all is said"),
        pytest.param(said(SURE, expected_pods=4, **FINE), True, id="another number"),
        pytest.param(said(SURE, expected_pods=3, **{**FINE, "observed_generation": 0}), True, id="of another spec"),
        pytest.param(said(expected_pods=3, **FINE), True, id="no condition"),
        pytest.param(said(("False", "InsufficientPods"), expected_pods=3, **FINE), True, id="the other condition"),
        pytest.param(said(("True", "Whatever"), expected_pods=3, **FINE), True, id="another reason"),
        pytest.param(
            said(SURE, expected_pods=3, disrupted_pods={"gone": NOW}, **FINE), True, id="somebody who is gone is noted"
        ),
        pytest.param(
            PodDisruptionBudgetStatus(
                conditions=(condition_of(*SURE, message="something", generation=9),), expected_pods=3, **FINE
            ),
            False,
            id="what else is in the condition does not count",
        ),
    ],
)
def test_when_a_status_is_written(before: PodDisruptionBudgetStatus, writes: bool) -> None:
    status = reported(budget(before, generation=1), Counts(expected=3, desired=2), 3, {}, NOW)
    assert (status is not None) is writes


def test_the_time_of_the_condition_is_that_of_its_last_change() -> None:
    for status, at in (("True", ago(60)), ("False", NOW)):
        old = PodDisruptionBudgetStatus(conditions=(condition_of(status, "Whatever", at=ago(60)),))
        new = reported(budget(old, generation=1), Counts(expected=3, desired=2), 3, {}, NOW)
        assert new is not None
        assert new.conditions == (condition_of(*SURE, generation=1, at=at),)


def test_conditions_of_others_stay() -> None:
    """TestKeepExistingPDBConditionDuringSync."""
    theirs = Condition(type="ExistingTestCondition", status="True", reason="Test", message="This is a test condition")
    old = PodDisruptionBudgetStatus(conditions=(theirs,))
    new = reported(budget(old), Counts(expected=0, desired=3), 0, {}, NOW)
    assert new is not None
    assert new.conditions == (theirs, condition_of("False", "InsufficientPods"))


def test_a_failure_allows_nothing_and_leaves_the_figures() -> None:
    old = said(SURE, expected_pods=3, **FINE)
    new = failed(budget(old, generation=2), "no such thing", NOW)
    condition = condition_of("False", "SyncFailed", message="no such thing", generation=1)
    assert new == PodDisruptionBudgetStatus(
        conditions=(condition,), expected_pods=3, **{**FINE, "disruptions_allowed": 0}
    )


def test_unknown_fields_are_kept() -> None:
    raw = (
        b'{"kind":"PodDisruptionBudget","metadata":{"name":"a","x":1},"spec":{"future":[1.50]},'
        b'"status":{"future":{},"disruptedPods":{"a":"2026-01-01T00:00:00Z"}}}'
    )
    status = said(SURE, expected_pods=3, **FINE)
    assert body(raw, status) == (
        b'{"kind":"PodDisruptionBudget","metadata":{"name":"a","x":1},"spec":{"future":[1.50]},'
        b'"status":{"future":{},"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":3,"desiredHealthy":2,'
        b'"expectedPods":3,"conditions":[{"type":"DisruptionAllowed","status":"True",'
        b'"lastTransitionTime":"2026-01-01T12:00:00Z","reason":"SufficientPods","message":""}]}}'
    )
    awaited = said(SURE, disrupted_pods={"b": NOW, "a": NOW})
    assert b'"disruptedPods":{"a":"2026-01-01T12:00:00Z","b":"2026-01-01T12:00:00Z"}' in body(raw, awaited)


# Whose pods


def caches(*above: OwnerReference) -> Caches:
    return Caches(
        controllers=cache_of(
            "rc", ReplicationController(metadata=meta("rc"), spec=ReplicationControllerSpec(replicas=12))
        ),
        replica_sets=cache_of("rs", ReplicaSet(metadata=meta("rs", *above), spec=ReplicaSetSpec(replicas=5))),
        deployments=cache_of("d", Deployment(metadata=meta("d"), spec=DeploymentSpec(replicas=10))),
        stateful_sets=cache_of("ss", StatefulSet(metadata=meta("ss"), spec=StatefulSetSpec(replicas=14))),
    )


@pytest.mark.parametrize(
    ("reference", "scale"),
    [
        pytest.param(owner("ReplicaSet", "rs"), Scale("rs", 5), id="replicaset, apps"),
        pytest.param(owner("ReplicaSet", "rs", "extensions/v1beta1"), Scale("rs", 5), id="replicaset, extensions"),
        pytest.param(owner("ReplicaSet", "rs", "invalid/v1"), None, id="replicaset, of another group"),
        pytest.param(owner("ReplicaSet", "other"), None, id="replicaset, another one of its name"),
        pytest.param(owner("ReplicaSet", "rs", name="other"), None, id="replicaset, that the cache does not have"),
        pytest.param(owner("ReplicationController", "rc", "v1"), Scale("rc", 12), id="replicationcontroller"),
        pytest.param(owner("ReplicationController", "rc", "/v1"), Scale("rc", 12), id="an empty group is a group"),
        pytest.param(owner("ReplicationController", "rc", "apps/v1"), None, id="replicationcontroller, another group"),
        pytest.param(owner("ReplicationController", "x", "v1"), None, id="replicationcontroller, another one"),
        pytest.param(owner("StatefulSet", "ss"), Scale("ss", 14), id="statefulset"),
        pytest.param(owner("StatefulSet", "ss", "extensions/v1beta1"), None, id="statefulset, of another group"),
        pytest.param(owner("ReplicaSet", "ss"), None, id="a uid under another kind"),
        pytest.param(owner("Job", "rs", "batch/v1"), None, id="another kind"),
    ],
)
def test_who_is_found_in_caches(reference: OwnerReference, scale: Scale | None) -> None:
    """TestBasicFinderFunctions."""
    assert cached_scale(caches(), reference, "default") == scale


@pytest.mark.parametrize(
    ("reference", "above", "scale"),
    [
        pytest.param("apps/v1", owner("Deployment", "d", "extensions/v1"), Scale("d", 10), id="the Deployment counts"),
        pytest.param("invalid/v1", owner("Deployment", "d"), None, id="the ReplicaSet is of another group"),
        pytest.param("extensions/v1", owner("Deployment", "d", "deployment/v1"), None, id="so is the Deployment"),
        pytest.param(
            "extensions/v1", owner("InvalidKind", "d"), Scale("rs", 5), id="somebody else's ReplicaSet counts"
        ),
        pytest.param("apps/v1", owner("Deployment", "old"), None, id="another Deployment of its name"),
        pytest.param("apps/v1", owner("Deployment", "d", name="other"), None, id="a Deployment that is not cached"),
    ],
)
def test_who_is_found_above_a_replica_set(reference: str, above: OwnerReference, scale: Scale | None) -> None:
    """TestDeploymentFinderFunction."""
    assert cached_scale(caches(above), owner("ReplicaSet", "rs", reference), "default") == scale


def test_an_owner_with_an_invalid_version_is_an_error() -> None:
    with pytest.raises(NoScale, match="unexpected GroupVersion string: a/b/c"):
        cached_scale(caches(), owner("ReplicaSet", "rs", "a/b/c"), "default")


# Which pods


def selecting(name: str, selector: LabelSelector | None, namespace: str = "default") -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=PodDisruptionBudgetSpec(selector=selector)
    )


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        pytest.param(None, False, id="no selector selects nobody"),
        pytest.param(LabelSelector(), True, id="TestNoSelector: an empty one selects all"),
        pytest.param(LabelSelector(match_labels=LABELS), True, id="a label"),
        pytest.param(LabelSelector(match_labels={"foo": "other"}), False, id="another value"),
        pytest.param(LabelSelector(match_labels={**LABELS, "more": "x"}), False, id="a label more"),
        pytest.param(expression("foo", "In", "a", "bar"), True, id="one of several"),
        pytest.param(expression("foo", "In", "bar"), True, id="one of one"),
        pytest.param(expression("foo", "NotIn", "bar"), False, id="none of these"),
        pytest.param(expression("foo", "Exists"), True, id="any value"),
        pytest.param(expression("foo", "DoesNotExist"), False, id="no value"),
        pytest.param(
            LabelSelector(match_labels=LABELS, match_expressions=expression("foo", "NotIn", "bar").match_expressions),
            False,
            id="a label, and an expression against it",
        ),
    ],
)
def test_budgets_and_pods_find_each_other(selector: LabelSelector | None, selects: bool) -> None:
    one = pod("one")
    mine = selecting("mine", selector)
    budgets = cache_of("budgets", mine, selecting("theirs", selector, "elsewhere"))
    members = Membership(budgets, cache_of("pods", one, pod("other", labels={"x": "y"}, generate_name="x")))
    assert (one in members.pods_of(mine)) is selects
    assert members.budgets_of(one.metadata) == ([mine] if selects else [])


def test_several_budgets_of_a_pod_are_found_by_name() -> None:
    several = [
        selecting("c", LabelSelector()),
        selecting("a", LabelSelector(match_labels=LABELS)),
        selecting("b", expression("foo", "Exists")),
    ]
    members = Membership(cache_of("budgets", *several), cache_of("pods"))
    assert [each.metadata.name for each in members.budgets_of(pod("one").metadata)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(LabelSelector(match_labels={"k8s.io/too/many/slashes": "value"}), id="a key"),
        pytest.param(expression("foo", "illegal", "bar"), id="an operator"),
    ],
)
def test_an_invalid_selector_selects_nothing(selector: LabelSelector) -> None:
    """TestInvalidSelectors."""
    mine = selecting("mine", selector)
    members = Membership(cache_of("budgets", mine), cache_of("pods", pod("one")))
    with pytest.raises(SelectorError):
        members.pods_of(mine)
    assert members.budgets_of(pod("one").metadata) == []
    assert not members.may_concern(mine, LABELS)


@pytest.mark.parametrize(
    ("selector", "answer"),
    [
        pytest.param(LabelSelector(match_labels=LABELS), True, id="the same label"),
        pytest.param(LabelSelector(match_labels={"foo": "other"}), False, id="another value"),
        pytest.param(LabelSelector(match_labels={"more": "x"}), True, id="a label that the pods may have beside it"),
        pytest.param(LabelSelector(), True, id="all"),
    ],
)
def test_which_budgets_may_be_about_the_pods_of_a_workload(selector: LabelSelector, answer: bool) -> None:
    mine = selecting("mine", selector)
    assert Membership(cache_of("budgets", mine), cache_of("pods")).may_concern(mine, LABELS) is answer


# Conditions that nobody acted upon


def target(status: str = "True", reason: str = "EvictionByEvictionAPI", since: float = 0.0) -> PodCondition:
    return PodCondition(
        type="DisruptionTarget", status=status, reason=reason, message="m", last_transition_time=ago(since)
    )


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        pytest.param(pod("a", conditions=(target(since=121),)), 0, id="stale"),
        pytest.param(pod("a", conditions=(target(since=119),)), 1, id="in progress"),
        pytest.param(pod("a", conditions=(target(since=121),), terminating=True), None, id="actuated"),
        pytest.param(pod("a"), None, id="no disruption"),
        pytest.param(pod("a", conditions=(target("False"),)), None, id="cleared"),
        pytest.param(
            pod("a", conditions=(target(reason="TerminationByKubelet", since=999),)), None, id="the kubelet's"
        ),
        pytest.param(pod("a", conditions=(target(since=121),), phase="Failed"), None, id="it has run to its end"),
        pytest.param(
            pod("a", conditions=(PodCondition(type="DisruptionTarget", status="True"),)),
            0,
            id="since nobody knows when",
        ),
    ],
)
def test_when_a_condition_is_stale(given: Pod, seconds: float | None) -> None:
    """TestStalePodDisruption."""
    assert seconds_until_stale(given, NOW) == seconds


def test_the_condition_is_reset_on_the_pod_that_was_seen() -> None:
    seen = pod("a", conditions=(target(since=121),), generation=3, resource_version="42")
    assert reset_patch(seen, NOW) == {
        "metadata": {"uid": "uid-a", "resourceVersion": "42"},
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "DisruptionTarget"}],
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "False",
                    "reason": None,
                    "message": None,
                    "observedGeneration": 3,
                    "lastTransitionTime": "2026-01-01T12:00:00Z",
                }
            ],
        },
    }
