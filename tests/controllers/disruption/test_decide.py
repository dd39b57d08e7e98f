"""Decisions of a disruption budget sync. Rows mirror ``pkg/controller/disruption/disruption_test.go`` of v1.36."""

import datetime
from typing import Any

import pytest
from tests.controllers.disruption.builders import LABELS, NOW, ago, budget, cache_of, meta, owner, pod
from tests.tables import cases

from pilothouse.api.apps import Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec
from pilothouse.api.core import Pod, PodCondition, ReplicationController, ReplicationControllerSpec
from pilothouse.api.meta import Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from pilothouse.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from pilothouse.controllers.policy.disruption import membership
from pilothouse.controllers.policy.disruption.decide import (
    Counts,
    build_disrupted_pod_map,
    count_healthy_pods,
    expected_pod_count,
    needs_scale,
)
from pilothouse.controllers.policy.disruption.membership import BudgetPods
from pilothouse.controllers.policy.disruption.owners import Scale, ScaleNotFound, WorkloadCaches, cached_scale
from pilothouse.controllers.policy.disruption.stale import reset_patch, seconds_until_stale
from pilothouse.controllers.policy.disruption.status import fail_safe_status, new_status, status_body
from pilothouse.machinery.int_or_percent import InvalidBound
from pilothouse.machinery.labels import Selector, SelectorError, selector_from

# How many


@cases(
    "spec, pods, scale, expected, desired",
    {
        "TestNoSelector: a number, and no pods": ({"min_available": 3}, 0, 0, 0, 3),
        "TestUnavailable: number of the existing pods": ({"min_available": 3}, 4, 0, 4, 3),
        "minAvailable 0": ({"min_available": 0}, 4, 0, 4, 0),
        "TestIntegerMaxUnavailableWithScaling: of 7": ({"max_unavailable": 2}, 1, 7, 7, 5),
        "TestIntegerMaxUnavailableWithScaling: of 5": ({"max_unavailable": 2}, 1, 5, 5, 3),
        "maxUnavailable above the expected count": ({"max_unavailable": 9}, 1, 5, 5, 0),
        "maxUnavailable 0": ({"max_unavailable": 0}, 1, 5, 5, 5),
        "TestPercentageMaxUnavailableWithScaling: of 7": ({"max_unavailable": "30%"}, 1, 7, 7, 4),
        "TestPercentageMaxUnavailableWithScaling: of 3": ({"max_unavailable": "30%"}, 1, 3, 3, 2),
        "maxUnavailable of 100 %": ({"max_unavailable": "100%"}, 1, 3, 3, 0),
        "TestReplicaSet": ({"min_available": "20%"}, 1, 10, 10, 2),
        "TestReplicationController: 34 % of 3 are rounded up": ({"min_available": "34%"}, 3, 3, 3, 2),
        "TestTwoControllers: 28 % of 22": ({"min_available": "28%"}, 22, 22, 22, 7),
        "TestNakedPod: percentage of no expected pods": ({"min_available": "28%"}, 1, 0, 0, 0),
        "minAvailable of 150 %": ({"min_available": "150%"}, 4, 4, 4, 6),
        "maxUnavailable takes precedence": ({"min_available": 1, "max_unavailable": 1}, 4, 4, 4, 3),
        "neither minAvailable nor maxUnavailable": ({}, 4, 4, 0, 0),
    },
)
def test_expected_and_desired_healthy_pods(
    spec: dict[str, Any], pods: int, scale: int, expected: int, desired: int
) -> None:
    assert expected_pod_count(PodDisruptionBudgetSpec(**spec), pods, scale) == Counts(
        expected=expected, desired=desired
    )


@pytest.mark.parametrize("bound", ["3", "a%", "", "%"])
def test_invalid_percentage_is_an_error(bound: str) -> None:
    with pytest.raises(InvalidBound, match="not a percentage"):
        expected_pod_count(PodDisruptionBudgetSpec(min_available=bound), 1, 1)


@cases(
    "spec, answer",
    {
        "minAvailable number": ({"min_available": 3}, False),
        "minAvailable percentage": ({"min_available": "3%"}, True),
        "maxUnavailable number": ({"max_unavailable": 3}, True),
        "maxUnavailable percentage": ({"max_unavailable": "3%"}, True),
        "neither": ({}, False),
    },
)
def test_budgets_that_need_the_controllers_scale(spec: dict[str, Any], answer: bool) -> None:
    assert needs_scale(PodDisruptionBudgetSpec(**spec)) is answer


# Who


def test_disrupted_pods_are_removed_when_deleted_or_after_the_timeout() -> None:
    """TestUpdateDisruptedPods."""
    disrupted = {"p1": NOW, "p2": ago(180), "p3": ago(60), "p4": ago(90), "notthere": NOW}
    pods = [pod("p1", terminating=True), pod("p2"), pod("p3"), pod("p4"), pod("p5")]
    result = build_disrupted_pod_map(pods, disrupted, NOW)
    assert result.awaited == {"p3": ago(60), "p4": ago(90)}
    assert [item.metadata.name for item in result.overdue] == ["p2"]
    assert result.recheck_at == NOW + datetime.timedelta(seconds=30)
    assert count_healthy_pods(pods, result.awaited, NOW) == 2


def test_no_disrupted_pods_without_evictions() -> None:
    result = build_disrupted_pod_map([pod("p1")], {}, NOW)
    assert (result.awaited, result.overdue, result.recheck_at) == ({}, (), None)


@cases(
    "conditions, healthy",
    {
        "ready": (pod("a"), 1),
        "not ready": (pod("a", ready=False), 0),
        "being deleted": (pod("a", terminating=True), 0),
        "phase is ignored": (pod("a", phase="Succeeded"), 1),
        "evicted": (pod("evicted"), 0),
        "evicted exactly two minutes ago": (pod("evicted a while ago"), 1),
    },
)
def test_healthy_pods(conditions: Pod, healthy: int) -> None:
    assert count_healthy_pods([conditions], {"evicted": ago(1), "evicted a while ago": ago(120)}, NOW) == healthy


# Status and conditions


def budget_status(condition: tuple[str, str] | None = None, **status: Any) -> PodDisruptionBudgetStatus:
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


@cases(
    "expected, desired, healthy, allowed",
    {
        "TestUnavailable: one disruption allowed": (4, 3, 4, 1),
        "TestUnavailable: none allowed": (4, 3, 3, 0),
        "below the minimum": (7, 5, 1, 0),
        "TestReplicationController: a rogue pod is healthy too": (3, 2, 4, 2),
        "TestNakedPod: no expected pods": (0, 0, 1, 0),
        "TestMultipleControllers": (1, 1, 2, 1),
        "TestScaleResource": (10, 5, 4, 0),
    },
)
def test_disruptions_allowed(expected: int, desired: int, healthy: int, allowed: int) -> None:
    status = new_status(budget(generation=7), Counts(expected=expected, desired=desired), healthy, {}, NOW)
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


@cases(
    "before, writes",
    {
        "up to date": (budget_status(SURE, expected_pods=3, **FINE), False),
        "different expected count": (budget_status(SURE, expected_pods=4, **FINE), True),
        "outdated observedGeneration": (
            budget_status(SURE, expected_pods=3, **{**FINE, "observed_generation": 0}),
            True,
        ),
        "missing condition": (budget_status(expected_pods=3, **FINE), True),
        "different condition status": (budget_status(("False", "InsufficientPods"), expected_pods=3, **FINE), True),
        "different condition reason": (budget_status(("True", "Whatever"), expected_pods=3, **FINE), True),
        "a deleted pod is in disruptedPods": (
            budget_status(SURE, expected_pods=3, disrupted_pods={"gone": NOW}, **FINE),
            True,
        ),
        "condition's message and time are ignored": (
            PodDisruptionBudgetStatus(
                conditions=(condition_of(*SURE, message="something", generation=9),), expected_pods=3, **FINE
            ),
            False,
        ),
    },
)
def test_status_is_written_only_if_changed(before: PodDisruptionBudgetStatus, writes: bool) -> None:
    status = new_status(budget(before, generation=1), Counts(expected=3, desired=2), 3, {}, NOW)
    assert (status is not None) is writes


def test_condition_has_the_last_transition_time() -> None:
    for status, at in (("True", ago(60)), ("False", NOW)):
        old = PodDisruptionBudgetStatus(conditions=(condition_of(status, "Whatever", at=ago(60)),))
        new = new_status(budget(old, generation=1), Counts(expected=3, desired=2), 3, {}, NOW)
        assert new is not None
        assert new.conditions == (condition_of(*SURE, generation=1, at=at),)


def test_conditions_of_others_are_kept() -> None:
    """TestKeepExistingPDBConditionDuringSync."""
    foreign = Condition(type="ExistingTestCondition", status="True", reason="Test", message="This is a test condition")
    old = PodDisruptionBudgetStatus(conditions=(foreign,))
    new = new_status(budget(old), Counts(expected=0, desired=3), 0, {}, NOW)
    assert new is not None
    assert new.conditions == (foreign, condition_of("False", "InsufficientPods"))


def test_sync_failure_allows_no_disruptions_and_keeps_counts() -> None:
    old = budget_status(SURE, expected_pods=3, **FINE)
    new = fail_safe_status(budget(old, generation=2), "no such thing", NOW)
    condition = condition_of("False", "SyncFailed", message="no such thing", generation=1)
    assert new == PodDisruptionBudgetStatus(
        conditions=(condition,), expected_pods=3, **{**FINE, "disruptions_allowed": 0}
    )


def test_unknown_fields_are_kept() -> None:
    raw = (
        b'{"kind":"PodDisruptionBudget","metadata":{"name":"a","x":1},"spec":{"future":[1.50]},'
        b'"status":{"future":{},"disruptedPods":{"a":"2026-01-01T00:00:00Z"}}}'
    )
    status = budget_status(SURE, expected_pods=3, **FINE)
    assert status_body(raw, status) == (
        b'{"kind":"PodDisruptionBudget","metadata":{"name":"a","x":1},"spec":{"future":[1.50]},'
        b'"status":{"future":{},"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":3,"desiredHealthy":2,'
        b'"expectedPods":3,"conditions":[{"type":"DisruptionAllowed","status":"True",'
        b'"lastTransitionTime":"2026-01-01T12:00:00Z","reason":"SufficientPods","message":""}]}}'
    )
    awaited = budget_status(SURE, disrupted_pods={"b": NOW, "a": NOW})
    assert b'"disruptedPods":{"a":"2026-01-01T12:00:00Z","b":"2026-01-01T12:00:00Z"}' in status_body(raw, awaited)


# Whose pods


def caches(*above: OwnerReference) -> WorkloadCaches:
    return WorkloadCaches(
        controllers=cache_of(
            "rc", ReplicationController(metadata=meta("rc"), spec=ReplicationControllerSpec(replicas=12))
        ),
        replica_sets=cache_of("rs", ReplicaSet(metadata=meta("rs", *above), spec=ReplicaSetSpec(replicas=5))),
        deployments=cache_of("d", Deployment(metadata=meta("d"), spec=DeploymentSpec(replicas=10))),
        stateful_sets=cache_of("ss", StatefulSet(metadata=meta("ss"), spec=StatefulSetSpec(replicas=14))),
    )


@cases(
    "reference, scale",
    {
        "replicaset, apps": (owner("ReplicaSet", "rs"), Scale("rs", 5)),
        "replicaset, extensions": (owner("ReplicaSet", "rs", "extensions/v1beta1"), Scale("rs", 5)),
        "replicaset, of another group": (owner("ReplicaSet", "rs", "invalid/v1"), None),
        "replicaset, another one of its name": (owner("ReplicaSet", "other"), None),
        "replicaset, that the cache does not have": (owner("ReplicaSet", "rs", name="other"), None),
        "replicationcontroller": (owner("ReplicationController", "rc", "v1"), Scale("rc", 12)),
        "an empty group is a group": (owner("ReplicationController", "rc", "/v1"), Scale("rc", 12)),
        "replicationcontroller, another group": (owner("ReplicationController", "rc", "apps/v1"), None),
        "replicationcontroller, another one": (owner("ReplicationController", "x", "v1"), None),
        "statefulset": (owner("StatefulSet", "ss"), Scale("ss", 14)),
        "statefulset, of another group": (owner("StatefulSet", "ss", "extensions/v1beta1"), None),
        "a uid under another kind": (owner("ReplicaSet", "ss"), None),
        "another kind": (owner("Job", "rs", "batch/v1"), None),
    },
)
def test_basic_finder_functions(reference: OwnerReference, scale: Scale | None) -> None:
    """TestBasicFinderFunctions."""
    assert cached_scale(caches(), reference, "default") == scale


@cases(
    "reference, above, scale",
    {
        "Deployment": ("apps/v1", owner("Deployment", "d", "extensions/v1"), Scale("d", 10)),
        "the ReplicaSet is of another group": ("invalid/v1", owner("Deployment", "d"), None),
        "Deployment of another group": ("extensions/v1", owner("Deployment", "d", "deployment/v1"), None),
        "ReplicaSet of another owner": ("extensions/v1", owner("InvalidKind", "d"), Scale("rs", 5)),
        "another Deployment of that name": ("apps/v1", owner("Deployment", "old"), None),
        "a Deployment that is not cached": ("apps/v1", owner("Deployment", "d", name="other"), None),
    },
)
def test_deployment_finder_function(reference: str, above: OwnerReference, scale: Scale | None) -> None:
    """TestDeploymentFinderFunction."""
    assert cached_scale(caches(above), owner("ReplicaSet", "rs", reference), "default") == scale


def test_owner_with_an_invalid_api_version_is_an_error() -> None:
    with pytest.raises(ScaleNotFound, match="unexpected GroupVersion string: a/b/c"):
        cached_scale(caches(), owner("ReplicaSet", "rs", "a/b/c"), "default")


# Which pods


def selecting(name: str, selector: LabelSelector | None, namespace: str = "default") -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=PodDisruptionBudgetSpec(selector=selector)
    )


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),))


@cases(
    "selector, selects",
    {
        "a nil selector matches nothing": (None, False),
        "TestNoSelector: an empty one selects all": (LabelSelector(), True),
        "a label": (LabelSelector(match_labels=LABELS), True),
        "another value": (LabelSelector(match_labels={"foo": "other"}), False),
        "a label more": (LabelSelector(match_labels={**LABELS, "more": "x"}), False),
        "In with several values": (expression("foo", "In", "a", "bar"), True),
        "In with one value": (expression("foo", "In", "bar"), True),
        "NotIn": (expression("foo", "NotIn", "bar"), False),
        "Exists": (expression("foo", "Exists"), True),
        "DoesNotExist": (expression("foo", "DoesNotExist"), False),
        "a label, and an expression against it": (
            LabelSelector(match_labels=LABELS, match_expressions=expression("foo", "NotIn", "bar").match_expressions),
            False,
        ),
    },
)
def test_pods_of_a_budget_and_budgets_of_a_pod(selector: LabelSelector | None, selects: bool) -> None:
    one = pod("one")
    budget_object = selecting("mine", selector)
    budgets = cache_of("budgets", budget_object, selecting("theirs", selector, "elsewhere"))
    members = BudgetPods(budgets, cache_of("pods", one, pod("other", labels={"x": "y"}, generate_name="x")))
    assert (one in members.get_pods_for_pdb(budget_object)) is selects
    assert members.get_pod_pod_disruption_budgets(one.metadata) == ([budget_object] if selects else [])


def test_selector_of_a_budget_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[LabelSelector | None] = []

    def counted(selector: LabelSelector | None) -> Selector:
        compiled.append(selector)
        return selector_from(selector)

    monkeypatch.setattr(membership, "selector_from", counted)
    budgets = cache_of("budgets", *(selecting(f"b{number}", expression("foo", "Exists")) for number in range(100)))
    members = BudgetPods(budgets, cache_of("pods"))
    for _ in range(5):
        assert len(members.get_pod_pod_disruption_budgets(pod("one").metadata)) == 100
    assert len(compiled) == 100
    changed = selecting("b0", expression("foo", "DoesNotExist"))
    budgets.put("default/b0", changed)
    assert len(members.get_pod_pod_disruption_budgets(pod("one").metadata)) == 99
    same = selecting("b0", expression("foo", "DoesNotExist"))
    members.may_select(same, {})
    assert len(compiled) == 101, "an equal selector of a later version is the same"
    members.forget(same)
    assert "default/b0" not in members._selectors
    for number in range(100):
        budgets.drop(f"default/b{number}")
    for number in range(200):
        members.may_select(selecting(f"gone{number}", LabelSelector()), {})
    assert len(members._selectors) < 100


def test_several_budgets_of_a_pod_are_sorted_by_name() -> None:
    several = [
        selecting("c", LabelSelector()),
        selecting("a", LabelSelector(match_labels=LABELS)),
        selecting("b", expression("foo", "Exists")),
    ]
    members = BudgetPods(cache_of("budgets", *several), cache_of("pods"))
    assert [item.metadata.name for item in members.get_pod_pod_disruption_budgets(pod("one").metadata)] == [
        "a",
        "b",
        "c",
    ]


@cases(
    "selector",
    {
        "a key": LabelSelector(match_labels={"k8s.io/too/many/slashes": "value"}),
        "an operator": expression("foo", "illegal", "bar"),
    },
)
def test_invalid_selector_matches_nothing(selector: LabelSelector) -> None:
    """TestInvalidSelectors."""
    budget_object = selecting("mine", selector)
    members = BudgetPods(cache_of("budgets", budget_object), cache_of("pods", pod("one")))
    with pytest.raises(SelectorError):
        members.get_pods_for_pdb(budget_object)
    assert members.get_pod_pod_disruption_budgets(pod("one").metadata) == []
    assert not members.may_select(budget_object, LABELS)


@cases(
    "selector, answer",
    {
        "the same label": (LabelSelector(match_labels=LABELS), True),
        "another value": (LabelSelector(match_labels={"foo": "other"}), False),
        "label that pods may have in addition": (LabelSelector(match_labels={"more": "x"}), True),
        "empty selector": (LabelSelector(), True),
    },
)
def test_budgets_possibly_matching_a_workloads_pods(selector: LabelSelector, answer: bool) -> None:
    budget_object = selecting("mine", selector)
    assert BudgetPods(cache_of("budgets", budget_object), cache_of("pods")).may_select(budget_object, LABELS) is answer


# Stale conditions


def target(status: str = "True", reason: str = "EvictionByEvictionAPI", since: float = 0.0) -> PodCondition:
    return PodCondition(
        type="DisruptionTarget", status=status, reason=reason, message="m", last_transition_time=ago(since)
    )


@cases(
    "conditions, seconds",
    {
        "stale": (pod("a", conditions=(target(since=121),)), 0),
        "in progress": (pod("a", conditions=(target(since=119),)), 1),
        "actuated": (pod("a", conditions=(target(since=121),), terminating=True), None),
        "no disruption": (pod("a"), None),
        "cleared": (pod("a", conditions=(target("False"),)), None),
        "the kubelet's": (pod("a", conditions=(target(reason="TerminationByKubelet", since=999),)), None),
        "completed pod": (pod("a", conditions=(target(since=121),), phase="Failed"), None),
        "no transition time": (pod("a", conditions=(PodCondition(type="DisruptionTarget", status="True"),)), 0),
    },
)
def test_stale_disruption_condition(conditions: Pod, seconds: float | None) -> None:
    """TestStalePodDisruption."""
    assert seconds_until_stale(conditions, NOW) == seconds


def test_stale_condition_is_reset_with_the_resource_version() -> None:
    observed_pod = pod("a", conditions=(target(since=121),), generation=3, resource_version="42")
    assert reset_patch(observed_pod, NOW) == {
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
