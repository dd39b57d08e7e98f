"""Bodies of requests: decoded, checked against the type, unknown and duplicate fields named.

The API server calls ``decode_body`` for what clients send and ``convert_document`` for what a strategic merge patch
leaves. A good body is checked in C (``structs``); only a body with something wrong in it is walked in Python
(``typed_walk``), which finds everything and says it in upstream's words.
"""

import copy
import json
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.api.schema import Definition, Type
from pilothouse.machinery import typed_walk
from pilothouse.machinery.go_numbers import ConversionError, fit_numbers
from pilothouse.machinery.json_bounds import exceeded
from pilothouse.machinery.json_syntax import syntax_error
from pilothouse.machinery.structs import TextHooks, struct_for
from pilothouse.machinery.typed_walk import DecodeError

__all__ = [
    "BodySyntaxError",
    "DecodeError",
    "Decoded",
    "check_bounds",
    "convert_document",
    "convert_members",
    "count_quotes",
    "decode_body",
    "decode_untyped",
]


class BodySyntaxError(DecodeError):
    """The body is not JSON at all; the message is that of Go's ``encoding/json``."""


class Decoded(msgspec.Struct, frozen=True):
    """A body that is of its type.

    ``document`` holds only fields that the type has, and those that Go prints although they are unset
    (``Definition.printed``); other nulls are gone (they mean the same as absent), quantities and times are canonical.
    Of duplicates the last one counts. ``unknown`` and ``duplicates`` are paths such as
    ``spec.containers[0].foo``, in the order in which the body has them, each once.
    """

    document: dict[str, Any]
    unknown: list[str] = []
    duplicates: list[str] = []
    strict_errors: list[str] = []
    """Both together in document order, as upstream words them: ``unknown field "spec.foo"``, ``duplicate field "x"``.

    In strict mode they follow ``strict decoding error: `` joined by ``, ``; in warn mode each is one warning.
    """


_decode_any = msgspec.json.Decoder().decode
_hooks = TextHooks()
_encode = msgspec.json.Encoder(enc_hook=_hooks.encode).encode


@lru_cache(maxsize=1024)
def _decoder(definition: Definition) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct_for(definition), dec_hook=_hooks.decode)


def decode_body(body: bytes, definition: Definition) -> Decoded:
    """``body`` as an object of the type ``definition``.

    Raises ``BodySyntaxError`` when it is not JSON and ``DecodeError`` when a value has the wrong type; the message is
    what upstream puts behind ``X in version "v1" cannot be handled as a X: ``.
    """
    check_bounds(body)
    _hooks.reset()
    try:
        written = _encode(_decoder(definition).decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Something is wrong, or only unusual (a null in a list): the walk decides.
        return _decode_slowly(body, definition)
    # msgspec keeps the last of several fields of one name and says nothing. But then strings have got lost on the way,
    # so their quotes are missing in what is written back.
    if count_quotes(written) != count_quotes(body) + _hooks.quotes:
        return _decode_slowly(body, definition)
    return Decoded(_read_back(written, definition))


def check_bounds(body: bytes) -> None:
    """Raises ``BodySyntaxError`` for JSON that nests too deep, or is of too many parts."""
    bound = exceeded(body)
    if bound:
        raise BodySyntaxError(bound)


def count_quotes(text: bytes) -> int:
    """How many quotes begin or end a string."""
    if b"\\" not in text:
        return text.count(b'"')
    if b"\\\\" in text:
        # Escaped backslashes go first, so that what is left of \\" is a quote that ends a string.
        text = text.replace(b"\\\\", b"")
    return text.count(b'"') - text.count(b'\\"')


def _drop_nulls(members: dict[str, Any], definition: Definition) -> None:
    """Removes members that are null, in place, all the way down, or gives them what Go prints for unset fields.

    What has no type is kept as it came (the data of a ControllerRevision, which Go's controllers compare byte by byte).
    The struct types let no null into typed lists.
    """
    nulls, printed = [], definition.printed
    for name, value in members.items():
        if value is None:
            if name not in printed:
                nulls.append(name)
            elif printed[name] is not None:
                members[name] = copy.deepcopy(printed[name])
        elif type(value) is dict or type(value) is list:
            _drop_nulls_below(value, definition.fields[name].type)
    for name in nulls:
        del members[name]


def _drop_nulls_below(value: Any, type_: Type) -> None:
    if type_.name == "object":
        _drop_nulls(value, type_.definition)
    elif type_.element is not None:
        for item in value.values() if type_.name == "map" else value:
            _drop_nulls_below(item, type_.element)


def _decode_slowly(body: bytes, definition: Definition) -> Decoded:
    try:
        walked = typed_walk.walk_text(body, definition)
    except json.JSONDecodeError:
        _check_syntax(body)
        raise
    return Decoded(walked.document, walked.unknown, walked.duplicates, walked.strict_errors)


def _check_syntax(body: bytes) -> None:
    """Reports the error of a text that msgspec rejects; it is too strict for some that are JSON (a lone
    surrogate)."""
    if (message := syntax_error(body)) is not None:
        raise BodySyntaxError(message)


def convert_document(document: dict[str, Any], definition: Definition) -> Decoded:
    """As ``decode_body``, for a document in memory. ``DecodeError`` has the words of upstream's converter instead.

    That is how a strategic merge patch fails: ``unrecognized type: int32`` (apimachinery 0.36,
    ``pkg/runtime/converter.go``). ``unknown`` is sorted there, so it is here.
    """
    written = _written(document, definition)
    if written is None:
        try:
            document = fit_numbers(document, definition)
        except ConversionError as error:
            raise DecodeError(str(error)) from None
        walked = typed_walk.walk_document(document, definition)
        return Decoded(walked.document, sorted(walked.unknown), [], sorted(walked.strict_errors))
    return Decoded(_read_back(written, definition))


def convert_members(members: dict[str, Any], definition: Definition) -> tuple[dict[str, Any], bytes] | None:
    """Some members of an object as ``decode_body`` would give them, and as JSON, where nulls may be left; None when
    there is something to be said about them."""
    written = _written(members, definition)
    return None if written is None else (_read_back(written, definition), written)


def _written(document: dict[str, Any], definition: Definition) -> bytes | None:
    _hooks.reset()
    try:
        return _encode(msgspec.convert(document, struct_for(definition), dec_hook=_hooks.decode))
    except (msgspec.ValidationError, RecursionError):
        return None


def _read_back(written: bytes, definition: Definition) -> dict[str, Any]:
    document: dict[str, Any] = _decode_any(written)
    if written.count(b"null") > _hooks.nulls:
        _drop_nulls(document, definition)
    return document


def decode_untyped(body: bytes) -> tuple[Any, list[str]]:
    """Any JSON, for patches: the value, and the strict errors (``duplicate field "spec.replicas"``).

    Raises ``BodySyntaxError``; the API server answers ``error decoding patch: `` and its message for merge and JSON
    patches, and the bare message for strategic ones.
    """
    check_bounds(body)
    try:
        value = _decode_any(body)
        if count_quotes(_encode(value)) == count_quotes(body):
            return value, []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _check_syntax(body)
    return typed_walk.read_untyped(body)
