"""patch: JSON patch, merge patch, strategic merge patch; server-side apply is handed on to ``applying``."""

import re
from collections.abc import Collection
from typing import Any

from pilothouse.api.schema import Definition
from pilothouse.apiserver import errors
from pilothouse.apiserver.bodies import check_size
from pilothouse.apiserver.core import Call, Core
from pilothouse.apiserver.handlers import applying
from pilothouse.apiserver.handlers.incoming import check_patched, check_patched_kind, definition_of
from pilothouse.apiserver.handlers.updating import Wanted, change
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.places import check_name, wrong_namespace
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.results import ObjectResult
from pilothouse.machinery.bodies import DecodeError, decode_untyped
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.machinery.merge_patch import apply_merge_patch
from pilothouse.machinery.patches import PatchError
from pilothouse.machinery.strategic_merge import apply_strategic_merge

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_WHOLE_METADATA = re.compile(rb'"(?:path|from)"\s*:\s*"(?:/metadata)?"').search


async def patch(core: Core, call: Call) -> ObjectResult:
    """PATCH of an object, or of its status."""
    options = read_patch_options(call)
    if call.content_type == APPLY_PATCH:
        return await applying.apply(core, call, options)
    apply = patch_function(call, call.info, options)
    with_owners = names_owners(call)
    shares_rest = call.asked.subresource == "status" and call.info.custom is None and not with_owners
    return await change(core, call, apply, options, with_owners=with_owners, shares_rest=shares_rest)


def names_owners(call: Call) -> bool:
    """Whether a patch is, or may be, about managedFields. Those are not decoded for any other."""
    body = call.request.body
    return b"managedFields" in body or (call.content_type == JSON_PATCH and _WHOLE_METADATA(body) is not None)


def read_patch_options(call: Call) -> WriteOptions:
    """The options of a PATCH; what is allowed depends on its type."""
    kind = "ApplyOptions" if call.content_type == APPLY_PATCH else "PatchOptions"
    return read_write_options(call.asked.query, kind)


def patch_function(call: Call, info: ResourceInfo, options: WriteOptions, *, kind: str = "") -> Wanted:
    """What the body of the call does to an object; ``kind`` when that is not the resource's own (a Scale)."""
    body, content_type = call.request.body, call.content_type
    check_size(body)
    if content_type == STRATEGIC_MERGE_PATCH and info.custom is not None:
        raise errors.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
        )
    if content_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH):
        raise errors.unsupported_media_type("415: Unsupported Media Type", details={})
    document, twice = _read_patch(body, "" if content_type == STRATEGIC_MERGE_PATCH else "error decoding patch: ")
    _check_shape(content_type, document)
    if content_type == JSON_PATCH:
        twice = [f"json patch {text}" for text in (*twice, *_unknown_in_operations(document))]
    if options.field_validation == "Ignore":
        twice = []
    definition = _definition(info, kind)
    touched = _touched(content_type, document)

    def apply(old: Object) -> Object:
        before, uid = (old.get("kind") or "", old.get("apiVersion") or ""), old["metadata"].get("uid")
        try:
            if content_type == JSON_PATCH:
                result = apply_json_patch(old, document)
            elif content_type == MERGE_PATCH:
                result = apply_merge_patch(old, document)
            else:
                assert definition is not None, "a strategic merge patch is refused for custom resources"
                result = apply_strategic_merge(old, document, definition)
        except PatchError as error:
            raise _refused(error) from None
        strategic = document if content_type == STRATEGIC_MERGE_PATCH else None
        if strategic is None and isinstance(result, dict):
            check_patched_kind(info, result, *before)
        # What its types don't allow is told before whose object it is.
        result = check_patched(call, options, _shaped(result, before), definition, touched, strategic, twice)
        _check_place(call, result["metadata"])
        if kind and result["metadata"].get("uid") not in (None, "", uid):
            problem = errors.invalid_value("metadata.uid", result["metadata"]["uid"], "field is immutable")
            # Upstream validates the metadata of an update in two places, and lists the cause twice.
            raise errors.invalid(info.group, info.kind, call.name, [problem, problem])
        return result

    return apply


def _read_patch(body: bytes, prefix: str) -> tuple[Any, list[str]]:
    """The patch, and in the words of a strict error what is in it twice."""
    try:
        return decode_untyped(body)
    except DecodeError as error:
        raise errors.bad_request(f"{prefix}{error}") from None


def _unknown_in_operations(document: list[Object]) -> list[str]:
    """Members of a JSON patch's operations that mean nothing, as strict errors."""
    return [
        f'unknown field "[{position}].{name}"'
        for position, operation in enumerate(document)
        for name in operation
        if name not in ("op", "from", "path", "value")
    ]


def _check_shape(content_type: str, document: Any) -> None:
    """Merge patches are objects, JSON patches lists of operations (apiserver ``handlers/patch.go``, v0.36)."""
    wrong, type_ = document, "map[string]interface {}"
    if content_type == JSON_PATCH:
        if isinstance(document, list):
            others = [one for one in document if not isinstance(one, dict)]
            if not others:
                return
            wrong, type_ = others[0], "handlers.jsonPatchOp"
        else:
            type_ = "[]handlers.jsonPatchOp"
    elif isinstance(document, dict):
        return
    prefix = "" if content_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
    raise errors.bad_request(f"{prefix}json: cannot unmarshal {_json_type(wrong)} into Go value of type {type_}")


def _json_type(value: Any) -> str:
    """What encoding/json calls a value."""
    for kind, name in ((bool, "bool"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "number"


def _touched(content_type: str, document: Any) -> Collection[str]:
    """The members of the object that a patch is about; empty when only its effect can tell."""
    if content_type == JSON_PATCH or not isinstance(document, dict) or any(name[:1] == "$" for name in document):
        return ()
    return document.keys()


def _definition(info: ResourceInfo, kind: str) -> Definition | None:
    if kind == "Scale":
        return definition_of("autoscaling", "v1", "Scale")
    return None if info.custom is not None else definition_of(info.group, info.version, info.kind)


def _refused(error: PatchError) -> errors.StatusError:
    details: dict[str, Any] | None = {} if error.code == 422 else None
    return errors.StatusError(error.code, error.reason, error.message, details=details)


def _shaped(result: Any, before: tuple[Any, Any]) -> Object:
    """What a patch has made, as an object of the same kind."""
    if not isinstance(result, dict):
        raise errors.invalid("", "", "", [errors.invalid_value("patch", result, "the result is not an object")])
    meta = result.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        return result  # which its type tells
    if meta is None:
        meta = result["metadata"] = {}
    if (result.get("kind"), result.get("apiVersion")) != before:
        result["kind"], result["apiVersion"] = before
    return result


def _check_place(call: Call, meta: Object) -> None:
    """A patch may not turn an object into another one."""
    check_name(call, meta)
    if not call.info.namespaced:
        meta.pop("namespace", None)
    elif meta.get("namespace") != call.namespace:
        raise wrong_namespace()
