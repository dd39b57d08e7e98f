"""Content negotiation: the Accept header against the formats of a resource.

Follows apiserver's ``pkg/endpoints/handlers/negotiation/negotiate.go`` (v0.36). ``presenter`` applies the choice.
"""

from functools import lru_cache

import msgspec

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_MEDIA_TYPES = (JSON, YAML, PROTOBUF)
_LISTED_MEDIA_TYPES = ", ".join(_MEDIA_TYPES)

UNKNOWN_MEDIA_TYPES = f"406: Not Acceptable\n\nAvailable representations: {_LISTED_MEDIA_TYPES}"
"""The message if no media type of the Accept header is known."""
_LISTED_STREAM_TYPES = f"{JSON};stream=watch, {PROTOBUF};stream=watch"
UNKNOWN_MEDIA_TYPES_OF_LIST = f"{UNKNOWN_MEDIA_TYPES}, {_LISTED_STREAM_TYPES}"
"""The same for the path of a list, which can also be watched."""
UNSUPPORTED_STREAM_TYPES = f"only the following media types are accepted: {_LISTED_STREAM_TYPES}"
"""The same for a watch."""
UNSUPPORTED_MEDIA_TYPES = f"only the following media types are accepted: {_LISTED_MEDIA_TYPES}"
"""The message if the accepted media types are known, but not supported by this resource."""
UNKNOWN_BODY = f"the body of the request was in an unknown format - accepted media types include: {_LISTED_MEDIA_TYPES}"
"""The message of a 415."""

_MAX_ACCEPT_LENGTH = 1024
"""The maximum length of an Accept header. Parsed headers are cached, and kubectl's have 120 characters."""

_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


class Clause(msgspec.Struct, frozen=True):
    """One media range of an Accept header with its parameters."""

    media: str
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str:
        """A parameter's value, or an empty string."""
        return next((value for key, value in self.parameters if key == name), "")


class Choice(msgspec.Struct, frozen=True):
    """The chosen format. ``transform`` is empty for the object itself; ``version`` is that of meta.k8s.io."""

    media: str = JSON
    transform: str = ""
    version: str = "v1"
    pretty: bool = False

    @property
    def plain(self) -> bool:
        """Whether the stored form can be sent: compact JSON."""
        return self.media == JSON and not self.transform and not self.pretty


class NotAcceptable(Exception):
    """No clause is acceptable; the text is the message of the 406."""


PLAIN = Choice()


def parse_accept(header: str) -> tuple[Clause, ...]:
    """The clauses by quality, then in their order. Clauses of quality 0 are left out; a header that is too long has
    none."""
    return _parse_accept(header) if len(header) <= _MAX_ACCEPT_LENGTH else ()


@lru_cache(maxsize=256)
def _parse_accept(header: str) -> tuple[Clause, ...]:
    ranked: list[tuple[float, Clause]] = []
    for clause_text in header.split(","):
        media, *parameter_texts = (parameter.strip() for parameter in clause_text.split(";"))
        if not media:
            continue
        quality, parameters = 1.0, []
        for parameter in parameter_texts:
            key, _, value = parameter.partition("=")
            key, value = key.strip().lower(), value.strip().strip('"')
            if key == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
            else:
                parameters.append((key, value))
        if quality > 0:
            ranked.append((quality, Clause(media.lower(), tuple(parameters))))
    ranked.sort(key=lambda entry: -entry[0])
    return tuple(clause for _quality, clause in ranked)


def choose(accept: str, *, protobuf: bool, table: bool, watch: bool = False, pretty: bool = False) -> Choice:
    """The first acceptable clause.

    ``protobuf`` and ``table`` are the formats that the resource supports; partial metadata is possible for every
    object, also as protobuf. Raises ``NotAcceptable``.
    """
    if len(accept) > _MAX_ACCEPT_LENGTH:
        raise NotAcceptable(UNKNOWN_MEDIA_TYPES)
    return _choose(accept, protobuf=protobuf, table=table, watch=watch, pretty=pretty)


@lru_cache(maxsize=1024)
def _choose(accept: str, *, protobuf: bool, table: bool, watch: bool, pretty: bool) -> Choice:
    clauses = parse_accept(accept) if accept.strip() else (Clause("*/*"),)
    is_known_media_type = False
    for clause in clauses:
        # The router does not support ``application/*`` (go-restful's ``matchesAccept``).
        media = JSON if clause.media == "*/*" else clause.media
        if media not in _MEDIA_TYPES:
            continue
        is_known_media_type = True
        if watch and media == YAML:
            continue
        transform, group, version = clause.parameter("as"), clause.parameter("g"), clause.parameter("v")
        if transform:
            if group != "meta.k8s.io" or version not in ("v1", "v1beta1") or transform not in _TRANSFORMS:
                continue
            if transform == "Table" and (media == PROTOBUF or not table):
                continue
        elif group or version or (media == PROTOBUF and not protobuf):
            continue
        wants_pretty = pretty or clause.parameter("pretty") in ("1", "true")
        return Choice(media, transform, version or "v1", wants_pretty and not watch)
    if not is_known_media_type:
        raise NotAcceptable(UNKNOWN_MEDIA_TYPES)
    raise NotAcceptable(UNSUPPORTED_STREAM_TYPES if watch else UNSUPPORTED_MEDIA_TYPES)


_TRUE = ("1", "t", "T", "TRUE", "true", "True")
"""The values that Go's strconv parses as true."""


def wants_pretty(query_value: str, user_agent: str) -> bool:
    """Whether JSON is indented: on request, and for browsers and curl."""
    if query_value:
        return query_value in _TRUE
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))
