"""Decodes request bodies into objects of the requested kind, with upstream's errors.

JSON and YAML; protobuf is converted to JSON before. After apiserver's ``pkg/endpoints/handlers`` and kubernetes' legacy
scheme (v0.36).
"""

from collections.abc import Iterable, Set

import msgspec

from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import MAX_BODY
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.bodies import DecodeError, check_bounds, decode_untyped
from pilothouse.machinery.go_text import compact_json

with lazy_imports():
    from pilothouse.machinery import yaml_text


JSON_TYPES = ("", "application/json")
YAML_TYPES = ("application/yaml", "text/yaml")
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
_SCHEMES = {
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}
"""The scheme in which upstream registers the kinds of a group: each of its servers has its own."""

_decode = msgspec.json.Decoder().decode


def check_size(body: bytes) -> None:
    """Reject a body that exceeds upstream's limit."""
    if len(body) > MAX_BODY:
        raise errors.too_large(f"Request entity too large: limit is {MAX_BODY}")


def read_document(body: bytes, content_type: str, kind: str, original_body: bytes = b"") -> Object:
    """Decode the body to a JSON object. ``kind`` is the expected kind for messages; ``original_body`` is the body for
    messages, if ``body`` was converted from another format."""
    return read_strictly(body, content_type, kind, duplicates=False, original_body=original_body)[0]


def read_strictly(
    body: bytes, content_type: str, kind: str, *, duplicates: bool = True, original_body: bytes = b""
) -> tuple[Object, list[str]]:
    """Decode the body to a JSON object, with strict errors about duplicate fields."""
    check_size(body)
    strict_errors: list[str] = []
    try:
        if content_type in JSON_TYPES:
            check_bounds(body)
            document, strict_errors = decode_untyped(body) if duplicates else (_decode(body), [])
        else:
            text, strict_errors = read_text(body, content_type, kind)
            document = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, DecodeError) as error:
        raise unrecognized(kind, f"{_NO_VERSION_AND_KIND}; json parse error: {error}", original_body or body) from None
    if document is None:
        return {}, strict_errors
    if not isinstance(document, dict):
        type_name = type(document).__name__
        go_kind = _GO_KINDS.get(type_name, type_name)
        reason = f"json parse error: json: cannot unmarshal {go_kind} into Go value of type {_GO_TYPE_META}"
        raise unrecognized(kind, f"{_NO_VERSION_AND_KIND}; {reason}", original_body or body)
    return document, strict_errors


_GO_KINDS = {"list": "array", "str": "string", "int": "number", "float": "number", "bool": "bool"}
_NO_VERSION_AND_KIND = "couldn't get version/kind"
_GO_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


YAML_DUPLICATES = "yaml: unmarshal errors:\n  "
"""The prefix of the single strict error about all duplicate keys of a YAML body."""


def strict_warnings(strict_errors: Iterable[str]) -> list[str]:
    """Strict errors as warnings: duplicate keys of YAML are separate warnings (``handlers/rest.go``)."""
    detail: list[str] = []
    for error in strict_errors:
        detail += error.removeprefix(YAML_DUPLICATES).split("\n  ") if error.startswith(YAML_DUPLICATES) else [error]
    return detail


def unrecognized(kind: str, reason: str, body: bytes) -> errors.StatusError:
    """400 about a body that is not an object."""
    start = body[:30]
    body_text = start.decode(errors="replace") if body[:1] == b"{" else start.hex()
    ellipsis = " ..." if len(body) > len(start) else ""
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {reason} ({body_text or '<empty>'}{ellipsis})"
    )


def read_text(body: bytes, content_type: str, kind: str) -> tuple[bytes, list[str]]:
    """A body in another format as JSON, and the strict error about its duplicate keys."""
    if content_type not in YAML_TYPES:
        raise errors.unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
        )
    check_size(body)
    try:
        document, duplicates = yaml_text.read_yaml(body)
    except yaml_text.YamlError as error:
        raise unrecognized(kind, str(error), body) from None
    strict_errors = [YAML_DUPLICATES + "\n  ".join(duplicates)] if duplicates else []
    return msgspec.json.encode({} if document is None else document, order="sorted"), strict_errors


def check_type_meta(document: Object, kind: str, body: bytes) -> None:
    """Reject a document whose apiVersion or kind is not a string (apimachinery ``serializer/json/meta.go``, v0.36)."""
    reason = type_meta_error(document)
    if reason:
        raise unrecognized(kind, reason, body)


def type_meta_error(document: Object) -> str:
    """The error of an apiVersion or kind that is not a string, or ""."""
    for name, value in document.items():
        if name in ("apiVersion", "kind") and not (value is None or isinstance(value, str)):
            go_kind = _GO_KINDS.get(type(value).__name__, "object")
            return (
                f"{_NO_VERSION_AND_KIND}; json parse error: json: cannot unmarshal {go_kind} into Go struct field "
                f".{name} of type string"
            )
    return ""


def check_kind(obj: Object, info: ResourceInfo, kind: str, api_version: str, known_kinds: Set[tuple[str, str]]) -> None:
    """Reject an object of another kind or version. Built-in kinds default both."""
    actual_version, actual_kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if actual_version == api_version and actual_kind == kind:
        return
    if info.custom is not None and kind == info.kind:
        _check_custom_kind(obj, info, actual_version, actual_kind)
        return
    if actual_kind in ("", kind) and actual_version in ("", api_version):
        return
    actual_version = actual_version or api_version
    actual_kind = actual_kind or kind
    if actual_kind == kind and (actual_version, actual_kind) in known_kinds:
        raise errors.bad_request(
            f"the API version in the data ({actual_version}) does not match the expected API version ({api_version})"
        )
    reason = kind_mismatch(actual_version, actual_kind, kind, api_version, known_kinds)
    raise errors.bad_request(
        f'{actual_kind} in version "{actual_version.rpartition("/")[2]}" cannot be handled as a {kind}: {reason}'
    )


def kind_mismatch(
    actual_version: str, actual_kind: str, kind: str, api_version: str, known_kinds: Set[tuple[str, str]]
) -> str:
    """The error about an object of another kind."""
    if (actual_version, actual_kind) in known_kinds:
        return f"converting (v1.{actual_kind}) to ({_package(api_version)}.{kind}): unknown conversion"
    scheme = _SCHEMES.get(api_version.rpartition("/")[0], _SCHEME)
    return f'no kind "{actual_kind}" is registered for version "{actual_version}" in scheme "{scheme}"'


def _package(api_version: str) -> str:
    group = api_version.rpartition("/")[0]
    return group.partition(".")[0] or "core"


def _check_custom_kind(obj: Object, info: ResourceInfo, version: str, kind: str) -> None:
    if not kind:
        text = compact_json(obj)
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {info.kind}): "
            f"Object 'Kind' is missing in '{text}' ({text[:100]} ...)"
        )
    if version != info.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({info.api_version})"
        )
    name = (obj.get("metadata") or {}).get("name") or ""
    raise errors.invalid(info.group, kind, name, [field_errors.invalid("kind", kind, f"must be {info.kind}")])
