"""Files of ``etcdctl snapshot save`` are converted to the records of a store; skipped values are reported."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests import etcd_snapshots
from tests.custom_resources import definition, version
from tests.etcd_snapshots import Bolt, put
from tests.real_cluster import RealCluster
from tests.tables import cases

from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec, resource_of
from pilothouse.snapshots import Restored, SnapshotError, restored, restored_from_etcd
from pilothouse.snapshots.resource_order import DEFINITIONS
from pilothouse.storage.encryption.aes import Gcm
from pilothouse.storage.encryption.at_rest import EncryptionAtRest, Providers
from pilothouse.storage.encryption.transformer import Context, PrefixTransformer, PrefixTransformers

Object = dict[str, Any]
WIDGETS = "/".join((*DEFINITIONS, "widgets.example.com"))


def stored(key: str, api_version: str, kind: str, number: int = 1, **fields: Any) -> bytes:
    """The bytes in etcd of an object."""
    namespace, _, name = key.split("/", 2)[2].rpartition("/")
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{number}", "resourceVersion": "1"}
    obj = {"kind": kind, "apiVersion": api_version, "metadata": {k: v for k, v in meta.items() if v}, **fields}
    return ObjectCodec().encode(key, json.dumps(obj).encode())


def config_map(number: int) -> tuple[str, bytes]:
    key = f"/configmaps/default/c{number}"
    return key, stored(key, "v1", "ConfigMap", number, data={"a": "b"})


def snapshot(path: Path, *objects: tuple[str, bytes], prefix: str = "/registry") -> Path:
    """A snapshot with these objects; keys with ``=`` are etcd's."""
    layout = KeyLayout(prefix)
    pairs = [
        put(revision, (key[1:] if key.startswith("=") else layout.etcd_key(key)).encode(), data)
        for revision, (key, data) in enumerate(objects, 2)
    ]
    return Bolt().with_keys(pairs, per_leaf=100).write(path)


def skipped(obj: Restored) -> dict[str, str]:
    return {item.resource: item.reason for item in obj.skipped}


def widget(api_version: str = "example.com/v1", kind: str = "Widget", name: str = "w") -> tuple[str, bytes]:
    key = f"example.com/widgets/{name}"
    return key, stored(key, api_version, kind, 7, spec={"size": 1})


def of_definition() -> tuple[str, bytes]:
    document = definition("Widget", version("v1"), scope="Cluster")
    document["metadata"] = {**document["metadata"], "uid": "uid-crd", "resourceVersion": "1"}
    document["status"] = {
        "acceptedNames": document["spec"]["names"],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": ""}
            for kind in ("NamesAccepted", "Established")
        ],
        "storedVersions": ["v1"],
    }
    return WIDGETS, ObjectCodec().encode(WIDGETS, json.dumps(document).encode())


DEEP = b'{"kind":"Widget","apiVersion":"example.com/v1","a":' + b'{"a":' * 1000 + b"1" + b"}" * 1001


@cases(
    "objects, resource, reason",
    {
        "encrypted": (
            [
                ("/secrets/default/s", b"k8s:enc:aescbc:v1:key1:\x00\x01"),
                ("/secrets/default/t", b"k8s:enc:kms:v2:k:\x00"),
            ],
            "secrets",
            "2 objects: encrypted at rest, which can't be read without the keys of its API server",
        ),
        "damaged": ([("/pods/default/p", b"k8s\0\x0a\xff")], "pods", "1 object: /pods/default/p can't be decoded"),
        "invalid JSON": ([("/pods/default/p", b"{")], "pods", "1 object: /pods/default/p can't be decoded"),
        "different kind": (
            [("/pods/default/p", stored("/configmaps/default/p", "v1", "ConfigMap"))],
            "pods",
            "1 object: /pods/default/p is a ConfigMap and not a Pod",
        ),
        "different name": (
            [("/configmaps/default/p", stored("/configmaps/default/q", "v1", "ConfigMap"))],
            "configmaps",
            "1 object: default/p has the metadata of another object",
        ),
        "duplicate uid": (
            [("/configmaps/default/p", stored("/configmaps/default/p", "v1", "ConfigMap"))],
            "configmaps",
            "1 object: ConfigMap p has the uid of /configmaps/default/c1",
        ),
        "unknown resource": (
            [("=/registry/podsecuritypolicies/p", b"k8s\0")],
            "podsecuritypolicies",
            "1 object: this API server has no such resource",
        ),
        "missing definition": ([widget()], "widgets.example.com", "1 object: this API server has no such resource"),
        "unknown version": (
            [of_definition(), widget("example.com/v9")],
            "widgets.example.com",
            "1 object: its definition has no version v9",
        ),
        "different group": (
            [of_definition(), widget("example.org/v1")],
            "widgets.example.com",
            "1 object: w is of example.org/v1",
        ),
        "too deep": (
            [of_definition(), ("example.com/widgets/w", DEEP)],
            "widgets.example.com",
            "1 object: w can't be taken: exceeded max depth",
        ),
        "too large": (
            [("/pods/default/p", b"k8s\0" + b"x" * (9 << 20))],
            "pods",
            "1 object: default/p has 9,437,188 bytes, and at most 8,388,608 are read",
        ),
        "invalid UTF-8": ([], "keys", "1 object: a key that is no UTF-8"),
    },
)
def test_invalid_values_are_skipped_and_reported(
    tmp_path: Path, objects: list[tuple[str, bytes]], resource: str, reason: str
) -> None:
    path = snapshot(tmp_path / "db", config_map(1), *objects)
    if not objects:
        _, data = config_map(1)
        pairs = [put(2, b"/registry/pods/\xff"), put(3, b"/registry/configmaps/default/c1", data)]
        Bolt().with_keys(pairs).write(path)
    result = restored_from_etcd(path)
    assert "/configmaps/default/c1" in {record.key for record in result.records}
    assert list(skipped(result)) == [resource]
    assert skipped(result)[resource].startswith(reason)


def test_number_of_reported_values_is_bounded(tmp_path: Path) -> None:
    long = "x" * 100_000
    path = snapshot(tmp_path / "db", config_map(1), (f"=/registry/{long}/a", b""), (f"=/registry/pods/ns/{long}", b"{"))
    result = restored_from_etcd(path)
    assert len(result.skipped) == 2
    assert all(len(item.resource) + len(item.reason) < 1000 for item in result.skipped)


def test_custom_resources_are_restored_with_their_definition(tmp_path: Path) -> None:
    path = snapshot(tmp_path / "db", widget(), of_definition())
    result = restored_from_etcd(path)
    assert not result.skipped
    values = {record.key: json.loads(record.value) for record in result.records}
    assert values["example.com/widgets/w"]["spec"] == {"size": 1}
    assert values["example.com/widgets/w"]["metadata"]["resourceVersion"] == "2"
    assert values[WIDGETS]["apiVersion"] == "apiextensions.k8s.io/v1"


def test_encrypted_values_are_restored_with_their_key(tmp_path: Path) -> None:
    def transformer(name: str) -> PrefixTransformer:
        return PrefixTransformer(f"k8s:enc:aesgcm:v1:{name}:".encode(), Gcm(name.encode() * 16))

    def encrypted(key: str, name: str, number: int) -> tuple[str, bytes]:
        written, context = transformer(name), Context(KeyLayout().etcd_key(key).encode())
        data = stored(key, "v1", "Secret", number, type="Opaque")
        return key, written.prefix + written.transformer.to_storage(data, context)

    path = snapshot(
        tmp_path / "db",
        config_map(1),
        encrypted("/secrets/default/known", "a", 2),
        encrypted("/secrets/default/other", "b", 3),
    )
    secrets = PrefixTransformers("no matching prefix found", [transformer("a")], lambda *_arguments: None)
    encryption = EncryptionAtRest(Providers({("", "secrets"): secrets}), resource_of)
    result = restored_from_etcd(path, encryption=encryption)
    keys = {record.key for record in result.records if record.key.startswith(("/secrets/", "/configmaps/default/"))}
    assert keys == {"/secrets/default/known", "/configmaps/default/c1"}
    assert skipped(result) == {"secrets": "1 object: no matching prefix found"}


def test_etcd_prefix(tmp_path: Path) -> None:
    path = snapshot(tmp_path / "db", config_map(1), prefix="/kubernetes.io")
    assert len(restored_from_etcd(path, prefix="kubernetes.io").records) == 1
    with pytest.raises(
        SnapshotError, match=r"no keys below /registry/: it has other keys, such as /kubernetes\.io/conf"
    ):
        restored(path)


def test_service_range_from_the_allocations(tmp_path: Path) -> None:
    key = "/rangeallocations/serviceips"
    allocation = {"kind": "RangeAllocation", "apiVersion": "v1", "metadata": {}, "range": "10.7.0.0/20", "data": ""}
    path = snapshot(tmp_path / "db", config_map(1), (key, ObjectCodec().encode(key, json.dumps(allocation).encode())))
    result = restored_from_etcd(path)
    assert (result.service_range, len(result.records)) == ("10.7.0.0/20", 1)


@pytest.mark.real
def test_all_objects_of_a_real_cluster_are_restored(real_cluster: RealCluster, tmp_path: Path) -> None:
    namespace = real_cluster.namespace()
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("kept", "gone"):
        real_cluster.request("POST", path, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}})
    real_cluster.request(
        "PUT",
        f"{path}/kept",
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kept"}, "data": {"a": "b"}},
    )
    real_cluster.request("DELETE", f"{path}/gone")
    result = restored(etcd_snapshots.save(real_cluster.etcd_url, tmp_path / "backup.db"))
    assert len(result.records) > 150
    assert not [
        skipped_object for skipped_object in result.skipped if skipped_object.resource != "podsecuritypolicies"
    ], result.skipped
    values = {record.key: json.loads(record.value) for record in result.records}
    for route, prefix in {
        f"/api/v1/namespaces/{namespace}/configmaps": f"/configmaps/{namespace}/",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles": "rbac.authorization.k8s.io/clusterroles/",
        "/api/v1/services": "/services/",
    }.items():
        listed = {
            (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
            for item in real_cluster.request("GET", route)["items"]
        }
        metas = [value["metadata"] for key, value in values.items() if key.startswith(prefix)]
        assert {(meta["uid"], meta["resourceVersion"]) for meta in metas} == listed
    assert values[f"/configmaps/{namespace}/kept"]["data"] == {"a": "b"}
    assert f"/configmaps/{namespace}/gone" not in values
    assert result.service_range


@pytest.mark.slow
def test_ten_thousand_objects_take_less_than_three_seconds(tmp_path: Path) -> None:
    container = {"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    spec = {"nodeName": "node-1", "containers": [container, {**container, "name": "sidecar"}]}
    status = {"phase": "Running", "podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "True"}]}
    objects = []
    for number in range(10_000):
        key = f"/pods/default/p{number}"
        objects.append((key, stored(key, "v1", "Pod", number, spec=spec, status=status)))
    path = snapshot(tmp_path / "db", *objects)
    restored(snapshot(tmp_path / "small", *objects[:1]))  # what is loaded once
    began = time.process_time()
    assert len(restored(path).records) == 10_000
    assert time.process_time() - began < 3.0
