"""Decoding bodies with the schema: upstream's errors (kubernetes v1.36, sigs.k8s.io/json)."""

import json
import time
from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.schema import Definition, load
from pilothouse.machinery import bodies
from pilothouse.machinery.bodies import BodySyntaxError, DecodeError, convert_document, decode_body, decode_untyped
from pilothouse.machinery.structs import struct_for
from pilothouse.machinery.typed_walk import walk_text


def definition(group: str, version: str, kind: str) -> Definition:
    result = load().for_kind(group, version, kind)
    assert result is not None
    return result


POD = definition("", "v1", "Pod")
DEPLOYMENT = definition("apps", "v1", "Deployment")
SECRET = definition("", "v1", "Secret")
SERVICE = definition("", "v1", "Service")
LEASE = definition("coordination.k8s.io", "v1", "Lease")
CRD = definition("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

GOOD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "web"}, "annotations": {"note": 'say "hi" \\ bye'}},
    "spec": {
        "containers": [{"name": "c", "ports": [{"containerPort": 80}], "resources": {"requests": {"cpu": "100m"}}}],
        "terminationGracePeriodSeconds": 30,
    },
}


def test_valid_body_is_unchanged() -> None:
    decoded = decode_body(json.dumps(GOOD).encode(), POD)
    assert decoded.document == GOOD
    assert (decoded.unknown, decoded.duplicates, decoded.strict_errors) == ([], [], [])


def test_valid_body_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_walk(*_: object) -> None:
        raise AssertionError("the slow walk was asked")

    monkeypatch.setattr(bodies, "_decode_slowly", no_walk)
    decode_body(json.dumps(GOOD).encode(), POD)
    decode_body(json.dumps(GOOD, indent=2, ensure_ascii=False).encode(), POD)
    decode_body(
        b'{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"resources":{"limits":{"cpu":1}}}]}}', POD
    )
    with pytest.raises(AssertionError):
        decode_body(b'{"metadata":{"name":"a","name":"a"}}', POD)


def test_fast_and_slow_path_agree() -> None:
    for body in (json.dumps(GOOD).encode(), b'{"metadata":{"creationTimestamp":null,"generation":5},"spec":null}'):
        assert decode_body(body, POD).document == walk_text(body, POD).document


@pytest.mark.parametrize("convert", [False, True], ids=["JSON body", "YAML document"])
def test_untyped_values_keep_nulls_and_order(convert: bool) -> None:
    """Go's controllers compare the data of a ControllerRevision byte by byte with what they would write."""
    revision = definition("apps", "v1", "ControllerRevision")
    body = (
        b'{"metadata":{"creationTimestamp":null},"data":{"z":{"creationTimestamp":null,"l":[{"a":null}],"e":{}},"a":1}}'
    )
    decoded = convert_document(json.loads(body), revision) if convert else decode_body(body, revision)
    assert json.dumps(decoded.document["data"]) == (
        '{"z": {"creationTimestamp": null, "l": [{"a": null}], "e": {}}, "a": 1}'
    )
    assert decoded.document["metadata"] == {}


def test_nulls_are_absent_and_zero_inside_lists_and_maps() -> None:
    body = b'{"metadata":{"name":null,"labels":{"a":null},"finalizers":[null,"x"]},"spec":{"containers":[null]}}'
    assert decode_body(body, POD).document == {
        "metadata": {"labels": {"a": ""}, "finalizers": ["", "x"]},
        "spec": {"containers": [{"name": ""}]},
    }


@cases(
    "kind, sent, kept",
    {
        "texts, and times that are no pointers": (
            ("", "v1", "Pod"),
            {"status": {"conditions": [{"type": "Ready"}]}},
            {"conditions": [{"type": "Ready", "status": "", "lastProbeTime": None, "lastTransitionTime": None}]},
        ),
        "numbers and booleans": (
            ("", "v1", "Pod"),
            {"status": {"containerStatuses": [{"name": "c", "image": None}]}},
            {
                "containerStatuses": [
                    {"name": "c", "image": "", "imageID": "", "ready": False, "restartCount": 0},
                ]
            },
        ),
        "null that is always printed": (
            ("apps", "v1", "ReplicaSet"),
            {"status": {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": None}], "replicas": 1}},
            {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": None}], "replicas": 1},
        ),
        "null of a list that is always printed": (
            ("autoscaling", "v2", "HorizontalPodAutoscaler"),
            {"status": {"desiredReplicas": 1}},
            {"desiredReplicas": 1, "currentMetrics": None},
        ),
    },
)
def test_fields_without_omitempty_are_added(kind: tuple[str, str, str], sent: Any, kept: Any) -> None:
    body = json.dumps(sent).encode()
    assert decode_body(body, definition(*kind)).document["status"] == kept
    # The full traversal, which an unknown field requires, has the same result.
    walked = decode_body(json.dumps({**sent, "odd": 1}).encode(), definition(*kind))
    assert (walked.document["status"], walked.unknown) == (kept, ["odd"])
    assert convert_document(sent, definition(*kind)).document["status"] == kept


@cases(
    "condition",
    {
        "duplicate string field": '{"status":"True","status":"False"}',
        "a null is lost": '{"type":"a","status":"b","lastProbeTime":null,"lastProbeTime":null}',
        "a null before a value": '{"type":null,"type":"a"}',
    },
)
def test_added_fields_do_not_hide_duplicates(condition: str) -> None:
    body = b'{"status":{"conditions":[%s]}}' % condition.encode()
    (duplicates,) = decode_body(body, POD).duplicates
    assert duplicates.startswith("status.conditions[0].")


@cases(
    "sent, kept",
    {
        "canonical": ("2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05.000000Z"),
        "canonical, end of February": ("2026-02-28T23:59:59.999999Z", "2026-02-28T23:59:59.999999Z"),
        "leap day": ("2028-02-29T00:00:00.000001Z", "2028-02-29T00:00:00.000001Z"),
        "other time zone": ("2026-01-02T05:04:05.678900+02:00", "2026-01-02T03:04:05.678900Z"),
    },
)
def test_micro_times_are_canonical(sent: str, kept: str) -> None:
    body = b'{"spec":{"renewTime":"%s"}}' % sent.encode()
    assert decode_body(body, LEASE).document == {"spec": {"renewTime": kept}}


def test_quantities_and_times_are_canonical() -> None:
    body = {
        "metadata": {"creationTimestamp": "2026-01-01T01:00:00.5+01:00"},
        "spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": 0.5}}}]},
    }
    document = decode_body(json.dumps(body).encode(), POD).document
    assert document["metadata"] == {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert document["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "500m"},
    }
    lease = decode_body(b'{"spec":{"renewTime":"2026-01-01T01:00:00.000001+01:00"}}', LEASE)
    assert lease.document == {"spec": {"renewTime": "2026-01-01T00:00:00.000001Z"}}


def test_unknown_and_duplicate_fields_are_reported_in_document_order() -> None:
    body = b"""{"zzz": 1, "spec": {"replicas": 1, "foo": {"bar": 1}, "replicas": 2,
        "template": {"metadata": {"labels": {"a.b/c": "1", "a.b/c": "2"}},
        "spec": {"containers": [{"name": "a"}, {"name": "b", "nope": 1, "nope": 2}]}}}}"""
    decoded = decode_body(body, DEPLOYMENT)
    assert decoded.strict_errors == [
        'unknown field "zzz"',
        'unknown field "spec.foo"',
        'duplicate field "spec.replicas"',
        'duplicate field "spec.template.metadata.labels.a.b/c"',
        'unknown field "spec.template.spec.containers[1].nope"',
    ]
    assert decoded.unknown == ["zzz", "spec.foo", "spec.template.spec.containers[1].nope"]
    assert decoded.duplicates == ["spec.replicas", "spec.template.metadata.labels.a.b/c"]
    assert decoded.document == {
        "spec": {
            "replicas": 2,
            "selector": None,
            "template": {
                "metadata": {"labels": {"a.b/c": "2"}},
                "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            },
        }
    }


@cases(
    "body",
    {
        "strings": b'{"metadata":{"name":"a","name":"a"}}',
        "numbers": b'{"metadata":{"generation":1,"generation":1}}',
        "escaped quotes": b'{"metadata":{"name":"a","annotations":{"x":"\\"","x":"\\"\\""}}}',
        "escaped backslashes before quotes": b'{"metadata":{"name":"a\\\\","name":"\\\\"}}',
        "the first is null": b'{"spec":{"nodeName":null,"nodeName":"n"}}',
        "the last is null": b'{"spec":{"nodeName":"n","nodeName":null}}',
        "quantities written as numbers": b'{"spec":{"overhead":{"cpu":1,"cpu":2}}}',
        "quantities written both ways": b'{"spec":{"overhead":{"cpu":"1","cpu":2,"memory":1}}}',
    },
)
def test_fast_path_detects_duplicates(body: bytes) -> None:
    assert len(decode_body(body, POD).duplicates) == 1


def test_last_duplicate_wins_and_objects_are_merged_as_in_go() -> None:
    body = b"""{"spec": {"selector": {"matchLabels": {"a": "1"}}, "selector": {"matchLabels": {"b": "2"}},
        "replicas": 1, "replicas": null}}"""
    spec = {"selector": {"matchLabels": {"a": "1", "b": "2"}}, "template": {"spec": {"containers": None}}}
    assert decode_body(body, DEPLOYMENT).document == {"spec": spec}


_QUANTITY = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("type_", "body", "message"),
    [
        (DEPLOYMENT, {"spec": {"replicas": "x"}},
         "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        (DEPLOYMENT, {"spec": {"replicas": 1.5}},
         "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        (DEPLOYMENT, {"spec": {"replicas": 1 << 31}},
         "json: cannot unmarshal number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        (DEPLOYMENT, {"spec": {"paused": "true"}},
         "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.paused of type bool"),
        (DEPLOYMENT, {"spec": {"template": {"spec": {"containers": [{"image": 5}]}}}},
         "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.image "
         "of type string"),
        (POD, {"spec": {"containers": {"name": "x"}}},
         "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        (POD, {"spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (POD, {"metadata": {"labels": {"a": True}}},
         "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string"),
        (POD, {"metadata": {"labels": "a"}},
         "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string"),
        (POD, {"spec": {"restartPolicy": 1}},
         "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy"),
        (POD, {"spec": {"overhead": {"cpu": "abc"}}}, _QUANTITY),
        (POD, {"spec": {"overhead": {"cpu": {}}}}, _QUANTITY),
        (POD, {"metadata": {"creationTimestamp": "now"}},
         'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"'),
        (POD, {"metadata": {"creationTimestamp": 5}},
         "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"),
        # What decodes itself ends the decoding; of other wrong types the first is remembered.
        (POD, {"metadata": 1, "spec": {"overhead": {"cpu": "x"}}},
         _QUANTITY),
        (POD, {"metadata": 1, "spec": 2},
         "json: cannot unmarshal number into Go struct field Pod.metadata of type v1.ObjectMeta"),
        (SECRET, {"data": {"a": "%"}}, "illegal base64 data at input byte 0"),
        (SERVICE, {"spec": {"ports": [{"targetPort": True}]}},
         "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32"),
        (POD, [], "json: cannot unmarshal array into Go value of type v1.Pod"),
        (POD, "x", "json: cannot unmarshal string into Go value of type v1.Pod"),
    ],
)  # fmt: skip
def test_wrong_type_errors_are_gos(type_: Definition, body: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_body(json.dumps(body).encode(), type_)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'{"a":"', "unexpected end of JSON input"),
        (b'{"a":}', "invalid character '}' looking for beginning of value"),
        (b"{'a'}", r"invalid character '\'' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b'{"a":[1 2]}', "invalid character '2' after array element"),
        (b'{"a":1}x', "invalid character 'x' after top-level value"),
        (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b'{"a":"\n"}', r"invalid character '\n' in string literal"),
        (b'{"a":"\\q"}', "invalid character 'q' in string escape code"),
        (b'{"a":"\\u12g4"}', r"invalid character 'g' in \u hexadecimal character escape"),
        (b'{"a":-}', "invalid character '}' in numeric literal"),
        (b'{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        (b'{"a":1e}', "invalid character '}' in exponent of numeric literal"),
        (b'{"a":01}', "invalid character '1' after object key:value pair"),
        (b"[" * 20000, "exceeded max depth"),
    ],
)
def test_json_syntax_errors_are_gos(body: bytes, message: str) -> None:
    with pytest.raises(BodySyntaxError) as caught:
        decode_body(body, POD)
    assert caught.value.message == message
    with pytest.raises(BodySyntaxError):
        decode_untyped(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"a":[' + b"0," * 1_000_000, "unexpected end of JSON input"),
        (b'{"a":[' + b"0," * 1_000_000 + b"0}", "invalid character '}' at position 2000007"),
        (b'{"a":[' + b"0," * 1_000_000 + b"NaN]}", "invalid character 'N' looking for beginning of value"),
        (b'{"a":[' + b'"a",' * 500_000 + b'"a', "unexpected end of JSON input"),
        (b'{"a":"' + b"\\n" * 1_000_000, "unexpected end of JSON input"),
    ],
    ids=["truncated", "bracket", "NaN", "string", "escapes"],
)
def test_syntax_errors_of_large_bodies_are_found_soon(body: bytes, message: str) -> None:
    """A scan that knows what Go expects took seconds."""
    began = time.process_time()
    with pytest.raises(BodySyntaxError) as caught:
        decode_untyped(body)
    assert time.process_time() - began < 0.5
    assert caught.value.message == message


def test_deep_nesting_is_an_error() -> None:
    body = b'{"spec":' * 5000 + b"1" + b"}" * 5000
    with pytest.raises(DecodeError):
        decode_body(body, POD)


TEMPLATE = {"template": {"spec": {"containers": None}}}
"""What Go prints of a template that is not there."""


def test_invalid_unicode_is_replaced() -> None:
    decoded = decode_body(b'{"metadata":{"name":"a\xff","uid":"\\ud800"}}', POD)
    assert decoded.document["metadata"] == {"name": "a\ufffd", "uid": "\ufffd"}


def test_recursive_definitions_are_checked_at_every_depth() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maximum": 5, "foo": 1}}}
    body = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    decoded = decode_body(json.dumps(body).encode(), CRD)
    assert decoded.unknown == ["spec.versions[0].schema.openAPIV3Schema.properties.a.foo"]
    del schema["properties"]["a"]["foo"]  # type: ignore[index]
    document = decode_body(json.dumps(body).encode(), CRD).document
    (version,) = document["spec"]["versions"]
    assert version == {"name": "", "served": False, "storage": False, "schema": {"openAPIV3Schema": schema}}


def test_duplicates_in_free_form_values_are_ignored() -> None:
    revision = definition("apps", "v1", "ControllerRevision")
    decoded = decode_body(b'{"data":{"a":1,"a":{"b":null}},"revision":1}', revision)
    assert decoded.strict_errors == []
    assert decoded.document["revision"] == 1


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"spec": {"replicas": "x"}}, "unrecognized type: int32"),
        ({"spec": {"paused": 1}}, "unrecognized type: bool"),
        ({"spec": {"template": []}}, "cannot restore struct from: slice"),
        ({"metadata": {"labels": "x"}}, "cannot restore map from string"),
        ({"metadata": {"finalizers": {}}}, "cannot restore slice from map"),
        ({"spec": {"template": {"spec": {"nodeName": 5}}}}, "cannot convert int64 to string"),
        ({"spec": {"replicas": 1.5}}, "cannot convert float64 to int32"),
    ],
)
def test_conversion_errors_are_unstructured_converters(document: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        convert_document(document, DEPLOYMENT)
    assert caught.value.message == message


def test_converted_document_drops_unknown_fields_and_accepts_integral_floats() -> None:
    converted = convert_document({"spec": {"replicas": 3.0, "foo": 1, "bar": 2}, "metadata": None}, DEPLOYMENT)
    assert converted.document == {"spec": {"replicas": 3, "selector": None, **TEMPLATE}}
    assert converted.unknown == ["spec.bar", "spec.foo"]


def test_untyped_json_reports_duplicate_fields() -> None:
    assert decode_untyped(b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":1}]}') == (
        {"a": {"b": 2}, "c": [{"d": 1}]},
        ['duplicate field "a.b"', 'duplicate field "c[0].d"'],
    )
    assert decode_untyped(b'[{"op": "test"}]') == ([{"op": "test"}], [])


def test_struct_can_allow_unknown_fields() -> None:
    lenient = struct_for(SECRET, forbid_unknown=False)
    assert msgspec.json.encode(msgspec.json.decode(b'{"foo":1,"type":"t"}', type=lenient)) == b'{"type":"t"}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"foo":1,"type":"t"}', type=struct_for(SECRET))
