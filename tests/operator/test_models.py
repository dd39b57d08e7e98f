"""``pilothouse generate models``: types from definitions, and the definitions generated from those types."""

import ast
import datetime
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml
from tests.tables import cases

from pilothouse.cli import main
from pilothouse.env import Env
from pilothouse.operator import CustomResource
from pilothouse.operator.models import InvalidDefinition, models
from pilothouse.testing import async_plane

OBJECT = {"type": "object"}
TEXT = {"type": "string"}
PATHS = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 4, "x-kubernetes-list-type": "set"}
PORT = {
    "type": "object",
    "description": 'A port, "named" or not.\n\nC:\\ports',
    "required": ["port", "protocol"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 15, "pattern": "^[a-z]+$"},
        "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
        "share": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "multipleOf": 0.5},
    },
}
SPEC = {
    "type": "object",
    "required": ["class", "ports"],
    "properties": {
        "class": {"type": "string", "description": "A keyword of Python."},
        "int": {"type": "integer"},
        "clusterIP": {"type": "string", "format": "ipv4"},
        "snake_case": {"type": "boolean", "default": False},
        "replicas": {"type": "integer", "format": "int64", "default": 3},
        "ports": {
            "type": "array",
            "items": PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
        },
        "other-ports": {"type": "array", "items": PORT},
        "paths": PATHS,
        "labels": {"type": "object", "additionalProperties": TEXT, "maxProperties": 5},
        "limits": {
            "type": "object",
            "additionalProperties": {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": r"^\d+(m|Mi)?$",
            },
        },
        "maxUnavailable": {"x-kubernetes-int-or-string": True, "default": "25%"},
        "until": {"type": "string", "format": "date-time", "nullable": True},
        "secret": {"type": "string", "format": "byte"},
        "level": {"type": "integer", "enum": [1, 2, 3]},
        "mode": {"type": "string", "enum": [f"a-rather-long-name-of-a-mode-{number}" for number in range(4)]},
        "anything": {"x-kubernetes-preserve-unknown-fields": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "empty": OBJECT,
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "strategy": {
            "type": "object",
            "default": {"type": "Slow"},
            "x-kubernetes-validations": [
                {"rule": "self.type != 'Fast' || self.limit > 0", "reason": "FieldValueInvalid"}
            ],
            "properties": {"type": TEXT, "limit": {"type": "integer", "format": "int32", "default": 0}},
        },
    },
}
CONDITIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {"type": TEXT, "status": TEXT, "lastTransitionTime": {"type": "string", "format": "date-time"}},
    },
}


def version(name: str, *, storage: bool = False, spec: dict[str, Any] = SPEC, **more: Any) -> dict[str, Any]:
    properties = {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": OBJECT,
        "spec": spec,
        "status": {"type": "object", "properties": {"conditions": CONDITIONS}},
    }
    schema: dict[str, Any] = {
        "type": "object",
        "required": ["spec"],
        "properties": properties,
        "description": "A gate.",
    }
    rules = [
        {"rule": "has(self.spec)", "message": 'it says "spec"'},
        {
            "rule": "!oldSelf.hasValue() || self.spec == oldSelf.value().spec",
            "messageExpression": "'is ' + self.kind",
            "reason": "FieldValueForbidden",
            "fieldPath": ".spec",
            "optionalOldSelf": True,
        },
    ]
    schema["x-kubernetes-validations"] = rules
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": ".spec.class"}],
        **more,
    }


def definition(*versions: dict[str, Any], scope: str = "Namespaced") -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "httpgates.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {
                "kind": "HTTPGate",
                "listKind": "HTTPGateList",
                "plural": "httpgates",
                "singular": "httpgate",
                "shortNames": ["gate"],
                "categories": ["all"],
            },
            "versions": list(versions),
        },
    }


COLUMN = {"name": "Class", "type": "string", "jsonPath": ".spec.class", "priority": 1}
GATES = definition(version("v1", storage=True, additionalPrinterColumns=[COLUMN]))


def loaded(source: str, path: Path) -> ModuleType:
    (path / "generated_gates.py").write_text(source)
    spec = importlib.util.spec_from_file_location("generated_gates", path / "generated_gates.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generated_gates"] = module
    spec.loader.exec_module(module)
    return module


def comparable(schema: Any) -> Any:
    """Without descriptions, the order of enumerations, and fields common to all custom resources."""
    if isinstance(schema, list):
        return [comparable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    comparable_object: dict[str, Any] = {}
    for name, value in schema.items():
        match name:
            case "description":
                continue
            case "properties":
                fields = {
                    field: item for field, item in value.items() if field not in ("apiVersion", "kind", "metadata")
                }
                comparable_object[name] = {field: comparable(subschema) for field, subschema in fields.items()}
            case "enum" | "required":
                comparable_object[name] = sorted(value)
            case _:
                comparable_object[name] = value if name == "default" else comparable(value)
    return comparable_object


def test_the_definition_of_the_views_is_the_definition(tmp_path: Path) -> None:
    generated = loaded(models([GATES]), tmp_path).HTTP_GATES.definition()
    assert comparable(generated["spec"]["versions"]) == comparable(GATES["spec"]["versions"])
    assert generated["spec"] | {"versions": []} == GATES["spec"] | {"versions": []}
    assert generated["metadata"] == GATES["metadata"]


def test_generated_code_is_deterministic_and_formatted(tmp_path: Path) -> None:
    source = models([GATES])
    assert source == models([msgspec.json.decode(msgspec.json.encode(GATES))])
    (tmp_path / "gates.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--line-length=120", "--diff", "--isolated", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_generated_code_is_typed(tmp_path: Path) -> None:
    two = definition(version("v1", storage=True), version("v1beta1", spec=SPEC | {"required": []}))
    (tmp_path / "gates.py").write_text(models([two]))
    # Errors of pilothouse's own modules are not reported, as those of any installed package.
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-pilothouse.*]\nfollow_imports = silent\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=mypy.ini", "--cache-dir=cache", "gates.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(Path(__file__).parents[2] / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_views_read_and_write_objects(tmp_path: Path) -> None:
    module = loaded(models([GATES]), tmp_path)
    body = {
        "metadata": {"name": "g"},
        "spec": {
            "class": "public",
            "int": 3,
            "clusterIP": "10.0.0.1",
            "snake_case": True,
            "ports": [{"port": 80, "protocol": "UDP"}],
            "limits": {"cpu": 2, "memory": "1Mi"},
            "until": "2026-01-01T00:00:00Z",
            "secret": "AAE=",
            "level": 2,
            "anything": [1, {"a": None}],
            "strategy": {"limit": 4},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    gate = msgspec.json.decode(msgspec.json.encode(body), type=module.HTTPGate)
    spec = gate.spec
    assert (spec.class_, spec.int_, spec.cluster_ip, spec.snake_case) == ("public", 3, "10.0.0.1", True)
    assert (spec.ports[0].port, spec.ports[0].protocol, spec.ports[0].share) == (80, "UDP", None)
    assert (spec.limits, spec.replicas, spec.max_unavailable) == ({"cpu": 2, "memory": "1Mi"}, 3, "25%")
    assert (spec.until, spec.secret, spec.level) == (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), b"\0\1", 2)
    assert (spec.strategy.limit, spec.paths, spec.labels, spec.empty, spec.mode) == (4, (), {}, {}, None)
    assert gate.status.conditions[0].type == "Ready"
    assert msgspec.json.decode(msgspec.json.encode(gate)) == body
    with pytest.raises(msgspec.ValidationError, match="ports"):
        msgspec.json.decode(b'{"spec": {"class": "a"}}', type=module.HTTPGate)
    with pytest.raises(msgspec.ValidationError, match="65535"):
        msgspec.json.decode(b'{"spec": {"class": "a", "ports": [{"port": 70000}]}}', type=module.HTTPGate)


def test_names_are_short_and_given_once(tmp_path: Path) -> None:
    """Two fields have the same type if their schemas are the same."""
    source = models([GATES])
    classes = [line.split()[1].partition("(")[0] for line in source.splitlines() if line.startswith("class ")]
    assert classes == ["Port", "Strategy", "HTTPGateSpec", "Condition", "HTTPGateStatus", "HTTPGate"]
    assert 'other_ports: tuple[SpecPort, ...] = msgspec.field(default=(), name="other-ports")' in source
    assert source.count("SpecPort = Annotated[Port, ") == 1
    assert "    status: HTTPGateStatus = HTTPGateStatus()" in source
    assert "\nMode = Literal[\n" in source


async def test_the_api_server_accepts_generated_definitions(env: Env, tmp_path: Path) -> None:
    module = loaded(models([GATES]), tmp_path)
    body = {"apiVersion": "example.com/v1", "kind": "HTTPGate", "metadata": {"name": "g"}}
    async with async_plane(env=env, nodes=0, controllers=(), crds=[module.HTTP_GATES]) as cluster:
        created = await cluster.create({**body, "spec": {"class": "a", "ports": [{"port": 80}]}})
        assert created["spec"]["strategy"] == {"type": "Slow", "limit": 0}
        assert (created["spec"]["snake_case"], created["spec"]["ports"]) == (False, [{"port": 80, "protocol": "TCP"}])
        gate = msgspec.convert(created, module.HTTPGate)
        assert gate.spec.strategy.type == "Slow"


def test_versions_that_agree_are_of_one_resource_others_are_not(tmp_path: Path) -> None:
    old = SPEC | {"properties": {"size": {"type": "integer"}}, "required": []}
    alike = version("v1beta1", deprecated=True, deprecationWarning="use v1", served=False)
    source = models([definition(version("v1alpha1", spec=old), alike, version("v1", storage=True), scope="Cluster")])
    module = loaded(source, tmp_path)
    result = {name: value for name, value in vars(module).items() if isinstance(value, CustomResource)}
    assert list(result) == ["HTTP_GATES", "HTTP_GATES_V1ALPHA1"]
    versions = result["HTTP_GATES"].definition()["spec"]["versions"]
    assert [(entry["name"], entry["storage"], entry["served"]) for entry in versions] == [
        ("v1", True, True),
        ("v1beta1", False, False),
    ]
    assert versions[1]["deprecationWarning"] == "use v1"
    assert not result["HTTP_GATES"].kind.namespaced
    assert result["HTTP_GATES_V1ALPHA1"].kind.view is module.HTTPGateV1alpha1
    assert "# * version v1alpha1, whose schema differs: HTTP_GATES_V1ALPHA1" in source


def test_parts_that_are_not_expressed_are_listed() -> None:
    odd = version("v1", storage=True)
    schema = odd["schema"]["openAPIV3Schema"]
    schema["required"] = ["spec", "metadata"]
    schema["properties"]["metadata"] = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}}
    schema["x-kubernetes-validations"].append({"rule": "true", "severity": "high"})
    del odd["subresources"]
    strange = definition(odd)
    strange["spec"]["names"] |= {"singular": "gatelet", "listKind": "Gates"}
    strange["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {}}
    comments = [line for line in models([strange]).splitlines() if line.startswith("# ")]
    assert comments == [
        "# Not expressed here:",
        "# * names.listKind: Gates",
        "# * names.singular: gatelet",
        "# * conversion: the webhook",
        "# * that there is no subresource status",
        "# * the schema of metadata",
        "# * that these are required: metadata",
        "# * severity of rule 'true'",
    ]


def version_of(**schema: Any) -> dict[str, Any]:
    return {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", **schema}}}


def nested(depth: int) -> dict[str, Any]:
    """A schema of objects in objects."""
    result: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        result = {"type": "object", "properties": {"a": result}}
    return result


def test_many_names_that_differ_in_punctuation() -> None:
    properties = {"." * number: {"type": "string"} for number in range(1, 1500)}
    spec = {**GATES["spec"], "versions": [version_of(properties=properties)]}
    text = models([{**GATES, "spec": spec}])
    fields = re.findall(r"    (field_?\d*): str = msgspec.field", text)
    assert len(set(fields)) == len(properties)


@pytest.mark.parametrize(
    ("definition_text", "words"),
    [
        ([], "there is no CustomResourceDefinition to make views of"),
        ([{"kind": "Pod"}], "expected a CustomResourceDefinition, got Pod"),
        ([{**GATES, "apiVersion": "apiextensions.k8s.io/v1beta1"}], r"of apiextensions.k8s.io/v1beta1, convert it to"),
        ([{**GATES, "spec": None}], r"invalid CustomResourceDefinition: Expected `object`, got `null` - at `\$.spec`"),
        ([{**GATES, "spec": {**GATES["spec"], "names": []}}], r"at `\$.spec.names`"),
        ([{**GATES, "spec": {**GATES["spec"], "versions": []}}], r"length >= 1 - at `\$.spec.versions`"),
        ([{**GATES, "metadata": {}}], "missing required field `name`"),
        ([{**GATES, "spec": {**GATES["spec"], "versions": [version_of(properties={"a": 1})]}}], r"properties\[...\]"),
        ([{**GATES, "spec": {**GATES["spec"], "versions": [version_of(**nested(3000))]}}], "nested too deeply"),
        ([{**GATES, "spec": {**GATES["spec"], "versions": [version_of(**nested(600))]}}], "nested too deeply"),
        ([definition({"name": "v1"})], "version v1 of httpgates.example.com has no schema"),
    ],
)
def test_invalid_definitions_are_rejected(definition_text: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        models(definition_text)


def test_the_command_prints_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "crd.yaml"
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    path.write_text(yaml.safe_dump_all([other, GATES], sort_keys=False))
    assert main(["generate", "models", str(path)]) == 0
    assert capsys.readouterr().out == models([msgspec.json.decode(msgspec.json.encode(GATES))])
    assert main(["generate", "models", "nowhere.yaml"]) == 1
    assert "unable to read manifest nowhere.yaml" in capsys.readouterr().err
    path.write_text(yaml.safe_dump(other))
    assert main(["generate", "models", str(path)]) == 1
    assert f"{path}: there is no CustomResourceDefinition" in capsys.readouterr().err


FOREIGN = "x\nimport os\rimport os\0"
"""Text that would inject lines if it were printed verbatim."""


@cases(
    "path, value",
    {
        "list_kind": (("spec", "names", "listKind"), FOREIGN),
        "singular": (("spec", "names", "singular"), FOREIGN),
        "selectable": (("spec", "versions", 0, "selectableFields"), [{"jsonPath": FOREIGN}]),
        "column": (
            ("spec", "versions", 0, "additionalPrinterColumns"),
            [{"name": FOREIGN, "jsonPath": FOREIGN, "type": "string", "format": FOREIGN, "priority": FOREIGN}],
        ),
        "keyword": (("spec", "versions", 0, "schema", "openAPIV3Schema", FOREIGN), 1),
        "description": (("spec", "versions", 0, "schema", "openAPIV3Schema", "description"), FOREIGN + '"""'),
        "hyphens": (("spec", "names"), {"kind": "Foo-Bar", "plural": "foo-bar-s"}),
        "hyphen": (("spec", "names"), {"kind": "Foo", "plural": "foo-s"}),
    },
)
async def test_no_text_of_a_definition_becomes_code(path: tuple[str | int, ...], value: object) -> None:
    document = msgspec.json.decode(msgspec.json.encode(GATES))
    *parents, last = path
    place = document
    for name in parents:
        place = place[name]
    place[last] = value
    tree = ast.parse(models([document]))
    assert "os" not in {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


@cases(
    "names, version, words",
    {
        "kind": ({"kind": "X(object): pass\nimport os\nclass Y"}, "v1", r"spec.names.kind: invalid value"),
        "digit": ({"kind": "9a"}, "v1", "spec.names.kind"),
        "plural": ({"plural": "1\nimport os"}, "v1", "spec.names.plural"),
        "version": ({}, "v1\nimport os", r"spec.versions\[0\].name"),
    },
)
async def test_invalid_names_are_rejected(names: dict[str, str], version: str, words: str) -> None:
    document = msgspec.json.decode(msgspec.json.encode(GATES))
    document["spec"]["names"].update(names)
    document["spec"]["versions"][0]["name"] = version
    with pytest.raises(InvalidDefinition, match=words):
        models([document])


def replaced(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The definition of these tests with another value at a path."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(GATES))
    place: Any = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return document


ROOT_SCHEMA = ("spec", "versions", 0, "schema", "openAPIV3Schema")


@cases(
    "path, value, message",
    {
        "rules of the wrong type": ((*ROOT_SCHEMA, "x-kubernetes-validations"), 1, "Expected `array`, got `int`"),
        "a rule without a rule": ((*ROOT_SCHEMA, "x-kubernetes-validations"), [{}], "missing required field `rule`"),
        "a rule that is no text": ((*ROOT_SCHEMA, "x-kubernetes-validations"), [{"rule": {}}], "Expected `str`"),
        "null items": ((*ROOT_SCHEMA, "properties", "status", "items"), None, "Expected `object`, got `null`"),
        "a key of no kind": ((*ROOT_SCHEMA, "default"), {(1, 2): 3}, "cannot be written as JSON"),
        "null in selectable fields": (
            ("spec", "versions", 0, "selectableFields"),
            [None],
            "Expected `object`, got `null`",
        ),
    },
)
def test_wrong_types_are_named(path: tuple[str | int, ...], value: object, message: str) -> None:
    with pytest.raises(InvalidDefinition, match=re.escape(message)):
        models([replaced(path, value)])


def test_values_of_yaml_that_json_does_not_have() -> None:
    default = {1: datetime.date(2026, 1, 1), "ratio": float("inf")}
    source = models([replaced((*ROOT_SCHEMA, "properties", "status", "default"), default)])
    assert '{"1": "2026-01-01", "ratio": None}' in source
