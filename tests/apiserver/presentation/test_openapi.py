"""OpenAPI documents: both versions, both encodings, and what kubectl reads in them."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.presentation.openapi import OpenApi
from pilothouse.apiserver.presentation.openapi_protobuf import encode
from pilothouse.apiserver.presentation.openapi_second import as_v2
from pilothouse.apiserver.presentation.protobuf_decoding import fields_of
from pilothouse.apiserver.resources import ResourceTable

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V3_PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
OPENAPI = OpenApi(ResourceTable())


def get(path: str, accept: str = "", **headers: str) -> Response:
    response = OPENAPI.answer(Request("GET", path, {"accept": accept, **headers}), path, {})
    assert response is not None
    return response


def json_of(path: str) -> Any:
    return msgspec.json.decode(get(path).body)


def inside(data: bytes, *numbers: int) -> list[Any]:
    """All values found by following field numbers down a message."""
    found: list[Any] = [data]
    for number in numbers:
        found = [value for part in found for field, _wire, value in fields_of(bytes(part)) if field == number]
    return [bytes(value) if isinstance(value, memoryview) else value for value in found]


@pytest.mark.parametrize(
    ("path", "accept", "expected"),
    [
        pytest.param("/openapi/v2", "", "application/json", id="v2 without a wish"),
        pytest.param(
            "/openapi/v2",
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            V2_PROTOBUF,
            id="v2 as kubectl asks for it",
        ),
        pytest.param("/openapi/v2", f"{V2_PROTOBUF},application/json", V2_PROTOBUF, id="v2, the first of two"),
        pytest.param("/openapi/v3/apis/apps/v1", "application/json", "application/json", id="v3 in JSON"),
        pytest.param("/openapi/v3/apis/apps/v1", V3_PROTOBUF, V3_PROTOBUF, id="v3 in protobuf"),
    ],
)
def test_a_document_comes_in_the_form_that_is_asked_for(path: str, accept: str, expected: str) -> None:
    answer = get(path, accept)
    assert (answer.status, answer.headers["content-type"]) == (200, expected)


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
def test_a_form_that_there_is_not_is_refused_without_a_body(path: str) -> None:
    answer = get(path, "application/xml")
    assert (answer.status, answer.body) == (406, b"")


def test_both_forms_have_the_same_tag_and_a_caller_that_has_it_is_told_so() -> None:
    etag = get("/openapi/v2").headers["etag"]
    assert get("/openapi/v2", V2_PROTOBUF).headers["etag"] == etag
    assert get("/openapi/v2", V2_PROTOBUF, **{"if-none-match": etag}).status == 304


def test_v2_in_protobuf_says_what_it_says_in_json() -> None:
    document = json_of("/openapi/v2")
    body = get("/openapi/v2", V2_PROTOBUF).body
    assert inside(body, 1) == [b"2.0"]
    assert [name.decode() for name in inside(body, 9, 1, 1)] == list(document["definitions"])
    assert [path.decode() for path in inside(body, 8, 2, 1)] == list(document["paths"])


def test_v3_in_protobuf_says_what_it_says_in_json() -> None:
    document = json_of("/openapi/v3/apis/apps/v1")
    body = get("/openapi/v3/apis/apps/v1", V3_PROTOBUF).body
    assert [name.decode() for name in inside(body, 5, 1, 1, 1)] == list(document["components"]["schemas"])
    assert [path.decode() for path in inside(body, 4, 1, 1)] == list(document["paths"])


def test_v2_has_what_kubectl_applies_by() -> None:
    document = json_of("/openapi/v2")
    containers = document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert {"fieldValidation", "body"} <= {parameter["name"] for parameter in patch["parameters"]}


def test_extensions_travel_as_yaml() -> None:
    written = encode("v2.Schema", {"type": "object", "x-kubernetes-map-type": "atomic"})
    assert inside(written, 22, 1) == [b"object"]
    assert inside(written, 31, 1) == [b"x-kubernetes-map-type"]
    assert inside(written, 31, 2, 2) == [b'"atomic"\n']


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param({"type": "string", "nullable": True}, {}, id="a nullable value has no type"),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"x-kubernetes-int-or-string": True},
            id="neither has one of two types",
        ),
        pytest.param(
            {"allOf": [{"$ref": "#/components/schemas/a.B"}], "default": {}, "description": "d"},
            {"$ref": "#/definitions/a.B", "description": "d"},
            id="a wrapped reference",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True}, {"type": "object"}, id="a map of anything is an object"
        ),
    ],
)
def test_a_schema_in_v2(shown: dict[str, Any], expected: dict[str, Any]) -> None:
    assert as_v2(shown) == expected
