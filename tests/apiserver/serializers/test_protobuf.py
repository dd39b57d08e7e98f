"""Protobuf bodies are equivalent to JSON bodies."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.apiserver.serializers import protobuf
from pilothouse.apiserver.serializers.protobuf_decoding import decode_message, fields_of
from pilothouse.apiserver.serializers.protobuf_encoding import delimited, encode_message, varint

OBJECTS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "printers" / "served_objects.json").read_text())


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", OBJECTS)
def test_kube_apiserver_objects_round_trip(name: str) -> None:
    served = without_nulls(OBJECTS[name])
    for template in served.get("spec", {}).get("volumeClaimTemplates", ()):
        del template["kind"], template["apiVersion"]  # there is no place for them in the message
    assert protobuf.decode_object(protobuf.encode_object(OBJECTS[name])) == served


def test_go_encoded_body() -> None:
    """Go writes every field that is no pointer, also when it is empty."""
    meta = delimited(1, b"web") + delimited(2, b"") + delimited(3, b"") + delimited(8, b"") + b"\x38\x00"
    spec = b"\x08\x00" + delimited(2, delimited(1, delimited(1, b"app") + delimited(2, b"web"))) + b"\x20\x00"
    raw = delimited(1, meta) + delimited(2, spec) + delimited(3, b"\x08\x00\x10\x00")
    type_meta = delimited(1, b"apps/v1") + delimited(2, b"ReplicaSet")
    body = b"k8s\x00" + delimited(1, type_meta) + delimited(2, raw) + delimited(3, b"") + delimited(4, b"")
    assert protobuf.decode_object(body) == {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"replicas": 0},
    }


@cases(
    "message, value",
    {
        "a port by number": ("util.intstr.IntOrString", 8080),
        "a share as text": ("util.intstr.IntOrString", "25%"),
        "a negative number": ("util.intstr.IntOrString", -1),
        "MicroTime keeps microseconds": ("meta.v1.MicroTime", "2026-01-02T03:04:05.000006Z"),
        "before the epoch": ("meta.v1.Time", "1969-12-31T23:59:58Z"),
        "a year has four digits": ("meta.v1.Time", "0800-12-25T00:00:00Z"),
        "year 1 in MicroTime": ("meta.v1.MicroTime", "0001-01-01T00:00:02.000000Z"),
        "a quantity is its text": ("resource.Quantity", "1500m"),
        "managed fields are JSON inside": ("meta.v1.FieldsV1", {"f:spec": {".": {}}}),
        "a named list is a message around it": ("authorization.v1.ExtraValue", ["a", "b"]),
        "a schema with its unions": (
            "apiextensions.v1.JSONSchemaProps",
            {
                "type": "object",
                "additionalProperties": False,
                "items": {"type": "string"},
                "default": {"a": [1, None]},
                "enum": ["x", 1],
                "dependencies": {"a": ["b"], "c": {"type": "string"}},
                "properties": {"n": {"type": "integer", "maximum": 1.5, "x-kubernetes-int-or-string": True}},
            },
        ),
        "bytes are base64": ("core.v1.Secret", {"data": {"k": "AAEC"}}),
        "empty emptyDir": ("core.v1.Volume", {"name": "v", "emptyDir": {}}),
    },
)
def test_values_round_trip(message: str, value: Any) -> None:
    assert decode_message(message, encode_message(message, value)) == value


def test_watch_frame_has_a_length_prefix() -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}
    frame = protobuf.encode_event("ADDED", pod)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    (_, _, kind), (_, _, extension) = fields_of(frame[4:])
    assert kind == b"ADDED"
    ((_, _, envelope),) = fields_of(extension)
    assert protobuf.decode_object(envelope) == pod


def test_delete_options_of_any_group() -> None:
    for version in ("v1", "apps/v1", "example.com/v1"):
        body = protobuf.encode_object({"kind": "DeleteOptions", "apiVersion": version, "gracePeriodSeconds": 0})
        assert protobuf.decode_object(body)["gracePeriodSeconds"] == 0


@cases(
    "body",
    {
        "no protobuf prefix": b"{}",
        "cut in the envelope": b"k8s\x00\x0a",
        "cut": b"k8s\x00" + delimited(1, delimited(1, b"v1") + delimited(2, b"Pod")) + b"\x12\x05\x0a\xff",
        "an unknown kind": b"k8s\x00" + delimited(1, delimited(1, b"x/v1") + delimited(2, b"Ship")),
        "varint in place of a message": b"k8s\x00"
        + delimited(1, delimited(1, b"v1") + delimited(2, b"Pod"))
        + delimited(2, b"\x08\x01"),
        "a time that no calendar has": b"k8s\x00"
        + delimited(1, delimited(1, b"v1") + delimited(2, b"Pod"))
        + delimited(2, delimited(1, delimited(8, b"\x08" + varint(1 << 60)))),
    },
)
def test_broken_bodies_are_rejected(body: bytes) -> None:
    with pytest.raises(protobuf.ProtobufError):
        protobuf.decode_object(body)


def test_custom_resources_have_protobuf_for_metadata_only() -> None:
    assert not protobuf.has_protobuf("example.com/v1", "Ship")
    assert not protobuf.has_protobuf("meta.k8s.io/v1", "Table")
    assert protobuf.has_protobuf("meta.k8s.io/v1", "PartialObjectMetadata")
    listed = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "a"}}],
    }
    assert protobuf.decode_object(protobuf.encode_object(listed)) == listed


def _field(number: int, value: bytes | int) -> bytes:
    return delimited(number, value) if isinstance(value, bytes) else varint(number << 3) + varint(value)


@cases(
    "message, data",
    {
        "a number for a time": ("meta.v1.ObjectMeta", _field(8, 5)),
        "a text for its seconds": ("meta.v1.ObjectMeta", _field(8, _field(1, b"x"))),
        "a number for a map": ("meta.v1.ObjectMeta", _field(11, 5)),
        "a number for a key": ("meta.v1.ObjectMeta", _field(11, _field(1, 5))),
        "a number for its value": ("meta.v1.ObjectMeta", _field(11, _field(1, b"k") + _field(2, 5))),
        "a number for fields": ("meta.v1.ManagedFieldsEntry", _field(7, _field(1, 5))),
        "an amount": ("core.v1.ResourceRequirements", _field(1, _field(1, b"k") + _field(2, _field(1, 5)))),
        "a number for a port's name": ("core.v1.ServicePort", _field(4, _field(3, 5))),
        "a text for what a port is": ("core.v1.ServicePort", _field(4, _field(1, b"x"))),
        "a text for a truth value": ("apiextensions.v1.JSONSchemaPropsOrBool", _field(1, b"x")),
        "a number for schemas": ("apiextensions.v1.JSONSchemaPropsOrArray", _field(2, 5)),
        "a number for names": ("apiextensions.v1.JSONSchemaPropsOrStringArray", _field(2, 5)),
        "a number for texts": ("authentication.v1.ExtraValue", _field(1, 5)),
    },
)
def test_wrong_wire_type_is_rejected(message: str, data: bytes) -> None:
    with pytest.raises(protobuf.ProtobufError, match=r"(?i)wire ?type"):
        decode_message(message, data)


@pytest.mark.parametrize("field", [1, 2, 4])
def test_envelope_with_a_wrong_wire_type_is_rejected(field: int) -> None:
    with pytest.raises(protobuf.ProtobufError, match="wrong wireType = 0"):
        protobuf.decode_object(protobuf.MAGIC + _field(field, 5))
