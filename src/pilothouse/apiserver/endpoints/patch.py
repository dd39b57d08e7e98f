"""patch: JSON patch, merge patch, strategic merge patch; server-side apply is in ``apply``."""

import re
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import Any

import msgspec

from pilothouse.api.schema import Definition, definition_of
from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.audit.context import audit_context
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.apply import apply as server_side_apply
from pilothouse.apiserver.endpoints.object_names import check_name
from pilothouse.apiserver.endpoints.request_objects import check_patched, check_patched_kind
from pilothouse.apiserver.endpoints.update import Change, Transform, apply_change
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.registry.generic.managed_fields import split_managed_fields
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.bodies import check_size
from pilothouse.apiserver.serializers.results import ObjectResult
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.bodies import DecodeError, decode_untyped
from pilothouse.machinery.merge_patch import apply_merge_patch
from pilothouse.machinery.patches import PatchError
from pilothouse.machinery.strategic_merge import apply_strategic_merge

with lazy_imports():
    from pilothouse.apiserver.endpoints import patched_text
    from pilothouse.machinery import json_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_WHOLE_METADATA = re.compile(rb'"(?:path|from)"\s*:\s*"(?:/metadata)?"').search


async def patch(core: Core, call: Call) -> ObjectResult:
    """PATCH of an object, or of its status."""
    options = read_patch_options(call)
    if call.content_type == APPLY_PATCH:
        return await server_side_apply(core, call, options)
    owners = partial(stored_owners, core, call)
    patched = await core.long_work.run(call.size, patch_function, call, call.info, options, owners=owners)
    with_owners = names_owners(call)
    shares_rest = call.request_info.subresource == "status" and call.info.custom is None and not with_owners
    change = Change(transform=patched, with_owners=with_owners, copies_only_metadata=shares_rest)
    return await apply_change(core, call, change, options)


def stored_owners(core: Core, call: Call) -> list[Any]:
    """The managedFields of the stored object of a call."""
    record = core.store.staged(call.key)
    entries = b"" if record is None else split_managed_fields(record.value)[1]
    return msgspec.json.decode(entries, type=list[Any]) if entries else []


def names_owners(call: Call) -> bool:
    """Whether a patch may contain managedFields; for other patches they are not decoded."""
    body = call.request.body
    return b"managedFields" in body or (call.content_type == JSON_PATCH and _WHOLE_METADATA(body) is not None)


def read_patch_options(call: Call) -> WriteOptions:
    """The options of a PATCH; which are allowed depends on its type."""
    is_apply = call.content_type == APPLY_PATCH
    options = read_write_options(call.request_info.query, "ApplyOptions" if is_apply else "PatchOptions")
    context = audit_context()
    if context is not None and _is_served(call):
        context.log_request_patch(call.request.body, is_yaml=is_apply)
    return options


def _is_served(call: Call) -> bool:
    """Whether the resource supports patches of this type."""
    if call.content_type == STRATEGIC_MERGE_PATCH:
        return call.info.custom is None
    return call.content_type in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


def patch_function(
    call: Call,
    info: ResourceInfo,
    options: WriteOptions,
    *,
    kind: str = "",
    owners: Callable[[], list[Any]] = list,
) -> Transform:
    """Apply the patch in the body of the call to an object; ``kind`` if it is not the resource's own (a Scale).

    ``owners`` reads the managedFields for errors, if the object does not have them.
    """
    body, content_type = call.request.body, call.content_type
    check_size(body)
    if content_type == STRATEGIC_MERGE_PATCH and info.custom is not None:
        raise errors.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
        )
    if content_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH):
        raise errors.unsupported_media_type("415: Unsupported Media Type", details={})
    document, strict_errors = _read_patch(body, "" if content_type == STRATEGIC_MERGE_PATCH else _PREFIX)
    _check_shape(content_type, document, strictly=options.field_validation != "Ignore")
    if content_type == JSON_PATCH:
        document = [operation or {} for operation in document]
        strict_errors = [f"json patch {text}" for text in (*strict_errors, *_unknown_in_operations(document))]
    if options.field_validation == "Ignore":
        strict_errors = []
    definition = _definition(info, kind)
    patched_members = _patched_members(content_type, document)
    names_object = (
        content_type == STRATEGIC_MERGE_PATCH and "metadata" in patched_members and _is_precondition(document)
    )
    untyped = () if definition is None else _untyped_fields(definition)

    def apply(old: Object) -> Object:
        old_type_meta, uid = (old.get("kind") or "", old.get("apiVersion") or ""), old["metadata"].get("uid")
        try:
            if content_type == JSON_PATCH:
                result = json_patch.apply_json_patch(old, document)
            elif content_type == MERGE_PATCH:
                result = apply_merge_patch(old, document)
            else:
                assert definition is not None, "a strategic merge patch is rejected for custom resources"
                result = apply_strategic_merge(old, document, definition)
        except PatchError as error:
            raise _status_error(error) from None
        if untyped and isinstance(result, dict):
            patched_text.sort_untyped(result, old, document, untyped)
        strategic = document if content_type == STRATEGIC_MERGE_PATCH else None

        def format_patched() -> str:
            return _format_patched(content_type, old, document, owners)

        if strategic is None and isinstance(result, dict):
            check_patched_kind(info, result, *old_type_meta, format_patched)
        changed_members = patched_members
        if names_object and result["metadata"] == old["metadata"]:
            # Kubelets identify the pod by its uid like this: nothing changes, so nothing must be validated.
            changed_members = [name for name in patched_members if name != "metadata"]
        # Type errors precede those of owner references.
        result = check_patched(
            call,
            options,
            _with_type_meta(result, old_type_meta),
            definition,
            changed_members,
            strategic,
            strict_errors,
            format_patched,
        )
        check_name(call, result["metadata"])
        if kind and result["metadata"].get("uid") not in (None, "", uid):
            uid_error = field_errors.invalid("metadata.uid", result["metadata"]["uid"], "field is immutable")
            # Upstream validates the metadata of an update twice, and reports the cause twice.
            raise errors.invalid(info.group, info.kind, call.name, [uid_error, uid_error])
        return result

    return apply


def _format_patched(content_type: str, old: Object, document: Any, owners: Callable[[], list[Any]]) -> str:
    """The patched object in the form of errors."""
    if content_type == STRATEGIC_MERGE_PATCH:
        return patched_text.strategic_patch_text(old, document)
    meta = old["metadata"]
    if "managedFields" not in meta and (entries := owners()):
        old = {**old, "metadata": {**meta, "managedFields": entries}}
    is_merge = content_type == MERGE_PATCH
    return (patched_text.merge_patched_text if is_merge else patched_text.json_patched_text)(old, document)


def _read_patch(body: bytes, prefix: str) -> tuple[Any, list[str]]:
    """The patch, and its duplicate keys as messages of a strict decoding error."""
    try:
        return decode_untyped(body)
    except DecodeError as error:
        raise errors.bad_request(f"{prefix}{error}") from None


def _unknown_in_operations(document: list[Object]) -> list[str]:
    """Members of a JSON patch's operations that are unknown, as strict errors."""
    return [
        f'unknown field "[{position}].{name}"'
        for position, operation in enumerate(document)
        for name in operation
        if name not in ("op", "from", "path", "value")
    ]


def _check_shape(content_type: str, document: Any, *, strictly: bool) -> None:
    """Merge patches are objects, JSON patches lists of operations (apiserver ``handlers/patch.go``, v0.36).

    ``strictly``: also the members of operations are checked, as upstream does unless fieldValidation is Ignore.
    """
    prefix = "" if content_type == STRATEGIC_MERGE_PATCH or (content_type == JSON_PATCH and not strictly) else _PREFIX
    if content_type == JSON_PATCH:
        mismatch = _operation_mismatch(document, strictly=strictly)
    else:
        mismatch = None if isinstance(document, dict) else (document, "value of type map[string]interface {}")
    if mismatch is not None:
        value, go_type = mismatch
        raise errors.bad_request(f"{prefix}json: cannot unmarshal {_json_type(value)} into Go {go_type}")


_PREFIX = "error decoding patch: "


def _operation_mismatch(document: Any, *, strictly: bool) -> tuple[Any, str] | None:
    """The first value of the wrong type in a JSON patch, and the Go type that it is decoded to."""
    if not isinstance(document, list):
        return document, f"value of type {'[]handlers.jsonPatchOp' if strictly else 'jsonpatch.Patch'}"
    for operation in document:
        if operation is None:
            continue  # the zero operation, whose kind is unknown
        if not isinstance(operation, dict):
            return operation, f"value of type {'handlers.jsonPatchOp' if strictly else 'jsonpatch.Operation'}"
        for name, value in operation.items() if strictly else ():
            if name in ("op", "path", "from") and not isinstance(value, str | None):
                return value, f"struct field jsonPatchOp.{name} of type string"
    return None


def _json_type(value: Any) -> str:
    """encoding/json's name of a value's type."""
    for kind, name in ((bool, "bool"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "number"


def _patched_members(content_type: str, document: Any) -> Collection[str]:
    """The members of the object that a patch changes; empty if they are not known in advance."""
    if content_type == JSON_PATCH or not isinstance(document, dict) or any(name[:1] == "$" for name in document):
        return ()
    return document.keys()


def _is_precondition(document: Object) -> bool:
    """Whether the only metadata in a patch identifies the object."""
    meta = document["metadata"]
    return type(meta) is dict and all(
        type(value) is str and name in ("name", "namespace", "uid", "resourceVersion") for name, value in meta.items()
    )


def _definition(info: ResourceInfo, kind: str) -> Definition | None:
    if kind == "Scale":
        return definition_of("autoscaling", "v1", "Scale")
    return None if info.custom is not None else definition_of(info.group, info.version, info.kind)


@cache
def _untyped_fields(definition: Definition) -> tuple[str, ...]:
    return tuple(field.name for field in definition.fields.values() if field.type.name == "any")


def _status_error(error: PatchError) -> errors.StatusError:
    details: dict[str, Any] | None = {} if error.code == 422 else None
    return errors.StatusError(error.code, error.reason, error.message, details=details)


def _with_type_meta(result: Any, type_meta: tuple[Any, Any]) -> Object:
    """The result of a patch, as an object of the same kind."""
    if not isinstance(result, dict):
        raise errors.invalid("", "", "", [field_errors.invalid("patch", result, "the result is not an object")])
    meta = result.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        return result  # reported by the decoder
    if meta is None:
        meta = result["metadata"] = {}
    if (result.get("kind"), result.get("apiVersion")) != type_meta:
        result["kind"], result["apiVersion"] = type_meta
    return result
