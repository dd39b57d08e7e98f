"""Clusters in the background: their records, locks, logs and kubeconfigs, without a server."""

import asyncio
import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.test_clusters import FOREIGN, MANIFEST, posix
from tests.tables import cases

from pilothouse.cli import kubeconfig_text, main
from pilothouse.cli.clusters import cluster as cluster_module
from pilothouse.cli.clusters import commands as clusters_commands
from pilothouse.cli.clusters import contexts
from pilothouse.cli.clusters.cluster import Clusters, Record
from pilothouse.cli.clusters.commands import create_flag_set
from pilothouse.cli.manifests import Manifest
from pilothouse.cli.program import UserError


@cases(
    "words, message",
    {
        "a flag that is chosen by the command": ("create cluster --data-dir=x", "unknown flag: --data-dir"),
        "kind's --name": ("create cluster --name dev", "the name is an argument: `pilothouse create cluster dev`"),
        "kind's -n": ("create cluster -n dev", "the name is an argument: `pilothouse create cluster dev`"),
        "kind's --name of delete": ("delete cluster --name=dev", "argument: `pilothouse delete cluster dev`"),
        "kind's --config": ("create cluster --config kind.yaml", "there is no file of the cluster"),
        "k3d's --agents": ("create cluster --agents 2", "--nodes is the number of nodes"),
        "minikube's --kubernetes-version": ("create cluster --kubernetes-version=v1.35.0", "version of this release"),
        "minikube's -p": ("create cluster -p dev", "the name is an argument: `pilothouse create cluster NAME`"),
        "a flag of create": ("start dev --ui", "--ui: a cluster keeps the flags with which it was created"),
        "kind's --wait": ("create cluster --wait 60s", "waits until the cluster is ready"),
        "kind's export": ("export kubeconfig", "`pilothouse kubeconfig --merge`"),
        "kind's load docker-image": ("load docker-image app:1 --name dev", "there are no images to load"),
        "kind's load image-archive": ("load image-archive app.tar", "there are no images to load"),
        "a manifest without its flag": ("load .", "use -f ."),
        "kubectl's --context": ("load --context pilothouse-dev -f x", "cluster is an argument: `pilothouse load dev`"),
        "kubectl's --context of logs": ("logs --context=pilothouse", "argument: `pilothouse logs pilothouse`"),
        "kubectl's --context of delete": ("delete cluster --context pilothouse-a", "`pilothouse delete cluster a`"),
        "kind's --name of stop": ("stop --name", "the cluster is an argument: `pilothouse stop NAME`"),
        "kind's --name of kubeconfig": ("kubeconfig --name dev", "argument: `pilothouse kubeconfig dev`"),
        "a cluster and a manifest without its flag": ("load dev .", "use -f ."),
        "a misspelt flag": ("create cluster --node=3", "did you mean --nodes?"),
        "missing noun": ("create", "`pilothouse create cluster [NAME]`"),
        "a name without its noun": ("delete web", "`pilothouse delete cluster web`"),
        "a name in capitals": ("create cluster Web", "can't be the name of a cluster"),
        "a name that leaves the directory": ("delete cluster ../x", "can't be the name of a cluster"),
        "missing manifest file": ("create cluster -f nothing.yaml", "unable to read manifest nothing.yaml"),
        "unsupported output format": ("list -o yaml", "--output must be table, name or json"),
        "no manifests": ("load", "load needs manifests"),
        "no name of a file": (f"create cluster {'x' * 300}.yaml", "can't be the name of a cluster"),
        "no name of a manifest": (f"load {'x' * 300}.yaml", "load needs manifests"),
        "a server that does not answer": ("create cluster -f http://127.0.0.1:1/a.yaml", "http://127.0.0.1:1/a.yaml:"),
    },
)
def test_invalid_command_lines(
    words: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) in {1, 2}
    assert message in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


@cases(
    "words, message",
    {
        "create": ("create cluster -f *.yaml", "b.yaml is a file, and -f takes one: use -f b.yaml, or -f . for"),
        "load": ("load -f sub/*.yaml", "sub/b.yaml is a file, and -f takes one: use -f sub/b.yaml, or -f sub for"),
        "no flag": ("create cluster b.yaml", "b.yaml is a file, and -f takes one: use -f b.yaml"),
    },
)
def test_each_file_needs_its_flag(
    words: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell makes several files of a pattern, and ``b.yaml`` would be a valid name of a cluster."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    for path in ("a.yaml", "b.yaml", "sub/a.yaml", "sub/b.yaml", "sub/c.yaml"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    args = [arg for word in words.split() for arg in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
    assert main(args) == 2
    assert message in capfd.readouterr().err
    assert not (tmp_path / "state").exists()


def record(name: str) -> Record:
    return Record(name=name, created="2026-01-01T00:00:00Z")


@posix
def test_cluster_runs_while_its_lock_is_held(tmp_path: Path) -> None:
    cluster = Clusters(tmp_path).create(record("a"))
    with cluster.locked() as descriptor:
        cluster.write_pid(4711)
        inherited = os.dup(descriptor)
    assert cluster.pid == 4711
    os.close(inherited)
    assert cluster.pid is None


@posix
@cases(
    "interrupted, message",
    {
        "before there is a cluster": ("sources.manifests_of", "Interrupted: no cluster was created\n"),
        "while it starts": ("process.start", 'Interrupted: removing the cluster "dev"\nNothing of it is left.\n'),
    },
)
def test_ctrl_c_of_create_leaves_nothing_and_says_so(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    interrupted: str,
    message: str,
) -> None:
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(f"{clusters_commands.__name__}.{interrupted}", interrupt)
    assert main(["create", "cluster", "dev", f"--kubeconfig={tmp_path / 'config'}"]) == 130
    assert capsys.readouterr().err == f"\n{message}"
    assert Clusters().names() == []
    assert not (tmp_path / "config").exists()


@posix
def test_ctrl_c_while_a_stop_is_recorded_is_not_answered_by_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = Clusters().create(msgspec.structs.replace(record("dev"), started=True))
    write = type(cluster).update

    def interrupted(*arguments: Any, **changes: Any) -> None:
        write(*arguments, **changes)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(cluster), "update", interrupted)
    with cluster.locked(), subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        cluster.write_pid(process.pid)
        assert main(["stop", "dev"]) == 130
        assert process.wait(timeout=10) == -signal.SIGTERM
    message = 'Interrupted: cluster "dev" is being stopped: its process has not ended yet'
    assert capsys.readouterr().err == f"\n{message}\n"


@posix
def test_stop_all_stops_what_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    clusters = Clusters()
    clusters.create(record("a"))
    memory = clusters.create(msgspec.structs.replace(record("b"), in_memory=True))
    clusters.create(record("c"))
    with memory.locked():
        memory.write_pid(os.getpid())
        assert main(["stop", "--all"]) == 1
    out, err = capsys.readouterr()
    assert out == 'cluster "a" was not running\ncluster "c" was not running\n'
    assert 'cluster "b" is in memory' in err
    assert memory.directory.exists()


@pytest.mark.parametrize("words", ["stop", "start", "delete cluster"])
def test_all_and_names_exclude_each_other(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main([*words.split(), "--all", "a"]) == 2
    assert "--all and names can't be used together" in capsys.readouterr().err
    assert main([*words.split(), "--all"]) == 0  # there are none


@posix
def test_a_missing_cluster_is_no_error_with_ignore_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a trap that cleans up after whatever a script has done."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["delete", "cluster", "a"]) == 1
    assert 'no cluster "a"' in capsys.readouterr().err
    for words in (["a"], [], ["a", "b"]):
        assert main(["delete", "cluster", *words, "--ignore-not-found"]) == 0
    assert capsys.readouterr() == ("", "")
    Clusters().create(record("b"))
    assert main(["delete", "cluster", "a", "b", "--ignore-not-found"]) == 0
    assert capsys.readouterr() == ('cluster "b" is deleted\n', "")
    assert main(["delete", "cluster", "A", "--ignore-not-found"]) == 2
    assert "can't be the name of a cluster" in capsys.readouterr().err


@posix
def test_the_lock_has_no_place_among_the_standard_streams(tmp_path: Path) -> None:
    cluster = Clusters(tmp_path).create(record("a"))
    kept = os.dup(0)
    os.close(0)
    try:
        with cluster.locked() as descriptor:
            assert descriptor > 2
            assert cluster.is_running
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(0)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert not cluster.is_running


@cases(
    "content, message",
    {
        "newer format": ('{"format":2,"name":"a","created":""}', "has format 2"),
        "newer format with other types": ('{"format":2,"name":["a"]}', "has format 2"),
        "damaged": ('{"format":', "`pilothouse delete cluster a`"),
        "record of another cluster": ('{"name":"b","created":""}', "of a cluster named 'b'"),
    },
)
def test_unusable_record(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cluster.json").write_text(content)
    with pytest.raises(UserError, match=message):
        Clusters(tmp_path).get("a")


@posix
def test_unreadable_record_does_not_affect_other_clusters(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    clusters = Clusters()
    (clusters.create(record("newer")).directory / "cluster.json").write_text('{"format":2}')
    clusters.create(record("mine"))
    assert main(["list"]) == 0
    printed = capfd.readouterr()
    assert [line.split()[:2] for line in printed.out.splitlines()[1:]] == [
        ["mine", "Interrupted"],
        ["newer", "Unreadable"],
    ]
    assert "has format 2, which this release does not read; it reads 1" in printed.err
    assert clusters.chosen("").name == "mine"


@posix
def test_existing_cluster_is_an_error_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = Clusters(tmp_path)
    cluster = clusters.create(record("a"))
    with cluster.starting(), pytest.raises(UserError, match=r"is being created by another command$"):
        clusters.create(record("a"))
    cluster.update(port=20000)
    with pytest.raises(UserError, match=r"\(stopped\): `pilothouse start a` starts it, `pilothouse delete cluster a`"):
        clusters.create(record("a"))
    cluster.update(in_memory=True, started=True)
    with pytest.raises(UserError, match=r"\(failed\): `pilothouse delete cluster a` deletes it, or choose"):
        clusters.create(record("a"))
    monkeypatch.setattr("pilothouse.cli.clusters.cluster._PATIENCE_SECONDS", 0.0)
    cluster.update(in_memory=False, port=0)
    with pytest.raises(UserError, match=r"was interrupted: `pilothouse start a` completes it, `pilothouse delete"):
        clusters.create(record("a"))
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match=f"created by another command.*remove {tmp_path / 'b'}"):
        clusters.create(record("b"))


@posix
def test_two_commands_delete_the_same_clusters(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    clusters = Clusters()
    records = clusters.create(record("a"))
    removed = cluster_module.Cluster.remove

    def remove(cluster: cluster_module.Cluster) -> None:
        monkeypatch.undo()
        removed(cluster)  # the other command is first
        removed(cluster)

    monkeypatch.setattr(cluster_module.Cluster, "remove", remove)
    clusters_commands._delete(records)
    clusters_commands._delete(records)  # and here before this command stops its process
    monkeypatch.setattr(Clusters, "names", lambda _self: ["a"])
    assert main(["delete", "cluster", "--all"]) == 0
    assert capfd.readouterr() == ('cluster "a" is deleted\n' * 2, "")
    assert list(clusters.root.iterdir()) == []


@posix
def test_log_of_a_killed_cluster_has_a_hint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = Clusters().create(record("a"))
    cluster.update(started=True, port=20000)
    cluster.log.write_text("pilothouse is ready\n")
    assert main(["logs", "a"]) == 0
    printed = capfd.readouterr()
    assert printed.out == "pilothouse is ready\n"
    assert "was killed; `pilothouse start a` starts it" in printed.err


@posix
def test_unwritable_home_is_an_error_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(UserError, match=r"unable to create .*XDG_STATE_HOME may name another"):
        Clusters(tmp_path / "file" / "clusters").create(record("a"))


@posix
def test_a_cluster_whose_creation_was_killed_is_interrupted_and_start_completes_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("pilothouse.cli.clusters.cluster._PATIENCE_SECONDS", 0.0)
    cluster = Clusters().create(record("a"))
    server = {"cluster": {"server": "https://127.0.0.1:20001"}, "name": "pilothouse"}
    cluster.kubeconfig.write_text(json.dumps({"clusters": [server]}))
    cluster.log.write_text("pilothouse is ready: before\npilothouse is ready: now\n")
    assert cluster.status == "Interrupted", "it was killed before it started the process"
    with cluster.locked():
        with cluster.starting():
            cluster.write_offset(28)
            assert cluster.status == "Starting"
            assert main(["start", "a"]) == 1
            assert "being started by another command" in capfd.readouterr().err
        assert cluster.status == "Interrupted"
        assert main(["start", "a"]) == 0
        printed = capfd.readouterr()
        assert 'cluster "a" is ready' in printed.out
        assert "Manifests that were given to it have not been applied: `pilothouse load a -f FILE`" in printed.err
        assert Clusters().get("a").status == "Running"
        assert main(["start", "a"]) == 0
        assert "runs already" in capfd.readouterr().out
    assert Clusters().get("a").status == "Failed"


@posix
def test_snapshot_of_a_stored_cluster_is_rejected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["create", "cluster", "a", "--no-context", "--snapshot", "s.snapshot"]) == 2
    assert "--snapshot needs --in-memory" in capfd.readouterr().err
    assert Clusters().names() == []


@posix
def test_a_full_disk(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(FOREIGN)
    for name in ("a", "b"):
        cluster = Clusters().create(record(name))
        cluster.update(user_kubeconfig=str(kubeconfig))

    def full(_path: Path, _content: bytes, *, mode: int = 0) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cluster_module, "write_private", full)
    assert main(["stop", "a"]) == 1
    assert re.fullmatch(
        r'Error: cluster "a" was not running, but that is not recorded, and `list` shows it as Failed: unable to write '
        r".*/a/cluster\.json: No space left on device\n",
        capfd.readouterr().err,
    )
    assert main(["create", "cluster", "c"]) == 1
    assert capfd.readouterr().err.endswith("/c/cluster.json: No space left on device\n")
    assert main(["delete", "cluster", "a"]) == 0

    monkeypatch.setattr(contexts, "remove_context", refused)
    assert main(["delete", "cluster", "b"]) == 1
    assert capfd.readouterr().err == (
        f'Error: cluster "b" is deleted, but its context pilothouse-b is left in {kubeconfig}: it is full\n'
    )
    assert list(Clusters().root.iterdir()) == []


async def refused(_path: Path, _name: str, _owner: Path, _url: str) -> None:
    raise UserError("it is full")


@posix
def test_a_cluster_with_a_damaged_record_is_deleted_with_its_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    cluster = Clusters().create(record("a"))
    with cluster.locked() as lock:
        process = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))
        cluster.write_pid(process.pid)
    (cluster.directory / "cluster.json").write_text("")
    assert main(["list"]) == 0
    assert "its process runs; `pilothouse delete cluster a` deletes the cluster" in capfd.readouterr().err
    assert main(["stop", "a"]) == 1
    assert main(["delete", "cluster", "--all"]) == 0
    assert process.wait(10) == -signal.SIGTERM
    assert list(Clusters().root.iterdir()) == []


@posix
@cases(
    "deletes, errors",
    {"deleted": (True, 'cluster "a" was deleted\n'), "stopped": (False, "")},
)
def test_a_log_that_is_followed_until_the_cluster_is(
    deletes: bool, errors: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = Clusters().create(record("a"))
    cluster.update(started=True, port=20000)
    cluster.log.write_text("ready\n")
    with contextlib.ExitStack() as stack:
        stack.enter_context(cluster.locked())

        def end(_seconds: float) -> None:
            stack.close()
            if deletes and cluster.directory.exists():
                cluster.remove()
            elif not deletes:
                cluster.update(started=False)

        monkeypatch.setattr("pilothouse.cli.clusters.process.time.sleep", end)
        assert main(["logs", "a", "-f"]) == 0
    assert capfd.readouterr() == ("ready\n", errors)


@posix
def test_kubeconfig_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cluster = Clusters(tmp_path).create(record("a"))
    entry = {"name": "pilothouse", "cluster": {"server": "https://127.0.0.1:1"}, "context": {}, "user": {}}
    cluster.kubeconfig.write_text(json.dumps({"clusters": [entry], "contexts": [entry], "users": [entry]}))
    with pytest.raises(UserError, match=r"unable to write .*KUBECONFIG or --kubeconfig names another.*--no-context"):
        asyncio.run(contexts.add(cluster, tmp_path / "file" / "config"))


def test_the_root_directory_is_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for home, shown in (("/", f"{tmp_path}/a"), (str(tmp_path), "~/a")):
        monkeypatch.setenv("HOME", home)
        assert clusters_commands._shown(tmp_path / "a") == shown


@cases(
    "words, message",
    {
        "list": ("list", "~/.local/state is unknown, and HOME is not set: set HOME or XDG_STATE_HOME"),
        "envtest-assets": ("envtest-assets", "set HOME or XDG_CACHE_HOME, or name a directory with --dir"),
        "a context": (
            "create cluster",
            "~/.kube/config is unknown, and HOME is not set: set HOME or KUBECONFIG, or name",
        ),
        "a file": (
            "up --in-memory --kubeconfig=~/x --port=0",
            "in ~/x is unknown, and HOME is not set: set HOME, or name",
        ),
    },
)
def test_a_user_without_a_home(
    words: str, message: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", dict[int, str]().__getitem__)  # no entry
    assert main(words.split()) == 1
    printed = capfd.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig with contexts of the clusters a, b and pilothouse; the one of b is renamed and current."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "config"
    path.write_text(FOREIGN)
    for name in ("a", "pilothouse", "b"):
        cluster = Clusters().create(record(name))
        cluster.log.write_text(f"log of {name}\n")
        entry = {"name": "x", "cluster": {"server": "https://127.0.0.1:1"}, "context": {"namespace": name}, "user": {}}
        cluster.kubeconfig.write_text(
            json.dumps({"current-context": "x", "clusters": [entry], "contexts": [entry], "users": [entry]})
        )
        asyncio.run(contexts.add(cluster, path))
    path.write_text(path.read_text().replace("name: pilothouse-b\n  context", "name: mine\n  context"))
    path.write_text(path.read_text().replace("current-context: pilothouse-b", "current-context: mine"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@posix
@cases(
    "current, missing_first, name",
    {
        "the current context": ("mine", False, "b"),
        "one of several files": ("pilothouse-a", True, "a"),
        "a context of another program": ("prod", False, "pilothouse"),
        "a context that does not exist": ("gone", False, "pilothouse"),
        "empty": ('""', False, "pilothouse"),
    },
)
def test_cluster_without_a_name_is_that_of_the_current_context(
    current: str,
    missing_first: bool,
    name: str,
    three: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three.write_text(three.read_text().replace("current-context: mine", f"current-context: {current}"))
    if missing_first:
        first = three.with_name("first")
        first.write_text("contexts: []\n")
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["missing", str(first), str(three)]))
    assert main(["logs"]) == 0
    assert capfd.readouterr().out == f"log of {name}\n"
    assert main(["kubeconfig", "--path"]) == 0
    assert capfd.readouterr().out == f"{Clusters().get(name).kubeconfig}\n"
    assert main(["logs", "a"]) == 0
    assert capfd.readouterr().out == "log of a\n"
    assert main(["list", "-o", "json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert [row["context"] for row in printed] == ["pilothouse-a", "mine", "pilothouse"], "as they are called now"
    assert main(["stop"]) == 0
    assert capfd.readouterr().out == 'cluster "pilothouse" was not running\n', "what ends a cluster names it"


@posix
def test_load_with_the_context_of_a_plane_in_the_foreground(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    entry = {"name": "pilothouse", "cluster": {"server": "https://127.0.0.1:1"}, "context": {}, "user": {}}
    document = {"current-context": "pilothouse", "clusters": [entry], "contexts": [entry], "users": [entry]}
    path, manifest = tmp_path / "config", tmp_path / "m.yaml"
    path.write_text(kubeconfig_text.with_context(FOREIGN, document))
    manifest.write_text(MANIFEST)
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert main(["load", "-f", str(manifest)]) == 1
    printed = capfd.readouterr().err
    assert 'the current context "pilothouse" belongs to `pilothouse up`' in printed
    assert "kubectl apply -f FILE" in printed
    assert main(["load", "pilothouse", "-f", str(manifest)]) == 1
    assert 'no cluster "pilothouse"' in capfd.readouterr().err, "a cluster that is named is one in the background"
    Clusters().create(record("team"))
    assert main(["load", "-f", str(manifest)]) == 1
    printed = capfd.readouterr().err
    assert 'the current context "pilothouse" belongs to `pilothouse up`, not to a cluster in the background' in printed
    assert "`pilothouse load team …` loads into" in printed
    assert main(["load", "team", "-f", str(manifest)]) == 1
    assert 'cluster "team" does not run' in capfd.readouterr().err
    Clusters().get("team").remove()
    path.write_text(FOREIGN)
    assert main(["load", "-f", str(manifest)]) == 1
    assert 'no cluster "pilothouse"' in capfd.readouterr().err


@posix
def test_load_names_the_cluster_if_the_current_context_is_another_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, manifest = tmp_path / "config", tmp_path / "m.yaml"
    path.write_text(FOREIGN)
    manifest.write_text(MANIFEST)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(clusters_commands, "_load", lambda *_arguments: 0)
    with Clusters().create(record("team")).locked():
        assert main(["load", "-f", str(manifest)]) == 0
    assert capfd.readouterr().out == 'loads into cluster "team", namespace "default"\n'


@posix
def test_an_unknown_flag_of_delete_is_one_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["delete", "cluster", "--all", "--foo"]) == 2
    assert capfd.readouterr().err.count("unknown flag: --foo") == 1


@posix
def test_cluster_whose_own_kubeconfig_is_used(
    three: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(Clusters().get("a").kubeconfig))
    assert main(["logs"]) == 0
    assert capfd.readouterr().out == "log of a\n"
    three.write_text("a: [")
    monkeypatch.setenv("KUBECONFIG", str(three))
    assert main(["logs"]) == 0
    assert capfd.readouterr().out == "log of pilothouse\n"


@posix
@cases(
    "words, namespace, cluster",
    {
        "the current one": ("", "b", "b"),
        "a named one": ("a", "a", "a"),
        "a renamed one": ("b", "b", "b"),
        "another namespace": ("-n team", "team", "b"),
        "the current one, by another file": ("", "shop", "a"),
    },
)
def test_load_names_cluster_and_namespace_if_there_are_several(
    words: str,
    namespace: str,
    cluster: str,
    three: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manifest = three.with_name("m.yaml")
    manifest.write_text(MANIFEST)
    if namespace == "shop":
        other_file = three.with_name("other")
        other_file.write_text(
            three.read_text().replace("namespace: a", "namespace: shop").replace(": mine", ": pilothouse-a")
        )
        monkeypatch.setenv("KUBECONFIG", str(other_file))

    def loaded(into: cluster_module.Cluster, manifests: list[Manifest], _limit: float) -> int:
        assert (into.name, {manifest.namespace for manifest in manifests}) == (cluster, {namespace})
        return 0

    monkeypatch.setattr(clusters_commands, "_load", loaded)
    with Clusters().get(cluster).locked():
        assert main(["load", *words.split(), "-f", str(manifest)]) == 0
        assert capfd.readouterr().out == f'loads into cluster "{cluster}", namespace "{namespace}"\n'
        for other in {"a", "b", "pilothouse"} - {cluster}:
            shutil.rmtree(Clusters().get(other).directory)
        assert main(["load", *words.split(), "-f", str(manifest)]) == 0
        assert capfd.readouterr().out == ""


def test_default_cluster(tmp_path: Path) -> None:
    clusters = Clusters(tmp_path)
    clusters.create(record("a"))
    assert clusters.chosen("").name == "a"
    clusters.create(record("b"))
    with pytest.raises(UserError, match="several clusters, name one of them: a, b"):
        clusters.chosen("")
    clusters.create(record("pilothouse"))
    assert clusters.chosen("").name == "pilothouse"


@pytest.mark.parametrize("words", [["-v", "2"], ["-v=2"], ["--v=2"]])
def test_verbosity_is_passed_on(words: list[str]) -> None:
    parsed = create_flag_set("pilothouse create").parse([*words, "a"])
    assert (list(parsed.texts["v"]), list(parsed.arguments)) == (["2"], ["a"])
