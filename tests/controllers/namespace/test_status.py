"""Conditions of a namespace. Marked rows are those of status_condition_utils_test.go, v1.36."""

import datetime

from tests.tables import cases

from pilothouse.api.meta import Condition
from pilothouse.controllers.cleanup.namespace.decide import Resource
from pilothouse.controllers.cleanup.namespace.status import (
    CONTENT_FAILURE,
    CONTENT_REMAINING,
    DISCOVERY_FAILURE,
    FINALIZERS_REMAINING,
    PARSING_FAILURE,
    Outcome,
    conditions_of,
    update_conditions,
)

THEN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

ORDER = [DISCOVERY_FAILURE, PARSING_FAILURE, CONTENT_FAILURE, CONTENT_REMAINING, FINALIZERS_REMAINING]


def test_success_conditions_have_upstreams_messages_and_order() -> None:
    assert [(v.type, v.status, v.reason, v.message) for v in conditions_of(Outcome(), NOW)] == [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed"),
        (
            "NamespaceFinalizersRemaining",
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ]


@cases(
    "outcome, expected",
    {
        "discovery failed": (Outcome(discovery_error="boom"), [(DISCOVERY_FAILURE, "DiscoveryFailed", "boom")]),
        "a group version could not be read": (
            Outcome(parsing_error="boom"),
            [(PARSING_FAILURE, "GroupVersionParsingFailed", "boom")],
        ),
        "errors are sorted": (
            Outcome(content_errors=("z broke", "a broke")),
            [
                (
                    CONTENT_FAILURE,
                    "ContentDeletionFailed",
                    "Failed to delete all resource types, 2 remaining: a broke, z broke",
                )
            ],
        ),
        "TestProcessContentTotals: just remaining": (
            Outcome(counts={Resource("apps", "v1", "deployments"): 5, Resource("apps", "v1", "daemonsets"): 5}),
            [
                (
                    CONTENT_REMAINING,
                    "SomeResourcesRemain",
                    "Some resources are remaining: daemonsets.apps has 5 resource instances, "
                    "deployments.apps has 5 resource instances",
                )
            ],
        ),
        "TestProcessContentTotals: just finalizers": (
            Outcome(finalizers={"service-catalog": 6, "kubedb": 5}),
            [
                (
                    FINALIZERS_REMAINING,
                    "SomeFinalizersRemain",
                    "Some content in the namespace has finalizers remaining: kubedb in 5 resource instances, "
                    "service-catalog in 6 resource instances",
                )
            ],
        ),
        "TestProcessContentTotals: both, and the lonely dot of the core group": (
            Outcome(counts={Resource("", "v1", "pods"): 1}, finalizers={"f": 1}),
            [
                (
                    CONTENT_REMAINING,
                    "SomeResourcesRemain",
                    "Some resources are remaining: pods. has 1 resource instances",
                ),
                (
                    FINALIZERS_REMAINING,
                    "SomeFinalizersRemain",
                    "Some content in the namespace has finalizers remaining: f in 1 resource instances",
                ),
            ],
        ),
    },
)
def test_each_failure_sets_its_condition(outcome: Outcome, expected: list[tuple[str, str, str]]) -> None:
    result = conditions_of(outcome, NOW)
    assert [v.type for v in result] == ORDER
    assert [(v.type, v.reason, v.message) for v in result if v.status == "True"] == expected


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=THEN)


@cases(
    "before, expected_order",
    {
        "the first pass writes all five": ([], ORDER),
        "TestUpdateConditions: leave unknown": (["unknown"], ["unknown", *ORDER]),
        "TestUpdateConditions: leave different order": (
            [PARSING_FAILURE, DISCOVERY_FAILURE],
            [PARSING_FAILURE, DISCOVERY_FAILURE, CONTENT_FAILURE, CONTENT_REMAINING, FINALIZERS_REMAINING],
        ),
    },
)
def test_existing_conditions_keep_their_position(before: list[str], expected_order: list[str]) -> None:
    updated = update_conditions([condition(kind) for kind in before], conditions_of(Outcome(), NOW))
    assert [c.type for c in updated] == expected_order
    assert {c.type: c.status for c in updated if c.type != "unknown"} == dict.fromkeys(ORDER, "False")


def test_failure_overwrites_success() -> None:
    """TestUpdateConditions: overwrite with failure."""
    updated = update_conditions([condition(PARSING_FAILURE, "False")], conditions_of(Outcome(parsing_error="bar"), NOW))
    assert updated[0] == Condition(
        type=PARSING_FAILURE,
        status="True",
        reason="GroupVersionParsingFailed",
        message="bar",
        last_transition_time=NOW,
    )


def test_changed_message_keeps_the_transition_time() -> None:
    before = [condition(CONTENT_FAILURE, "True", "ContentDeletionFailed", "one")]
    result = conditions_of(Outcome(content_errors=("two",)), NOW)
    updated = update_conditions(before, result)[0]
    assert (updated.message[-3:], updated.last_transition_time) == ("two", THEN)


def test_unchanged_conditions_are_kept() -> None:
    once = update_conditions([], conditions_of(Outcome(), THEN))
    assert update_conditions(once, conditions_of(Outcome(), NOW)) == once
