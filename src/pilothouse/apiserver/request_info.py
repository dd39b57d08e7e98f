"""``RequestInfo``: verb, resource, namespace and name of a request, from its method, path and query.

Used by authorization and the handlers. Follows apiserver's ``pkg/endpoints/request/requestinfo.go`` (v0.36), watch
prefix (``/api/v1/watch/...``) included. Paths outside of ``/api/<version>/`` and ``/apis/<group>/<version>/`` are
non-resource paths.
"""

import re
from functools import lru_cache
from urllib.parse import unquote, unquote_plus

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.resources import ResourceInfo, ResourceTable, Subresource
from pilothouse.machinery.fields import FieldSelectorError, parse_field_selector
from pilothouse.machinery.names import path_segment_errors

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")

_MAX_CACHED_TARGETS = 1024
_MAX_CACHED_TARGET_LENGTH = 256
_MAX_PARAMETERS = 1000
_MAX_SEGMENTS = 16
"""The maximum number of path segments that are parsed. Only proxied paths have as many."""

_INTEGER = re.compile(r"[+-]?[0-9]+\Z").match
_OUT_OF_RANGE, _MANY_DIGITS = 1 << 63, 40
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})").search


class Query(dict[str, list[str]]):
    """Query parameters. Of several values the first is used, unless all are requested."""

    def first(self, name: str) -> str:
        """The first value, or an empty string."""
        values = self.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """A boolean as apimachinery parses it: absent, ``0`` and ``false`` are False, everything else is True, also an
        empty value (``Convert_Slice_string_To_bool`` in ``pkg/runtime/conversion.go``, v0.36)."""
        values = self.get(name)
        return values is not None and values[0].lower() not in ("0", "false")

    def number(self, name: str) -> int | None:
        """An integer; raises upstream's 400 for anything else."""
        values = self.get(name)
        if not values:
            return None
        if _INTEGER(values[0]) is None:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{values[0]}": invalid syntax')
        number = int(values[0]) if len(values[0]) < _MANY_DIGITS else _OUT_OF_RANGE
        if not -_OUT_OF_RANGE <= number < _OUT_OF_RANGE:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{values[0]}": value out of range')
        return number


NO_QUERY = Query()
TOO_MANY = Query()
"""The query of a request with too many parameters; ``ApiServer`` rejects it. Go parses 10,000, which takes microseconds
there (``net/url``, 1.25.6)."""


class RequestInfo(msgspec.Struct, gc=False, frozen=True):
    """The parsed request. It is shared between equal requests, so neither it nor its query may be changed.

    For a non-resource path, ``resource_request`` is False and only ``path``, ``query`` and ``verb`` (the method in
    lower case) are set. If ``resource`` is not served, ``info`` is None. A list or watch whose field selector requires
    one name has that name, and is authorized with it.
    """

    path: str
    query: Query
    verb: str
    resource_request: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    trailing_segments: tuple[str, ...] = ()
    watch_prefix: bool = False
    """Whether the path begins with ``watch``; selectors of such requests are not authorized."""
    info: ResourceInfo | None = None
    sub: Subresource | None = None


def split_target(target: str) -> tuple[str, Query]:
    """The path, still percent-encoded, and the query of a request target."""
    path, separator, text = target.partition("?")
    if not separator or not text:
        return path, NO_QUERY
    if text.count("&") >= _MAX_PARAMETERS:
        return path, TOO_MANY
    query = Query()
    for parameter in text.split("&"):
        # Parameters that Go's net/url can't parse are dropped.
        if not parameter or ";" in parameter or _BAD_ESCAPE(parameter) is not None:
            continue
        name, _equals, value = parameter.partition("=")
        query.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return path, query


class RequestReader:
    """Parses request lines with a cache.

    Most requests have few targets (the collection that pods are created in, one Lease per node), and each is read
    several times.
    """

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        self._cached: dict[tuple[str, str], RequestInfo] = {}
        self._long: tuple[tuple[str, str], RequestInfo] | None = None
        """The last target that is too long for the cache."""
        table.on_change(self._forget)

    def read(self, method: str, target: str) -> RequestInfo:
        """As ``read_request``."""
        key = (method, target)
        info = self._cached.get(key)
        if info is None:
            info = self._read(key)
        return info

    def _read(self, key: tuple[str, str]) -> RequestInfo:
        method, target = key
        if len(target) > _MAX_CACHED_TARGET_LENGTH:
            if self._long is None or self._long[0] != key:
                self._long = (key, read_request(method, target, self._table))
            return self._long[1]
        if len(self._cached) >= _MAX_CACHED_TARGETS:
            self._cached.clear()
        info = self._cached[key] = read_request(method, target, self._table)
        return info

    def _forget(self) -> None:
        self._cached.clear()
        self._long = None


def read_request(method: str, target: str, table: ResourceTable) -> RequestInfo:
    """Parse a request line. Never fails: ``info`` is None for resources that are not served."""
    path, query = split_target(target)
    segments = path.split("/", _MAX_SEGMENTS)
    # "/api/v1/pods" splits into ["", "api", "v1", "pods"]; a trailing slash leaves an empty last part.
    if segments[-1] == "" and len(segments) > 1:
        segments.pop()
    root = segments[1] if len(segments) > 1 else ""
    if root == "api" and len(segments) > 3:
        group, version, resource_segments = "", segments[2], segments[3:]
    elif root == "apis" and len(segments) > 4:
        group, version, resource_segments = segments[2], segments[3], segments[4:]
    else:
        return RequestInfo(path, query, method.lower())
    if "%" in path:
        resource_segments = [unquote(segment) for segment in resource_segments]

    verb = _VERBS.get(method, "")
    watch_prefix = False
    if resource_segments[0] == "watch" and len(resource_segments) > 1 and verb == "get":
        watch_prefix = True
        resource_segments = resource_segments[1:]
    namespace = ""
    if resource_segments[0] == "namespaces" and len(resource_segments) > 1:
        namespace = resource_segments[1]
        if len(resource_segments) > 2 and resource_segments[2] not in _NAMESPACE_SUBRESOURCES:
            resource_segments = resource_segments[2:]
    resource = resource_segments[0]
    name = resource_segments[1] if len(resource_segments) > 1 else ""
    subresource = resource_segments[2] if len(resource_segments) > 2 else ""

    if watch_prefix:
        verb = "watch"
    elif not name:
        if verb == "get":
            verb = "watch" if query.flag("watch") else "list"
        elif verb == "delete":
            verb = "deletecollection"
    if not name and "fieldSelector" in query and verb in ("list", "watch"):
        name = single_name(query)
    info = table.find(group, version, resource)
    return RequestInfo(
        path=path,
        query=query,
        verb=verb,
        resource_request=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        trailing_segments=tuple(resource_segments[3:]),
        watch_prefix=watch_prefix,
        info=info,
        sub=info.subresources.get(subresource) if info is not None and subresource else None,
    )


def single_name(query: Query) -> str:
    """The name that a field selector requires, or an empty string. An invalid selector requires none."""
    try:
        name = parse_field_selector(query.first("fieldSelector")).exact("metadata.name")
    except FieldSelectorError:
        return ""
    return "" if name is None or path_segment_errors(name) else name


@lru_cache(maxsize=64)
def media_type(content_type: str) -> str:
    """The media type of a Content-Type header, without parameters, in lower case."""
    media = content_type.partition(";")[0].strip().lower()
    return media or content_type  # a header with parameters only is an invalid media type, not a missing one
