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
from pilothouse.machinery.bodies import BodySyntaxError, DecodeError, convert_document, convert_members, decode_body
from pilothouse.machinery.go_text import print_value

_decode = msgspec.json.Decoder(dict[str, Any]).decode


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
    obj, twice = read_strictly(call.request.body, call.content_type, info.kind)
    check_type_meta(obj, info.kind, call.request.body)
    check_kind(obj, info, info.kind, info.api_version, _known_kinds())
    try:
        unknown = info.custom.prune(obj)
    except DecodeError as error:
        raise _unhandled(info.kind, info.version, str(error)) from None
    _handle_strict_errors(call, options, info.kind, info.version, twice + unknown)
    return obj


def read_built_in(call: Call, options: WriteOptions, info: ResourceInfo, group: str, version: str, kind: str) -> Object:
    """An object of a built-in kind in the body, which may differ from the resource's kind."""
    body = sent = call.request.body
    content_type = call.content_type
    api_version = f"{group}/{version}" if group else version
    twice: list[str] = []
    if content_type in JSON_TYPES:
        check_size(body)
    else:
        body, twice = read_text(body, content_type, kind)
    try:
        decoded = decode_body(body, definition_of(group, version, kind))
    except BodySyntaxError as error:
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {error}", sent) from None
    except DecodeError as error:
        # An object of another kind probably has type errors, too; report the kind.
        document = read_document(body, "", kind, sent)
        check_type_meta(document, kind, sent)
        check_kind(document, info, kind, api_version, _known_kinds())
        raise _unhandled(kind, version, str(error)) from None
    obj = decoded.document
    check_kind(obj, info, kind, api_version, _known_kinds())
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    if twice or decoded.strict_errors:
        _handle_strict_errors(call, options, kind, version, twice + decoded.strict_errors)
    if may_have_empty(body):
        _drop_empty_fields(obj, definition_of(group, version, kind))
    _record(call, info, obj, kind, api_version)
    return obj


def _record(call: Call, info: ResourceInfo, obj: Object, kind: str, api_version: str) -> None:
    """Record the object for the audit: decoded and defaulted, as by upstream's decoder."""
    context = audit_context()
    if context is not None:
        _record_in(context, call, info, obj, kind, api_version)


def _record_in(context: AuditContext, call: Call, info: ResourceInfo, obj: Object, kind: str, api_version: str) -> None:
    def encode() -> bytes:
        shown = copy.deepcopy(obj)
        shown.setdefault("metadata", {})
        if kind == info.kind and api_version == info.api_version:
            call.strategy.set_defaults(shown)
        return msgspec.json.encode({"kind": kind, "apiVersion": api_version, **shown})

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
        listed = ", ".join(strict_errors)
        raise _unhandled(kind, version, f"strict decoding error: {listed}")
    call.warnings += strict_warnings(strict_errors)


def check_patched(
    call: Call,
    options: WriteOptions,
    obj: Object,
    definition: Definition | None,
    touched: Collection[str] = (),
    strategic: Any = None,
    twice: Sequence[str] = (),
    shown: Callable[[], str] | None = None,
) -> Object:
    """A patched object, checked like a body. Errors are a 422 about the patch.

    ``touched`` are the members changed by the patch, if known; the others are stored ones, and are not checked again.
    ``strategic`` is the patch if it was a strategic merge patch: upstream's errors then show it instead of the object,
    and it is not encoded as JSON (apiserver v0.36 ``pkg/endpoints/handlers/patch.go``, applyPatchToObject). ``twice``
    are the strict errors of the patch. ``shown`` formats the object for errors.
    """
    if touched and definition is not None and not twice:
        checked = _check_touched(obj, definition, touched)
        if checked is not None:
            return checked
    text = msgspec.json.encode(obj)
    if definition is None:
        try:
            strict = [*twice, *call.info.custom.prune(obj)]
        except DecodeError as error:
            raise _bad_patch(text.decode(), str(error)) from None
        if strict:
            _handle_patch_strict_errors(call, options, text.decode(), strict)
        return obj
    if strategic is not None:
        shown = shown or (lambda: print_value(strategic))
    elif shown is None:
        shown = text.decode
    try:
        decoded = decode_body(text, definition) if strategic is None else convert_document(obj, definition)
    except DecodeError as error:
        what = shown()
        raise _bad_patch(what, str(error) if strategic is not None else _first_error(what, definition)) from None
    if twice or decoded.strict_errors:
        _handle_patch_strict_errors(call, options, shown(), [*twice, *decoded.strict_errors])
    if may_have_empty(text):
        _drop_empty_fields(decoded.document, definition)
    return decoded.document


def _first_error(text: str, definition: Definition) -> str:
    """The first error of decoding a text, which depends on the order of its members."""
    try:
        decode_body(text.encode(), definition)
    except DecodeError as error:
        return str(error)
    raise AssertionError("what is rejected in one order of members is rejected in any")


def check_patched_kind(
    info: ResourceInfo, obj: Object, kind: str, api_version: str, shown: Callable[[], str] | None = None
) -> None:
    """Reject a JSON or merge patch that has changed the kind. (A strategic merge patch can't: it is decoded into the
    type of the kind.)"""
    reason = type_meta_error(obj)
    if reason:
        raise _bad_patch(msgspec.json.encode(obj).decode() if shown is None else shown(), reason)
    actual_kind, actual_version = obj.get("kind") or kind, obj.get("apiVersion") or api_version
    if actual_kind == kind and actual_version == api_version:
        return
    if info.custom is not None and kind == info.kind:
        all_errors = [
            field_errors.invalid(field, said, f"must be {desired}")
            for field, said, desired in (("kind", actual_kind, kind), ("apiVersion", actual_version, api_version))
            if said != desired
        ]
        name = (obj.get("metadata") or {}).get("name") or ""
        raise errors.invalid(actual_version.rpartition("/")[0], actual_kind, name, all_errors)
    known = _known_kinds()
    if actual_kind != kind or (actual_version, actual_kind) not in known:
        text = msgspec.json.encode(obj).decode() if shown is None else shown()
        raise _bad_patch(text, kind_mismatch(actual_version, actual_kind, kind, api_version, known))


def _check_touched(obj: Object, definition: Definition, touched: Collection[str]) -> Object | None:
    """The object with its touched members checked, or None if they have errors.

    Then the whole object is decoded, because the errors depend on all of it.
    """
    found = convert_members({name: obj[name] for name in touched if name in obj}, definition)
    if found is None:
        return None
    checked, text = found
    if may_have_empty(text):
        _drop_empty_fields(checked, definition)
    result = {}
    for name in definition.fields:  # in the order of a whole object
        members = checked if name in touched else obj
        if name in members:
            result[name] = members[name]
    return result


def _handle_patch_strict_errors(call: Call, options: WriteOptions, shown: str, strict_errors: list[str]) -> None:
    if options.field_validation == "Strict":
        raise _bad_patch(shown, f"strict decoding error: {', '.join(strict_errors)}")
    if options.field_validation == "Warn":
        call.warnings += strict_errors


def _bad_patch(shown: str, reason: str) -> errors.StatusError:
    return errors.invalid("", "", "", [field_errors.invalid("patch", shown, reason)])
