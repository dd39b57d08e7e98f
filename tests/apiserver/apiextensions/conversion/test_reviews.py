"""ConversionReviews: the request, and validation of the response (upstream's webhook_converter_test.go, v1.36)."""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.apiserver.apiextensions.conversion import reviews
from pilothouse.apiserver.apiextensions.conversion.reviews import (
    MAX_TEXT,
    ReviewError,
    conversion_review,
    converted_object,
    converted_objects,
    read_review,
    restored_metadata,
    review_version,
)

Object = dict[str, Any]
V1 = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
BOTH = {"foo": "bar", "labels": {"a": "A", "b": "B"}, "annotations": {"a": "1", "b": "2"}}


@cases(
    "original, converted, expected",
    {
        "no converted metadata": ({"metadata": {}}, {}, "missing metadata in converted object"),
        "invalid converted metadata": (
            {"metadata": {}},
            {"metadata": ["foo"]},
            "invalid metadata of type []interface {} in converted object",
        ),
        "no original metadata": ({}, {"metadata": {}}, {}),
        "invalid original metadata": (
            {"metadata": ["foo"]},
            {"metadata": {}},
            "invalid metadata of type []interface {} in input object",
        ),
        "changed label, annotations and non-label": (
            {"metadata": BOTH},
            {"metadata": {"foo": "abc", "labels": {"a": "AA", "b": "B"}, "annotations": {"a": "1", "b": "22"}}},
            {"foo": "bar", "labels": {"a": "AA", "b": "B"}, "annotations": {"a": "1", "b": "22"}},
        ),
        "added labels and annotations": (
            {"metadata": {"foo": "bar"}},
            {"metadata": {"foo": "abc", "labels": {"a": "AA"}, "annotations": {"b": "22"}}},
            {"foo": "bar", "labels": {"a": "AA"}, "annotations": {"b": "22"}},
        ),
        "added labels and annotations, with nil before": (
            {"metadata": {"foo": "bar", "labels": None, "annotations": None}},
            {"metadata": {"foo": "abc", "labels": {"a": "AA"}, "annotations": {"b": "22"}}},
            {"foo": "bar", "labels": {"a": "AA"}, "annotations": {"b": "22"}},
        ),
        "removed both": ({"metadata": BOTH}, {"metadata": {"foo": "abc"}}, {"foo": "bar"}),
        "nil'ed both": (
            {"metadata": BOTH},
            {"metadata": {"foo": "abc", "labels": None, "annotations": None}},
            {"foo": "bar"},
        ),
        "a label that is no string": (
            {"metadata": {"foo": "bar"}},
            {"metadata": {"labels": {"a": None, "b": "B"}}},
            "metadata.labels[a] must be a string, but is <nil> in converted object",
        ),
        "an annotation that is no string": (
            {"metadata": {}},
            {"metadata": {"annotations": {"a": 1}}},
            "metadata.annotations[a] must be a string, but is int64 in converted object",
        ),
        "annotations of the wrong type": (
            {"metadata": {}},
            {"metadata": {"annotations": ["a"]}},
            "invalid metadata.annotations of type []interface {} in converted object",
        ),
        "invalid label key": (
            {"metadata": {}},
            {"metadata": {"labels": {"some/non-qualified/label": "x"}}},
            'metadata.labels: Invalid value: "some/non-qualified/label": a valid label key must consist of',
        ),
        "invalid annotation key, at upstream's path": (
            {"metadata": {}},
            {"metadata": {"annotations": {"some/non-qualified/label": "x"}}},
            'metadata.annotation: Invalid value: "some/non-qualified/label": a valid label key must consist of',
        ),
        "invalid label value": (
            {"metadata": {}},
            {"metadata": {"labels": {"foo": "üäö"}}},
            'metadata.labels: Invalid value: "üäö": a valid label must be an empty string or consist of',
        ),
        "too big label value": (
            {"metadata": {}},
            {"metadata": {"labels": {"foo": "x" * 64}}},
            f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
        ),
        "too big annotation value": (
            {"metadata": {}},
            {"metadata": {"annotations": {"foo": "x" * (256 * 1024 + 1)}}},
            "metadata.annotation: Too long: may not be more than 262144 bytes",
        ),
        "invalid label of the original object": (
            {"metadata": {"labels": {"foo": "x" * 64}}},
            {"metadata": {"labels": {"foo": "x" * 64}}},
            {"labels": {"foo": "x" * 64}},
        ),
    },
)
def test_restore_object_meta(original: Object, converted: Object, expected: Any) -> None:
    """``TestRestoreObjectMeta``."""
    if isinstance(expected, dict):
        assert restored_metadata(original, converted) == expected
    else:
        with pytest.raises(ReviewError) as raised:
            restored_metadata(original, converted)
        assert str(raised.value).startswith(expected)


@cases(
    "versions, expected",
    {
        "v1": (["v1", "v1beta1", "v2"], "v1"),
        "v1beta1": (["v1beta1", "v1", "v2"], "v1beta1"),
        "first supported version": (["v2", "v1"], "v1"),
    },
)
def test_first_supported_review_version_is_sent(versions: list[str], expected: str) -> None:
    """``TestCreateConversionReviewObjects``."""
    assert review_version(versions) == expected


def test_no_supported_review_version_is_an_error() -> None:
    with pytest.raises(ReviewError, match=r"^no supported conversion review versions$"):
        review_version(["vx"])


def test_conversion_review_is_upstreams() -> None:
    assert conversion_review("v1", "u", "foo/v1", [{"apiVersion": "foo/v2"}]) == {
        **V1,
        "request": {"uid": "u", "desiredAPIVersion": "foo/v1", "objects": [{"apiVersion": "foo/v2"}]},
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }


SUCCESS = {"result": {"status": "Success"}}
WIDGET = {"apiVersion": "foo/v1", "kind": "Widget", "metadata": {"name": "myv1"}}
EXPECTED = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got "


@cases(
    "version, review, expected",
    {
        "minimal valid v1beta1": ("v1beta1", {"response": SUCCESS}, []),
        "v1beta1 with objects": ("v1beta1", {"response": {**SUCCESS, "convertedObjects": [WIDGET]}}, [WIDGET]),
        "v1beta1, empty status": ("v1beta1", {"response": {}}, "response.result.status was '', not 'Success'"),
        "v1beta1, failure status": (
            "v1beta1",
            {"response": {"result": {"status": "Failure"}}},
            "response.result.status was 'Failure', not 'Success'",
        ),
        "v1beta1, custom status": (
            "v1beta1",
            {"response": {"result": {"status": "Failure", "message": "some failure message"}}},
            "some failure message",
        ),
        "v1beta1, no response": ("v1beta1", {}, "no response provided"),
        "minimal valid v1": ("v1", {**V1, "response": {"uid": "uid", **SUCCESS}}, []),
        "v1 with objects": (
            "v1",
            {**V1, "response": {"uid": "uid", **SUCCESS, "convertedObjects": [WIDGET]}},
            [WIDGET],
        ),
        "v1, no uid": ("v1", {**V1, "response": SUCCESS}, 'expected response.uid="uid", got ""'),
        "v1, another uid": ("v1", {**V1, "response": {**SUCCESS, "uid": "x"}}, 'expected response.uid="uid", got "x"'),
        "v1, no apiVersion": (
            "v1",
            {"kind": "ConversionReview", "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "/, Kind=ConversionReview",
        ),
        "v1, no kind": (
            "v1",
            {"apiVersion": V1["apiVersion"], "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "apiextensions.k8s.io/v1, Kind=",
        ),
        "v1, another apiVersion": (
            "v1",
            {**V1, "apiVersion": "apiextensions.k8s.io/v2", "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "apiextensions.k8s.io/v2, Kind=ConversionReview",
        ),
        "v1, another kind": (
            "v1",
            {**V1, "kind": "ConversionReview2", "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "apiextensions.k8s.io/v1, Kind=ConversionReview2",
        ),
        "v1, custom status": (
            "v1",
            {**V1, "response": {"uid": "uid", "result": {"status": "Failure", "message": "some failure message"}}},
            "some failure message",
        ),
        "v1, no response": ("v1", V1, "no response provided"),
        "a message of any length is cut": (
            "v1",
            {**V1, "response": {"uid": "uid", "result": {"message": "x" * 100_000}}},
            "x" * MAX_TEXT + "…",
        ),
    },
)
def test_converted_objects_from_response(version: str, review: Object, expected: Any) -> None:
    """``TestGetConvertedObjectsFromResponse``."""
    if isinstance(expected, list):
        assert converted_objects(review, version, "uid") == expected
    else:
        with pytest.raises(ReviewError) as raised:
            converted_objects(review, version, "uid")
        assert str(raised.value) == expected


@cases(
    "body, expected",
    {
        "empty body": (b"", "couldn't get version/kind; json parse error: "),
        "invalid JSON": (b"<html>", "couldn't get version/kind; json parse error: invalid character '<'"),
        "a list": (b"[1]", "couldn't get version/kind; json parse error: json: cannot unmarshal array"),
        "deep": (b"[" * 100_000, "couldn't get version/kind; json parse error: exceeded max depth"),
        "deep objects": (
            b'{"response":' + b'{"a":' * 400 + b"1" + b"}" * 401,
            "couldn't get version/kind; json parse error: exceeded max depth",
        ),
        "many parts": (
            b'{"response":{"convertedObjects":[' + b"[]," * 300_000 + b"[]]}}",
            "couldn't get version/kind; json parse error: exceeded max number of objects and arrays",
        ),
        "response of the wrong type": (
            b'{"response":1}',
            "json: cannot unmarshal number into Go struct field ConversionReview.response of type "
            "v1.ConversionResponse",
        ),
        "convertedObjects of the wrong type": (
            b'{"response":{"convertedObjects":{}}}',
            "json: cannot unmarshal object into Go struct field ConversionResponse.response.convertedObjects of type "
            "[]runtime.RawExtension",
        ),
        "status of the wrong type": (
            b'{"response":{"result":{"status":true}}}',
            "json: cannot unmarshal bool into Go struct field Status.response.result.status of type string",
        ),
        "another kind": (
            b'{"kind":"Foo","apiVersion":"apiextensions.k8s.io/v1"}',
            'no kind "Foo" is registered for version "apiextensions.k8s.io/v1" in scheme '
            '"k8s.io/apiserver/pkg/util/webhook/client.go:71"',
        ),
        "another version": (
            b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1beta1"}',
            "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
    },
)
def test_invalid_responses(body: bytes, expected: str) -> None:
    with pytest.raises(ReviewError) as raised:
        read_review(body, "v1")
    assert str(raised.value).startswith(expected)


ORIGINAL = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "finalizers": ["f.example.com/x"]},
    "spec": {"hostPort": "h:1"},
}


def answered(metadata: Any = None, **more: Any) -> Object:
    meta = {"name": "a", "namespace": "n", "uid": "u", **(metadata or {})}
    return {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": meta, "spec": {"host": "h"}, **more}


@cases(
    "converted_objects, alone, among",
    {
        "another version": (
            answered(apiVersion="example.com/v3"),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received "
            "example.com/v3)",
            "returned invalid converted object at index 3: invalid groupVersion (expected example.com/v2, received "
            "example.com/v3)",
        ),
        "another kind": (
            answered(kind="Other"),
            "returned invalid object at index 0: invalid kind (expected Thing, received Other)",
            "returned invalid converted object at index 3: invalid kind (expected Thing, received Other)",
        ),
        "another name": (
            answered({"name": "b"}),
            "returned invalid object: must have the same name: a != b",
            "returned invalid converted object at index 3: must have the same name: a != b",
        ),
        "no namespace": (
            answered({"namespace": ""}),
            "returned invalid object: must have the same namespace: n != ",
            "returned invalid converted object at index 3: must have the same namespace: n != ",
        ),
        "uid of the wrong type": (
            answered({"uid": 42}),
            "returned invalid object: must have the same UID: u != ",
            "returned invalid converted object at index 3: must have the same UID: u != ",
        ),
        "labels of the wrong type": (
            answered({"labels": "x"}),
            "returned invalid metadata: invalid metadata.labels of type string in converted object",
            "returned invalid metadata in object at index 3: invalid metadata.labels of type string in converted "
            "object",
        ),
        "null": (
            None,
            "unexpected end of JSON input",
            "returned invalid converted object at index 3: unexpected end of JSON input",
        ),
        "missing kind": (
            {"apiVersion": "example.com/v2"},
            "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v2\"}'",
            "returned invalid converted object at index 3: Object 'Kind' is missing in "
            '\'{"apiVersion":"example.com/v2"}\'',
        ),
    },
)
def test_invalid_converted_objects(converted_objects: Any, alone: str, among: str) -> None:
    for of_list, index, expected in ((False, 0, alone), (True, 3, among)):
        with pytest.raises(ReviewError) as raised:
            converted_object(ORIGINAL, converted_objects, "example.com/v2", index, of_list=of_list)
        assert str(raised.value) == expected


def test_converted_object_keeps_its_metadata() -> None:
    converted = answered(
        {"resourceVersion": "42", "generation": 42, "finalizers": ["foo"], "garbage": 1, "labels": {"a": "b"}}
    )
    result = converted_object(ORIGINAL, converted, "example.com/v2", 0, of_list=False)
    assert result == {**converted, "metadata": {**ORIGINAL["metadata"], "labels": {"a": "b"}}}  # type: ignore[dict-item]


def test_webhook_messages_are_truncated() -> None:
    for converted in (answered({"name": "x" * 100_000}), {"apiVersion": "x" * 100_000}, answered(kind="k" * 100_000)):
        with pytest.raises(ReviewError) as raised:
            converted_object(ORIGINAL, converted, "example.com/v2", 0, of_list=False)
        assert len(str(raised.value)) < 2 * reviews.MAX_TEXT
