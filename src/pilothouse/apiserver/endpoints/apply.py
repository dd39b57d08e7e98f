"""Server-side apply: PATCH with the complete configuration of one field manager.

The body is an apply configuration, in YAML or JSON. ``machinery.managed_fields`` merges it into the stored object; the
result is stored as by an update, or by a create if there is no object. After apiserver's
``pkg/endpoints/handlers/patch.go`` (``applyPatcher``, v0.36).
"""

from typing import Any

import msgspec

from pilothouse.api.schema import Definition, definition_of
from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.create import create_object
from pilothouse.apiserver.endpoints.object_names import name_mismatch, namespace_mismatch
from pilothouse.apiserver.endpoints.request_objects import check_patched
from pilothouse.apiserver.endpoints.update import Change, apply_change
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions
from pilothouse.apiserver.serializers.bodies import check_size
from pilothouse.apiserver.serializers.results import ObjectResult
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.bodies import DecodeError, convert_document, decode_untyped
from pilothouse.machinery.field_walks import all_errors, error_text
from pilothouse.machinery.go_numbers import ConversionError, fit_numbers
from pilothouse.machinery.merge_types import MergeType

with lazy_imports():
    from pilothouse.machinery import yaml_text


async def apply(core: Core, call: Call, options: WriteOptions) -> ObjectResult:
    """Apply a configuration to an object or its status."""
    info = call.info
    config, duplicates = await core.long_work.run(call.size, read_config, call)
    if core.store.staged(call.key) is None and not call.request_info.subresource:
        return await _create(core, call, config, duplicates, options)

    def applied(live: Object, live_owners: bytes) -> tuple[Object, bytes]:
        new, owners = core.managed_fields.apply(call, live, live_owners, config, options)
        if duplicates_error is not None:
            raise duplicates_error
        return _validate_merged(call, new, options, config), owners

    duplicates_error = handle_duplicates(call, options, duplicates)
    type_ = core.managed_fields.tracker(info, call.request_info.subresource).type
    await core.long_work.run(call.size, check_config, config, info.api_version, info.kind, type_)
    return await apply_change(core, call, Change(apply=applied), options)


async def _create(core: Core, call: Call, config: Object, duplicates: list[str], options: WriteOptions) -> ObjectResult:
    info = call.info
    type_ = core.managed_fields.tracker(info).type
    await core.long_work.run(call.size, check_config, config, info.api_version, info.kind, type_)
    size, apply_fields = call.size, core.managed_fields.apply
    new, owners = await core.run_converting(info, size, apply_fields, call, None, b"", config, options)
    new = _with_name(call, new)
    duplicates_error = handle_duplicates(call, options, duplicates)
    if duplicates_error is not None:
        raise duplicates_error
    new = await core.long_work.run(call.size, _validate_merged, call, new, options, config)
    meta: Object = new["metadata"]
    if meta.get("uid"):
        reason = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise errors.conflict(info, call.name, reason)
    meta.pop("resourceVersion", None)  # without an object every version matches
    return await create_object(core, call, new, options, owners=owners)


# The configuration --------------------------------------------------------------------------------------------------


def read_config(call: Call) -> tuple[Object, list[str]]:
    """The configuration in the body, and the errors about duplicate keys."""
    body = call.request.body
    check_size(body)
    try:
        document, duplicates = _decode(body)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(document, dict):
        json_type = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(document), "number")
        if document is None:
            return {}, duplicates
        raise errors.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{json_type} into Go value of type map[string]interface {{}}"
        )
    return document, duplicates


def _decode(body: bytes) -> tuple[Any, list[str]]:
    if body[:1] == b"{":
        try:
            document, strict_errors = decode_untyped(body)
        except DecodeError:
            pass  # It may be YAML flow style.
        else:
            if not strict_errors:
                return document, []
    try:
        document, duplicates = yaml_text.read_yaml(body)
    except yaml_text.YamlError as error:
        raise ValueError(f"error converting YAML to JSON: {error}") from None
    # Copy the values of YAML aliases.
    return msgspec.json.decode(msgspec.json.encode(document, order="sorted")), duplicates


def handle_duplicates(call: Call, options: WriteOptions, duplicates: list[str]) -> StatusError | None:
    """Handle duplicate keys as fieldValidation requires: errors, warnings or nothing.

    The error is returned, because all other errors take precedence.
    """
    if options.field_validation == "Ignore" or not duplicates:
        return None
    if options.field_validation == "Warn":
        call.warnings += duplicates
        return None
    lines = "".join(f"\n  {line}" for line in duplicates)
    return errors.bad_request(
        f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}"
    )


def check_config(config: Object, api_version: str, kind: str, type_: MergeType) -> None:
    """Reject a configuration of another kind, and one that does not match the type."""
    actual_version, actual_kind = config.get("apiVersion") or "", config.get("kind") or ""
    if (actual_version, actual_kind) != (api_version, kind):
        raise errors.bad_request(f"invalid object type: {_gvk_text(actual_version, actual_kind)}")
    meta = config.get("metadata")
    if isinstance(meta, dict) and isinstance(meta.get("managedFields"), list):
        raise errors.bad_request("metadata.managedFields must be nil")
    type_errors = all_errors(config, type_)
    if type_errors:
        config_text = f"{_object_key_text(config)}; {_gvk_text(actual_version, actual_kind)}"
        raise errors.plain(f"failed to create typed patch object ({config_text}): {error_text(type_errors)}")


def _gvk_text(version: Any, kind: Any) -> str:
    text = str(version)
    return f"{text if '/' in text else '/' + text}, Kind={kind}"


def _object_key_text(config: Object) -> str:
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"


def _with_name(call: Call, new: Object) -> Object:
    """Set the name of the URL on a new object, if the configuration has none."""
    meta = dict(new.get("metadata") or {})
    meta.setdefault("name", call.name)
    if call.info.namespaced:
        meta.setdefault("namespace", call.namespace)
    return {**new, "metadata": meta}


def _validate_merged(call: Call, new: Object, options: WriteOptions, config: Object) -> Object:
    """Validate the result of merging ``config``: the canonical object, with the name and kind of the request."""
    info = call.info
    meta = new.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    if not info.namespaced:
        if "namespace" in meta:
            meta = {field: value for field, value in meta.items() if field != "namespace"}
            new = {**new, "metadata": meta}
    elif meta.get("namespace") != call.namespace:
        raise namespace_mismatch()
    name = meta.get("name") or ""
    if name != call.name:
        raise name_mismatch(call, name)
    ignoring_unknown = msgspec.structs.replace(options, field_validation="Ignore")
    definition = None if info.custom is not None else definition_of(info.group, info.version, info.kind)
    try:
        return check_patched(call, ignoring_unknown, new, definition)
    except StatusError as error:
        if error.code != 422:
            raise
        reason = error.message.rpartition('": ')[2]
        try:
            fitted = new if definition is None else fit_numbers(new, definition)
        except ConversionError as conversion_error:
            fitted, reason = new, str(conversion_error)
        if fitted is not new:
            return _validate_merged(call, fitted, options, config)
        if definition is not None:
            reason = _conversion_error(new, definition) or reason
        kind = _gvk_text(info.api_version, info.kind)
        raise errors.plain(
            f"failed to convert new object ({_object_key_text(config)}; {kind}) to proper version: "
            f"unable to convert unstructured object to {kind}: {reason}"
        ) from None


def _conversion_error(obj: Object, definition: Definition) -> str:
    """The error of Go's conversion from unstructured, "" if there is none."""
    try:
        convert_document(obj, definition)
    except DecodeError as error:
        return error.message
    return ""
