"""Clusters in the background, by the commands a user types, with real processes."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.programs import until
from tests.simulate.test_drain_preview import snapshot

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")

FOREIGN = """# my own comment
apiVersion: v1
kind: Config
clusters:
- {name: prod, cluster: {server: "https://prod.example.com"}}   # kept as it is
users:
- {name: me, user: {token: secret}}
contexts:
- name: prod
  context: {cluster: prod, user: me, namespace: team}
current-context: prod
preferences: {}
"""
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: app}]}}
"""


class User:
    """A user with a home of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kubeconfig = home / ".kube" / "config"
        self.state = home / "state"
        dropped = ("KUBECONFIG", "XDG_STATE_HOME")
        self.environment = {name: value for name, value in os.environ.items() if name not in dropped}
        self.environment |= {"HOME": str(home), "XDG_STATE_HOME": str(self.state)}

    def run(self, *words: str, code: int = 0) -> str:
        """What the command prints, its errors too."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pilothouse", *words],
            cwd=self.home, env=self.environment, timeout=100, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    @contextlib.contextmanager
    def begun(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """The command while it runs."""
        command = subprocess.Popen(
            [sys.executable, "-P", "-m", "pilothouse", *words], cwd=self.home, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        with command:
            try:
                yield command
            finally:
                command.kill()

    def started_process(self, name: str, last: int = 0) -> int:
        """The process of a cluster that is being created or started, once it exists; ``last`` was the one before."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError, ValueError):
                if (pid := self.process(name)) != last:
                    return pid
            time.sleep(0.01)
        raise AssertionError(f"no process of {name}")

    def listed(self) -> dict[str, str]:
        """The status of each cluster."""
        return {row["name"]: row["status"] for row in json.loads(self.run("list", "-o", "json"))}

    def process(self, name: str) -> int:
        """The process of a cluster."""
        return int((self.state / "pilothouse" / "clusters" / name / "lock").read_text())


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.run("delete", "cluster", "--all")


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text()


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a stopped process is to receive the signal when it continues, or has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> number - 1 & 1 for mask in masks)


def resume_when_ended(pid: int) -> None:
    """Continue a stopped process as soon as a command has sent it SIGTERM."""
    try:
        if sys.platform == "linux":
            until(lambda: is_pending(pid, signal.SIGTERM), "it has been sent SIGTERM")
        else:
            time.sleep(5)
    finally:
        # Of two signals that arrive before it runs again, the system delivers SIGTERM before SIGSTOP: it has ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@posix
@pytest.mark.slow
def test_three_clusters_and_an_unchanged_kubeconfig(user: User) -> None:
    user.kubeconfig.parent.mkdir()
    user.kubeconfig.write_text(FOREIGN)
    user.kubeconfig.chmod(0o640)
    for module in ("http", "logging", "token", "yaml"):
        (user.home / f"{module}.py").write_text("raise SystemExit('a file of the current directory is no module')")
    for name in ("one", "two", "three"):
        assert f"kubectl --context pilothouse-{name} get nodes" in user.run("create", "cluster", name, "--nodes=1")
    assert user.listed() == {"one": "Running", "three": "Running", "two": "Running"}
    document = yaml.safe_load(user.kubeconfig.read_text())
    assert document["current-context"] == "pilothouse-three"
    servers = {cluster["cluster"]["server"] for cluster in document["clusters"]}
    assert len(servers) == 4, "each has a port of its own"
    assert user.kubeconfig.read_text().startswith("# my own comment\n")
    processes = [user.process(name) for name in ("one", "two", "three")]

    user.run("delete", "cluster", "two", "three")
    assert user.listed() == {"one": "Running"}
    assert [has_ended(pid) for pid in processes] == [False, True, True]
    assert yaml.safe_load(user.kubeconfig.read_text())["current-context"] == "pilothouse-one"

    user.run("delete", "cluster", "one")
    assert user.kubeconfig.read_text() == FOREIGN
    assert user.kubeconfig.stat().st_mode & 0o777 == 0o640
    assert list((user.state / "pilothouse" / "clusters").iterdir()) == []


@posix
@pytest.mark.slow
def test_data_survive_a_stop_and_a_kill(user: User) -> None:
    (user.home / "web.yaml").write_text(MANIFEST)
    assert "all manifests are ready" in user.run("create", "cluster", "-f", "web.yaml")
    document = yaml.safe_load(user.kubeconfig.read_text())
    server = document["clusters"][0]["cluster"]["server"]
    document["contexts"][0]["context"]["namespace"] = "kube-public"  # kubectl config set-context --current --namespace
    user.kubeconfig.write_text(yaml.safe_dump(document))
    user.run("stop")
    assert user.listed() == {"pilothouse": "Stopped"}
    assert "does not run" in user.run("load", "-f", "web.yaml", code=1)

    last = user.process("pilothouse")
    with user.begun("start", "--nodes=9") as command:
        pid = user.started_process("pilothouse", last)
        os.kill(pid, signal.SIGSTOP)  # it must not be ready before the interrupt
        command.send_signal(signal.SIGINT)
        resume_when_ended(pid)
        printed, _ = command.communicate(timeout=60)
    assert printed == '\nInterrupted: cluster "pilothouse" does not run; `pilothouse start pilothouse` starts it\n'
    assert command.returncode == 130

    assert ", 2 nodes, " in user.run("start", "--nodes=2")
    assert "and the number of its nodes is that of its start: `pilothouse stop " in user.run("start", "-n3", code=1)
    os.kill(user.process("pilothouse"), signal.SIGSTOP)
    with user.begun("stop") as command:
        while json.loads((user.state / "pilothouse" / "clusters" / "pilothouse" / "cluster.json").read_text())[
            "started"
        ]:
            time.sleep(0.01)
        command.send_signal(signal.SIGINT)
        printed, _ = command.communicate(timeout=60)
    os.kill(user.process("pilothouse"), signal.SIGCONT)
    assert printed == '\nInterrupted: cluster "pilothouse" is being stopped: its process has not ended yet\n'
    user.run("stop")
    assert ", 2 nodes, " in user.run("start")
    assert yaml.safe_load(user.kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == server
    assert "deployments.apps/web in kube-public created" in user.run("load", "-f", "web.yaml")
    assert "deployments.apps/web in default unchanged" in user.run("load", "-f", "web.yaml", "-n", "default")

    pid = user.process("pilothouse")
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while user.listed() != {"pilothouse": "Failed"}:
        assert time.monotonic() < deadline
    (user.home / "web.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))
    assert "configured" in user.run("start") + user.run("load", "-f", "web.yaml")
    assert user.run("start") == f'cluster "pilothouse" runs already: {server}\n'
    assert "pilothouse is ready" in user.run("logs", "--tail=5")
    user.run("delete", "cluster")
    assert not user.kubeconfig.exists(), "it had nothing else in it"


@posix
@pytest.mark.slow
def test_a_copy_of_the_data_is_a_backup(user: User) -> None:
    (user.home / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\n")
    user.run("create", "cluster", "-f", "map.yaml", "--nodes=0")
    uid = json.loads(user.run("get", "configmaps", "kept", "-o", "json"))["metadata"]["uid"]
    user.run("stop")
    assert "The cluster is kept" in user.run("logs", "--tail=1")
    data = user.state / "pilothouse" / "clusters" / "pilothouse" / "data"
    shutil.copytree(data, user.home / "backup")
    user.run("delete", "cluster")

    user.run("create", "cluster", "other", "--nodes=0")
    user.run("stop", "other")
    data = user.state / "pilothouse" / "clusters" / "other" / "data"
    shutil.rmtree(data)
    (user.home / "backup").rename(data)
    user.run("start", "other")
    assert json.loads(user.run("get", "configmaps", "kept", "-o", "json"))["metadata"]["uid"] == uid


@posix
@pytest.mark.slow
def test_a_cluster_in_memory_is_deleted_rather_than_stopped(user: User) -> None:
    (user.home / "my site.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: No_Name}}")
    snapshot(user.home / "s", [], nodes=2)
    flags = ("--in-memory", "--no-context", "--ui", "--snapshot=s", "-f", "my site.yaml")
    printed = user.run("create", "cluster", "quick", *flags, code=1)
    assert ", 2 nodes, https://" in printed, "those of the snapshot"
    assert 'metadata.name: Invalid value: "No_Name"' in printed
    assert (
        "The cluster \"quick\" runs. Correct the manifests and `pilothouse load quick -f 'my site.yaml'`, or "
        "`pilothouse delete cluster quick`."
    ) in printed
    assert not user.kubeconfig.exists()
    assert "pilothouse delete cluster quick" in user.run("stop", code=1)
    assert yaml.safe_load(user.run("kubeconfig"))["current-context"] == "pilothouse-quick"
    user.run("kubeconfig", "--merge")
    assert yaml.safe_load(user.kubeconfig.read_text())["current-context"] == "pilothouse-quick"
    log = user.run("logs")
    assert "`pilothouse delete cluster quick` deletes it." in log
    assert not any(text in log for text in ("Ctrl-C", "pilothouse stop", "#token="))
    assert 'a cluster "quick" exists already (running)' in user.run("create", "cluster", "quick", code=1)

    os.kill(user.process("quick"), signal.SIGKILL)
    while user.listed() != {"quick": "Failed"}:
        time.sleep(0.02)
    for command in ("start", "stop"):
        assert user.run(command, code=1) == (
            'Error: cluster "quick" does not run; it was in memory, and nothing of it is left; '
            "`pilothouse delete cluster quick` deletes it\n"
        )


@posix
@pytest.mark.slow
def test_failed_start_leaves_no_files(user: User) -> None:
    printed = user.run("create", "cluster", "--controllers=nope", code=1)
    assert printed.count('"nope" is not in the list of known controllers') == 1
    user.kubeconfig.parent.mkdir()
    user.kubeconfig.write_text(FOREIGN.replace("prod", "pilothouse"))
    assert "pilothouse has not added" in user.run("create", "cluster", "--nodes=0", code=1)
    assert user.listed() == {}
    assert user.kubeconfig.read_text() == FOREIGN.replace("prod", "pilothouse")


@posix
@pytest.mark.slow
def test_commands_that_are_interrupted(user: User) -> None:
    create = ("create", "cluster", "q", "--in-memory", "--nodes=0")
    for number, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
        with user.begun(*create) as command:
            pid = user.started_process("q")
            command.send_signal(number)
            printed, _ = command.communicate(timeout=60)
        assert command.returncode == code
        assert ('Interrupted: removing the cluster "q"\nNothing of it is left.\n' in printed) is (code == 143)
        assert has_ended(pid) is (number == signal.SIGTERM)
        assert user.listed() == ({} if number == signal.SIGTERM else {"q": "Interrupted"})
    assert "`pilothouse start q` completes it" in user.run(*create, code=1)
    assert "kubectl --context pilothouse-q get nodes" in user.run("start", "q")
    assert user.process("q") == pid

    (user.home / "web.yaml").write_text(MANIFEST)
    for target, number, code, message in (
        (None, signal.SIGTERM, 143, "interrupted; not ready: deployments.apps/web in default: "),
        (pid, signal.SIGKILL, 1, 'Error: cluster "q" does not run; it was in memory, and nothing of it is left'),
    ):
        with user.begun("load", "q", "-f", "web.yaml") as command:
            assert command.stdout is not None
            while "ready" not in command.stdout.readline():
                pass
            os.kill(target or command.pid, number)
            printed, _ = command.communicate(timeout=60)
        assert message in printed
        assert "Traceback" not in printed
        assert command.returncode == code


@posix
@pytest.mark.slow
def test_a_cluster_that_is_deleted_while_it_is_created(user: User) -> None:
    with user.begun("create", "cluster", "q", "--nodes=0") as command:
        pid = user.started_process("q")
        os.kill(pid, signal.SIGSTOP)  # it must not be ready before delete has begun
        with user.begun("delete", "cluster", "q") as deletion:
            resume_when_ended(pid)
            deletion.communicate(timeout=60)
        printed, _ = command.communicate(timeout=60)
    assert deletion.returncode == 0
    assert (command.returncode, printed) == (1, 'Error: cluster "q" was deleted by another command\n')
    assert user.listed() == {}


@posix
@pytest.mark.slow
def test_a_cluster_whose_directory_was_removed_ends(user: User) -> None:
    """No command would find it any more, and it would run until the machine stops."""
    processes = []
    for flags in (("--in-memory", "--nodes=0"), ("--nodes=1", "--processes=2")):
        user.run("create", "cluster", "q", "--no-context", *flags)
        processes.append(user.process("q"))
        shutil.rmtree(user.state)  # after the first, the second create makes another directory of that name
    deadline = time.monotonic() + 30
    try:
        while not all(map(has_ended, processes)):
            assert time.monotonic() < deadline, "it runs on"
            time.sleep(0.1)
        assert not user.state.exists(), "nothing of it comes back"
    finally:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
