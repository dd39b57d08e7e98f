"""``pilothouse up`` with the cluster of a snapshot."""

from pathlib import Path
from typing import Any

import pytest
from tests.programs import pilothouse, run_pilothouse
from tests.simulate.test_drain_preview import deployment, snapshot
from tests.tables import cases

from pilothouse.snapshots import load


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return snapshot(tmp_path_factory.mktemp("snapshots") / "s", [deployment("web", 2)], nodes=2)


def described(path: Path) -> dict[str, Any]:
    """The objects by kind and name: uid and content."""
    result = {}
    for item in load(path):
        if item["kind"] not in ("Event", "Lease", "ConfigMap", "APIService"):
            meta = item["metadata"]
            body = {key: value for key, value in item.items() if key not in ("metadata", "status")}
            result[f"{item['kind']} {meta.get('namespace', '')}/{meta['name']}"] = meta["uid"], body
    return result


@pytest.mark.parametrize("in_memory", [True, False], ids=["--snapshot", "--data-dir"])
def test_up_continues_the_restored_cluster(saved: Path, tmp_path: Path, in_memory: bool) -> None:
    source = ["--snapshot", str(saved)]
    if not in_memory:
        assert run_pilothouse(tmp_path, "snapshot", "restore", str(saved), "--data-dir", "data").returncode == 0
        source = ["--data-dir", "data"]
    with pilothouse(tmp_path, "up", *source, "--port=0", "--kubeconfig=k") as up:
        assert "2 nodes, stored" in up.until("pilothouse is ready.*")
        done = run_pilothouse(tmp_path, "snapshot", "save", "again", "--kubeconfig=k")
        assert done.returncode == 0, done.stderr
        if in_memory:
            live = run_pilothouse(tmp_path, "snapshot", "drain", "--live", "node-0", "--kubeconfig=k")
            assert live.returncode == 0, live.stderr
            assert "node node-0: drained in " in live.stdout
            assert run_pilothouse(tmp_path, "get", "nodes", "--kubeconfig=k").stdout.count("SchedulingDisabled") == 0
    before, after = described(saved), described(tmp_path / "again")
    assert {key: after.get(key) for key in before} == before
    created_keys = {key.partition(" ")[0] for key in after.keys() - before.keys()}
    assert not created_keys & {"Node", "Pod", "ReplicaSet", "Deployment", "Namespace", "ServiceAccount"}, (
        "nothing is done twice"
    )


@cases(
    "words, code, error",
    {
        "--snapshot and --data-dir": (
            ["--snapshot", "FILE", "--data-dir", "d"],
            2,
            "--snapshot and --data-dir can't be used together",
        ),
        "missing file": (["--snapshot", "/nowhere"], 1, "--snapshot /nowhere: No such file or directory"),
        "not a snapshot": (["--snapshot", "EMPTY"], 1, "this is no snapshot: the file is empty"),
        "not of etcd": (["--etcd-snapshot", "FILE"], 1, "; it is a snapshot of pilothouse: --snapshot FILE"),
        "names": (["--snapshot", "FILE", "--nodes=1"], 2, "--node-prefix: there is a node node-0 already"),
    },
)
def test_invalid_command_lines(saved: Path, tmp_path: Path, words: list[str], code: int, error: str) -> None:
    (tmp_path / "empty").write_text("")
    places = {"FILE": str(saved), "EMPTY": str(tmp_path / "empty")}
    done = run_pilothouse(tmp_path, "up", *(places.get(word, word) for word in words), "--port=0", "--kubeconfig=k")
    assert done.returncode == code
    assert error.replace("FILE", str(saved)) in done.stderr
