"""Decodes bodies and encodes responses: JSON, YAML or protobuf; objects, partial metadata or tables.

``NegotiatingPresenter`` is used where clients may request other formats than JSON. Responses in stored form are passed
to ``json``. Long responses in other formats take long to encode (YAML some 30 ms for 32 kB): ``show_long`` encodes
lists item by item, and yields to other requests in between.
"""

import asyncio
import datetime
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.long_work import LongWork
from pilothouse.apiserver.request_info import RequestInfo, media_type
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers import negotiation
from pilothouse.apiserver.serializers.bodies import unrecognized
from pilothouse.apiserver.serializers.json import PlainPresenter, headers_with, list_body
from pilothouse.apiserver.serializers.negotiation import JSON, PROTOBUF, YAML, Choice, NotAcceptable
from pilothouse.apiserver.serializers.partial_metadata import metadata_of, partial_list, partial_object
from pilothouse.apiserver.serializers.results import ListResult, ObjectResult, Result, StatusResult
from pilothouse.apiserver.serializers.streams import EventStream
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.printers import tables
    from pilothouse.apiserver.serializers import protobuf, yaml_text


_PLAIN_JSON_ACCEPTS = frozenset(("", "*/*", JSON))
"""Accept headers that only allow JSON."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_BYTES_PER_TURN = 4 * 1024
"""How much of a list is encoded as YAML, some 4 ms, before yielding."""
_MAX_TIMES, _MAX_ADDED = 8, 16 * 1024 * 1024
"""The size of a list in any form is at most this factor times the size of its objects, plus this many bytes."""
_MAX_CONCURRENT_LISTS = 4
"""How many long lists are encoded concurrently."""


class NegotiatingPresenter:
    """Chooses by Accept header and content type. ``now`` returns the time for ages in tables."""

    def __init__(self, now: Callable[[], datetime.datetime], work: LongWork | None = None) -> None:
        self._now = now
        self._plain = PlainPresenter()
        self._work = work or LongWork()
        self._lists = asyncio.Semaphore(_MAX_CONCURRENT_LISTS)

    def is_plain(self, request: Request, info: RequestInfo) -> bool:
        """Whether no negotiation or conversion is needed, as for programs of the same process."""
        headers, body = request.headers, request.body
        return (
            headers.get("accept", "") in _PLAIN_JSON_ACCEPTS
            and (not body or headers.get("content-type", "") == JSON or request.method == "PATCH")
            and "pretty" not in info.query
            and not negotiation.wants_pretty("", headers.get("user-agent", ""))
        )

    def read(self, request: Request, info: RequestInfo) -> Request:
        """The request with a protobuf body converted to JSON.

        Raises ``StatusError``: 406, before any effect, if the response format is not supported, 415 and 400 about the
        body.
        """
        choice = _choice(request, info)
        if choice.transform == "Table":
            tables.check_include(info.query.first("includeObject"))
        if not request.body or request.method == "PATCH":
            return request
        media = media_type(request.headers.get("content-type", ""))
        if media != PROTOBUF:
            if media not in ("", JSON, YAML):
                raise errors.unsupported_media_type(negotiation.UNKNOWN_BODY)
            return request
        default = ("v1", "DeleteOptions") if request.method == "DELETE" else _kind_of(info)
        try:
            document = protobuf.decode_object(request.body, default_kind=default)
        except protobuf.ProtobufError as error:
            if not request.body.startswith(protobuf.MAGIC):
                raise unrecognized(default[1], str(error), request.body) from error
            raise errors.bad_request(str(error)) from error
        headers = {**request.headers, "content-type": JSON}
        return msgspec.structs.replace(request, headers=headers, body=_encode(document))

    def show(self, request: Request, info: RequestInfo, result: Result) -> Response | Stream:
        """The response in the negotiated format."""
        choice = _choice(request, info)
        if choice.plain:
            return self._plain.show(request, info, result)
        if isinstance(result, ObjectResult):
            body = self._object(choice, info, result.info, result.value)
            return Response(result.code, headers_with(result.warnings, choice.media), body)
        if isinstance(result, StatusResult):
            body = _in_media_type(choice, result.value)
            media = choice.media if choice.media != PROTOBUF or body.startswith(protobuf.MAGIC) else JSON
            return Response(result.code, headers_with(result.warnings, media), body)
        if isinstance(result, ListResult):
            return Response(200, headers_with(result.warnings, choice.media), self._list(choice, info, result))
        include = info.query.first("includeObject") or "Metadata"
        return EventStream(result, choice, include, self._now)

    async def show_long(
        self, request: Request, info: RequestInfo, result: ObjectResult | ListResult
    ) -> Response | Stream:
        """As ``show``, for results that may be large."""
        choice = _choice(request, info)
        if choice.plain:
            return self._plain.show(request, info, result)
        if isinstance(result, ObjectResult):
            return await self._work.run(len(result.value) // _cost_divisor(choice), self.show, request, info, result)
        size = sum(map(len, result.values))
        # What a row of custom resources takes depends on the columns of the definition.
        is_custom_table = choice.transform == "Table" and result.info.custom is not None
        if size <= _BYTES_PER_TURN * _cost_divisor(choice) and not is_custom_table:
            return self.show(request, info, result)
        if choice.transform.startswith("Partial"):
            return await self._work.run(size // _cost_divisor(choice), self.show, request, info, result)
        async with self._lists:
            body = await self._long_list(choice, info, result)
        return Response(200, headers_with(result.warnings, choice.media), body)

    def as_json(self, request: Request, info: RequestInfo, result: ObjectResult | ListResult | StatusResult) -> bytes:
        """The body of that response, transformed as requested, but always as plain JSON."""
        choice = _choice(request, info)
        if not choice.transform or isinstance(result, StatusResult):
            return self._plain.as_json(request, info, result)
        json_choice = msgspec.structs.replace(choice, media=JSON, pretty=False)
        if isinstance(result, ObjectResult):
            return self._object(json_choice, info, result.info, result.value)
        return self._list(json_choice, info, result)

    async def _long_list(self, choice: Choice, info: RequestInfo, result: ListResult) -> bytes:
        resource, metadata = result.info, _list_metadata(result)
        if choice.transform == "Table":
            converter = _table_converter(resource, "")
            include, now = info.query.first("includeObject") or "Metadata", self._now()
            rows = await self._convert_each(
                choice, result.values, lambda value: converter.row(value, include, now, choice.version)
            )
            table = tables.table(_encode(metadata), converter.columns, rows, choice.version)
            return await self._work.run(len(table) // _cost_divisor(choice), _in_media_type, choice, table)
        if choice.media == PROTOBUF:
            message = protobuf.message_for(resource.api_version, resource.kind)
            items = await self._convert_each(
                choice, result.values, lambda value: protobuf.encode_item(message, _decode(value))
            )
            return protobuf.list_of(resource.api_version, resource.list_kind, metadata, items)
        if choice.media != YAML:
            return _in_media_type(choice, list_body(result))
        # Keys are sorted, so only the position of the items has to be found.
        frame = yaml_text.to_yaml(_decode(list_body(msgspec.structs.replace(result, values=()))))
        before_items, _items, after_items = frame.partition(b"items: []\n")
        skip = 0 if resource.custom is not None else len(resource.head)
        items = await self._convert_each(
            choice, result.values, lambda value: yaml_text.to_yaml([_decode(b"{" + value[skip:] if skip else value)])
        )
        return b"".join((before_items, b"items:\n", *items, after_items))

    async def _convert_each(
        self, choice: Choice, values: Iterable[bytes], convert: Callable[[bytes], bytes]
    ) -> list[bytes]:
        """The converted values, yielding to other requests in between. Raises 413 if they are many times as large as
        the objects: definitions may have thousands of columns."""
        converted, size, cost_divisor = list[bytes](), 0, _cost_divisor(choice)
        remaining_bytes = _MAX_ADDED
        for value in values:
            converted_value = await self._work.run(len(value) // cost_divisor, convert, value)
            converted.append(converted_value)
            remaining_bytes += _MAX_TIMES * len(value) - len(converted_value)
            if remaining_bytes < 0:
                raise errors.too_large(
                    f"the list is more than {_MAX_TIMES} times as large in this form as its objects are: request "
                    "fewer objects with limit, or another form"
                )
            size += max(len(value), len(converted_value))
            if size >= _BYTES_PER_TURN * cost_divisor:
                size = 0
                await asyncio.sleep(0)
        return converted

    def fail(self, request: Request, info: RequestInfo | None, error: StatusError) -> Response:
        """The failure in the negotiated format; JSON if negotiation fails."""
        response = self._plain.fail(request, info, error)
        accept, pretty = request.headers.get("accept", ""), _pretty(request, info)
        if not pretty and accept in _PLAIN_JSON_ACCEPTS:
            return response
        try:
            choice = negotiation.choose(accept, protobuf=True, table=True, pretty=pretty)
        except NotAcceptable:
            return response
        if choice.media == JSON and not choice.pretty:
            return response
        headers = {**response.headers, "content-type": choice.media}
        return Response(response.status, headers, _in_media_type(choice, response.body))

    def _object(self, choice: Choice, info: RequestInfo, resource: ResourceInfo, value: bytes) -> bytes:
        match choice.transform:
            case "Table":
                converter = _table_converter(resource, _sub_kind(info))
                row = converter.row(value, info.query.first("includeObject") or "Metadata", self._now(), choice.version)
                value = tables.table(tables.single_metadata(value), converter.columns, [row], choice.version)
            case "PartialObjectMetadata":
                value = partial_object(value, choice.version)
            case "PartialObjectMetadataList":
                raise StatusError(
                    406,
                    "NotAcceptable",
                    f"you requested PartialObjectMetadataList, but the requested object is not a list "
                    f"(*{resource.group or 'core'}.{resource.kind})",
                )
        return _in_media_type(choice, value)

    def _list(self, choice: Choice, info: RequestInfo, result: ListResult) -> bytes:
        resource = result.info
        match choice.transform:
            case "Table":
                converter = _table_converter(resource, "")
                include, now = info.query.first("includeObject") or "Metadata", self._now()
                rows = [converter.row(value, include, now, choice.version) for value in result.values]
                metadata = _encode(_list_metadata(result))
                return _in_media_type(choice, tables.table(metadata, converter.columns, rows, choice.version))
            case "PartialObjectMetadata":
                raise StatusError(
                    406,
                    "NotAcceptable",
                    "you requested PartialObjectMetadata, but the requested object is a list "
                    f"(*{resource.group.partition('.')[0] or 'core'}.{resource.list_kind})",
                )
            case "PartialObjectMetadataList":
                return _partial_list(choice, result)
        if choice.media == PROTOBUF:
            message = protobuf.message_for(resource.api_version, resource.kind)
            items = (_decode(value) for value in result.values)
            return protobuf.encode_list(
                resource.api_version, resource.list_kind, message, _list_metadata(result), items
            )
        return _in_media_type(choice, list_body(result))


def _cost_divisor(choice: Choice) -> int:
    """How many bytes in this format take about as long as one in YAML."""
    return 1 if choice.media == YAML else 16 if choice.media == PROTOBUF else 48


def _partial_list(choice: Choice, result: ListResult) -> bytes:
    metadata = _list_metadata(result)
    if choice.media != PROTOBUF:
        return _in_media_type(choice, partial_list(result.values, _encode(metadata), choice.version))
    if choice.version == "v1beta1":  # the fields of its message are in reverse order
        return protobuf.encode_object(_decode(partial_list(result.values, _encode(metadata), choice.version)))
    items = ({"metadata": _decode(metadata_of(value))} for value in result.values)
    return protobuf.encode_list(
        "meta.k8s.io/v1", "PartialObjectMetadataList", "meta.v1.PartialObjectMetadata", metadata, items
    )


def _list_metadata(result: ListResult) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(result.revision)}
    if result.continue_:
        metadata["continue"] = result.continue_
    if result.remaining is not None:
        metadata["remainingItemCount"] = result.remaining
    return metadata


@lru_cache(maxsize=512)
def _table_converter(info: ResourceInfo, kind: str) -> "tables.TableConvertor":
    return tables.TableConvertor(info, kind)


def _sub_kind(info: RequestInfo) -> str:
    """``autoscaling/v1 Scale`` if the request is for a subresource of another kind, else empty."""
    sub = info.sub
    if sub is None or info.info is None or (sub.kind == info.info.kind and not sub.group):
        return ""
    return " ".join(_kind_of(info))


def _kind_of(info: RequestInfo) -> tuple[str, str]:
    """(apiVersion, kind) of the objects of a path."""
    resource, sub = info.info, info.sub
    if resource is None:
        return "", ""
    if sub is None:
        return resource.api_version, resource.kind
    group, version = sub.group or resource.group, sub.version or resource.version
    return (f"{group}/{version}" if group else version), sub.kind


def _pretty(request: Request, info: RequestInfo | None) -> bool:
    value = info.query.first("pretty") if info is not None else ""
    return negotiation.wants_pretty(value, request.headers.get("user-agent", ""))


def _choice(request: Request, info: RequestInfo) -> Choice:
    accept = request.headers.get("accept", "")
    pretty = _pretty(request, info)
    watch = info.verb == "watch"
    if not pretty and accept in _PLAIN_JSON_ACCEPTS:
        return negotiation.PLAIN
    resource = info.info
    if resource is None:
        has_protobuf = has_rows = True
    else:
        # Computed only if needed: programs of the same process request partial metadata in JSON, and nothing else.
        has_protobuf = "protobuf" in accept.lower() and protobuf.has_protobuf(*_kind_of(info))
        has_rows = "Table" in accept and tables.has_table(resource)
        if resource.custom is not None:
            accept = accept.replace("application/*", "*/*")  # not routed by upstream's router
    try:
        return negotiation.choose(accept, protobuf=has_protobuf, table=has_rows, watch=watch, pretty=pretty)
    except NotAcceptable as error:
        message = str(error)
        is_known_media_type = message != negotiation.UNKNOWN_MEDIA_TYPES
        if not is_known_media_type and resource is not None and resource.custom is not None:
            # This message is from upstream's router, which does not route custom resources.
            is_known_media_type, message = True, negotiation.UNSUPPORTED_MEDIA_TYPES
        elif not is_known_media_type and info.verb in ("list", "watch"):
            message = negotiation.UNKNOWN_MEDIA_TYPES_OF_LIST
        raise StatusError(406, "NotAcceptable", message, details=None if is_known_media_type else {}) from None


def _in_media_type(choice: Choice, body: bytes) -> bytes:
    """A JSON body in the chosen media type. Kinds without protobuf stay JSON."""
    if choice.media == YAML:
        return yaml_text.to_yaml(_decode(body))
    if choice.media == PROTOBUF:
        document: Mapping[str, Any] = _decode(body)
        if protobuf.has_protobuf(document.get("apiVersion", ""), document.get("kind", "")):
            return protobuf.encode_object(dict(document))
        return body
    return msgspec.json.format(body, indent=2) + b"\n" if choice.pretty else body
