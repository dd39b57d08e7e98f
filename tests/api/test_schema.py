"""The schema table, checked against the package it is generated from and what the program requires of it."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from pilothouse.api.schema import Definition, load


@pytest.fixture(scope="module")
def source() -> dict[str, Any]:
    base = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema/v1.36.0-local/_definitions.json"
    document: dict[str, Any] = json.loads(base.read_text())["$defs"]
    return document


def pod() -> Definition:
    result = load().for_kind("", "v1", "Pod")
    assert result is not None
    return result


def test_every_field_of_every_type_is_in_the_schema(source: dict[str, Any]) -> None:
    schema = load()
    for name in schema.names:
        expected = source[name].get("properties", {})
        fields = schema.definition(name).fields
        assert list(fields) == list(expected), name
        assert {f.name for f in fields.values() if f.required} == set(source[name].get("required", ())), name
        for field in fields.values():
            wanted = expected[field.name]
            assert field.list_type == wanted.get("x-kubernetes-list-type", ""), (name, field.name)
            assert list(field.map_keys) == wanted.get("x-kubernetes-list-map-keys", []), (name, field.name)
            assert field.merge_key == wanted.get("x-kubernetes-patch-merge-key", ""), (name, field.name)
            assert ",".join(field.patch_strategies) == wanted.get("x-kubernetes-patch-strategy", ""), (name, field.name)
            assert field.map_type == wanted.get("x-kubernetes-map-type", ""), (name, field.name)
            assert (field.type.name == "list") == ("items" in wanted), (name, field.name)
            assert (field.type.name == "map") == ("additionalProperties" in wanted), (name, field.name)


def test_definitions_have_no_dangling_references() -> None:
    schema = load()
    for name in schema.names:
        for field in schema.definition(name).fields.values():
            innermost = field.type
            while innermost.element is not None:
                innermost = innermost.element
            if innermost.name == "object":
                assert innermost.definition.name in schema.names


def test_kinds_and_definitions_map_to_each_other() -> None:
    schema = load()
    for kind in schema.kinds:
        definition = schema.for_kind(*kind)
        assert definition is not None
        assert kind in definition.kinds
    assert schema.for_kind("example.com", "v1", "Unknown") is None


def test_patch_strategies_of_lists_and_maps() -> None:
    spec = pod().fields["spec"].type.definition
    assert spec.fields["containers"].merge_key == "name"
    assert spec.fields["volumes"].patch_strategies == ("merge", "retainKeys")
    assert spec.fields["tolerations"].list_type == "atomic"
    assert spec.fields["nodeSelector"].map_type == "atomic"
    container = spec.fields["containers"].type.element
    assert container is not None
    ports = container.definition.fields["ports"]
    assert ports.map_keys == ("containerPort", "protocol")
    assert ports.merge_key == "containerPort"
    port = ports.type.element
    assert port is not None
    assert port.definition.fields["protocol"].default == "TCP"
    assert load().definition("io.k8s.api.core.v1.ObjectReference").map_type == "atomic"


def test_go_names() -> None:
    assert pod().go_name == "Pod"
    assert pod().go_type == "v1.Pod"


def test_definitions_are_decoded_once() -> None:
    assert load() is load()
    assert pod() is pod()
