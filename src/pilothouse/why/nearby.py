"""Hints for a root cause: other writes of the same user within seconds, and values that a program may have copied.

Programs outside of Kubernetes record no reasons, and people often change several objects at once.
"""

import datetime
import re
from collections.abc import Collection, Iterator, Sequence

from pilothouse.machinery.differences import ABSENT, Difference, differences
from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.why.actors import actor_with_command, component_cause
from pilothouse.why.changes import asks_deletion, summary
from pilothouse.why.evidence import Document, Evidence, ObjectChange
from pilothouse.why.requests import is_binding, relevant_differences
from pilothouse.why.steps import Step

_RESOURCES = (
    "configmaps",
    "secrets",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "services",
)
_SECONDS = 3
_COPIED_SECONDS = 60
_REVISIONS = 300
_COPIED_REVISIONS = 2000
_SHOWN = 3
_MAX_EARLIER = 10


async def nearby(evidence: Evidence, change: ObjectChange, tree: Sequence[Step]) -> list[str]:
    """Describe other writes of the same user at that time: for a program in all namespaces; for a person in the same
    namespace (for cluster-scoped objects, of the same resource), and only of objects that ``tree`` mentions, that the
    changed object names, or that name it, since people run commands that have nothing to do with each other."""
    origin = change.origin
    if origin is None or change.type == "ADDED":
        return []
    if change.type == "DELETED" or asks_deletion(change):
        return await _label_change_hint(evidence, change)
    is_program = origin.sender.startswith("system:")
    near_changes: list[ObjectChange] = []
    for resource in dict.fromkeys((change.reference.resource, *_RESOURCES)):
        if change.reference.namespace or is_program or resource == change.reference.resource:
            recorded = await evidence.changes_between(
                resource, change.revision - _REVISIONS, change.revision + _REVISIONS
            )
            near_changes += [other for other in recorded if _is_near(change, other, _SECONDS)]
    same_user = [
        other
        for other in near_changes
        if other.origin is not None
        and other.origin.sender == origin.sender
        and component_cause(other) is None
        and other.reference != change.reference
        and (is_program or other.reference.namespace == change.reference.namespace)
    ]
    if not is_program:
        named = await _texts(evidence, change)
        same_user = [other for other in same_user if await _is_related(evidence, change, other, tree, named)]
    same_user = [other for other in same_user if await _has_effect(evidence, other)]
    lines = [await _line(evidence, other) for other in same_user[:_SHOWN]]
    if len(same_user) > _SHOWN:
        lines.append(f"and {len(same_user) - _SHOWN} more writes of {origin.sender} within {_SECONDS} s")
    for other in same_user if is_program else ():
        if (hint := await _copy_hint(evidence, other)) is not None:
            lines.append(hint)
            break
    return lines


async def _label_change_hint(evidence: Evidence, change: ObjectChange) -> list[str]:
    """For a deletion: who changed the object's labels shortly before, since it may have been selected by label."""
    earlier = [other for other in await evidence.changes(change.reference) if other.revision < change.revision]
    for other in reversed(earlier[-_MAX_EARLIER:]):
        if other.type != "MODIFIED" or is_binding(other) or not _is_near(change, other, _COPIED_SECONDS):
            continue  # a binding copies the topology labels of the node (admission plugin PodTopologyLabels)
        old, new = await evidence.before(other), await evidence.after(other)
        if old is None or new is None or _labels(old) == _labels(new):
            continue
        text = summary(other, old, new).text
        by = actor_with_command(other, text)
        return [f"its labels had been changed at {other.time[:19]}Z, by {by}: {text.partition(': ')[2]}"]
    return []


def _labels(document: Document) -> object:
    return (document.get("metadata") or {}).get("labels") or {}


async def _is_related(
    evidence: Evidence, change: ObjectChange, other: ObjectChange, tree: Sequence[Step], named: Collection[str]
) -> bool:
    """Whether the tree mentions an object without explaining that write of it, or one of the two objects names the
    other: a ConfigMap and a Deployment that reads it. ``named`` are the texts in the object of ``change``."""
    title = f"{evidence.kind_of(other.reference.resource)}/{other.reference.name}"
    word = re.compile(rf"(?<![\w./-]){re.escape(title)}(?![\w.-])")
    is_mentioned = False
    for step in _steps(tree):
        is_it = (step.object, step.namespace) == (title, other.reference.namespace)
        if is_it and step.resource_version and step.resource_version == other.resource_version:
            return False
        is_mentioned = is_mentioned or is_it or any(map(word.search, (step.text, step.decision, *step.table)))
    return is_mentioned or other.reference.name in named or change.reference.name in await _texts(evidence, other)


def _steps(tree: Sequence[Step]) -> Iterator[Step]:
    for step in tree:
        yield step
        yield from _steps(step.because)


async def _texts(evidence: Evidence, change: ObjectChange) -> set[str]:
    """All texts in an object, except for its own name, namespace and managed fields."""
    document = await evidence.after(change) or await evidence.before(change) or {}
    metadata = {
        key: value
        for key, value in (document.get("metadata") or {}).items()
        if key not in ("name", "namespace", "managedFields")
    }
    texts: set[str] = set()
    remaining: list[object] = [{**document, "metadata": metadata}]
    while remaining:
        value = remaining.pop()
        if isinstance(value, str):
            texts.add(value)
        elif isinstance(value, dict):
            remaining += value.values()
        elif isinstance(value, list):
            remaining += value
    return texts


async def _has_effect(evidence: Evidence, change: ObjectChange) -> bool:
    """Whether a change has an effect: it changes a field that a controller acts on, or requests a deletion."""
    if change.type != "MODIFIED":
        return change.type == "DELETED" and asks_deletion(change)
    old, new = await evidence.before(change), await evidence.after(change)
    return bool(relevant_differences(change, old, new))


async def _line(evidence: Evidence, change: ObjectChange) -> str:
    text = summary(change, await evidence.before(change), await evidence.after(change)).text
    user = change.origin.sender if change.origin is not None else ""
    return f"at {change.time[:19]}Z {user} also wrote {_object_text(evidence, change)}, which {text}"


async def _copy_hint(evidence: Evidence, change: ObjectChange) -> str | None:
    """For data of a ConfigMap or Secret: who wrote the same value to another one shortly before."""
    if change.reference.resource not in ("configmaps", "secrets"):
        return None
    written = await _data(evidence, change)
    if not written:
        return None
    resource = change.reference.resource
    earlier = await evidence.changes_between(resource, change.revision - _COPIED_REVISIONS, change.revision)
    for other in reversed(earlier):
        if other.reference == change.reference or not _is_near(change, other, _COPIED_SECONDS):
            continue
        same_paths = [difference.path for difference in await _data(evidence, other) if difference in written]
        if same_paths:
            return (
                f"the same {same_paths[0]} was written to {_object_text(evidence, other)} at {other.time[:19]}Z, "
                f"by {actor_with_command(other, '')} (a guess: that may be what was copied)"
            )
    return None


async def _data(evidence: Evidence, change: ObjectChange) -> list[Difference]:
    old, new = await evidence.before(change), await evidence.after(change)
    if old is None or new is None:
        return []
    return [
        difference
        for difference in differences(old, new)
        if difference.path.startswith("data") and difference.after is not ABSENT
    ]


def _object_text(evidence: Evidence, change: ObjectChange) -> str:
    reference = change.reference
    within = f" of namespace {reference.namespace}" if reference.namespace else ""
    return f"{evidence.kind_of(reference.resource)}/{reference.name}{within}"


def _is_near(change: ObjectChange, other: ObjectChange, seconds: int) -> bool:
    try:
        difference = parse_time(change.time) - parse_time(other.time)
    except TimeError:
        return False
    return abs(difference) <= datetime.timedelta(seconds=seconds)
