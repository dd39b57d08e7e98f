"""Remaining content of a namespace, and the estimated time."""

import datetime

import pytest
from tests.tables import cases

from pilothouse.api.core import Pod, PodSpec, PodStatus
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.controllers.cleanup.namespace.decide import (
    GONE,
    RemainingContent,
    Resource,
    Totals,
    UnexpectedContent,
    estimate_graceful_termination_for_pods,
    finalizers_without_kubernetes,
    pause_seconds,
    remaining_content,
)

DELETED_AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
WIDGETS = Resource("example.com", "v1", "widgets")


def pod(grace: int | None, phase: str = "Running") -> Pod:
    return Pod(spec=PodSpec(termination_grace_period_seconds=grace), status=PodStatus(phase=phase))


def current(*finalizers: str) -> Object:
    return Object(metadata=ObjectMeta(name="x", finalizers=finalizers))


@cases(
    "pods, seconds_later, expected",
    {
        "no pods": ([], 0, 0),
        "longest grace period": ([pod(30), pod(60), pod(10)], 0, 60),
        "terminated pods are ignored": ([pod(30), pod(60, "Succeeded"), pod(90, "Failed")], 0, 30),
        "a pod without a grace period adds nothing": ([pod(None)], 0, 0),
        "the estimate does not shrink while it lasts": ([pod(30)], 29, 30),
        "grace period over": ([pod(30)], 30, 0),
    },
)
def test_estimate_graceful_termination(pods: list[Pod], seconds_later: int, expected: int) -> None:
    assert (
        estimate_graceful_termination_for_pods(pods, DELETED_AT, DELETED_AT + datetime.timedelta(seconds=seconds_later))
        == expected
    )


@cases(
    "items, estimate, expected",
    {
        "no content": ([], 30, GONE),
        "within the estimate": ([current()], 30, RemainingContent(1, {}, 30)),
        "finalizers get fifteen seconds": (
            [current("a"), current("a", "b")],
            0,
            RemainingContent(2, {"a": 2, "b": 1}, 15),
        ),
        "one object with a finalizer": ([current("a"), current()], 0, RemainingContent(2, {"a": 1}, 15)),
        "the estimate takes precedence over the default for finalizers": (
            [current("a")],
            20,
            RemainingContent(1, {"a": 1}, 20),
        ),
    },
)
def test_remaining_objects(items: list[Object], estimate: int, expected: RemainingContent) -> None:
    assert remaining_content(WIDGETS, "ns", items, estimate) == expected


def test_objects_remaining_without_finalizers_are_an_error() -> None:
    with pytest.raises(UnexpectedContent) as caught:
        remaining_content(WIDGETS, "ns", [current()], 0)
    assert caught.value.remaining == RemainingContent(1)
    assert str(caught.value) == (
        "unexpected items still remain in namespace: ns for gvr: example.com/v1, Resource=widgets"
    )


def test_totals_sum_counts_and_finalizers_and_keep_the_longest_estimate() -> None:
    totals = Totals()
    totals.add(WIDGETS, RemainingContent(2, {"a": 2, "b": 1}, 15))
    totals.add(Resource("", "v1", "pods"), RemainingContent(1, {"a": 1}, 30))
    totals.add(Resource("", "v1", "secrets"), GONE)
    assert totals.counts == {WIDGETS: 2, Resource("", "v1", "pods"): 1}
    assert totals.finalizers == {"a": 3, "b": 1}
    assert totals.estimate_seconds == 30


@pytest.mark.parametrize(("estimate", "expected"), [(1, 1), (15, 8), (30, 16), (2**63 - 1, 3600)])
def test_requeue_delay_is_half_of_the_estimate_plus_one_second(estimate: int, expected: int) -> None:
    assert pause_seconds(estimate) == expected


def test_finalize_removes_only_the_kubernetes_finalizer() -> None:
    """TestFinalizeNamespaceFunc (v1.36), and the order in which the others are written back."""
    assert finalizers_without_kubernetes(["kubernetes"]) == []
    assert finalizers_without_kubernetes(["other", "kubernetes", "another", "other"]) == ["another", "other"]
