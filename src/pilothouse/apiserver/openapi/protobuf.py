"""OpenAPI documents as protobuf: gnostic's ``OpenAPIv2.proto`` and ``OpenAPIv3.proto``.

kubectl requests v2 only in this form. Values without a field of their own (``x-…``, defaults, enumerations) are YAML in
these messages; JSON is valid YAML, and is used here.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pilothouse.apiserver.serializers.protobuf_encoding import delimited, tag, varint
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import struct

_Value = Callable[[int, Any], bytes]
"""Encodes a value as the field with that number."""
_json = msgspec.json.Encoder().encode

_ADDITIONAL_PROPERTIES = "*"
"""The field for all other keys, if the message is a map."""
_EXTENSIONS = "x-"


def _string(number: int, value: Any) -> bytes:
    return delimited(number, str(value).encode())


def _flag(number: int, value: Any) -> bytes:
    return tag(number, 0) + varint(1) if value else b""


def _integer(number: int, value: Any) -> bytes:
    return tag(number, 0) + varint(int(value) & 0xFFFFFFFFFFFFFFFF)


def _double(number: int, value: Any) -> bytes:
    return tag(number, 1) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    return delimited(number, delimited(2, _json(value) + b"\n"))


def _message(name: str) -> _Value:
    return lambda number, value: delimited(number, encode(name, value))


def _list_of(item: _Value) -> _Value:
    return lambda number, values: b"".join(item(number, value) for value in values)


def _within(inner: int, value_of: _Value) -> _Value:
    """A message with one field that contains the value."""
    return lambda number, value: delimited(number, value_of(inner, value))


def _string_array(number: int, values: Any) -> bytes:
    return delimited(number, b"".join(_string(1, value) for value in values))


def _types(number: int, value: Any) -> bytes:
    return _string_array(number, value if isinstance(value, list) else [value])


_LOCATIONS = {"header": 1, "formData": 2, "query": 3, "path": 4}


def _parameter_or_reference_v2(number: int, value: Any) -> bytes:
    if "$ref" in value:
        return delimited(number, delimited(2, encode("v2.JsonReference", value)))
    return delimited(number, _parameter_v2(1, value))


def _parameter_v2(number: int, value: Any) -> bytes:
    if value["in"] == "body":
        variant = delimited(1, encode("v2.BodyParameter", value))
    else:
        location = _LOCATIONS[value["in"]]
        # Header and path parameters lack allowEmptyValue, so the numbers of later fields differ.
        message = "v2.QueryParameter" if location in (2, 3) else "v2.PathParameter"
        variant = delimited(2, delimited(location, encode(message, value)))
    return delimited(number, variant)


def _or_reference(message: str) -> _Value:
    def write(number: int, value: Any) -> bytes:
        if "$ref" in value:
            return delimited(number, delimited(2, encode("v3.Reference", value)))
        return delimited(number, delimited(1, encode(message, value)))

    return write


def _default_v3(number: int, value: Any) -> bytes:
    # There is no message for other defaults, such as an empty object: upstream writes an empty one.
    if isinstance(value, bool):
        return delimited(number, tag(2, 0) + varint(int(value)))
    if isinstance(value, int | float):
        return delimited(number, _double(1, float(value)))
    return delimited(number, _string(3, value) if isinstance(value, str) else b"")


_schema_v3 = _or_reference("v3.Schema")
_VALIDATION_KEYWORDS: tuple[tuple[str, _Value], ...] = (
    ("multipleOf", _double),
    ("maximum", _double),
    ("exclusiveMaximum", _flag),
    ("minimum", _double),
    ("exclusiveMinimum", _flag),
    ("maxLength", _integer),
    ("minLength", _integer),
    ("pattern", _string),
    ("maxItems", _integer),
    ("minItems", _integer),
    ("uniqueItems", _flag),
    ("maxProperties", _integer),
    ("minProperties", _integer),
    ("required", _list_of(_string)),
    ("enum", _list_of(_any)),
)
"""Fields with consecutive numbers in the schemas of both versions."""
_Fields = Mapping[str, tuple[int, _Value]]


def _validation_fields(first_number: int) -> dict[str, tuple[int, _Value]]:
    return {name: (first_number + index, value) for index, (name, value) in enumerate(_VALIDATION_KEYWORDS)}


def _parameter_fields(unique: int) -> _Fields:
    common = {"required": (1, _flag), "in": (2, _string), "description": (3, _string), "name": (4, _string)}
    return {
        **common,
        "type": (unique - 14, _string),
        "uniqueItems": (unique, _flag),
        _EXTENSIONS: (unique + 3, _any),
    }


_METHODS_V2 = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_METHODS_V3 = {"get": 4, "put": 5, "post": 6, "delete": 7, "options": 8, "head": 9, "patch": 10}
_MESSAGES: dict[str, _Fields] = {
    "v2.Document": {
        "swagger": (1, _string),
        "info": (2, _message("v2.Info")),
        "paths": (8, _message("v2.Paths")),
        "definitions": (9, _message("v2.Definitions")),
        "parameters": (10, _message("v2.ParameterDefinitions")),
        "security": (12, _list_of(_message("v2.SecurityRequirement"))),
        "securityDefinitions": (13, _message("v2.SecurityDefinitions")),
        _EXTENSIONS: (16, _any),
    },
    "v2.Info": {"title": (1, _string), "version": (2, _string)},
    "v2.Definitions": {_ADDITIONAL_PROPERTIES: (1, _message("v2.Schema"))},
    "v2.ParameterDefinitions": {_ADDITIONAL_PROPERTIES: (1, _parameter_v2)},
    "v2.JsonReference": {"$ref": (1, _string)},
    "v2.SecurityRequirement": {_ADDITIONAL_PROPERTIES: (1, _string_array)},
    "v2.SecurityDefinitions": {_ADDITIONAL_PROPERTIES: (1, _within(2, _message("v2.ApiKeySecurity")))},
    "v2.ApiKeySecurity": {"type": (1, _string), "name": (2, _string), "in": (3, _string), "description": (4, _string)},
    "v2.Schema": {
        "$ref": (1, _string),
        "format": (2, _string),
        "title": (3, _string),
        "description": (4, _string),
        "default": (5, _any),
        **_validation_fields(6),
        "additionalProperties": (21, _within(1, _message("v2.Schema"))),
        "type": (22, _types),
        "items": (23, _within(1, _message("v2.Schema"))),
        "allOf": (24, _list_of(_message("v2.Schema"))),
        "properties": (25, _message("v2.Definitions")),
        "example": (30, _any),
        _EXTENSIONS: (31, _any),
    },
    "v2.Paths": {_ADDITIONAL_PROPERTIES: (2, _message("v2.PathItem"))},
    "v2.PathItem": {
        **{method: (number, _message("v2.Operation")) for method, number in _METHODS_V2.items()},
        "parameters": (9, _list_of(_parameter_or_reference_v2)),
    },
    "v2.Operation": {
        "tags": (1, _list_of(_string)),
        "description": (3, _string),
        "operationId": (5, _string),
        "produces": (6, _list_of(_string)),
        "consumes": (7, _list_of(_string)),
        "parameters": (8, _list_of(_parameter_or_reference_v2)),
        "responses": (9, _message("v2.Responses")),
        "schemes": (10, _list_of(_string)),
        _EXTENSIONS: (13, _any),
    },
    "v2.Responses": {_ADDITIONAL_PROPERTIES: (1, _within(1, _message("v2.Response")))},
    "v2.Response": {"description": (1, _string), "schema": (2, _within(1, _message("v2.Schema")))},
    "v2.BodyParameter": {
        "description": (1, _string),
        "name": (2, _string),
        "in": (3, _string),
        "required": (4, _flag),
        "schema": (5, _message("v2.Schema")),
        _EXTENSIONS: (6, _any),
    },
    "v2.QueryParameter": _parameter_fields(20),
    "v2.PathParameter": _parameter_fields(19),
    "v3.Document": {
        "openapi": (1, _string),
        "info": (2, _message("v3.Info")),
        "paths": (4, _message("v3.Paths")),
        "components": (5, _message("v3.Components")),
        _EXTENSIONS: (9, _any),
    },
    "v3.Info": {"title": (1, _string), "version": (6, _string)},
    "v3.Components": {"schemas": (1, _message("v3.Schemas")), "securitySchemes": (7, _message("v3.SecuritySchemes"))},
    "v3.SecuritySchemes": {_ADDITIONAL_PROPERTIES: (1, _or_reference("v3.SecurityScheme"))},
    "v3.SecurityScheme": {"type": (1, _string), "description": (2, _string), "name": (3, _string), "in": (4, _string)},
    "v3.Schemas": {_ADDITIONAL_PROPERTIES: (1, _schema_v3)},
    "v3.Reference": {"$ref": (1, _string)},
    "v3.Schema": {
        "nullable": (1, _flag),
        "example": (7, _any),
        "title": (9, _string),
        **_validation_fields(10),
        "type": (25, _string),
        "allOf": (26, _list_of(_schema_v3)),
        "oneOf": (27, _list_of(_schema_v3)),
        "anyOf": (28, _list_of(_schema_v3)),
        "not": (29, _message("v3.Schema")),
        "items": (30, _within(1, _schema_v3)),
        "properties": (31, _message("v3.Schemas")),
        "additionalProperties": (32, _within(1, _schema_v3)),
        "default": (33, _default_v3),
        "description": (34, _string),
        "format": (35, _string),
        _EXTENSIONS: (36, _any),
    },
    "v3.Paths": {_ADDITIONAL_PROPERTIES: (1, _message("v3.PathItem"))},
    "v3.PathItem": {
        **{method: (number, _message("v3.Operation")) for method, number in _METHODS_V3.items()},
        "parameters": (13, _list_of(_or_reference("v3.Parameter"))),
    },
    "v3.Operation": {
        "tags": (1, _list_of(_string)),
        "description": (3, _string),
        "operationId": (5, _string),
        "parameters": (6, _list_of(_or_reference("v3.Parameter"))),
        "requestBody": (7, _or_reference("v3.RequestBody")),
        "responses": (8, _message("v3.Responses")),
        _EXTENSIONS: (13, _any),
    },
    "v3.Parameter": {
        "name": (1, _string),
        "in": (2, _string),
        "description": (3, _string),
        "required": (4, _flag),
        "schema": (10, _schema_v3),
        _EXTENSIONS: (14, _any),
    },
    "v3.RequestBody": {
        "description": (1, _string),
        "content": (2, _message("v3.MediaTypes")),
        "required": (3, _flag),
    },
    "v3.MediaTypes": {_ADDITIONAL_PROPERTIES: (1, _message("v3.MediaType"))},
    "v3.MediaType": {"schema": (1, _schema_v3)},
    "v3.Responses": {_ADDITIONAL_PROPERTIES: (2, _or_reference("v3.Response"))},
    "v3.Response": {"description": (1, _string), "content": (3, _message("v3.MediaTypes"))},
}


def encode(message: str, document: Mapping[str, Any]) -> bytes:
    """Encode a part of a document as the message of that name; ``v2.Document`` and ``v3.Document`` are whole documents.

    Raises ``KeyError`` for a key without a field in the message, which would be a bug.
    """
    fields = _MESSAGES[message]
    written: list[bytes] = []
    for key, value in document.items():
        field = fields.get(key)
        if field is not None:
            number, write = field
            written.append(write(number, value))
        elif key.startswith(_EXTENSIONS) and _EXTENSIONS in fields:
            number, write = fields[_EXTENSIONS]
            written.append(delimited(number, _string(1, key) + write(2, value)))
        else:
            number, write = fields[_ADDITIONAL_PROPERTIES]
            written.append(delimited(number, _string(1, key) + write(2, value)))
    return b"".join(written)
