"""Request bodies: bytes to an object of the kind that the request is about, or upstream's refusal.

JSON and YAML; protobuf has become JSON before it comes here. After apiserver's ``pkg/endpoints/handlers`` and
``k8s.io/kubernetes`` legacy scheme (v0.36).
"""

from collections.abc import Set
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import MAX_BODY
from pilothouse.apiserver.resources import ResourceInfo

JSON_TYPES = ("", "application/json")
YAML_TYPES = ("application/yaml", "text/yaml")
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"

_decode = msgspec.json.Decoder().decode


def check_size(body: bytes) -> None:
    """Refuse what is larger than upstream takes."""
    if len(body) > MAX_BODY:
        raise errors.too_large(f"Request entity too large: limit is {MAX_BODY}")


def read_document(body: bytes, content_type: str, kind: str) -> Object:
    """The body as a JSON object. ``kind`` names in messages what it should be."""
    check_size(body)
    try:
        if content_type in JSON_TYPES:
            document = _decode(body)
        elif content_type in YAML_TYPES:
            document = _from_yaml(body)
        else:
            raise errors.unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
            )
    except msgspec.DecodeError as error:
        raise unrecognized(kind, f"json parse error: {error}", body) from None
    except UnicodeDecodeError as error:
        raise unrecognized(kind, f"json parse error: {error}", body) from None
    if not isinstance(document, dict):
        shown = type(document).__name__
        raise unrecognized(
            kind, f"json parse error: json: cannot unmarshal {_GO_KINDS.get(shown, shown)} into Go value", body
        )
    return document


_GO_KINDS = {"list": "array", "str": "string", "int": "number", "float": "number", "bool": "bool", "NoneType": "null"}


def unrecognized(kind: str, why: str, body: bytes) -> errors.StatusError:
    """400 about a body that is no object at all."""
    if not body:
        shown = "<empty>"
    else:
        start = body[:100]
        try:
            shown = start.decode() + (" ..." if len(body) > 100 else "")
        except UnicodeDecodeError:
            shown = start.hex() + (" ..." if len(body) > 100 else "")
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {why} ({shown})"
    )


def _from_yaml(body: bytes) -> Any:
    from pilothouse.machinery.yaml_text import YamlError, load_yaml

    try:
        document = load_yaml(body)
    except YamlError as error:
        raise errors.bad_request(f"error converting YAML to JSON: {error}") from None
    # Dates become text and keys become strings, as in JSON.
    return _decode(msgspec.json.encode(document, enc_hook=str))


def check_kind(obj: Object, info: ResourceInfo, kind: str, api_version: str, known_kinds: Set[tuple[str, str]]) -> None:
    """Refuse an object of another kind or version. What a built-in leaves out is taken as meant."""
    said_version, said_kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if said_version == api_version and said_kind == kind:
        return
    if info.custom is not None and kind == info.kind:
        _check_custom_kind(obj, info, said_version, said_kind)
        return
    if said_kind in ("", kind) and said_version in ("", api_version):
        return
    said_version = said_version or api_version
    said_kind = said_kind or kind
    told = f'{said_kind} in version "{said_version.rpartition("/")[2]}" cannot be handled as a {kind}: '
    if said_kind == kind and (said_version, said_kind) in known_kinds:
        raise errors.bad_request(
            f"the API version in the data ({said_version}) does not match the expected API version ({api_version})"
        )
    if (said_version, said_kind) in known_kinds:
        raise errors.bad_request(
            f"{told}converting (v1.{said_kind}) to ({_package(api_version)}.{kind}): unknown conversion"
        )
    raise errors.bad_request(
        f'{told}no kind "{said_kind}" is registered for version "{said_version}" in scheme "{_SCHEME}"'
    )


def _package(api_version: str) -> str:
    group = api_version.rpartition("/")[0]
    return group.partition(".")[0] or "core"


def _check_custom_kind(obj: Object, info: ResourceInfo, version: str, kind: str) -> None:
    if not kind:
        shown = errors.shown(obj)
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {info.kind}): "
            f"Object 'Kind' is missing in '{shown}' ({shown[:100]} ...)"
        )
    if version != info.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({info.api_version})"
        )
    name = (obj.get("metadata") or {}).get("name") or ""
    raise errors.invalid(info.group, kind, name, [errors.invalid_value("kind", kind, f"must be {info.kind}")])
