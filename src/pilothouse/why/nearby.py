"""What else the user of a write wrote within the same seconds, and what a program may have copied.

Programs outside of Kubernetes record no reasons, and people act on several objects at once: what lies near in time is a
hint, and is said as one.
"""

import datetime

from pilothouse.machinery.differences import ABSENT, Difference, differences
from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.why.actors import act, acting
from pilothouse.why.changes import asks_deletion, summary
from pilothouse.why.evidence import Document, Evidence, ObjectChange
from pilothouse.why.requests import acting_differences

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
_MOST_EARLIER = 10


async def nearby(evidence: Evidence, change: ObjectChange) -> list[str]:
    """Lines about other writes of the user of a change of an object: a person's in the same namespace, or of the same
    kind if that has no namespaces, and a program's anywhere."""
    origin = change.origin
    if origin is None or change.type == "ADDED":
        return []
    if change.type == "DELETED" or asks_deletion(change):
        return await _labelled(evidence, change)
    is_program = origin.user.startswith("system:")
    found: list[ObjectChange] = []
    for resource in dict.fromkeys((change.reference.resource, *_RESOURCES)):
        if change.reference.namespace or is_program or resource == change.reference.resource:
            around = await evidence.changes_between(
                resource, change.revision - _REVISIONS, change.revision + _REVISIONS
            )
            found += [each for each in around if _is_near(change, each, _SECONDS)]
    theirs = [
        each
        for each in found
        if each.origin is not None
        and each.origin.user == origin.user
        and acting(each) is None
        and each.reference != change.reference
        and (is_program or each.reference.namespace == change.reference.namespace)
    ]
    theirs = [their for their in theirs if await _acts(evidence, their)]
    lines = [await _line(evidence, their) for their in theirs[:_SHOWN]]
    if len(theirs) > _SHOWN:
        lines.append(f"and {len(theirs) - _SHOWN} more writes of {origin.user} within {_SECONDS} s")
    for their in theirs if is_program else ():
        if (copied := await _source(evidence, their)) is not None:
            lines.append(copied)
            break
    return lines


async def _labelled(evidence: Evidence, change: ObjectChange) -> list[str]:
    """For a deletion: who had changed the labels of the object shortly before, since a selector may have chosen it."""
    earlier = [each for each in await evidence.changes(change.reference) if each.revision < change.revision]
    for each in reversed(earlier[-_MOST_EARLIER:]):
        if each.type != "MODIFIED" or not _is_near(change, each, _COPIED_SECONDS):
            continue
        before, after = await evidence.before(each), await evidence.after(each)
        if before is None or after is None or _labels(before) == _labels(after):
            continue
        text = summary(each, before, after).text
        return [f"its labels had been changed at {each.time[:19]}Z, by {act(each, text)}: {text.partition(': ')[2]}"]
    return []


def _labels(document: Document) -> object:
    return (document.get("metadata") or {}).get("labels") or {}


async def _acts(evidence: Evidence, change: ObjectChange) -> bool:
    """Whether a change does more than describe the object, or complete a deletion that was asked for before."""
    if change.type != "MODIFIED":
        return change.type == "DELETED" and asks_deletion(change)
    before, after = await evidence.before(change), await evidence.after(change)
    return bool(acting_differences(change, before, after))


async def _line(evidence: Evidence, change: ObjectChange) -> str:
    text = summary(change, await evidence.before(change), await evidence.after(change)).text
    user = change.origin.user if change.origin is not None else ""
    return f"at {change.time[:19]}Z {user} also wrote {_named(evidence, change)}, which {text}"


async def _source(evidence: Evidence, change: ObjectChange) -> str | None:
    """For data that a program wrote: who had written the same value elsewhere shortly before."""
    if change.reference.resource not in ("configmaps", "secrets"):
        return None
    written = await _data(evidence, change)
    if not written:
        return None
    resource = change.reference.resource
    earlier = await evidence.changes_between(resource, change.revision - _COPIED_REVISIONS, change.revision)
    for each in reversed(earlier):
        if each.reference == change.reference or not _is_near(change, each, _COPIED_SECONDS):
            continue
        same = [one.path for one in await _data(evidence, each) if one in written]
        if same:
            return (
                f"the same {same[0]} was written to {_named(evidence, each)} at {each.time[:19]}Z, by {act(each, '')} "
                "(a guess: that may be what was copied)"
            )
    return None


async def _data(evidence: Evidence, change: ObjectChange) -> list[Difference]:
    before, after = await evidence.before(change), await evidence.after(change)
    if before is None or after is None:
        return []
    return [
        difference
        for difference in differences(before, after)
        if difference.path.startswith("data") and difference.after is not ABSENT
    ]


def _named(evidence: Evidence, change: ObjectChange) -> str:
    reference = change.reference
    place = f" of namespace {reference.namespace}" if reference.namespace else ""
    return f"{evidence.kind_of(reference.resource)}/{reference.name}{place}"


def _is_near(change: ObjectChange, other: ObjectChange, seconds: int) -> bool:
    try:
        apart = parse_time(change.time) - parse_time(other.time)
    except TimeError:
        return False
    return abs(apart) <= datetime.timedelta(seconds=seconds)
