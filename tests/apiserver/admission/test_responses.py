"""Responses of admission webhooks, valid and malformed, with the messages recorded from v1.36.2."""

import base64
import json
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.apiserver.admission.dynamic.responses import read_patch, rejection, verified_response
from pilothouse.apiserver.admission.dynamic.webhook_calls import CallError, check_status
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.machinery.patches import PatchNotApplicable

FAILED = "failed to call webhook: "
INVALID = "received invalid webhook response: "
UNMARSHAL = FAILED + "json: cannot unmarshal "
NO_TYPE_META = (
    FAILED + "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ "
    'APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }}'
)
EXPECTED = INVALID + "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "
NO_KIND = 'is registered for version "{}" in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71"'


def review(version: str = "v1", **fields: Any) -> Any:
    response = {"uid": "u", "allowed": True, **fields.pop("response", {})}
    return {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "response": response, **fields}


def failure(body: Any, *, mutating: bool = False, version: str = "v1") -> str:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        read_patch(verified_response(text, version, "u", mutating=mutating))
    except CallError as error:
        return str(error)
    return ""


@cases(
    "body, message",
    {
        "valid": (review(), ""),
        "unknown fields": (review(extra=1, response={"other": 2}), ""),
        "nulls": (review(response={"status": None, "warnings": None, "auditAnnotations": None}), ""),
        "invalid UTF-8": (json.dumps(review()).encode()[:-1] + b',"x":"\xff"}', ""),
        "allowed as text": (review(response={"allowed": "true"}),
            UNMARSHAL + "string into Go struct field AdmissionResponse.response.allowed of type bool"),
        "status as text": (review(response={"allowed": False, "status": "x"}),
            UNMARSHAL + "string into Go struct field AdmissionResponse.response.status of type v1.Status"),
        "code as text": (review(response={"status": {"code": "409"}}),
            UNMARSHAL + "string into Go struct field Status.response.status.code of type int32"),
        "a code beyond int32": (review(response={"status": {"code": 1 << 31}}),
            UNMARSHAL + "number 2147483648 into Go struct field Status.response.status.code of type int32"),
        "a text as seconds": (review(response={"status": {"details": {"retryAfterSeconds": "1\r\nX: y"}}}),
            UNMARSHAL + "string into Go struct field StatusDetails.response.status.details.retryAfterSeconds of type "
            "int32"),
        "a surrogate": (json.dumps(review())[:-1].encode() + rb',"x":"\ud800","y":""}', FAILED + "couldn't get "
            "version/kind; json parse error: JSON is malformed: unexpected end of escaped utf-16 surrogate pair (byte "
            "118)"),
        "a number of many digits": (json.dumps(review())[:-1].encode() + b',"x":1e999}', FAILED + "couldn't get "
            "version/kind; json parse error: Number out of range - at `$[...]`"),
        "too many values": (b'{"x":[' + b"0," * 100_001 + b"0]}", FAILED + "the response has more than 100000 values"),
        "too many warnings": (review(response={"warnings": [""] * 10_001}),
            FAILED + "the response has 10001 warnings: it may have 10000"),
        "a number as uid": (review(response={"uid": 5}),
            UNMARSHAL + "number into Go struct field AdmissionResponse.response.uid of type types.UID"),
        "a text as warnings": (review(response={"warnings": "x"}),
            UNMARSHAL + "string into Go struct field AdmissionResponse.response.warnings of type []string"),
        "a number as warning": (review(response={"warnings": [1]}),
            UNMARSHAL + "number into Go struct field AdmissionResponse.response.warnings of type string"),
        "a list of audit annotations": (review(response={"auditAnnotations": [1]}),
            UNMARSHAL + "array into Go struct field AdmissionResponse.response.auditAnnotations of type "
            "map[string]string"),
        "a text as response": ({**review(), "response": "x"},
            UNMARSHAL + "string into Go struct field AdmissionReview.response of type v1.AdmissionResponse"),
        "another uid": (review(response={"uid": "o"}), INVALID + 'expected response.uid="u", got "o"'),
        "no response": ({**review(), "response": None}, INVALID + "webhook response was absent"),
        "null": (b"null", INVALID + "webhook response was absent"),
        "an empty object": (b"{}", INVALID + "webhook response was absent"),
        "another kind": ({**review(), "kind": "Foo"},
            FAILED + 'no kind "Foo" ' + NO_KIND.format("admission.k8s.io/v1")),
        "another group": ({**review(), "apiVersion": "foo/v1"},
            FAILED + 'no kind "AdmissionReview" ' + NO_KIND.format("foo/v1")),
        "the other version": (review("v1beta1"),
            FAILED + "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"),
        "a Status": ({"kind": "Status", "apiVersion": "v1"},
            FAILED + "converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
        "no kind": ({**review(), "kind": ""}, EXPECTED + "admission.k8s.io/v1, Kind="),
        "no version": ({**review(), "apiVersion": ""}, EXPECTED + "/, Kind=AdmissionReview"),
        "neither kind nor version": ({"response": review()["response"]}, EXPECTED + "/, Kind="),
        "a malformed version": ({**review(), "apiVersion": "a/b/c"}, FAILED + "unexpected GroupVersion string: a/b/c"),
        "a number as kind": ({**review(), "kind": 5},
            FAILED + "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field "
            ".kind of type string"),
        "a list": (b"[]", NO_TYPE_META.format("array")),
        "a number": (b"5", NO_TYPE_META.format("number")),
        "truncated": (b"{", FAILED + "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        "more after the review": (json.dumps(review()).encode() + b" x",
            FAILED + "couldn't get version/kind; json parse error: invalid character 'x' after top-level value"),
        "deeply nested": (b'{"a":' * 20000,
            FAILED + "couldn't get version/kind; json parse error: exceeded max depth"),
        "a patch": (review(response={"patch": "W10="}), INVALID + "validating webhook may not return response.patch"),
        "a patch type": (review(response={"patchType": "JSONPatch"}),
            INVALID + "validating webhook may not return response.patchType"),
        "a patch that is no base64": (review(response={"patch": "!!!"}),
            FAILED + "illegal base64 data at input byte 0"),
    },
)  # fmt: skip
def test_responses_of_validating_webhooks(body: Any, message: str) -> None:
    assert failure(body) == message


def patched(patch: Any, kind: str | None = "JSONPatch") -> Any:
    text = patch if isinstance(patch, bytes) else json.dumps(patch).encode()
    return review(response={"patch": base64.b64encode(text).decode(), "patchType": kind})


UNDECODABLE = "received undecodable patch in webhook response: "


@cases(
    "body, message",
    {
        "no operations": (patched([]), ""),
        "null": (patched(None), ""),
        "no operations of another type": (patched([], "Merge"), ""),
        "another type": (patched([{}], "Merge"), 'unsupported patch type "Merge"'),
        "no type": (patched([], None), INVALID + "webhook returned response.patch but not response.patchType"),
        "an empty type": (patched([], ""), INVALID + 'webhook returned invalid response.patchType of ""'),
        "no patch": (patched(b""), INVALID + "webhook returned response.patchType but not response.patch"),
        "an object": (patched({}), UNDECODABLE + "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        "a number as operation": (patched([1]),
            UNDECODABLE + "json: cannot unmarshal number into Patch.0 of type jsonpatch.Operation"),
        "no JSON": (patched(b"garbage"), UNDECODABLE + "invalid character 'g' looking for beginning of value"),
        "as a list": (review(response={"patch": [{}], "patchType": "JSONPatch"}),
            UNMARSHAL + "object into Go struct field AdmissionResponse.response.patch of type uint8"),
        "as a list of bytes": (review(response={"patch": list(b"[]"), "patchType": "JSONPatch"}), ""),
    },
)  # fmt: skip
def test_responses_of_mutating_webhooks(body: Any, message: str) -> None:
    assert failure(body, mutating=True) == message


@cases(
    "body, message",
    {
        "another uid": (review("v1beta1", response={"uid": "o"}), ""),
        "no kind": ({"response": {"allowed": True}}, ""),
        "a patch without type": (review("v1beta1", response={"patch": "W3t9XQ=="}), ""),
        "another kind": ({**review("v1beta1"), "kind": "Foo"},
            FAILED + 'no kind "Foo" ' + NO_KIND.format("admission.k8s.io/v1beta1")),
        "the other version": (review(),
            FAILED + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"),
    },
)  # fmt: skip
def test_responses_in_v1beta1(body: Any, message: str) -> None:
    assert failure(body, mutating=True, version="v1beta1") == message


@cases(
    "status, body, content_type, message",
    {
        "206": (206, b"x", "", ""),
        "299": (299, b"x", "", "the server responded with the status code 299 but did not return more information"),
        "302": (302, b"", "", "the server responded with the status code 302 but did not return more information"),
        "403 with text": (403, b" why ", "text/plain", "why"),
        "406": (406, b"x", "application/json",
            "the server was unable to respond with a content type that the client supports"),
        "409": (409, b"", "", "the server reported a conflict"),
        "418": (418, b"x", "", "the server responded with the status code 418 but did not return more information"),
        "429": (429, b"", "", "the server has received too many requests and has asked us to try again later"),
        "500 with text": (500, b"x\n", "text/plain",
            'an error on the server ("x") has prevented the request from succeeding'),
        "500 with JSON": (500, b'{"a":1}', "application/json",
            'an error on the server ("unknown") has prevented the request from succeeding'),
        "504": (504, b"", "", "the server was unable to return a response in the time allotted, but may still be "
            "processing the request"),
        "a Status": (422, b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the msg"}', "", "the msg"),
    },
)  # fmt: skip
def test_status_codes(status: int, body: bytes, content_type: str, message: str) -> None:
    if not message:
        check_status(status, body, content_type)
        return
    with pytest.raises(CallError) as caught:
        check_status(status, body, content_type)
    assert str(caught.value) == message


@cases(
    "operation, message",
    {
        "add below nothing": ({"op": "add", "path": "/x/y", "value": 1},
            'add operation does not apply: doc is missing path: "/x/y": missing value'),
        "add to the document": ({"op": "add", "path": "", "value": {}},
            'add operation does not apply: doc is missing path: "": missing value'),
        "add beyond the list": ({"op": "add", "path": "/l/9", "value": 1},
            "error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced"),
        "remove": ({"op": "remove", "path": "/x"},
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value"),
        "move": ({"op": "move", "from": "/x", "path": "/y"},
            "error in move for path: 'x': Unable to remove nonexistent key: x: missing value"),
        "test": ({"op": "test", "path": "/a", "value": "c"}, "testing value /a failed: test failed"),
        "unknown": ({"op": "foo", "path": "/a"}, "Unexpected kind: foo"),
        "none": ({"path": "/a"}, "Unexpected kind: unknown"),
        "no path": ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
    },
)  # fmt: skip
def test_operations_that_do_not_apply(operation: Any, message: str) -> None:
    with pytest.raises(PatchNotApplicable) as caught:
        apply_json_patch({"a": "b", "l": [1]}, [operation])
    assert caught.value.detail == message


@cases(
    "status, code, message",
    {
        "nothing": ({}, 400, " without explanation"),
        "a reason": ({"reason": "Conflict"}, 400, ": Conflict"),
        "success": ({"code": 200, "message": "m"}, 400, ": m"),
        "an unknown code": ({"code": 700, "message": "m"}, 700, ": m"),
    },
)
def test_denials(status: Any, code: int, message: str) -> None:
    error = rejection("w", status)
    assert (error.code, error.message) == (code, f'admission webhook "w" denied the request{message}')
