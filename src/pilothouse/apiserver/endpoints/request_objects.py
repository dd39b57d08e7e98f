"""The object in a request body: decoded, of the expected kind, pruned to the fields of its schema.

Built-in kinds are checked by the API's schema (``machinery.bodies``), custom ones by that of their definition.
"""

import copy
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.api import schema
from pilothouse.api.schema import Definition, definition_of
from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.audit.context import AuditContext, audit_context
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.bodies import (
    JSON_TYPES,
    check_kind,
    check_size,
    check_type_meta,
    kind_mismatch,
    read_document,
    read_strictly,
    read_text,
    strict_warnings,
    type_meta_error,
    unrecognized,
)
from pilothouse.apiserver.serializers.omitempty import drop_empty, may_have_empty
from pilothouse.apiserver.serializers.repeated_bodies import RepeatedBodies
from pilothouse.machinery.bodies import BodySyntaxError, DecodeError, convert_document, convert_members, decode_body
from pilothouse.machinery.go_text import print_value

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_repeated_bodies = RepeatedBodies()


@lru_cache(maxsize=1)
def _known_kinds() -> frozenset[tuple[str, str]]:
    return frozenset((f"{group}/{version}" if group else version, kind) for group, version, kind in schema.load().kinds)


def read_object(call: Call, options: WriteOptions) -> Object:
    """The object of the resource's kind in the body. The caller may change it."""
    info = call.info
    if info.custom is not None:
        obj = _read_custom(call, options, info)
        _record(call, info, obj, info.kind, info.api_version)
        return obj
    return read_built_in(call, options, info, info.group, info.version, info.kind)


def _read_custom(call: Call, options: WriteOptions, info: ResourceInfo) -> Object:
    obj, duplicates = read_strictly(call.request.body, call.content_type, info.kind)
    check_type_meta(obj, info.kind, call.request.body)
    check_kind(obj, info, info.kind, info.api_version, _known_kinds())
    try:
        unknown_fields = info.custom.prune(obj)
    except DecodeError as error:
        raise _unhandled(info.kind, info.version, str(error)) from None
    _handle_strict_errors(call, options, info.kind, info.version, duplicates + unknown_fields)
    return obj


def read_built_in(call: Call, options: WriteOptions, info: ResourceInfo, group: str, version: str, kind: str) -> Object:
    """An object of a built-in kind in the body, which may differ from the resource's kind."""
    body = original_body = call.request.body
    content_type = call.content_type
    api_version = f"{group}/{version}" if group else version
    duplicates: list[str] = []
    definition = definition_of(group, version, kind)
    if content_type in JSON_TYPES:
        check_size(body)
        repeated = _repeated_bodies.get(body, definition)
        if repeated is not None:
            _record(call, info, repeated, kind, api_version)
            return repeated
    else:
        body, duplicates = read_text(body, content_type, kind)
    try:
        decoded = decode_body(body, definition)
        if kind == info.kind:
            call.strategy.decode_unions(decoded.document)
    except BodySyntaxError as error:
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {error}", original_body) from None
    except DecodeError as error:
        # An object of another kind probably has type errors, too; report the kind.
        document = read_document(body, "", kind, original_body)
        check_type_meta(document, kind, original_body)
        check_kind(document, info, kind, api_version, _known_kinds())
        raise _unhandled(kind, version, str(error)) from None
    obj = decoded.document
    check_kind(obj, info, kind, api_version, _known_kinds())
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    if duplicates or decoded.strict_errors:
        _handle_strict_errors(call, options, kind, version, duplicates + decoded.strict_errors)
    if may_have_empty(body):
        _drop_empty_fields(obj, definition)
    if not duplicates and not decoded.strict_errors:
        _repeated_bodies.put(body, definition, obj)
    _record(call, info, obj, kind, api_version)
    return obj


def _record(call: Call, info: ResourceInfo, obj: Object, kind: str, api_version: str) -> None:
    """Record the object for the audit: decoded and defaulted, as by upstream's decoder."""
    context = audit_context()
    if context is not None:
        _record_in(context, call, info, obj, kind, api_version)


def _record_in(context: AuditContext, call: Call, info: ResourceInfo, obj: Object, kind: str, api_version: str) -> None:
    def encode() -> bytes:
        defaulted = copy.deepcopy(obj)
        defaulted.setdefault("metadata", {})
        if kind == info.kind and api_version == info.api_version:
            call.strategy.set_defaults(defaulted)
        return msgspec.json.encode({"kind": kind, "apiVersion": api_version, **defaulted})

    metadata = obj.get("metadata")
    context.log_request_object(metadata if isinstance(metadata, dict) else None, encode)


def _drop_empty_fields(obj: Object, definition: Definition) -> None:
    meta = obj.get("metadata")
    resets = isinstance(meta, dict) and meta.get("managedFields") == []
    drop_empty(obj, definition)
    if resets:
        # The one empty list with a meaning: it removes all managers.
        obj["metadata"]["managedFields"] = []


def _unhandled(kind: str, version: str, reason: str) -> errors.StatusError:
    return errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {reason}')


def _handle_strict_errors(call: Call, options: WriteOptions, kind: str, version: str, strict_errors: list[str]) -> None:
    """Handle dropped fields as fieldValidation requires: errors, warnings or nothing."""
    if not strict_errors or options.field_validation == "Ignore":
        return
    if options.field_validation == "Strict":
        error_text = ", ".join(strict_errors)
        raise _unhandled(kind, version, f"strict decoding error: {error_text}")
    call.warnings += strict_warnings(strict_errors)


def check_patched(
    call: Call,
    options: WriteOptions,
    obj: Object,
    definition: Definition | None,
    patched_members: Collection[str] = (),
    strategic: Any = None,
    patch_strict_errors: Sequence[str] = (),
    format_patched: Callable[[], str] | None = None,
) -> Object:
    """A patched object, checked like a body. Errors are a 422 about the patch.

    ``patched_members`` are the members changed by the patch, if known; the others are stored ones, and are not checked
    again. ``strategic`` is the patch if it was a strategic merge patch: upstream's errors then show it instead of the
    object, and it is not encoded as JSON (apiserver v0.36 ``pkg/endpoints/handlers/patch.go``, applyPatchToObject).
    ``patch_strict_errors`` are the strict errors of the patch. ``format_patched`` formats the object for errors.
    """
    if patched_members and definition is not None and not patch_strict_errors:
        checked = _check_patched_members(obj, definition, patched_members)
        if checked is not None:
            _decode_patched_unions(call, checked, format_patched)
            return checked
    text = msgspec.json.encode(obj)
    if format_patched is None:
        format_patched = text.decode if strategic is None else (lambda: print_value(strategic))
    if definition is None:
        try:
            all_strict_errors = [*patch_strict_errors, *call.info.custom.prune(obj)]
        except DecodeError as error:
            raise _invalid_patch(format_patched(), str(error)) from None
        if all_strict_errors:
            _handle_patch_strict_errors(call, options, format_patched, all_strict_errors)
        return obj
    try:
        decoded = decode_body(text, definition) if strategic is None else convert_document(obj, definition)
    except DecodeError as error:
        patched_text = format_patched()
        raise _invalid_patch(
            patched_text, str(error) if strategic is not None else _first_error(patched_text, definition)
        ) from None
    if patch_strict_errors or decoded.strict_errors:
        _handle_patch_strict_errors(call, options, format_patched, [*patch_strict_errors, *decoded.strict_errors])
    if may_have_empty(text):
        _drop_empty_fields(decoded.document, definition)
    _decode_patched_unions(call, decoded.document, format_patched)
    return decoded.document


def _decode_patched_unions(call: Call, obj: Object, format_patched: Callable[[], str] | None) -> None:
    try:
        call.strategy.decode_unions(obj)
    except DecodeError as error:
        text = msgspec.json.encode(obj).decode() if format_patched is None else format_patched()
        raise _invalid_patch(text, str(error)) from None


def _first_error(text: str, definition: Definition) -> str:
    """The first error of decoding a text, which depends on the order of its members."""
    try:
        decode_body(text.encode(), definition)
    except DecodeError as error:
        return str(error)
    raise AssertionError("what is rejected in one order of members is rejected in any")


def check_patched_kind(
    info: ResourceInfo, obj: Object, kind: str, api_version: str, format_patched: Callable[[], str] | None = None
) -> None:
    """Reject a JSON or merge patch that has changed the kind. (A strategic merge patch can't: it is decoded into the
    type of the kind.)"""
    reason = type_meta_error(obj)
    if reason:
        raise _invalid_patch(msgspec.json.encode(obj).decode() if format_patched is None else format_patched(), reason)
    actual_kind, actual_version = obj.get("kind") or kind, obj.get("apiVersion") or api_version
    if actual_kind == kind and actual_version == api_version:
        return
    if info.custom is not None and kind == info.kind:
        raise errors.changed_kind(obj, kind, api_version)
    known_kinds = _known_kinds()
    if actual_kind != kind or (actual_version, actual_kind) not in known_kinds:
        text = msgspec.json.encode(obj).decode() if format_patched is None else format_patched()
        raise _invalid_patch(text, kind_mismatch(actual_version, actual_kind, kind, api_version, known_kinds))


def _check_patched_members(obj: Object, definition: Definition, patched_members: Collection[str]) -> Object | None:
    """The object with its touched members checked, or None if they have errors.

    Then the whole object is decoded, because the errors depend on all of it.
    """
    converted = convert_members({name: obj[name] for name in patched_members if name in obj}, definition)
    if converted is None:
        return None
    checked, text = converted
    if may_have_empty(text):
        _drop_empty_fields(checked, definition)
    result = {}
    for name in definition.fields:  # in the order of a whole object
        members = checked if name in patched_members else obj
        if name in members:
            result[name] = members[name]
    return result


def _handle_patch_strict_errors(
    call: Call, options: WriteOptions, format_patched: Callable[[], str], strict_errors: list[str]
) -> None:
    if options.field_validation == "Strict":
        raise _invalid_patch(format_patched(), f"strict decoding error: {', '.join(strict_errors)}")
    if options.field_validation == "Warn":
        call.warnings += strict_errors


def _invalid_patch(patched_text: str, reason: str) -> errors.StatusError:
    return errors.invalid("", "", "", [field_errors.invalid("patch", patched_text, reason)])
