"""OpenAPI documents: both versions, both encodings, and the parts that kubectl reads."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.custom_resources import definition, version
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.apiextensions.serving import resource_infos
from pilothouse.apiserver.openapi.custom_resources import add_custom
from pilothouse.apiserver.openapi.documents import OpenApi, document
from pilothouse.apiserver.openapi.protobuf import encode
from pilothouse.apiserver.openapi.schemas import V2, V3, SchemaCollector
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.apiserver.serializers.protobuf_decoding import fields_of

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V3_PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
OPENAPI = OpenApi(ResourceTable())


def get(path: str, accept: str = "", **headers: str) -> Response:
    response = OPENAPI.handle(Request("GET", path, {"accept": accept, **headers}), path, {})
    assert response is not None
    return response


def json_of(path: str) -> Any:
    return msgspec.json.decode(get(path).body)


def inside(data: bytes, *numbers: int) -> list[Any]:
    """All values found by following field numbers down a message."""
    result: list[Any] = [data]
    for number in numbers:
        result = [value for part in result for field, _wire, value in fields_of(bytes(part)) if field == number]
    return [bytes(value) if isinstance(value, memoryview) else value for value in result]


@cases(
    "path, accept, expected",
    {
        "v2 without Accept header": ("/openapi/v2", "", "application/json"),
        "v2 as requested by kubectl": (
            "/openapi/v2",
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            V2_PROTOBUF,
        ),
        "v2, the first of two": ("/openapi/v2", f"{V2_PROTOBUF},application/json", V2_PROTOBUF),
        "v3 in JSON": ("/openapi/v3/apis/apps/v1", "application/json", "application/json"),
        "v3 in protobuf": ("/openapi/v3/apis/apps/v1", V3_PROTOBUF, V3_PROTOBUF),
    },
)
def test_accept_header_selects_the_encoding(path: str, accept: str, expected: str) -> None:
    answer = get(path, accept)
    assert (answer.status, answer.headers["content-type"]) == (200, expected)


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
def test_unsupported_encoding_is_406_without_a_body(path: str) -> None:
    answer = get(path, "application/xml")
    assert (answer.status, answer.body) == (406, b"")


def test_etag_is_shared_by_encodings_and_returns_304() -> None:
    etag = get("/openapi/v2").headers["etag"]
    assert get("/openapi/v2", V2_PROTOBUF).headers["etag"] == etag
    assert get("/openapi/v2", V2_PROTOBUF, **{"if-none-match": etag}).status == 304


@cases(
    "sent, status",
    {
        "the ETag": ("{}", 304),
        "a weak one": ("W/{}", 304),
        "any": ("*", 304),
        "one of several": ('"x", {}', 304),
        "another": ('"x"', 200),
    },
)
def test_if_none_match(sent: str, status: int) -> None:
    """Recorded from v1.36.2."""
    path = "/openapi/v3/apis/apps"
    etag = get(path).headers["etag"]
    assert get(path, **{"if-none-match": sent.format(etag)}).status == status


def test_v2_protobuf_equals_json() -> None:
    document = json_of("/openapi/v2")
    body = get("/openapi/v2", V2_PROTOBUF).body
    assert inside(body, 1) == [b"2.0"]
    assert [name.decode() for name in inside(body, 9, 1, 1)] == list(document["definitions"])
    assert [path.decode() for path in inside(body, 8, 2, 1)] == list(document["paths"])


def test_v3_protobuf_equals_json() -> None:
    document = json_of("/openapi/v3/apis/apps/v1")
    body = get("/openapi/v3/apis/apps/v1", V3_PROTOBUF).body
    assert [name.decode() for name in inside(body, 5, 1, 1, 1)] == list(document["components"]["schemas"])
    assert [path.decode() for path in inside(body, 4, 1, 1)] == list(document["paths"])


def test_v2_has_patch_merge_keys() -> None:
    document = json_of("/openapi/v2")
    containers = document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}


def test_v2_operations_refer_to_shared_parameters() -> None:
    """Recorded from v1.36.2; kubectl before 1.27 needs dryRun and fieldValidation in the operation."""
    document = json_of("/openapi/v2")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    parameters = [parameter.get("$ref") or parameter["name"] for parameter in patch["parameters"]]
    assert parameters == [
        "#/parameters/body-78PwaGsr",
        "dryRun",
        "#/parameters/fieldManager-7c6nTn1T",
        "fieldValidation",
        "#/parameters/force-tOGGb0Yi",
    ]
    assert document["parameters"]["body-78PwaGsr"] == {
        "name": "body",
        "in": "body",
        "required": True,
        "schema": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"},
    }


def fingerprint(document: Any) -> str:
    """A short hash of a document without the descriptions of types, which are of an optional package."""
    types = document.get("definitions") or document.get("components", {}).get("schemas") or {}
    document.get("components", {})["schemas"] = None
    rest = {key: value for key, value in document.items() if key != "definitions"}
    encoded = msgspec.json.encode([rest, _without_descriptions(types)], order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:12]


def test_documents_are_upstreams() -> None:
    """Recorded from v1.36.2: every path, operation, parameter and type of every document."""
    recorded = msgspec.json.decode((Path(__file__).parents[1] / "data/openapi.json").read_bytes())
    paths = {"v2": "/openapi/v2", **{key: f"/openapi/v3/{key}" for key in json_of("/openapi/v3")["paths"]}}
    assert {key: fingerprint(json_of(path)) for key, path in paths.items()} == recorded


def test_extensions_are_encoded_as_yaml() -> None:
    written = encode("v2.Schema", {"type": "object", "x-kubernetes-map-type": "atomic"})
    assert inside(written, 22, 1) == [b"object"]
    assert inside(written, 31, 1) == [b"x-kubernetes-map-type"]
    assert inside(written, 31, 2, 2) == [b'"atomic"\n']


# As in apiextensions ``pkg/controller/openapi/builder/builder_test.go`` (v0.36), ``TestNewBuilder``.

KIND = [{"group": "bar.k8s.io", "kind": "Foo", "version": "v1"}]
META = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
FREE = {"x-kubernetes-preserve-unknown-fields": True}


def _definition(schema: dict[str, Any]) -> dict[str, Any]:
    foos = definition(
        "Foo",
        version(schema=schema, selectableFields=[{"jsonPath": ".spec.color"}]),
        group="bar.k8s.io",
        names={"listKind": "FooList"},
    )
    return {**foos, "status": {"conditions": [{"type": "Established", "status": "True"}]}}


def _served(schema: dict[str, Any], version: str) -> dict[str, Any]:
    """The schemas of the custom kind and its list, without descriptions."""
    (info,) = resource_infos(_definition(schema))
    collector = SchemaCollector(version)
    add_custom(collector, info, version)
    schemas = {name: value for name, value in collector.schemas.items() if name.startswith("io.k8s.bar.")}
    document: dict[str, Any] = _without_descriptions(msgspec.json.decode(msgspec.json.encode(schemas)))
    return document


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_descriptions(inner) for key, inner in value.items() if key != "description"}
    return [_without_descriptions(inner) for inner in value] if isinstance(value, list) else value


@cases(
    "schema, expected",
    {
        "properties": (
            {"type": "object", "properties": {"spec": {"type": "object"}}},
            {"type": "object", "properties": {**META, "spec": {"type": "object"}}},
        ),
        "type without properties": ({"type": "object"}, {"type": "object", "properties": META}),
        "preserveUnknownFields at the root: no properties": ({"type": "object", **FREE}, {"type": "object"}),
        "preserveUnknownFields at the root drops properties": (
            {"type": "object", **FREE, "description": "d", "properties": {"spec": {"type": "object"}}},
            {"type": "object"},
        ),
        "preserveUnknownFields below: neither type nor properties": (
            {"type": "object", "properties": {"a": {"type": "object", **FREE, "properties": {"b": {}}}, "c": FREE}},
            {"type": "object", "properties": {**META, "a": FREE, "c": FREE}},
        ),
        "int-or-string: the extension alone": (
            {
                "type": "object",
                "properties": {
                    "a": {**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "b": {**INT_OR_STRING, "allOf": [{"anyOf": [{"minimum": 42.0}]}]},
                    "c": INT_OR_STRING,
                },
            },
            {"type": "object", "properties": {**META, "a": INT_OR_STRING, "b": INT_OR_STRING, "c": INT_OR_STRING}},
        ),
        "an embedded object with any fields": (
            {"type": "object", "properties": {"e": {"type": "object", "x-kubernetes-embedded-resource": True, **FREE}}},
            {"type": "object", "properties": {**META, "e": {"x-kubernetes-embedded-resource": True, **FREE}}},
        ),
        "an embedded object has what every object has": (
            {"type": "object", "properties": {"e": {"type": "object", "x-kubernetes-embedded-resource": True}}},
            {
                "type": "object",
                "properties": {
                    **META,
                    "e": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "properties": META,
                        "required": ["kind", "apiVersion"],
                    },
                },
            },
        ),
        "nullable fields have no type and are not required": (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {
                    "a": {"type": "array", "nullable": True, "items": {"type": "string"}},
                    "b": {"type": "array", "items": {"type": "string", "nullable": True}},
                },
            },
            {
                "type": "object",
                "required": ["b"],
                "properties": {**META, "a": {}, "b": {"type": "array", "items": {}}},
            },
        ),
        "values of a map, defaults": (
            {
                "type": "object",
                "properties": {
                    "m": {
                        "type": "object",
                        "additionalProperties": {"type": "string", "nullable": True, "default": "x"},
                    }
                },
            },
            {"type": "object", "properties": {**META, "m": {"type": "object", "additionalProperties": {}}}},
        ),
    },
)
def test_custom_resource_in_v2(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    selectable = [{"fieldPath": "spec.color"}]
    assert _served(schema, V2)["io.k8s.bar.v1.Foo"] == {
        **expected,
        "x-kubernetes-group-version-kind": KIND,
        "x-kubernetes-selectable-fields": selectable,
    }


def test_custom_resource_list_in_v2() -> None:
    listed = _served({"type": "object"}, V2)["io.k8s.bar.v1.FooList"]
    assert listed == {
        "type": "object",
        "required": ["items"],
        "properties": {
            **META,
            "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"},
            "items": {"type": "array", "items": {"$ref": "#/definitions/io.k8s.bar.v1.Foo"}},
        },
        "x-kubernetes-group-version-kind": [{**KIND[0], "kind": "FooList"}],
        "x-kubernetes-selectable-fields": [{"fieldPath": "spec.color"}],
    }


def test_custom_resource_in_v3() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        **FREE,
        "properties": {"a": {"type": "string", "nullable": True, "default": "x"}},
    }
    definition = _served(schema, V3)["io.k8s.bar.v1.Foo"]
    assert definition["x-kubernetes-preserve-unknown-fields"] is True
    assert definition["properties"]["a"] == schema["properties"]["a"]
    meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert definition["properties"]["metadata"] == {"allOf": [{"$ref": meta}]}


@cases(
    "shape, expected",
    {
        "int-or-string": (INT_OR_STRING, {**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        "int-or-string with its types": (
            {**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            {**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        "int-or-string with a union": (
            {**INT_OR_STRING, "anyOf": [{"minimum": 1}], "allOf": [{"maximum": 2}]},
            {
                **INT_OR_STRING,
                "anyOf": [{"minimum": 1}],
                "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maximum": 2}],
            },
        ),
        "an enum": ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
    },
)
def test_field_of_a_custom_resource_in_v3(shape: dict[str, Any], expected: dict[str, Any]) -> None:
    """Recorded from v1.36.2."""
    definition = _served({"type": "object", "properties": {"a": shape}}, V3)["io.k8s.bar.v1.Foo"]
    assert definition["properties"]["a"] == expected


def test_document_of_custom_resources() -> None:
    """Recorded from v1.36.2."""
    (info,) = resource_infos(_definition({"type": "object"}))
    served = document("apis/bar.k8s.io/v1", [info])
    assert served["info"] == {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    assert list(served["components"]) == ["schemas"]
    collection = next(path for path in served["paths"] if path.endswith("/namespaces/{namespace}/foos"))
    item = served["paths"][f"{collection}/{{name}}"]
    assert [parameter["name"] for parameter in item["get"]["parameters"]] == ["resourceVersion"]
    assert list(item["put"]["requestBody"]["content"]) == ["application/json", "application/yaml"]
    assert list(item["patch"]["responses"]) == ["200", "401"]
    delete = served["paths"][collection]["delete"]
    assert delete.get("requestBody") is None
    assert {"allowWatchBookmarks", "watch"} <= {parameter["name"] for parameter in delete["parameters"]}


DEPLOYMENTS = "/apis/apps/v1/namespaces/{namespace}/deployments"
POD = "/api/v1/namespaces/{namespace}/pods/{name}"


@cases(
    "path, method, name, description, schemas",
    {
        "list": (DEPLOYMENTS, "get", "listAppsV1NamespacedDeployment", "list or watch objects of kind Deployment",
            {"200": "DeploymentList"}),
        "list of all namespaces": ("/apis/apps/v1/deployments", "get", "listAppsV1DeploymentForAllNamespaces",
            "list or watch objects of kind Deployment", {"200": "DeploymentList"}),
        "create": (DEPLOYMENTS, "post", "createAppsV1NamespacedDeployment", "create a Deployment",
            {"200": "Deployment", "201": "Deployment", "202": "Deployment"}),
        "update": (f"{DEPLOYMENTS}/{{name}}", "put", "replaceAppsV1NamespacedDeployment",
            "replace the specified Deployment", {"200": "Deployment", "201": "Deployment"}),
        "delete": (f"{DEPLOYMENTS}/{{name}}", "delete", "deleteAppsV1NamespacedDeployment", "delete a Deployment",
            {"200": "Status", "202": "Status"}),
        "delete of a collection": (DEPLOYMENTS, "delete", "deleteAppsV1CollectionNamespacedDeployment",
            "delete collection of Deployment", {"200": "Status"}),
        "delete that returns the object": (POD, "delete", "deleteCoreV1NamespacedPod", "delete a Pod",
            {"200": "Pod", "202": "Pod"}),
        "a cluster-scoped object": ("/api/v1/namespaces/{name}", "get", "readCoreV1Namespace",
            "read the specified Namespace", {"200": "Namespace"}),
        "a group with dots": ("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}", "get",
            "readRbacAuthorizationV1ClusterRole", "read the specified ClusterRole", {"200": "ClusterRole"}),
        "scale": (f"{DEPLOYMENTS}/{{name}}/scale", "patch", "patchAppsV1NamespacedDeploymentScale",
            "partially update scale of the specified Deployment", {"200": "Scale", "201": "Scale"}),
        "eviction": (f"{POD}/eviction", "post", "createCoreV1NamespacedPodEviction", "create eviction of a Pod",
            {"200": "Eviction", "201": "Eviction", "202": "Eviction"}),
        "proxy": (f"{POD}/proxy/{{path}}", "options", "connectCoreV1OptionsNamespacedPodProxyWithPath",
            "connect OPTIONS requests to proxy of Pod", {"200": ""}),
        "watch": ("/api/v1/watch/namespaces/{namespace}/pods/{name}", "get", "watchCoreV1NamespacedPod",
            "watch changes to an object of kind Pod. deprecated: use the 'watch' parameter with a list operation "
            "instead, filtered to a single item with the 'fieldSelector' parameter.", {"200": "WatchEvent"}),
        "watch of a list": ("/apis/apps/v1/watch/deployments", "get", "watchAppsV1DeploymentListForAllNamespaces",
            "watch individual changes to a list of Deployment. deprecated: use the 'watch' parameter with a list "
            "operation instead.", {"200": "WatchEvent"}),
        "resources": ("/apis/apps/v1/", "get", "getAppsV1APIResources", "get available resources",
            {"200": "APIResourceList"}),
        "exec": (f"{POD}/exec", "post", "connectCoreV1PostNamespacedPodExec", "connect POST requests to exec of Pod",
            {"200": ""}),
    },
)  # fmt: skip
def test_operations(path: str, method: str, name: str, description: str, schemas: dict[str, str]) -> None:
    """Recorded from v1.36.2."""
    operation = json_of("/openapi/v3" + path[: path.index("/v1") + 3])["paths"][path][method]
    assert (operation["operationId"], operation["description"]) == (name, description)
    assert operation["responses"].pop("401") == {"description": "Unauthorized"}
    found = {
        code: {media["schema"].get("$ref", "").rpartition(".")[2] for media in response["content"].values()}
        for code, response in operation["responses"].items()
    }
    assert found == {code: {schema} for code, schema in schemas.items()}


@cases(
    "field, expected",
    {
        "an enum and its default": ("core.v1.ContainerPort.protocol",
            {"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]}),
        "an enum of elements": ("core.v1.PersistentVolumeClaimSpec.accessModes",
            {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string",
             "enum": ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]}}),
        "a value that Go prints if it is unset": ("core.v1.Container.name", {"type": "string", "default": ""}),
        "a struct": ("core.v1.Pod.spec",
            {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]}),
        "elements refer to their type": ("core.v1.PodSpec.initContainers",
            {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
             "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
             "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}),
    },
)  # fmt: skip
def test_fields(field: str, expected: dict[str, Any]) -> None:
    """Recorded from v1.36.2."""
    name, _dot, field = f"io.k8s.api.{field}".rpartition(".")
    schemas = json_of("/openapi/v3/api/v1")["components"]["schemas"]
    assert _without_descriptions(schemas[name]["properties"][field]) == expected


def test_fields_of_any_type_have_a_named_schema() -> None:
    """kubectl explain --recursive fails on others."""
    unnamed = [
        f"{name}.{field}"
        for key in json_of("/openapi/v3")["paths"]
        for name, schema in json_of(f"/openapi/v3/{key}")["components"].get("schemas", {}).items()
        for field, value in schema.get("properties", {}).items()
        if not {"type", "$ref", "allOf", "oneOf"} & value.keys()
    ]
    assert not unnamed
