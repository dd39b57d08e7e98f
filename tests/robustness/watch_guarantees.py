"""The guarantees of watches, checked against everything stored in etcd.

The guarantees are etcd's (https://etcd.io/docs/v3.6/learning/api_guarantees/#watch-apis), checked as its own
robustness tests do (``robustness/validate/watch.go``, v3.6): *filtered*, *ordered*, *unique*, *bookmarkable*,
*reliable*, *resumable*, *atomic*, and that events say rightly whether an object was added. An API server sends
events one by one and no lists of events: *atomic* here means that nothing of a revision comes after something else.

A label selector shows an object that begins to match as added and one that ends to match as deleted
(apiserver ``pkg/storage/cacher/cache_watcher.go``, v0.36); what is expected is derived by the same rule.
"""

import bisect
import itertools
from collections.abc import Mapping, Sequence

import msgspec


class Stored(msgspec.Struct, frozen=True):
    """One change in etcd. ``label`` is matched by selectors."""

    revision: int
    key: str
    value: str
    label: str = ""
    deleted: bool = False


class Event(msgspec.Struct, frozen=True):
    """A watch event: ``ADDED``, ``MODIFIED``, ``DELETED``, or ``BOOKMARK`` with only a revision."""

    type: str
    revision: int
    key: str = ""
    value: str = ""


class Watch(msgspec.Struct, frozen=True):
    """One watch stream, from its request to its end."""

    start: int
    """The requested resourceVersion: events start with the next revision."""
    events: Sequence[Event]
    prefix: str = ""
    label: str | None = None
    """The selector; None is everything."""
    client: str = ""
    follows: bool = False
    """Whether it resumes the client's previous stream."""


def expected_events(history: Sequence[Stored], prefix: str, label: str | None) -> list[Event]:
    """All events of a watch from revision 1, in order."""
    result: list[Event] = []
    before: dict[str, Stored] = {}
    for stored in history:
        if not stored.key.startswith(prefix):
            continue
        last = before.pop(stored.key, None)
        did = last is not None and label in (None, last.label)
        does = not stored.deleted and label in (None, stored.label)
        if not stored.deleted:
            before[stored.key] = stored
        if does:
            result.append(Event("MODIFIED" if did else "ADDED", stored.revision, stored.key, stored.value))
        elif did and last is not None:
            # With the last state that matched, and the revision of the change.
            result.append(Event("DELETED", stored.revision, stored.key, last.value))
    return result


class Snapshot(msgspec.Struct, frozen=True):
    """A list without a resourceVersion: values by key."""

    revision: int
    state: Mapping[str, str]
    at_least: int = 0
    """The newest revision observed by any client when it was requested."""
    prefix: str = ""
    label: str | None = None
    client: str = ""


def list_violations(history: Sequence[Stored], snapshots: Sequence[Snapshot]) -> list[str]:
    """Lists that differ from the state at their revision, or are older than an observed revision."""
    result: list[str] = []
    state: dict[str, Stored] = {}
    at = 0
    for snapshot in sorted(snapshots, key=lambda one: one.revision):
        while at < len(history) and history[at].revision <= snapshot.revision:
            state[history[at].key] = history[at]
            if history[at].deleted:
                del state[history[at].key]
            at += 1
        wanted = {
            key: one.value
            for key, one in state.items()
            if key.startswith(snapshot.prefix) and snapshot.label in (None, one.label)
        }
        if wanted != dict(snapshot.state):
            differ = sorted(set(wanted.items()) ^ set(snapshot.state.items()))[:3]
            result.append(f"consistent list: at {snapshot.revision} by {snapshot.client}: {differ}")
        if snapshot.revision < snapshot.at_least:
            result.append(f"stale list: {snapshot.revision} by {snapshot.client}, and {snapshot.at_least} was known")
    return result


def violations(history: Sequence[Stored], watches: Sequence[Watch]) -> list[str]:
    """Violated guarantees. ``history`` must be complete up to the last revision of any watch."""
    result: list[str] = []
    known: dict[tuple[str, str | None], tuple[list[Event], set[Event]]] = {}
    ends: dict[str, int] = {}
    for number, watch in enumerate(watches):
        name = f"watch {number} of {watch.client or 'a client'} from {watch.start}"
        selection = (watch.prefix, watch.label)
        if selection not in known:
            expected = expected_events(history, *selection)
            known[selection] = expected, set(expected)
        broken = [*_ordered(watch), *_unique(watch), *_atomic(watch), *_bookmarkable(watch)]
        broken += _filtered(watch, known[selection][1])
        # What is missing, doubled or swapped would be found once more.
        broken = broken or _reliable(watch, known[selection][0])
        if watch.follows and watch.start != ends.get(watch.client, watch.start):
            broken.append(f"resumable: the stream before had come to {ends[watch.client]}")
        result += [f"{name}: {item}" for item in broken]
        ends[watch.client] = max([watch.start, *(event.revision for event in watch.events)])
    return result


def _sent(watch: Watch) -> list[Event]:
    return [event for event in watch.events if event.type != "BOOKMARK"]


def _ordered(watch: Watch) -> list[str]:
    revisions = [event.revision for event in _sent(watch)]
    return [f"ordered: {late} after {early}" for early, late in itertools.pairwise(revisions) if late < early]


def _unique(watch: Watch) -> list[str]:
    observed: set[tuple[int, str]] = set()
    result = []
    for event in _sent(watch):
        if (event.revision, event.key) in observed:
            result.append(f"unique: {event.key} at {event.revision} comes twice")
        observed.add((event.revision, event.key))
    return result


def _atomic(watch: Watch) -> list[str]:
    atomic_changes, over, last = [], set[int](), 0
    for event in watch.events:
        if event.revision != last:
            over.add(last)
        if event.revision in over and event.type != "BOOKMARK":
            atomic_changes.append(f"atomic: {event.key} at {event.revision} comes apart from the rest of that revision")
        last = event.revision
    return atomic_changes


def _bookmarkable(watch: Watch) -> list[str]:
    result = []
    bookmark, newest = watch.start, watch.start
    for event in watch.events:
        if event.type == "BOOKMARK":
            if event.revision < newest:
                result.append(f"bookmarkable: a bookmark at {event.revision} after {newest}")
            bookmark = max(bookmark, event.revision)
        elif event.revision <= bookmark:
            result.append(f"bookmarkable: {event.key} at {event.revision} after a bookmark or start at {bookmark}")
        newest = max(newest, event.revision)
    return result


def _filtered(watch: Watch, possible: set[Event]) -> list[str]:
    return [
        f"filtered: {event.type} {event.key} at {event.revision} is nothing that this watch asks for: {event.value!r}, "
        f"and in etcd {_around(event, possible)}"
        for event in _sent(watch)
        if event not in possible
    ]


def _around(event: Event, possible: set[Event]) -> list[tuple[str, int, str]]:
    """The last and the next event of the key that was to be expected, and that of the revision."""
    of_key = sorted((other.revision, other.type, other.value) for other in possible if other.key == event.key)
    at = bisect.bisect_left(of_key, (event.revision,))
    return [(kind, revision, value) for revision, kind, value in of_key[max(0, at - 1) : at + 2]]


def _reliable(watch: Watch, expected: Sequence[Event]) -> list[str]:
    """Nothing is left out between the start and the last revision that was sent. The first event that is missing is
    what etcd's tests call resumable."""
    end = max((event.revision for event in watch.events), default=watch.start)
    first, last = (bisect.bisect_right(expected, at, key=lambda event: event.revision) for at in (watch.start, end))
    wanted = expected[first:last]
    sent = _sent(watch)
    if sent == wanted:
        return []
    missing = [event for event in wanted if event not in set(sent)]
    if missing and (not sent or missing[0].revision < sent[0].revision):
        return [f"resumable: {missing[0].key} at {missing[0].revision} is left out at the beginning"]
    return [
        f"reliable: {missing[0].key} at {missing[0].revision} is left out" if missing else "reliable: another order"
    ]
