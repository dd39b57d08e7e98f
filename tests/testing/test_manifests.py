"""``apply``, ``crds=`` and what happens to definitions of custom resources between tests."""

import contextlib
from pathlib import Path
from typing import Any, ClassVar

import pytest
from kubernetes import client as official
from tests.operator.test_conversion import PAGES
from tests.tables import cases

from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client.errors import ApiError, Invalid
from pilothouse.env import Env
from pilothouse.operator import CustomResource, Rule
from pilothouse.testing import Cluster, async_plane, plane
from pilothouse.testing.manifests import definitions_of, objects_of


class ThingSpec(View, frozen=True):
    size: int = 0


class Thing(View, frozen=True):
    spec: ThingSpec = ThingSpec()
    metadata: ObjectMeta = ObjectMeta()


THINGS = CustomResource("example.com/v1", Thing)
THING = ("example.com/v1", "Thing")
DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
HELD = {"apiVersion": THING[0], "kind": THING[1], "metadata": {"name": "held", "finalizers": ["example.com/never"]}}
TEXT = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {on: "1"}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
"""


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.yaml").write_text(TEXT)
    (tmp_path / "a.json").write_text('{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "first"}}')
    (tmp_path / "notes.txt").write_text("no manifest")
    return tmp_path


def test_manifests_are_paths_text_mappings_and_lists_of_them(folder: Path) -> None:
    assert names(objects_of(TEXT)) == ["a", "b"]
    assert names(objects_of(folder)) == ["first", "a", "b"]
    assert names(objects_of(str(folder / "a.json"))) == ["first"]
    assert names(objects_of(str(folder))) == ["first", "a", "b"]
    assert names(objects_of([config_map("x"), folder / "a.json", TEXT])) == ["x", "first", "a", "b"]


@cases(
    "manifest, error, words",
    {
        "a number": (3, TypeError, "manifests are paths, YAML text, mappings, or a list of them, got int"),
        "a list of numbers": ([3], TypeError, "a manifest is a path, YAML text or a mapping, got int"),
        "string": ("some words", ValueError, r"the manifest is neither YAML of an object nor .*: 'some words'"),
        "a number in YAML": ("3", ValueError, "the manifest is not an object of Kubernetes, got int"),
        "invalid YAML": ("a: [", ValueError, "line 2, column 1"),
        "missing apiVersion": ({"kind": "Pod"}, ValueError, "the manifest has no apiVersion"),
        "item": ("kind: List\napiVersion: v1\nitems: [3]", ValueError, "the manifest has no apiVersion: 3"),
        "missing file": (
            "none.yaml",
            FileNotFoundError,
            r"the manifest: there is no file or folder 'none\.yaml' in .* / ",
        ),
        "no such path": (Path("/none/x.yaml"), FileNotFoundError, r"the manifest: .* file or folder /none/x\.yaml$"),
    },
)
def test_what_is_no_manifest_is_rejected(manifest: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        objects_of(manifest)


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(ValueError, match=r"bad\.yaml is not valid YAML: line 2"):
        objects_of(tmp_path)


def test_definitions_come_from_files_mappings_and_classes(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(TEXT)
    assert definitions_of([THINGS]) == definitions_of(THINGS) == definitions_of(THINGS.definition())
    with pytest.raises(ValueError, match=r"there is no CustomResourceDefinition in .*all\.yaml"):
        definitions_of(tmp_path / "all.yaml")
    with pytest.raises(
        FileNotFoundError, match=r"crds: there is no file or folder 'nope\.yaml' in the working directory"
    ):
        definitions_of("nope.yaml")
    with pytest.raises(TypeError, match="crds are paths, YAML text, mappings or CustomResources, got int"):
        definitions_of([3])  # type: ignore[list-item]  # that is the point
    with pytest.raises(ValueError, match=r"pages\.example\.com has functions for conversion, .* run the App"):
        definitions_of(PAGES)


@cases(
    "api_version, kind, hint",
    {
        "a letter too few": ("apps/v1", "Deploymnt", " (did you mean apps/v1 Deployment?)"),
        "transposed letters": ("v1", "Pdo", " (did you mean v1 Pod?)"),
        "another version": ("apps/v1beta1", "Deployment", " (did you mean apps/v1 Deployment?)"),
        "without its group": ("v1", "CronJob", " (did you mean batch/v1 CronJob?)"),
        "the plural": ("v1", "pods", " (did you mean v1 Pod?)"),
        "a kind of two groups": ("v1", "Evnt", " (did you mean v1 Event?)"),
        "nothing like it": ("v1", "Xylophone", ""),
        "swapped": ("Pod", "v1", " (the apiVersion comes first, then the kind)"),
        "swapped, with a group": ("Deployment", "apps/v1", " (the apiVersion comes first, then the kind)"),
        "a custom resource": (
            "farm.example.com/v1",
            "Xylophone",
            " (its CustomResourceDefinition is applied by running(app), apply or crds=)",
        ),
    },
)
async def test_an_unknown_kind_comes_with_the_closest_one(env: Env, api_version: str, kind: str, hint: str) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        with pytest.raises(LookupError) as raised:
            await cluster.list(api_version, kind)
    assert raised.value.args == (f"the API server has no kind {kind!r} in {api_version}{hint}",)


async def test_applied_objects_are_created_and_then_changed(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=(), crds=[THINGS]) as cluster:
        assert names(await cluster.list(*DEFINITION)) == ["things.example.com"]
        first = await cluster.apply([config_map("a", x="1"), {**HELD, "metadata": {"name": "one"}}])
        assert names(first) == ["a", "one"]
        assert first[0]["metadata"]["namespace"] == "default"
        await cluster.apply(config_map("a", y="2"))
        assert (await cluster.get("v1", "ConfigMap", "a"))["data"] == {"y": "2"}, "what is applied no more is removed"
        await cluster.reset()
        assert await cluster.list(*THING) == [], "the definitions of the start remain"


async def test_apply_takes_fields_over_and_knows_all_of_them(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await cluster.create(config_map("a", x="1"))
        await cluster.apply(config_map("a", x="2"))
        assert (await cluster.get("v1", "ConfigMap", "a"))["data"] == {"x": "2"}
        with pytest.raises(ApiError, match="colour"):
            await cluster.apply(config_map("a") | {"colour": "red"})
        with pytest.raises(ValueError, match="an applied ConfigMap needs a name: use create"):
            await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}})


async def test_a_definition_and_its_objects_can_be_applied_together(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await cluster.apply([THINGS.definition(), HELD])
        assert names(await cluster.list(*THING)) == ["held"]


@pytest.mark.parametrize("controllers", [("*",), ()], ids=["with controllers", "without controllers"])
async def test_definitions_end_with_their_block(env: Env, controllers: tuple[str, ...]) -> None:
    """Also with objects whose finalizers are never removed; earlier definitions are unchanged."""
    other = CustomResource("example.com/v1", Thing, kind="Other")
    async with async_plane(env=env, nodes=0, controllers=controllers, crds=other) as cluster:
        async with cluster.restoring_definitions():
            await cluster.apply([THINGS.definition(), HELD])
            await cluster.patch(*DEFINITION, "others.example.com", {"spec": {"names": {"shortNames": ["o"]}}})
        assert names(await cluster.list(*DEFINITION)) == ["others.example.com"]
        assert "shortNames" not in (await cluster.get(*DEFINITION, "others.example.com"))["spec"]["names"]
        async with cluster.restoring_definitions():
            await cluster.apply(THINGS.definition())
            assert await cluster.list(*THING) == [], "objects of a former definition of that name have gone"


@pytest.mark.parametrize("only_definitions", [True, False], ids=["definitions", "everything"])
async def test_objects_that_their_definition_rejects_by_now_are_removed(env: Env, only_definitions: bool) -> None:
    """No request can remove their finalizers: a write of an invalid object is rejected."""
    small: CustomResource[Thing] = CustomResource(
        "example.com/v1", Thing, rules=(Rule("self.spec.size > 0", "empty"), Rule("self.spec.size < 9", "too large"))
    )
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        restoring = cluster.restoring_definitions() if only_definitions else contextlib.nullcontext()
        async with restoring:
            await cluster.apply([THINGS.definition(), HELD])
            await cluster.apply(small.definition())
            with pytest.raises(Invalid, match="empty"):
                await cluster.patch(*THING, "held", {"metadata": {"finalizers": None}})
        if not only_definitions:
            await cluster.reset()
        assert await cluster.list(*DEFINITION) == []


async def test_objects_whose_deletion_is_denied_are_removed(env: Env) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps", "namespaces"]}
    deny: dict[str, Any] = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    binding: dict[str, Any] = {"policyName": "keep", "validationActions": ["Deny"]}
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}})
        await cluster.in_namespace("kept").apply(config_map("kept"))
        await cluster.apply(config_map("kept"))
        for kind, spec in (("ValidatingAdmissionPolicy", deny), ("ValidatingAdmissionPolicyBinding", binding)):
            head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "keep"}}
            body: dict[str, Any] = {**head, "spec": spec}
            await cluster.apply(body)
        with pytest.raises(Invalid, match="failed expression: false"):
            await cluster.delete("v1", "ConfigMap", "kept")
        await cluster.reset()
        assert "kept" not in names(await cluster.list("v1", "ConfigMap"))
        assert "kept" not in names(await cluster.list("v1", "Namespace"))


@pytest.mark.parametrize("run", [1, 2])
def test_definitions_do_not_leak_between_tests_of_the_shared_plane(pilothouse: Cluster, run: int) -> None:
    assert pilothouse.list(*DEFINITION) == []
    pilothouse.apply([THINGS.definition(), HELD])


@pytest.mark.pilothouse(nodes=0, controllers=(), serve=False, crds=[THINGS])
def test_the_marker_takes_definitions(pilothouse: Cluster) -> None:
    pilothouse.apply(HELD)
    assert names(pilothouse.list(*THING)) == ["held"]


def test_a_file_that_is_not_there_keeps_the_plane_from_starting() -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.yaml"), plane(serve=False, crds="none.yaml"):
        pass


def test_models_of_the_official_client_are_manifests(pilothouse: Cluster) -> None:
    def model(name: str) -> official.V1ConfigMap:
        meta = official.V1ObjectMeta(name=name, labels={"a": "b"})
        return official.V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=meta, data={"on": "1"})

    created = pilothouse.create(model("a"))
    (applied,) = pilothouse.apply(model("b"))
    further = pilothouse.apply([model("c"), config_map("d")])
    assert names([created, applied, *further]) == ["a", "b", "c", "d"]
    assert (created["data"], created["metadata"]["labels"]) == ({"on": "1"}, {"a": "b"})
    for call in (pilothouse.apply, pilothouse.create):
        with pytest.raises(ValueError, match=r"the model has no apiVersion \(pass api_version= and kind=\)"):
            call(official.V1ConfigMap(metadata=official.V1ObjectMeta(name="e")))


class GeneratedModel:
    """As those of the official client, whose types are not known to this project's type checker."""

    attribute_map: ClassVar[dict[str, str]] = {"api_version": "apiVersion", "kind": "kind", "metadata": "metadata"}

    def __init__(self) -> None:
        self.api_version, self.kind, self.metadata = "v1", "ConfigMap", {"name": "generated"}

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


def test_models_are_manifests_for_type_checkers(pilothouse: Cluster) -> None:
    model = GeneratedModel()
    pilothouse.create(model)
    assert len(pilothouse.apply(model)) == len(pilothouse.apply([model])) == 1
