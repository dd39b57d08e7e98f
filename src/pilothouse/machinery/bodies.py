"""Request bodies: decoded, checked by type, with unknown and duplicate fields.

The API server calls ``decode_body`` for bodies of clients and ``convert_document`` for the result of a strategic merge
patch. A valid body is checked in C (``structs``); others are walked in Python (``typed_walk``), which finds all errors,
with upstream's messages.
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
    """The body is not JSON; the message is that of Go's ``encoding/json``."""


class Decoded(msgspec.Struct, frozen=True):
    """A body that conforms to its type.

    ``document`` only has fields of the type, and those that Go encodes although they are unset
    (``Definition.printed``); other nulls are removed (they mean the same as absent), quantities and times are
    canonical. Of duplicate fields the last one is used. ``unknown`` and ``duplicates`` are paths such as
    ``spec.containers[0].foo``, in document order, each once.
    """

    document: dict[str, Any]
    unknown: list[str] = []
    duplicates: list[str] = []
    strict_errors: list[str] = []
    """Both in document order, as upstream's errors: ``unknown field "spec.foo"``, ``duplicate field "x"``.

    In strict mode they are joined by ``, `` after ``strict decoding error: ``; in warn mode each is a warning.
    """


_decode_any = msgspec.json.Decoder().decode
_hooks = TextHooks()
_encode = msgspec.json.Encoder(enc_hook=_hooks.encode).encode


@lru_cache(maxsize=1024)
def _decoder(definition: Definition) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct_for(definition), dec_hook=_hooks.decode)


def decode_body(body: bytes, definition: Definition) -> Decoded:
    """``body`` as an object of the type ``definition``.

    Raises ``BodySyntaxError`` if it is not JSON and ``DecodeError`` for a value of the wrong type; the message is
    upstream's after ``X in version "v1" cannot be handled as a X: ``.
    """
    check_bounds(body)
    _hooks.reset()
    try:
        written = _encode(_decoder(definition).decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # There is an error, or something unusual (a null in a list): the walk decides.
        return _decode_slowly(body, definition)
    # msgspec silently uses the last of duplicate fields. But then strings are lost, and the number of quotes differs in
    # the encoded result.
    if count_quotes(written) != count_quotes(body) + _hooks.quotes:
        return _decode_slowly(body, definition)
    return Decoded(_read_back(written, definition))


def check_bounds(body: bytes) -> None:
    """Raises ``BodySyntaxError`` for JSON that nests too deeply, or has too many objects and lists."""
    bound = exceeded(body)
    if bound:
        raise BodySyntaxError(bound)


def count_quotes(text: bytes) -> int:
    """The number of quotes that delimit strings."""
    if b"\\" not in text:
        return text.count(b'"')
    if b"\\\\" in text:
        # Escaped backslashes are removed first, so that what is left of \\" is a quote that ends a string.
        text = text.replace(b"\\\\", b"")
    return text.count(b'"') - text.count(b'\\"')


def _drop_nulls(members: dict[str, Any], definition: Definition) -> None:
    """Remove members that are null, in place, recursively, or set what Go encodes for unset fields.

    Values without a type are kept (the data of a ControllerRevision, which Go's controllers compare byte by byte). The
    struct types allow no nulls in typed lists.
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
    """Raise the error about a text that msgspec rejects; msgspec also rejects some valid JSON (a lone surrogate)."""
    if (message := syntax_error(body)) is not None:
        raise BodySyntaxError(message)


def convert_document(document: dict[str, Any], definition: Definition) -> Decoded:
    """As ``decode_body``, for a document in memory. ``DecodeError`` has the messages of upstream's converter.

    These are the errors of strategic merge patches: ``unrecognized type: int32`` (apimachinery 0.36,
    ``pkg/runtime/converter.go``). ``unknown`` is sorted, as upstream.
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
    """Some members of an object as by ``decode_body``, and as JSON, which may have nulls; None if there are errors or
    strict errors."""
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

    Raises ``BodySyntaxError``; the API server responds with ``error decoding patch: `` and its message for merge and
    JSON patches, and the message only for strategic ones.
    """
    check_bounds(body)
    try:
        value = _decode_any(body)
        if count_quotes(_encode(value)) == count_quotes(body):
            return value, []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _check_syntax(body)
    return typed_walk.read_untyped(body)
