"""Snapshots are converted to the records of a store, or rejected."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.custom_resources import definition, version
from tests.snapshots.files import CONFIG_MAPS, HEADER, Object, config_map, end, snapshot_of, write
from tests.tables import cases

from pilothouse.cli import main
from pilothouse.env import Env
from pilothouse.snapshots import data_directory
from pilothouse.snapshots.file_format import SnapshotError
from pilothouse.snapshots.opening import restored
from pilothouse.snapshots.saving import SaveOptions, save
from pilothouse.storage.sqlite import SqliteStore
from pilothouse.testing import AsyncCluster, async_plane

LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
WORKLOADS: tuple[Object, ...] = (
    definition("Widget", version("v1", storage=False), version("v2")),
    {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1.0}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"type": "NodePort", "selector": LABELS, "ports": [{"port": 80}]},
    },
    {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 3,
            "maxReplicas": 5,
        },
    },
)


async def create(cluster: AsyncCluster, objects: tuple[Object, ...] = WORKLOADS) -> None:
    for obj in objects:
        await cluster.create(obj)
    await asyncio.sleep(20)


async def test_restored_records_equal_the_original_ones(env: Env, tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with async_plane(env=env, nodes=2) as cluster:
        await create(cluster)
        await save(cluster.client, env, path, SaveOptions(secret_values=True))
        stored = {record.key: record for record in cluster.plane.server.store.list("").records}
    result = restored(path)
    assert {record.key: json.loads(record.value) for record in result.records} == {
        key: json.loads(stored_object.value) for key, stored_object in stored.items()
    }
    assert {record.key: record.revision for record in result.records} == {
        key: stored_object.revision for key, stored_object in stored.items()
    }
    assert [record.revision for record in result.records] == sorted(record.revision for record in result.records)
    assert result.revision == result.records[-1].revision
    assert result.skipped == ()
    assert [(node.name, node.ready) for node in result.nodes] == [("node-0", True), ("node-1", True)]
    assert result.service_range == "10.0.0.0/16"


async def test_a_data_directory_has_the_records_and_no_history(env: Env, tmp_path: Path) -> None:
    path, directory = tmp_path / "s", tmp_path / "data"
    async with async_plane(env=env, nodes=1) as cluster:
        await create(cluster)
        await save(cluster.client, env, path)
    result = restored(path)
    data_directory.create(directory, result)
    store = SqliteStore.open(env, directory, inline=True)
    try:
        assert store.revision == store.compacted == result.revision
        assert sorted(record.key for record in result.records) == [record.key for record in store.list("").records]
        assert {record.key: record for record in store.list("").records} == {
            record.key: record for record in result.records
        }
    finally:
        await store.close()
    origin = data_directory.origin_of(directory)
    assert origin is not None
    assert [node.name for node in origin.nodes] == ["node-0"]


def test_existing_data_directory_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(snapshot_of(tmp_path / "s", config_map("a")))
    directory = str(tmp_path / "data")
    assert main(["snapshot", "restore", path, "--data-dir", directory]) == 0
    before = (tmp_path / "data" / "pilothouse.db").read_bytes()
    assert main(["snapshot", "restore", path, "--data-dir", directory]) == 1
    assert "there is a cluster in the data directory" in capsys.readouterr().err
    assert (tmp_path / "data" / "pilothouse.db").read_bytes() == before


WIDGETS: Object = {
    "resource": "widgets",
    "group": "example.com",
    "version": "v1",
    "kind": "Widget",
    "namespaced": True,
}
DEFINITIONS: Object = {
    "resource": "customresourcedefinitions",
    "group": "apiextensions.k8s.io",
    "version": "v1",
    "kind": "CustomResourceDefinition",
}


def _definition(**changes: Any) -> Object:
    result = definition("Widget", version("v1"))
    meta = {**result["metadata"], "uid": "of-definition", "resourceVersion": "7"}
    conditions = [{"type": item, "status": "True"} for item in ("NamesAccepted", "Established")]
    return {**result, "metadata": meta, "status": {"conditions": conditions}, **changes}


def _widget(name: str) -> Object:
    return {**config_map(name), "kind": "Widget", "apiVersion": "example.com/v1"}


@cases(
    "objects, error",
    {
        "a field of another type": (
            [{**config_map("a"), "data": {"a": 1}}],
            ":3: the ConfigMap can't be decoded: json: cannot unmarshal number",
        ),
        "missing uid": ([config_map("a", uid="")], ":3: the ConfigMap 'a' has no uid"),
        "missing name": ([config_map("", resourceVersion="5")], ":3: the ConfigMap '' has no name"),
        "a name with a slash": ([config_map("a/b")], ":3: the ConfigMap has an invalid metadata.name: 'a/b'"),
        "a name with a quote": ([config_map('a"b')], ":3: the ConfigMap has an invalid metadata.name"),
        "a uid with a quote": ([config_map("a", uid='"')], ":3: the ConfigMap has an invalid metadata.uid"),
        "namespace with ..": (
            [config_map("a", namespace="..")],
            ":3: the ConfigMap has an invalid metadata.n",
        ),
        "a name without end": ([config_map("a" * 300)], ":3: the ConfigMap has an invalid metadata.name"),
        "missing namespace": ([config_map("a", namespace="")], ":3: ConfigMap 'a' needs a namespace"),
        "missing resourceVersion": (
            [config_map("a", resourceVersion="")],
            ":3: ConfigMap 'a' has the resourceVersion ''",
        ),
        "a resourceVersion of 0": ([config_map("a", resourceVersion="0")], ":3: ConfigMap 'a' has the resourceVersion"),
        "resourceVersion out of range": (
            [config_map("a", resourceVersion="9" * 4000)],
            ":3: ConfigMap 'a' has the resourceVersion",
        ),
        "a resourceVersion of letters": ([config_map("a", resourceVersion="x")], ":3: ConfigMap 'a' has the resourceV"),
        "a name twice": (
            [config_map("a"), config_map("a", uid="other")],
            ":4: ConfigMap default/a exists already, in line 3",
        ),
        "a uid twice": (
            [config_map("a"), config_map("b", uid="uid-a")],
            ":4: ConfigMap b has the uid of /configmaps/d",
        ),
        "metadata of the wrong type": ([{**config_map("a"), "metadata": []}], ":3: the ConfigMap can't be decoded"),
        "missing metadata": ([{"kind": "ConfigMap", "apiVersion": "v1"}], ":3: the ConfigMap has no metadata"),
        "no objects": ([], ": there is no object in it"),
    },
)
def test_invalid_object_is_rejected_with_its_line(objects: list[Object], error: str, tmp_path: Path) -> None:
    path = snapshot_of(tmp_path / "s", *objects)
    with pytest.raises(SnapshotError) as raised:
        restored(path)
    assert str(raised.value).startswith(f"{path}{error}")


@cases(
    "spec",
    {
        "missing spec": None,
        "missing versions": {"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"}},
        "no storage version": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": False}],
        },
    },
)
def test_invalid_definition_is_rejected(spec: Any, tmp_path: Path) -> None:
    path = snapshot_of(tmp_path / "s", _definition(spec=spec), resource=DEFINITIONS)
    with pytest.raises(SnapshotError, match=r":3: the CustomResourceDefinition widgets.example.com can't be served"):
        restored(path)


def test_custom_resources_need_a_preceding_definition(tmp_path: Path) -> None:
    path = write(tmp_path / "s", HEADER, DEFINITIONS, _definition(), WIDGETS, _widget("a"), _widget("b"), end(3))
    assert [record.key for record in restored(path).records] == [
        "apiextensions.k8s.io/customresourcedefinitions/widgets.example.com",
        "example.com/widgets/default/a",
        "example.com/widgets/default/b",
    ]


def test_unserved_resources_are_reported(tmp_path: Path) -> None:
    beta = {**WIDGETS, "resource": "cronjobs", "group": "batch", "version": "v2alpha1", "kind": "CronJob"}
    job = {**config_map("c"), "kind": "CronJob", "apiVersion": "batch/v2alpha1"}
    documents = (HEADER, CONFIG_MAPS, config_map("z"), WIDGETS, _widget("a"), _widget("b"), beta, job, end(4))
    result = restored(write(tmp_path / "s", *documents))
    assert [(item.resource, item.reason) for item in result.skipped] == [
        ("widgets.example.com", "2 objects: this API server has no such resource"),
        ("cronjobs.batch", "1 object: objects of version v2alpha1 can't be converted to v1"),
    ]
    assert len(result.records) == 1


def test_objects_of_several_stores_keep_their_order(tmp_path: Path) -> None:
    """No two objects share a revision, and an object's resourceVersion is its revision."""
    versions = {"a": "5", "b": "5", "c": "6", "d": "9", "e": "5"}
    path = snapshot_of(
        tmp_path / "s", *[config_map(name, resourceVersion=stored_object) for name, stored_object in versions.items()]
    )
    records = restored(path).records
    names = [item.key[-1] for item in records]
    assert names == ["a", "b", "e", "c", "d"]
    assert [item.revision for item in records] == [5, 6, 7, 8, 9]
    assert [int(json.loads(item.value)["metadata"]["resourceVersion"]) for item in records] == [5, 6, 7, 8, 9]


def test_leader_election_leases_are_released(tmp_path: Path) -> None:
    line = {"resource": "leases", "group": "coordination.k8s.io", "version": "v1", "kind": "Lease", "namespaced": True}

    def lease(name: str, namespace: str, **labels: str) -> Object:
        meta = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(len(name)), "labels": labels}
        spec = {"holderIdentity": "x", "leaseDurationSeconds": 15}
        return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": meta, "spec": spec}

    path = snapshot_of(
        tmp_path / "s",
        lease("leader", "kube-system"),
        lease("node-1234", "kube-node-lease"),
        lease("apiserver", "kube-system", **{"apiserver.kubernetes.io/identity": "kube-apiserver"}),
        resource=line,
    )
    holders = {
        record.key.rpartition("/")[2]: json.loads(record.value)["spec"]["holderIdentity"]
        for record in restored(path).records
    }
    assert holders == {"leader": "", "node-1234": "x", "apiserver": "x"}
