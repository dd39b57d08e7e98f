"""The change history of the API server, at ``/debug/history``; kube-apiserver has no such endpoint.

``/debug/history`` returns the resourceVersion at a time, ``/debug/history/changes`` the origins of the changes of a
resource. Neither returns objects: those need permissions to list or watch.
"""

import datetime
import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from pilothouse.api.wire import Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.request_info import Query
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.apiserver.serializers.json import JSON_HEADERS
from pilothouse.env import Env
from pilothouse.machinery.causes import NO_TIME, Origin
from pilothouse.machinery.times import TimeError, format_micro_time, format_time, parse_time
from pilothouse.storage import Change, Compacted, Store

PATH = "/debug/history"
CHANGES_PATH = "/debug/history/changes"
DEFAULT_CHANGES = 250
MAX_CHANGES = 1000
_PAGE_CHANGES = 250
_PAGE_BYTES = 4 << 20
"""The limits of one page, for some milliseconds of work. The rest is on the next page."""


class _Mark(msgspec.Struct, rename="camel"):
    time: str
    resource_version: str


class _Marks(msgspec.Struct):
    marks: list[_Mark]


def history_documents(store: Store, env: Env) -> dict[str, Callable[[Query], Response]]:
    """The handlers of both paths."""
    return {
        PATH: lambda query: history_response(store, env, query),
        CHANGES_PATH: lambda query: changes_response(store, query),
    }


def history_response(store: Store, env: Env, query: Query) -> Response:
    """With ``at=TIME`` the resourceVersion at that time. Without it, the recorded resourceVersions with their times,
    oldest first, at most one per second: changes with a later resourceVersion were written within a second of it.

    Raises ``StatusError``: 400 for an invalid or future time, 410 for a time before the history.
    """
    now = env.now()
    text = query.first("at")
    if not text:
        marks = [
            _Mark(format_time(now - datetime.timedelta(seconds=seconds)), str(revision))
            for seconds, revision in store.history_marks()
        ]
        return Response(200, JSON_HEADERS, msgspec.json.encode(_Marks(marks)))
    try:
        at = parse_time(text)
    except TimeError as error:
        raise errors.bad_request(f'invalid parameter "at": {error}') from error
    if at > now:
        raise errors.bad_request(f"{text} is in the future; it is {format_time(now)}")
    try:
        revision = store.revision_at((now - at).total_seconds())
    except Compacted as error:
        oldest_seconds = max((seconds for seconds, _revision in store.history_marks()), default=0.0)
        oldest_time = format_time(now - datetime.timedelta(seconds=oldest_seconds))
        raise errors.expired(f"the history of this API server begins at {oldest_time}") from error
    return Response(200, JSON_HEADERS, msgspec.json.encode(_Mark(format_time(at), str(revision))))


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Stored(msgspec.Struct, gc=False):
    metadata: _Meta = _Meta()


class _Change(msgspec.Struct, rename="camel", omit_defaults=True):
    resource_version: str
    type: str
    name: str
    uid: str
    namespace: str = ""
    time: str = ""
    origin: Origin | None = None


class _Changes(msgspec.Struct, omit_defaults=True):
    begins: str
    """The resourceVersion after which the history is complete."""
    changes: list[_Change]
    more: bool = False
    """Whether there are older changes; request them with ``before`` the first of these."""


_stored = msgspec.json.Decoder(_Stored)


def changes_response(store: Store, query: Query) -> Response:
    """The changes of a resource in the history, oldest first: by ``group`` and ``resource``, and optionally
    ``namespace``, ``name``, ``since`` and ``before`` (resourceVersions, exclusive). Of more than ``limit`` the newest
    are returned, fewer if they are large.

    A change has an origin if a request caused it. Raises ``StatusError`` 400.
    """
    resource = query.first("resource")
    if not resource:
        raise errors.bad_request('the parameter "resource" is required, for example resource=pods')
    limit = query.number("limit") or DEFAULT_CHANGES
    if not 0 < limit <= MAX_CHANGES:
        raise errors.bad_request(f'invalid parameter "limit": must be between 1 and {MAX_CHANGES}')
    since, before = query.number("since") or 0, query.number("before") or math.inf
    prefix = storage_prefix(query.first("group"), resource)
    floor, size, has_more = store.history_floor(prefix), 0, False
    newest: list[Change] = []
    for change in _matching(store.changes(prefix), prefix, query.first("namespace"), query.first("name")):
        if change.revision <= since:
            break
        if change.revision < before:
            size += len(change.value)
            if len(newest) == min(limit, _PAGE_CHANGES) or (newest and size > _PAGE_BYTES):
                floor, has_more = change.revision, True
                break
            newest.append(change)
    body = _Changes(str(floor), [_to_document(change) for change in reversed(newest)], has_more)
    return Response(200, JSON_HEADERS, msgspec.json.encode(body))


def _matching(changes: Sequence[Change], prefix: str, namespace: str, name: str) -> Iterable[Change]:
    """The changes of the namespace or the object, newest first."""
    if name:
        if namespace:
            key = f"{prefix}{namespace}/{name}"
            return reversed([change for change in changes if change.key == key])
        suffix = f"/{name}"
        return reversed([change for change in changes if change.key.endswith(suffix)])
    if namespace:
        namespace_prefix = f"{prefix}{namespace}/"
        return (change for change in reversed(changes) if change.key.startswith(namespace_prefix))
    return reversed(changes)


def _to_document(change: Change) -> _Change:
    metadata = _stored.decode(change.value).metadata
    document = _Change(str(change.revision), change.type, metadata.name, metadata.uid, metadata.namespace)
    origin = change.origin
    if origin is not None:
        document.time = format_micro_time(datetime.datetime.fromtimestamp(origin.time, datetime.UTC))
        document.origin = msgspec.structs.replace(origin, time=NO_TIME)  # the change has the text
    return document
