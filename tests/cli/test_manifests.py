"""Which manifests ``-f`` names (kubectl's rules: cli-runtime ``pkg/resource/visitor.go``, v0.36)."""

import socket
from pathlib import Path

import msgspec
import pytest
from tests.custom_resources import definition, version
from tests.tables import cases

from pilothouse.cli import manifests
from pilothouse.cli.apply_manifests import applied
from pilothouse.cli.clusters import sources
from pilothouse.cli.manifests import Manifest, apply_manifest, load
from pilothouse.cli.program import UserError
from pilothouse.client import Client, default_user_agent
from pilothouse.env import Env
from pilothouse.machinery.flags import Parsed
from pilothouse.testing import async_plane

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"


def put(folder: Path, *names: str) -> None:
    """Files with a ConfigMap each, named as the file."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CONFIG_MAP.format(name=path.stem))


def names(folder: Path, *, recursive: bool = False) -> list[str]:
    return [manifest.name for manifest in load(str(folder), recursive=recursive)]


def test_directory_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    put(tmp_path, "20.yaml", "10.yml", "README.md", "30.json.bak", "b/5.yaml", "c.yaml")
    (tmp_path / "a.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}')
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "10.yml")
    (tmp_path / "linked").symlink_to(tmp_path / "b")
    assert names(tmp_path) == ["10", "20", "a", "c", "10"]
    assert names(tmp_path, recursive=True) == ["10", "20", "a", "5", "c", "10"]


def test_named_file_may_have_any_extension(tmp_path: Path) -> None:
    put(tmp_path, "manifest.txt")
    assert names(tmp_path / "manifest.txt") == ["manifest"]


def test_errors_name_their_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    with pytest.raises(UserError, match=r"manifest .*/a\.yaml is not valid YAML: line "):
        load(str(tmp_path))


def test_a_template_of_a_helm_chart_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{{- if .Values.x }}\nkind: ConfigMap\n{{- end }}\n")
    with pytest.raises(
        UserError, match=r"a\.yaml is not valid YAML: line 1, .*: is it part of a Helm chart\? Its manifests "
    ):
        load(str(tmp_path))


def test_folders_have_regular_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"unable to read manifest .*/a\.yaml: it is not a regular file"):
        load(str(tmp_path))


def test_a_file_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_MANIFEST_BYTES", 1000)
    with pytest.raises(UserError, match=r"unable to read manifest /dev/zero: it has more than 1,000 bytes"):
        load("/dev/zero")


def test_all_unusable_files_and_documents_are_reported(tmp_path: Path) -> None:
    put(tmp_path, "b.yaml")
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "c.yaml").write_text("kind: Pod\n---\napiVersion: v1\n---\n{apiVersion: [v1], kind: Pod}\n")
    with pytest.raises(UserError) as raised:
        load(str(tmp_path))
    lines = str(raised.value).replace(f"{tmp_path}/", "").split("\nError: ")
    assert lines[0].startswith("manifest a.yaml is not valid YAML: ")
    assert lines[1:] == [
        "c.yaml, document 1: apiVersion is missing",
        "c.yaml, document 2: kind is missing",
        "c.yaml, document 3: apiVersion must be a string",
    ]


def test_a_manifest_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(tmp_path, "a.yaml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="the name of a manifest is empty"):
        load("")


async def test_an_unknown_kind_comes_with_the_closest_one(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        document = {"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "a"}}
        with pytest.raises(UserError) as raised:
            await apply_manifest(cluster.client, Manifest("f", document))
        custom = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "a"}}
        with pytest.raises(UserError, match=r": no matches for kind .*: ensure CRDs are installed first"):
            await apply_manifest(cluster.client, Manifest("f", custom))
    hint = " (did you mean apps/v1 Deployment?)"
    assert str(raised.value) == f'f: no matches for kind "Deploymnt" in version "apps/v1"{hint}'


@pytest.mark.parametrize("name", ["values.yaml", "values-prod.yaml", "Chart.yaml"])
def test_files_of_a_helm_chart_are_no_manifests(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("replicas: 2\n")
    with pytest.raises(UserError, match=r"apiVersion is missing: is it part of a Helm chart\? .*`helm template"):
        load(str(tmp_path))


@cases(
    "files, message",
    {
        "no manifests": ([], "no manifests found in .*; the names of manifests end with .json, .yaml, .yml"),
        "no files with a manifest's extension": (["README.md", "b/5.yaml"], "no manifests found in"),
        "no objects": (["empty.yaml"], "manifest .* has no objects in it"),
    },
)
def test_a_folder_without_manifests(tmp_path: Path, files: list[str], message: str) -> None:
    put(tmp_path, *files)
    if "empty.yaml" in files:
        (tmp_path / "empty.yaml").write_text("---\n")
    with pytest.raises(UserError, match=message):
        load(str(tmp_path))


@cases(
    "text, name, is_kustomization",
    {
        "kustomization without kind": ("resources: [a.yaml]\n", "kustomization.yaml", True),
        "kustomization with kind": (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
            "kustomization.yml",
            True,
        ),
        "a component": ("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n", "kustomization.yaml", True),
        "another file name": ("resources: [a.yaml]\n", "b.yaml", False),
        "Kustomization of another group": (
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n",
            "kustomization.yaml",
            False,
        ),
    },
)
def test_a_kustomization_is_no_manifest(tmp_path: Path, text: str, name: str, is_kustomization: bool) -> None:
    put(tmp_path / "o v", "a.yaml")
    (tmp_path / "o v" / name).write_text(text)
    with pytest.raises(UserError) as raised:
        load(str(tmp_path / "o v"))
    expected = f"is a kustomization, not a manifest; `-k '{tmp_path}/o v'` builds it"
    assert (expected in str(raised.value)) is is_kustomization


def test_address_that_cannot_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_words: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    url = "http://nowhere.invalid/a.yaml"
    values = {"filename": [url], "recursive": False, "kustomize": ""}
    with pytest.raises(UserError) as raised:
        sources.manifests_of(Parsed(values, (), ()))
    assert str(raised.value) == f"unable to read {url}: Name or service not known"


@cases("flag, value", {"URL": ("filename", "http://here.invalid/a.yaml"), "kustomization": ("kustomize", "here")})
def test_a_source_without_objects(monkeypatch: pytest.MonkeyPatch, flag: str, value: str) -> None:
    monkeypatch.setattr(sources, "_fetched", lambda _url: "# nothing\n")
    monkeypatch.setattr(sources, "_built", lambda _directory: "")
    values = {"filename": [], "recursive": False, "kustomize": "", flag: [value] if flag == "filename" else value}
    with pytest.raises(UserError, match=f"manifest {value} has no objects in it"):
        sources.manifests_of(Parsed(values, (), ()))


async def test_default_and_enforced_namespace(env: Env) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    other = {**document, "metadata": {"name": "a", "namespace": "default"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        for enforced in (False, True):
            for manifest, expected in ((namespace, ""), (document, "kube-public")):
                applied = await apply_manifest(cluster.client, Manifest("f", manifest, "kube-public", enforced))
                assert applied.namespace == expected
        assert (await apply_manifest(cluster.client, Manifest("f", other, "kube-public"))).namespace == "default"
        with pytest.raises(UserError, match="You must pass '--namespace=default' to perform this operation"):
            await apply_manifest(cluster.client, Manifest("f", other, "kube-public", is_enforced=True))
        client = Client(cluster.client.transport, env, user_agent=default_user_agent("pilothouse-load"))
        await apply_manifest(client, Manifest("f", {**document, "metadata": {"name": "b"}, "data": {"a": "b"}}))
        stored = (await client.request("GET", "/api/v1/namespaces/default/configmaps/b")).body
        entries = msgspec.json.decode(stored)["metadata"]["managedFields"]
        assert [entry["manager"] for entry in entries] == ["pilothouse-load"], "as why reports it"


async def test_definitions_and_namespaces_are_applied_first(env: Env) -> None:
    crd = definition("Widget", version())
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "team"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        manifests = [Manifest("dir", item) for item in (widget, crd, namespace)]
        kinds = [item.kind.kind async for item in applied(cluster.client, manifests)]
        assert kinds == ["Namespace", "CustomResourceDefinition", "Widget"]


async def test_what_pods_need_is_applied_before_workloads(env: Env) -> None:
    kinds = ("ConfigMap", "Secret", "ServiceAccount")
    documents = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}} for kind in kinds]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": {"hard": {"pods": "1"}}}
    container = {"name": "c", "image": "x", "envFrom": [{"configMapRef": {"name": "a"}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        manifests = [Manifest("dir", item) for item in (pod, *documents, quota)]
        order = [item.kind.kind async for item in applied(cluster.client, manifests)]
        assert order == [*kinds, "ResourceQuota", "Pod"]


async def test_a_wrong_type_is_reported_without_the_object_of_the_cluster(env: Env) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}}
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await apply_manifest(cluster.client, Manifest("f", document))
        with pytest.raises(UserError) as raised:
            await apply_manifest(cluster.client, Manifest("f", {**document, "data": {"a": 1}}))
    assert str(raised.value) == (
        "f: ConfigMap a: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    )
