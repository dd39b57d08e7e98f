"""``/debug/history``: which resourceVersion was current at a time. Not of kube-apiserver, where nothing tells."""

import datetime

import msgspec

from pilothouse.api.wire import Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.request_info import Query
from pilothouse.apiserver.serializers.json import JSON_HEADERS
from pilothouse.env import Env
from pilothouse.machinery.times import TimeError, format_time, parse_time
from pilothouse.storage import Compacted, Store

PATH = "/debug/history"


class _Mark(msgspec.Struct, rename="camel"):
    time: str
    resource_version: str


class _Marks(msgspec.Struct):
    marks: list[_Mark]


def history_response(store: Store, env: Env, query: Query) -> Response:
    """With ``at=TIME`` the resourceVersion that was current then. Without, the resourceVersions at all times that are
    known, oldest first, at most one a second: what has a later resourceVersion was written within a second of it.

    Raises ``StatusError``: 400 for what is no time, or one in the future, 410 for a time before the history.
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
        first = max((seconds for seconds, _revision in store.history_marks()), default=0.0)
        begins = format_time(now - datetime.timedelta(seconds=first))
        raise errors.expired(f"the history of this API server begins at {begins}") from error
    return Response(200, JSON_HEADERS, msgspec.json.encode(_Mark(format_time(at), str(revision))))
