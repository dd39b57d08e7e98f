"""``pilothouse up --etcd-snapshot``: a cluster from an etcd backup, read with kubectl."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import etcd_snapshots
from tests.etcd_snapshots import Bolt, put
from tests.programs import environment, pilothouse, until
from tests.real_cluster import RealCluster
from tests.tables import cases

from pilothouse.apiserver.storage_codec import ObjectCodec
from pilothouse.cli import apiserver, main, up
from pilothouse.cli.etcd_flags import etcd_options
from pilothouse.cli.program import UserError
from pilothouse.cli.restored import restored_cluster
from pilothouse.snapshots import SavedNode, data_directory

NODE: dict[str, Any] = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
    },
}


def _deployment(namespace: str) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    meta = {"name": "web", "namespace": namespace}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": meta, "spec": spec}


@pytest.fixture
def backup(real_cluster: RealCluster, tmp_path: Path) -> tuple[Path, str, str]:
    """The backup of a cluster of v1.20 with a node and a Deployment, the namespace and the uid of the latter."""
    namespace = real_cluster.namespace()
    created = real_cluster.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", _deployment(namespace))
    real_cluster.request("POST", "/api/v1/nodes", NODE)
    path = etcd_snapshots.save(real_cluster.etcd_url, tmp_path / "backup.db")
    real_cluster.request("DELETE", "/api/v1/nodes/n1")
    return path, namespace, created["metadata"]["uid"]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("runs", [True, False], ids=["running", "saved copy"])
def test_kubectl_shows_the_cluster_of_a_backup(backup: tuple[Path, str, str], tmp_path: Path, runs: bool) -> None:
    path, namespace, uid = backup

    def kubectl(*words: str) -> Any:
        program = Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl"
        command = [str(program), "--kubeconfig=k", *words, "-o", "json"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def phases() -> list[str]:
        return [pod["status"].get("phase") for pod in kubectl("get", "pods", "-n", namespace)["items"]]

    flags = [] if runs else ["--no-manager", "--no-scheduler"]
    with pilothouse(tmp_path, "up", f"--etcd-snapshot={path}", "--port=0", "--kubeconfig=k", *flags) as server:
        assert "1 node, stored in memory" in server.until("pilothouse is ready.*")
        (deployments,) = kubectl("get", "deployments", "-n", namespace)["items"]
        assert (deployments["metadata"]["uid"], deployments["spec"]["replicas"]) == (uid, 2)
        if runs:
            until(lambda: phases() == ["Running", "Running"], "the pods of the Deployment run")
        else:
            assert kubectl("get", "pods", "-n", namespace)["items"] == []


@pytest.mark.real
def test_restore_makes_a_data_directory_of_it(backup: tuple[Path, str, str], tmp_path: Path) -> None:
    path, _namespace, _uid = backup
    assert main(["snapshot", "restore", str(path), "--data-dir", str(tmp_path / "d")]) == 0
    origin = data_directory.origin_of(tmp_path / "d")
    assert origin is not None
    assert origin.nodes == (SavedNode("n1", ready=True),)


@cases(
    "words, code, error",
    {
        "with --snapshot": (["--etcd-snapshot=DB", "--snapshot=s"], 2, "--snapshot and --etcd-snapshot can't be used"),
        "with --data-dir": (
            ["--etcd-snapshot=DB", "--data-dir=d"],
            2,
            'make the directory with "pilothouse snapshot restore DB --data-dir d"',
        ),
        "with --etcd-servers": (
            ["--etcd-snapshot=DB", "--etcd-servers=x"],
            2,
            "--etcd-snapshot and --etcd-servers can't be",
        ),
        "missing file": (["--etcd-snapshot=/nowhere"], 1, "--etcd-snapshot /nowhere: No such file or directory"),
        "no keys below the prefix": (
            ["--etcd-snapshot=DB"],
            1,
            "there are no keys below /registry/: it has other keys, such as /k/a",
        ),
        "no keys below the prefix, without the flag for it": (
            ["--snapshot=DB"],
            1,
            "; --etcd-snapshot DB takes --etcd-prefix and --encryption-provider-config",
        ),
        "missing encryption configuration": (
            ["--etcd-snapshot=DB", "--encryption-provider-config=/nowhere"],
            1,
            "--encryption-provider-config: error while parsing file: ",
        ),
        "no objects below the prefix": (
            ["--etcd-snapshot=DB", "--etcd-prefix=/k"],
            1,
            "there is no object in it that this API server",
        ),
    },
)
def test_invalid_snapshots(tmp_path: Path, words: list[str], code: int, error: str) -> None:
    path = str(Bolt().with_keys([put(2, b"/k/a")]).write(tmp_path / "db"))
    parsed = up.flag_set("x").parse([word.replace("DB", path) for word in words])
    with pytest.raises(UserError) as refused:
        restored_cluster(parsed)
    assert error.replace("DB", path) in str(refused.value)
    assert refused.value.code == code


def test_prefix_does_not_need_servers() -> None:
    words = ["--etcd-snapshot=db", "--etcd-prefix=/k", "--encryption-provider-config=e"]
    assert etcd_options(up.flag_set("x").parse(words)) is None
    with pytest.raises(UserError, match="--etcd-prefix needs --etcd-servers"):
        etcd_options(apiserver.flag_set("x").parse(["--etcd-prefix=/k"]))


def test_show_describes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def stored(key: str, kind: str, name: str) -> bytes:
        meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
        return ObjectCodec().encode(key, json.dumps({"kind": kind, "apiVersion": "v1", "metadata": meta}).encode())

    maps = [
        put(revision, f"/registry/configmaps/default/c{revision}".encode(), stored(key, "ConfigMap", f"c{revision}"))
        for revision in (2, 3)
        for key in [f"/configmaps/default/c{revision}"]
    ]
    account = stored("/serviceaccounts/default/s", "ServiceAccount", "s")
    others = [
        put(4, b"/registry/serviceaccounts/default/s", account),
        put(5, b"/registry/secrets/default/x", b"k8s:enc:aescbc:v1:key1:\x00"),
    ]
    path = Bolt().with_keys([*maps, *others]).write(tmp_path / "backup.db")
    assert main(["snapshot", "show", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{path}: a snapshot of etcd, with the values of Secrets, up to resourceVersion 4",
        "       2  configmaps",
        "       1  serviceaccounts",
        "       3  objects",
    ]
    assert "warning: secrets can't be restored: 1 object: encrypted at rest" in err
