"""The five conditions of a namespace that is being deleted: pure.

Messages, reasons and the order are upstream's (status_condition_utils.go, v1.36), because scripts read them.
"""

import datetime
from collections.abc import Mapping, Sequence

import msgspec

from pilothouse.api.meta import Condition
from pilothouse.controllers.cleanup.namespace.decide import Resource
from pilothouse.machinery.conditions import with_condition

DISCOVERY_FAILURE = "NamespaceDeletionDiscoveryFailure"
PARSING_FAILURE = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT_FAILURE = "NamespaceDeletionContentFailure"
CONTENT_REMAINING = "NamespaceContentRemaining"
FINALIZERS_REMAINING = "NamespaceFinalizersRemaining"

_SUCCESS: dict[str, tuple[str, str]] = {
    DISCOVERY_FAILURE: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING_FAILURE: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT_FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    CONTENT_REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    discovery_error: str = ""
    parsing_error: str = ""
    content_errors: tuple[str, ...] = ()
    counts: Mapping[Resource, int] = {}
    finalizers: Mapping[str, int] = {}


def conditions_of(outcome: Outcome, now: datetime.datetime) -> tuple[Condition, ...]:
    """All five conditions, in upstream's order."""
    failing: dict[str, tuple[str, str]] = {}
    if outcome.discovery_error:
        failing[DISCOVERY_FAILURE] = ("DiscoveryFailed", outcome.discovery_error)
    if outcome.parsing_error:
        failing[PARSING_FAILURE] = ("GroupVersionParsingFailed", outcome.parsing_error)
    if outcome.content_errors:
        text = f"{len(outcome.content_errors)} remaining: {', '.join(sorted(outcome.content_errors))}"
        failing[CONTENT_FAILURE] = ("ContentDeletionFailed", f"Failed to delete all resource types, {text}")
    if outcome.counts:
        # A core resource reads "pods. has 1 resource instances": upstream joins name and group with a dot, always.
        parts = sorted(f"{r.name}.{r.group} has {n} resource instances" for r, n in outcome.counts.items())
        failing[CONTENT_REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(parts)}")
    if outcome.finalizers:
        parts = sorted(f"{name} in {count} resource instances" for name, count in outcome.finalizers.items())
        failing[FINALIZERS_REMAINING] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(parts)}",
        )
    return tuple(
        Condition(
            type=kind,
            status="True" if kind in failing else "False",
            reason=failing.get(kind, success)[0],
            message=failing.get(kind, success)[1],
            last_transition_time=now,
        )
        for kind, success in _SUCCESS.items()
    )


def describe(outcome: Outcome) -> str:
    """The result of a sync as a sentence."""
    parts = [
        f"{number} {content.name}{f'.{content.group}' if content.group else ''}"
        for content, number in outcome.counts.items()
    ]
    text = ", ".join(sorted(parts)) or "nothing that is counted"
    if outcome.finalizers:
        current = ", ".join(sorted(f"{name} in {number}" for name, number in outcome.finalizers.items()))
        text += f"; with finalizers: {current}"
    errors = [error for error in (outcome.discovery_error, outcome.parsing_error, *outcome.content_errors) if error]
    return f"{text}; errors: {'; '.join(errors)}" if errors else text


def update_conditions(conditions: Sequence[Condition], new_conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """The conditions after this sync, equal to ``conditions`` when nothing changed: then nothing is written.

    Existing conditions keep their position, new ones are appended. ``last_transition_time`` moves with the status only.
    """
    updated = tuple(conditions)
    for condition in new_conditions:
        updated = with_condition(updated, condition)
    return updated
