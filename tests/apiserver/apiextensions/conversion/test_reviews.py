"""ConversionReviews: what is sent, and what of an answer is taken (upstream's webhook_converter_test.go, v1.36)."""

from typing import Any

import pytest

from pilothouse.apiserver.apiextensions.conversion import reviews
from pilothouse.apiserver.apiextensions.conversion.reviews import (
    MOST_TEXT,
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


@pytest.mark.parametrize(
    ("original", "converted", "expected"),
    [
        pytest.param({"metadata": {}}, {}, "missing metadata in converted object", id="no converted metadata"),
        pytest.param(
            {"metadata": {}},
            {"metadata": ["foo"]},
            "invalid metadata of type []interface {} in converted object",
            id="invalid converted metadata",
        ),
        pytest.param({}, {"metadata": {}}, {}, id="no original metadata"),
        pytest.param(
            {"metadata": ["foo"]},
            {"metadata": {}},
            "invalid metadata of type []interface {} in input object",
            id="invalid original metadata",
        ),
        pytest.param(
            {"metadata": BOTH},
            {"metadata": {"foo": "abc", "labels": {"a": "AA", "b": "B"}, "annotations": {"a": "1", "b": "22"}}},
            {"foo": "bar", "labels": {"a": "AA", "b": "B"}, "annotations": {"a": "1", "b": "22"}},
            id="changed label, annotations and non-label",
        ),
        pytest.param(
            {"metadata": {"foo": "bar"}},
            {"metadata": {"foo": "abc", "labels": {"a": "AA"}, "annotations": {"b": "22"}}},
            {"foo": "bar", "labels": {"a": "AA"}, "annotations": {"b": "22"}},
            id="added labels and annotations",
        ),
        pytest.param(
            {"metadata": {"foo": "bar", "labels": None, "annotations": None}},
            {"metadata": {"foo": "abc", "labels": {"a": "AA"}, "annotations": {"b": "22"}}},
            {"foo": "bar", "labels": {"a": "AA"}, "annotations": {"b": "22"}},
            id="added labels and annotations, with nil before",
        ),
        pytest.param({"metadata": BOTH}, {"metadata": {"foo": "abc"}}, {"foo": "bar"}, id="removed both"),
        pytest.param(
            {"metadata": BOTH},
            {"metadata": {"foo": "abc", "labels": None, "annotations": None}},
            {"foo": "bar"},
            id="nil'ed both",
        ),
        pytest.param(
            {"metadata": {"foo": "bar"}},
            {"metadata": {"labels": {"a": None, "b": "B"}}},
            "metadata.labels[a] must be a string, but is <nil> in converted object",
            id="a label that is no string",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"annotations": {"a": 1}}},
            "metadata.annotations[a] must be a string, but is int64 in converted object",
            id="an annotation that is no string",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"annotations": ["a"]}},
            "invalid metadata.annotations of type []interface {} in converted object",
            id="annotations that are none",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"labels": {"some/non-qualified/label": "x"}}},
            'metadata.labels: Invalid value: "some/non-qualified/label": a valid label key must consist of',
            id="invalid label key",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"annotations": {"some/non-qualified/label": "x"}}},
            'metadata.annotation: Invalid value: "some/non-qualified/label": a valid label key must consist of',
            id="invalid annotation key, at upstream's path",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"labels": {"foo": "üäö"}}},
            'metadata.labels: Invalid value: "üäö": a valid label must be an empty string or consist of',
            id="invalid label value",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"labels": {"foo": "x" * 64}}},
            f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
            id="too big label value",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"annotations": {"foo": "x" * (256 * 1024 + 1)}}},
            "metadata.annotation: Too long: may not be more than 262144 bytes",
            id="too big annotation value",
        ),
        pytest.param(
            {"metadata": {"labels": {"foo": "x" * 64}}},
            {"metadata": {"labels": {"foo": "x" * 64}}},
            {"labels": {"foo": "x" * 64}},
            id="an invalid label that was there",
        ),
    ],
)
def test_only_labels_and_annotations_are_the_webhooks(original: Object, converted: Object, expected: Any) -> None:
    """``TestRestoreObjectMeta``."""
    if isinstance(expected, dict):
        assert restored_metadata(original, converted) == expected
    else:
        with pytest.raises(ReviewError) as raised:
            restored_metadata(original, converted)
        assert str(raised.value).startswith(expected)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        pytest.param(["v1", "v1beta1", "v2"], "v1", id="v1"),
        pytest.param(["v1beta1", "v1", "v2"], "v1beta1", id="v1beta1"),
        pytest.param(["v2", "v1"], "v1", id="the first that is known"),
    ],
)
def test_the_first_known_version_is_sent(versions: list[str], expected: str) -> None:
    """``TestCreateConversionReviewObjects``."""
    assert review_version(versions) == expected


def test_no_known_version_is_an_error() -> None:
    with pytest.raises(ReviewError, match=r"^no supported conversion review versions$"):
        review_version(["vx"])


def test_a_review_is_upstreams_struct() -> None:
    assert conversion_review("v1", "u", "foo/v1", [{"apiVersion": "foo/v2"}]) == {
        **V1,
        "request": {"uid": "u", "desiredAPIVersion": "foo/v1", "objects": [{"apiVersion": "foo/v2"}]},
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }


SUCCESS = {"result": {"status": "Success"}}
WIDGET = {"apiVersion": "foo/v1", "kind": "Widget", "metadata": {"name": "myv1"}}
EXPECTED = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got "


@pytest.mark.parametrize(
    ("version", "review", "expected"),
    [
        pytest.param("v1beta1", {"response": SUCCESS}, [], id="minimal valid v1beta1"),
        pytest.param(
            "v1beta1", {"response": {**SUCCESS, "convertedObjects": [WIDGET]}}, [WIDGET], id="v1beta1 with objects"
        ),
        pytest.param(
            "v1beta1", {"response": {}}, "response.result.status was '', not 'Success'", id="v1beta1, empty status"
        ),
        pytest.param(
            "v1beta1",
            {"response": {"result": {"status": "Failure"}}},
            "response.result.status was 'Failure', not 'Success'",
            id="v1beta1, failure status",
        ),
        pytest.param(
            "v1beta1",
            {"response": {"result": {"status": "Failure", "message": "some failure message"}}},
            "some failure message",
            id="v1beta1, custom status",
        ),
        pytest.param("v1beta1", {}, "no response provided", id="v1beta1, no response"),
        pytest.param("v1", {**V1, "response": {"uid": "uid", **SUCCESS}}, [], id="minimal valid v1"),
        pytest.param(
            "v1",
            {**V1, "response": {"uid": "uid", **SUCCESS, "convertedObjects": [WIDGET]}},
            [WIDGET],
            id="v1 with objects",
        ),
        pytest.param("v1", {**V1, "response": SUCCESS}, 'expected response.uid="uid", got ""', id="v1, no uid"),
        pytest.param(
            "v1",
            {**V1, "response": {**SUCCESS, "uid": "x"}},
            'expected response.uid="uid", got "x"',
            id="v1, another uid",
        ),
        pytest.param(
            "v1",
            {"kind": "ConversionReview", "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "/, Kind=ConversionReview",
            id="v1, no apiVersion",
        ),
        pytest.param(
            "v1",
            {"apiVersion": V1["apiVersion"], "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "apiextensions.k8s.io/v1, Kind=",
            id="v1, no kind",
        ),
        pytest.param(
            "v1",
            {**V1, "apiVersion": "apiextensions.k8s.io/v2", "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "apiextensions.k8s.io/v2, Kind=ConversionReview",
            id="v1, another apiVersion",
        ),
        pytest.param(
            "v1",
            {**V1, "kind": "ConversionReview2", "response": {"uid": "uid", **SUCCESS}},
            EXPECTED + "apiextensions.k8s.io/v1, Kind=ConversionReview2",
            id="v1, another kind",
        ),
        pytest.param(
            "v1",
            {**V1, "response": {"uid": "uid", "result": {"status": "Failure", "message": "some failure message"}}},
            "some failure message",
            id="v1, custom status",
        ),
        pytest.param("v1", V1, "no response provided", id="v1, no response"),
        pytest.param(
            "v1",
            {**V1, "response": {"uid": "uid", "result": {"message": "x" * 100_000}}},
            "x" * MOST_TEXT + "…",
            id="a message of any length is cut",
        ),
    ],
)
def test_what_an_answer_says(version: str, review: Object, expected: Any) -> None:
    """``TestGetConvertedObjectsFromResponse``."""
    if isinstance(expected, list):
        assert converted_objects(review, version, "uid") == expected
    else:
        with pytest.raises(ReviewError) as raised:
            converted_objects(review, version, "uid")
        assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"", "couldn't get version/kind; json parse error: ", id="nothing"),
        pytest.param(b"<html>", "couldn't get version/kind; json parse error: ", id="no JSON"),
        pytest.param(b"[1]", "couldn't get version/kind; json parse error: json: cannot unmarshal array", id="a list"),
        pytest.param(b"[" * 100_000, "couldn't get version/kind; json parse error: exceeded max depth", id="deep"),
        pytest.param(
            b'{"response":' + b'{"a":' * 400 + b"1" + b"}" * 401,
            "couldn't get version/kind; json parse error: exceeded max depth",
            id="deep objects",
        ),
        pytest.param(
            b'{"response":{"convertedObjects":[' + b"[]," * 300_000 + b"[]]}}",
            "couldn't get version/kind; json parse error: exceeded max number of objects and arrays",
            id="many parts",
        ),
        pytest.param(
            b'{"response":1}',
            "json: cannot unmarshal number into Go struct field ConversionReview.response of type "
            "v1.ConversionResponse",
            id="no object",
        ),
        pytest.param(
            b'{"response":{"convertedObjects":{}}}',
            "json: cannot unmarshal object into Go struct field ConversionReview.response.convertedObjects of type "
            "[]runtime.RawExtension",
            id="no list",
        ),
        pytest.param(
            b'{"response":{"result":{"status":true}}}',
            "json: cannot unmarshal bool into Go struct field ConversionReview.response.result.status of type string",
            id="no text",
        ),
    ],
)
def test_what_is_no_answer(body: bytes, expected: str) -> None:
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


@pytest.mark.parametrize(
    ("given", "alone", "among"),
    [
        pytest.param(
            answered(apiVersion="example.com/v3"),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received "
            "example.com/v3)",
            "returned invalid converted object at index 3: invalid groupVersion (expected example.com/v2, received "
            "example.com/v3)",
            id="another version",
        ),
        pytest.param(
            answered(kind="Other"),
            "returned invalid object at index 0: invalid kind (expected Thing, received Other)",
            "returned invalid converted object at index 3: invalid kind (expected Thing, received Other)",
            id="another kind",
        ),
        pytest.param(
            answered({"name": "b"}),
            "returned invalid object: must have the same name: a != b",
            "returned invalid converted object at index 3: must have the same name: a != b",
            id="another name",
        ),
        pytest.param(
            answered({"namespace": ""}),
            "returned invalid object: must have the same namespace: n != ",
            "returned invalid converted object at index 3: must have the same namespace: n != ",
            id="no namespace",
        ),
        pytest.param(
            answered({"uid": 42}),
            "returned invalid object: must have the same UID: u != ",
            "returned invalid converted object at index 3: must have the same UID: u != ",
            id="a uid that is none",
        ),
        pytest.param(
            answered({"labels": "x"}),
            "returned invalid metadata: invalid metadata.labels of type string in converted object",
            "returned invalid metadata in object at index 3: invalid metadata.labels of type string in converted "
            "object",
            id="labels that are none",
        ),
        pytest.param(
            None,
            "unexpected end of JSON input",
            "returned invalid converted object at index 3: unexpected end of JSON input",
            id="null",
        ),
        pytest.param(
            {"apiVersion": "example.com/v2"},
            "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v2\"}'",
            "returned invalid converted object at index 3: Object 'Kind' is missing in "
            "'{\"apiVersion\":\"example.com/v2\"}'",
            id="no kind",
        ),
    ],
)  # fmt: skip
def test_what_is_no_converted_object(given: Any, alone: str, among: str) -> None:
    for of_list, index, expected in ((False, 0, alone), (True, 3, among)):
        with pytest.raises(ReviewError) as raised:
            converted_object(ORIGINAL, given, "example.com/v2", index, of_list=of_list)
        assert str(raised.value) == expected


def test_a_converted_object_keeps_its_metadata() -> None:
    given = answered(
        {"resourceVersion": "42", "generation": 42, "finalizers": ["foo"], "garbage": 1, "labels": {"a": "b"}}
    )
    taken = converted_object(ORIGINAL, given, "example.com/v2", 0, of_list=False)
    assert taken == {**given, "metadata": {**ORIGINAL["metadata"], "labels": {"a": "b"}}}  # type: ignore[dict-item]


def test_texts_of_a_webhook_are_cut() -> None:
    for given in (answered({"name": "x" * 100_000}), {"apiVersion": "x" * 100_000}, answered(kind="k" * 100_000)):
        with pytest.raises(ReviewError) as raised:
            converted_object(ORIGINAL, given, "example.com/v2", 0, of_list=False)
        assert len(str(raised.value)) < 2 * reviews.MOST_TEXT
