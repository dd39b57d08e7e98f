"""Responses of admission webhooks: decoded, checked and patched as upstream does, with its messages.

After k8s.io/apiserver ``pkg/admission/plugin/webhook/{request,errors}`` and ``pkg/admission/plugin/webhook/mutating``
(v0.36), and Go's ``encoding/json`` for values of the wrong type.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.dynamic.webhook_calls import VERSIONS, CallError, check_registered
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.bodies import BodySyntaxError, check_bounds
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.json_patch import MAX_OPERATIONS
from pilothouse.machinery.json_syntax import syntax_error
from pilothouse.machinery.typed_walk import SavedError, base64_text

__all__ = ["VERSIONS", "read_patch", "rejection", "verified_response"]
GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"
_TYPE_META = (
    'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
    '"json:\\"kind,omitempty\\"" }'
)
_JSON_TYPES = {list: "array", str: "string", bool: "bool", dict: "object"}
_RESPONSE: Mapping[str, tuple[type, str]] = {
    "uid": (str, "types.UID"),
    "allowed": (bool, "bool"),
    "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"),
    "patchType": (str, "{version}.PatchType"),
    "auditAnnotations": (dict, "map[string]string"),
    "warnings": (list, "[]string"),
}
"""Field of the response → its JSON type, and Go's name of the type."""
_MAX_VALUES = 100_000
"""How many values a response may have. Only the patch is large, and that is one text."""
_MAX_ITEMS = 10_000
"""How many warnings or audit annotations a response may have: a response of 8 MiB has room for a million."""
_STATUS: Mapping[str, tuple[type, str]] = {
    "status": (str, "string"),
    "message": (str, "string"),
    "reason": (str, "v1.StatusReason"),
    "details": (dict, "v1.StatusDetails"),
    "code": (int, "int32"),
}
_DETAILS: Mapping[str, tuple[type, str]] = {
    "name": (str, "string"),
    "group": (str, "string"),
    "kind": (str, "string"),
    "uid": (str, "types.UID"),
    "causes": (list, "[]v1.StatusCause"),
    "retryAfterSeconds": (int, "int32"),
}
_decode = msgspec.json.Decoder().decode


def verified_response(body: bytes, version: str, uid: str, *, mutating: bool) -> Object:
    """The ``response`` of an AdmissionReview (``VerifyAdmissionResponse``). Raises ``CallError``."""
    try:
        review = _read_review(body, version)
    except CallError as error:
        raise CallError(f"failed to call webhook: {error}") from None
    response: Object | None = review.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    if version == "v1":
        if (response.get("uid") or "") != uid:
            raise _invalid(f"expected response.uid={quote(uid)}, got {quote(response.get('uid') or '')}")
        gvk = _group_version_kind(review)
        if gvk != f"{GROUP}/v1, Kind={_KIND}":
            raise _invalid(f"expected webhook response of {GROUP}/v1, Kind={_KIND}, got {gvk}")
        _check_patch_type(response, mutating=mutating)
    elif mutating and response.get("patch"):
        response["patchType"] = "JSONPatch"  # v1beta1 has no other
    return response


def _read_review(body: bytes, version: str) -> Object:
    """The decoded review; known fields have the right types."""
    if body.count(b",") > _MAX_VALUES:
        raise CallError(f"the response has more than {_MAX_VALUES} values")
    try:
        review = _decoded(body)
    except CallError as error:
        raise CallError(f"couldn't get version/kind; json parse error: {error}") from None
    if review is None:
        return {}
    if not isinstance(review, dict):
        raise CallError(f"couldn't get version/kind; json parse error: {_unmarshal_error(review)} {_TYPE_META}")
    for name in ("apiVersion", "kind"):
        if not isinstance(review.get(name) or "", str):
            target = f"Go struct field .{name} of type string"
            raise CallError(f"couldn't get version/kind; json parse error: {_unmarshal_error(review[name])} {target}")
    check_registered(review, GROUP, version, _KIND)
    _check_type(review.get("response"), dict, "AdmissionReview.response", f"{version}.AdmissionResponse")
    response = review.get("response") or {}
    for name, (type_, go_type) in _RESPONSE.items():
        path, value = f"AdmissionResponse.response.{name}", response.get(name)
        if name == "patch" and isinstance(value, list):
            response[name] = _bytes_of_list(value, path)
            continue
        _check_type(value, type_, path, go_type.format(version=version))
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if name != "status":
            if len(items) > _MAX_ITEMS:
                raise CallError(f"the response has {len(items)} {name}: it may have {_MAX_ITEMS}")
            for item in items:
                _check_type(item, str, path, "string")
    status = response.get("status") or {}
    for name, (type_, go_type) in _STATUS.items():
        _check_type(status.get(name), type_, f"Status.response.status.{name}", go_type)
    for name, (type_, go_type) in _DETAILS.items():
        value = (status.get("details") or {}).get(name)
        _check_type(value, type_, f"StatusDetails.response.status.details.{name}", go_type)
    if isinstance(response.get("patch"), str):
        try:
            response["patch"] = base64.b64decode(base64_text(response["patch"]))
        except SavedError as error:
            raise CallError(str(error)) from None
    return review


def _decoded(body: bytes) -> Any:
    """The value. Raises ``CallError`` for invalid JSON, and for numbers and surrogates that cannot be decoded."""
    try:
        check_bounds(body)
        return _decode(body.decode(errors="replace"))
    except BodySyntaxError as error:
        raise CallError(str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise CallError(syntax_error(body) or str(error)) from None


def _group_version_kind(review: Object) -> str:
    api_version = review.get("apiVersion") or ""
    kind = review.get("kind") or ""
    return f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"


def _bytes_of_list(value: list[Any], path: str) -> bytes:
    """A list of numbers is decoded as bytes, too."""
    for item in value:
        if type(item) is not int or not 0 <= item < 256:
            detail = f"number {item}" if type(item) is int else _JSON_TYPES.get(type(item), "number")
            raise CallError(f"json: cannot unmarshal {detail} into Go struct field {path} of type uint8")
    return bytes(value)


def _check_type(value: Any, type_: type, path: str, go_type: str) -> None:
    if type(value) is int and type_ is int and not -(1 << 31) <= value < 1 << 31:
        raise CallError(f"json: cannot unmarshal number {value} into Go struct field {path} of type {go_type}")
    if value is None or type(value) is type_:
        return
    raise CallError(f"{_unmarshal_error(value)} Go struct field {path} of type {go_type}")


def _unmarshal_error(value: Any) -> str:
    return f"json: cannot unmarshal {_JSON_TYPES.get(type(value), 'number')} into"


def _check_patch_type(response: Object, *, mutating: bool) -> None:
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            raise _invalid("validating webhook may not return response.patch")
        if kind is not None:
            raise _invalid("validating webhook may not return response.patchType")
        return
    if patch and kind is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if kind is not None and not patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if kind == "":
        raise _invalid('webhook returned invalid response.patchType of ""')


def read_patch(response: Object) -> list[Object]:
    """The operations of the response's patch. Raises ``CallError``."""
    patch: bytes = response.get("patch") or b""
    if not patch:
        return []
    try:
        operations = _decode_patch(patch)
    except CallError as error:
        raise CallError(f"received undecodable patch in webhook response: {error}") from None
    if operations and response.get("patchType") != "JSONPatch":
        raise CallError(f"unsupported patch type {quote(response.get('patchType') or '')}")
    return operations


def _decode_patch(patch: bytes) -> list[Object]:
    operations = _decoded(patch)
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise CallError(f"{_unmarshal_error(operations)} Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        return operations  # ``apply_json_patch`` rejects them
    for index, operation in enumerate(operations):
        if operation is not None and not isinstance(operation, dict):
            raise CallError(f"{_unmarshal_error(operation)} Patch.{index} of type jsonpatch.Operation")
    return [operation or {} for operation in operations]


_MAX_CODE = 999


def rejection(name: str, status: Object) -> errors.StatusError:
    """The error for a denial with this Status (``ToStatusErr``)."""
    prefix = f"admission webhook {quote(name)} denied the request"
    detail = status.get("message") or status.get("reason")
    code: int = status.get("code") or 0
    return errors.StatusError(
        code if 400 <= code <= _MAX_CODE else 400 if code < 400 else 500,  # Go's net/http fails beyond
        status.get("reason") or "",
        f"{prefix}: {detail}" if detail else f"{prefix} without explanation",
        details=status.get("details"),
    )


def _invalid(reason: str) -> CallError:
    return CallError(f"received invalid webhook response: {reason}")
