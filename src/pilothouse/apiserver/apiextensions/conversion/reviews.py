"""ConversionReviews: encodes requests to conversion webhooks, and validates and reads their responses.

After apiextensions-apiserver's ``pkg/apiserver/conversion/webhook_converter.go`` (v0.36), with its messages. Text that
a webhook returned is cut at ``MAX_TEXT`` characters in errors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.apiserver.admission.dynamic.webhook_calls import CallError, check_registered
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_annotations, validate_labels
from pilothouse.machinery import go_values
from pilothouse.machinery.bodies import DecodeError, check_bounds
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.json_syntax import syntax_error

GROUP = "apiextensions.k8s.io"
KIND = "ConversionReview"
MAX_TEXT = 4096
_VERSIONS = ("v1", "v1beta1")
_JSON_TYPES = {list: "array", str: "string", bool: "bool", dict: "object"}
_FIELDS = (
    (("kind",), str, "string"),
    (("apiVersion",), str, "string"),
    (("response",), dict, "{version}.ConversionResponse"),
    (("response", "uid"), str, "types.UID"),
    (("response", "convertedObjects"), list, "[]runtime.RawExtension"),
    (("response", "result"), dict, "v1.Status"),
    (("response", "result", "status"), str, "string"),
    (("response", "result", "message"), str, "string"),
)
"""Path of each field that is read, its JSON type, and Go's name of the type."""
_STRUCTS = ("", "ConversionReview", "ConversionResponse", "Status")
"""Go's struct of the fields with a path of this length."""


class ReviewError(Exception):
    """An invalid response. The message is upstream's, without the name of the webhook; ``names_webhook``: whether
    upstream's message has it."""

    def __init__(self, message: str, *, names_webhook: bool = True) -> None:
        super().__init__(message)
        self.names_webhook = names_webhook


def review_version(versions: Sequence[str]) -> str:
    """The first version of ConversionReview accepted by the webhook that this server supports. Raises
    ``ReviewError``."""
    for version in versions:
        if version in _VERSIONS:
            return version
    raise ReviewError("no supported conversion review versions")


def conversion_review(version: str, uid: str, desired_api_version: str, objects: Sequence[Any]) -> Object:
    """A ConversionReview that requests these objects in ``desired_api_version``."""
    return {
        "kind": KIND,
        "apiVersion": f"{GROUP}/{version}",
        "request": {"uid": uid, "desiredAPIVersion": desired_api_version, "objects": list(objects)},
        # A struct in Go, which omitempty does not omit.
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }


_decode = msgspec.json.Decoder().decode


def read_review(body: bytes, version: str) -> Object:
    """Decode a ConversionReview and check the types of its known fields. Raises ``ReviewError``."""
    try:
        check_bounds(body)
        review = _decode(body)
    except (msgspec.DecodeError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, DecodeError) else syntax_error(body) or error
        raise ReviewError(truncate(f"couldn't get version/kind; json parse error: {reason}")) from None
    if not isinstance(review, dict):
        raise ReviewError(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {_json_type(review)} into Go value "
            'of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
            '"json:\\"kind,omitempty\\"" }'
        )
    for path, type_, go_type in _FIELDS:
        value: Any = review
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None and not isinstance(value, type_):
            target = f"Go struct field {_STRUCTS[len(path)]}.{'.'.join(path)} of type {go_type.format(version=version)}"
            raise ReviewError(f"json: cannot unmarshal {_json_type(value)} into {target}")
    if review:
        try:
            check_registered(review, GROUP, version, KIND)
        except CallError as error:
            raise ReviewError(truncate(str(error))) from None
    return review


def _json_type(value: Any) -> str:
    return _JSON_TYPES.get(type(value), "null" if value is None else "number")


def converted_objects(review: Object, version: str, uid: str) -> list[Any]:
    """The converted objects of a response (``getConvertedObjectsFromResponse``). Raises ``ReviewError``."""
    response = review.get("response")
    if version == "v1":
        # v1beta1 responses are not checked for kind and uid.
        gvk = f"{review.get('apiVersion') or ''}, Kind={review.get('kind') or ''}"
        if gvk != f"{GROUP}/v1, Kind={KIND}":
            gvk = gvk if "/" in gvk.partition(",")[0] else f"/{gvk}"
            raise ReviewError(truncate(f"expected webhook response of {GROUP}/v1, Kind={KIND}, got {gvk}"))
    if response is None:
        raise ReviewError("no response provided")
    if version == "v1" and (response.get("uid") or "") != uid:
        raise ReviewError(truncate(f"expected response.uid={quote(uid)}, got {quote(response.get('uid') or '')}"))
    result = response.get("result") or {}
    if result.get("status") != "Success":
        message = result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise ReviewError(truncate(message))
    objects: list[Any] = response.get("convertedObjects") or []
    return objects


def converted_object(original: Object, received: Any, desired_api_version: str, index: int, *, of_list: bool) -> Object:
    """Validate one converted object, and restore the metadata of the original.

    Labels and annotations are the webhook's, everything else in metadata is the original's. The result may share parts
    with both. ``index`` and ``of_list`` select the object's name in errors. Raises ``ReviewError``.
    """
    invalid = f"returned invalid converted object at index {index}" if of_list else "returned invalid object at index 0"
    try:
        converted = _decode_object(received)
    except ReviewError as error:
        raise ReviewError(f"{invalid}: {error}" if of_list else str(error), names_webhook=of_list) from None
    version = _nested_string(converted, "apiVersion")
    if version != desired_api_version:
        reason = f"invalid groupVersion (expected {desired_api_version}, received {version})"
        raise ReviewError(truncate(f"{invalid}: {reason}"))
    expected, kind = _nested_string(original, "kind"), _nested_string(converted, "kind")
    if kind != expected:
        raise ReviewError(truncate(f"{invalid}: invalid kind (expected {expected}, received {kind})"))
    try:
        validate_converted_object(original, converted)
    except ReviewError as error:
        raise ReviewError(f"{invalid}: {error}" if of_list else f"returned invalid object: {error}") from None
    try:
        return {**converted, "metadata": restored_metadata(original, converted)}
    except ReviewError as error:
        location = f" in object at index {index}" if of_list else ""
        raise ReviewError(f"returned invalid metadata{location}: {error}") from None


def _decode_object(received: Any) -> Object:
    if received is None:
        raise ReviewError("unexpected end of JSON input")
    if not isinstance(received, dict):
        raise ReviewError(
            f"json: cannot unmarshal {_json_type(received)} into Go value of type struct {{ Items json.RawMessage }}"
        )
    if not _nested_string(received, "kind"):
        text = msgspec.json.encode(received).decode()
        raise ReviewError(truncate(f"Object 'Kind' is missing in '{text}'"))
    return received


def _nested_string(node: Any, *path: str) -> str:
    """The string at a path, "" if it is absent (``unstructured.NestedString``)."""
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    return node if isinstance(node, str) else ""


def validate_converted_object(original: Object, converted: Object) -> None:
    """Check that the webhook has left kind, name, namespace and UID unchanged. Raises ``ReviewError``."""
    for noun, path in (
        ("kind", ("kind",)),
        ("name", ("metadata", "name")),
        ("namespace", ("metadata", "namespace")),
        ("UID", ("metadata", "uid")),
    ):
        original_value, converted_value = _nested_string(original, *path), _nested_string(converted, *path)
        if original_value != converted_value:
            raise ReviewError(truncate(f"must have the same {noun}: {original_value} != {converted_value}"))


def restored_metadata(original: Object, converted: Object) -> Object:
    """The metadata of the original with labels and annotations of the converted object (``restoreObjectMeta``). Raises
    ``ReviewError``."""
    if "metadata" not in converted:
        raise ReviewError("missing metadata in converted object")
    converted_metadata = converted["metadata"]
    if not isinstance(converted_metadata, dict):
        raise ReviewError(f"invalid metadata of type {go_values.type_name(converted_metadata)} in converted object")
    original_metadata = original.get("metadata", {})
    if not isinstance(original_metadata, dict):
        raise ReviewError(f"invalid metadata of type {go_values.type_name(original_metadata)} in input object")
    result = dict(original_metadata)
    for field in ("labels", "annotations"):
        result.pop(field, None)
        values = converted_metadata.get(field)
        if values is None:
            continue
        _validate_metadata_field(field, values, original_metadata.get(field) or {})
        result[field] = values
    return result


def _validate_metadata_field(field: str, values: Any, original_values: Mapping[str, Any]) -> None:
    if not isinstance(values, dict):
        raise ReviewError(f"invalid metadata.{field} of type {go_values.type_name(values)} in converted object")
    for key, value in values.items():
        if not isinstance(value, str):
            detail = f"must be a string, but is {go_values.type_name(value)} in converted object"
            raise ReviewError(truncate(f"metadata.{field}[{key}] {detail}"))
    if values == original_values:
        return
    # The path of annotations is in the singular upstream, too.
    errors = (
        validate_labels(values, "metadata.labels")
        if field == "labels"
        else validate_annotations(values, "metadata.annotation")
    )
    if errors:
        texts = list(dict.fromkeys(map(str, errors)))
        raise ReviewError(truncate(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"))


def truncate(text: str) -> str:
    """Limit a text of a webhook to ``MAX_TEXT`` characters."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
