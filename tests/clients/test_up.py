"""``pilothouse up`` from the command line: one command, and kubectl from a second terminal."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.daemon_scenarios import is_ready
from tests.clients.reading import Reading
from tests.clients.test_kubectl import KUBECTL
from tests.programs import Program, environment, free_port, pilothouse, run_pilothouse, until
from tests.real_cluster import GOGC
from tests.tables import cases
from tests.workloads import pod_spec, workload


def replica_set(name: str = "web", replicas: int = 3) -> dict[str, Any]:
    # A namespace is looked at again after half of its pods' grace period.
    pod = pod_spec("nginx", terminationGracePeriodSeconds=1)
    return workload("ReplicaSet", name, pod=pod, labels={"app": "web"}, replicas=replicas)


def write(directory: Path, name: str, *documents: Any) -> str:
    (directory / name).write_text("\n---\n".join(json.dumps(document) for document in documents))
    return name


def start(directory: Path, *flags: str) -> Program:
    return pilothouse(directory, "up", "--port=0", "--pod-start-delay=50ms", "--pod-stop-delay=50ms", *flags)


class Terminal:
    """The second terminal: kubectl with the kubeconfig that ``up`` has written."""

    namespace = "default"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._reading = Reading(directory / ".pilothouse/kubeconfig", self.namespace)

    def __call__(self, *words: str, stdin: Any = None) -> str:
        assert KUBECTL is not None
        done = subprocess.run(
            [KUBECTL, "--kubeconfig", ".pilothouse/kubeconfig", *words],
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], "HOME": str(self.directory), "GOGC": GOGC},
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def get(self, *words: str) -> Any:
        """An object or a list, without a kubectl."""
        return self._reading.get(*words)

    def pods(self) -> dict[str, dict[str, Any]]:
        items = self.get("pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in items if "deletionTimestamp" not in pod["metadata"]}

    def ready(self) -> set[str]:
        return {name for name, pod in self.pods().items() if is_ready(pod)}

    def until_ready(self, count: int) -> set[str]:
        until(lambda: len(self.ready()) == count == len(self.pods()), f"{count} pods are Running and Ready")
        return self.ready()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    directory = tmp_path_factory.mktemp("up")
    with start(directory) as up:
        up.until("pilothouse is ready")
        yield Terminal(directory)
        assert up.stop() == 0
        assert "Traceback" not in up.log


needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@needs_kubectl
def test_replica_set_life_cycle_with_kubectl(terminal: Terminal) -> None:
    """Create, heal, scale, describe, orphan, adopt, delete: the life of a ReplicaSet."""
    kubectl = terminal
    assert len(kubectl("get", "nodes", "--no-headers").splitlines()) == 3
    kubectl("create", "-f", "-", stdin=replica_set())
    first = kubectl.until_ready(3)
    deleted_pod = sorted(first)[0]
    kubectl("delete", "pod", deleted_pod)
    healed = kubectl.until_ready(3)
    assert len(healed & first) == 2
    assert deleted_pod not in healed
    kubectl("scale", "rs/web", "--replicas=5")
    kubectl.until_ready(5)
    kubectl("scale", "rs/web", "--replicas=3")
    kept = kubectl.until_ready(3)
    until(lambda: kubectl("describe", "rs", "web").count("SuccessfulDelete") >= 2, "events arrive")
    described = kubectl("describe", "rs", "web")
    assert "3 current / 3 desired" in described
    assert re.search(r"3 Running / 0 Waiting / 0 Succeeded / 0 Failed", described)
    assert re.search(r"Normal\s+SuccessfulCreate\s.*replicaset-controller\s+Created pod: web-", described)
    kubectl("delete", "rs", "web", "--cascade=orphan")
    assert kubectl.ready() == kept
    assert all("ownerReferences" not in pod["metadata"] for pod in kubectl.pods().values())
    kubectl("create", "-f", "-", stdin=replica_set("web2"))
    until(lambda: kubectl("get", "rs", "web2", "--no-headers").split()[1:4] == ["3", "3", "3"], "all are adopted")
    assert kubectl.ready() == kept
    owners = {pod["metadata"]["ownerReferences"][0]["name"] for pod in kubectl.pods().values()}
    assert owners == {"web2"}
    kubectl("delete", "rs", "web2")
    until(lambda: kubectl("get", "pods", "-o", "name") == "", "the pods go too")


@needs_kubectl
def test_deleting_a_namespace(terminal: Terminal) -> None:
    kubectl = terminal
    kubectl("create", "namespace", "shop")
    kubectl("create", "-n", "shop", "-f", "-", stdin=replica_set())
    until(lambda: kubectl("get", "pods", "-n", "shop", "--no-headers").count("Running") == 3, "pods run")
    kubectl("delete", "namespace", "shop", "--timeout=30s")
    assert "shop" not in kubectl("get", "namespaces", "-o", "name")
    assert kubectl("get", "pods", "-n", "shop", "-o", "name") == ""


def test_wait_for_manifests(tmp_path: Path) -> None:
    """Several documents and files, a list, standard input; progress is printed, and the exit code is set."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    several = write(
        tmp_path, "several.yaml", namespace, {**replica_set(), "metadata": {"name": "a", "namespace": "shop"}}
    )
    listed = write(tmp_path, "list.yaml", {"apiVersion": "v1", "kind": "List", "items": [replica_set("b")]})
    words = ["up", "--port=0", "-f", several, "-f", listed, "-f", "-", "--wait", "--pod-start-delay=0s"]
    done = run_pilothouse(tmp_path, *words, stdin=json.dumps(replica_set("c", 1)))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "replicasets.apps/a in shop created" in lines
    assert "replicasets.apps/a in shop: 3 of 3 ready" in lines
    assert "replicasets.apps/c in default: 1 of 1 ready" in lines
    assert lines[-1] == "all manifests are ready"
    assert lines[0].startswith("pilothouse is ready: API server https://127.0.0.1:")
    assert "kubectl" not in done.stdout
    assert "Ctrl-C" not in done.stdout
    assert not (tmp_path / ".pilothouse").exists()


def test_every_component_works_with_rbac(tmp_path: Path) -> None:
    """Manager, controllers, scheduler and nodes are upstream's users, with no more than upstream's roles."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    manifest = write(tmp_path, "web.yaml", namespace, replica_set(), {**replica_set("b"), "metadata": {"name": "b"}})
    done = run_pilothouse(tmp_path, "up", "--port=0", "-f", manifest, "--wait", "--authorization-mode=RBAC")
    assert (done.returncode, done.stderr) == (0, "")


def test_wait_timeout(tmp_path: Path) -> None:
    document = replica_set()
    document["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    manifest = write(tmp_path, "big.yaml", document)
    done = run_pilothouse(tmp_path, "up", "--port=0", "-f", manifest, "--wait", "--timeout=3s")
    assert done.returncode == 1
    why = r"Pod web-\w+ and 2 more: FailedScheduling: 0/3 nodes are available: 3 Insufficient cpu\..*"
    *_first, output, last = done.stdout.splitlines()
    assert re.fullmatch(rf"  replicasets\.apps/web in default: {why}", output)
    assert re.fullmatch(rf"not ready after 3 s: replicasets\.apps/web in default: 0 of 3 ready \({why}\)", last)


def test_object_without_a_running_controller_is_reported_immediately(tmp_path: Path) -> None:
    manifest = write(tmp_path, "web.yaml", replica_set())
    words = ["up", "--port=0", "-f", manifest, "--wait", "--timeout=1s", "--controllers=*,-replicaset"]
    done = run_pilothouse(tmp_path, *words)
    assert done.returncode == 1
    message = "replicasets.apps/web in default: it will not be reconciled, because replicaset-controller is not running"
    assert message in done.stdout.splitlines()
    alone = run_pilothouse(tmp_path, *words[:-1], "--no-manager")
    assert "does not run here" not in alone.stdout, "another manager may do that"


def broken(**changes: Any) -> str:
    return json.dumps({**replica_set(), **changes})


def with_spec(**changes: Any) -> str:
    return broken(spec={**replica_set()["spec"], **changes})


@cases(
    "text, message",
    {
        "YAML": ("a: [b", "manifest m.yaml is not valid YAML: line 2, column 1: did not find expected"),
        "no objects": ("", "manifest m.yaml has no objects in it"),
        "text": ("just text", "m.yaml, document 1: expected an object, got str"),
        "missing kind": (broken(kind=""), "m.yaml, document 1: kind is missing"),
        "missing name": (broken(metadata={}), "m.yaml, document 1: ReplicaSet has no metadata.name"),
        "an unknown kind": (
            broken(kind="Replicant"),
            'm.yaml, document 1: no matches for kind "Replicant" in version "apps/v1"',
        ),
        "field of the wrong type": (
            with_spec(replicas="three"),
            'm.yaml, document 1: ReplicaSet web: ReplicaSet in version "v1" cannot be handled as a ReplicaSet: json: '
            "cannot unmarshal string into Go struct field ReplicaSetSpec.spec.replicas of type int32",
        ),
        "int32 overflow": (
            with_spec(replicas=2147483648),
            "cannot unmarshal number 2147483648 into Go struct field ReplicaSetSpec.spec.replicas of type int32",
        ),
        "an unknown field": (with_spec(replica=3), 'strict decoding error: unknown field "spec.replica"'),
        "a selector that does not match its template": (
            with_spec(selector={"matchLabels": {"app": "other"}}),
            'ReplicaSet.apps "web" is invalid: spec.template.metadata.labels: Invalid value: {"app":"web"}: '
            "`selector` does not match template `labels`",
        ),
        "an operator that does not exist": (
            with_spec(selector={"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}),
            'spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator',
        ),
        "missing namespace": (
            broken(metadata={"name": "web", "namespace": "nowhere"}),
            'namespaces "nowhere" not found',
        ),
    },
)
def test_unusable_manifest(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    done = run_pilothouse(tmp_path, "up", "--port=0", "--nodes=1", "-f", "m.yaml", "--wait")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_foreign_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious: true\n")
    done = run_pilothouse(tmp_path, "up", "--port=0", "--kubeconfig=mine")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: mine was not written by pilothouse and is not overwritten; move it, choose another file with "
        "--kubeconfig, or add a context to it with --write-kubeconfig\n"
    )
    assert (tmp_path / "mine").read_text() == "precious: true\n"


@needs_kubectl
def test_context_in_the_users_kubeconfig(tmp_path: Path) -> None:
    own = tmp_path / ".kube" / "config"
    own.parent.mkdir()
    text = "# mine\ncontexts:\n- name: work\n  context: {cluster: work, user: me}\ncurrent-context: work\n"
    own.write_text(text)
    command = [str(KUBECTL), "get", "nodes", "-o", "name"]
    with start(tmp_path, f"--write-kubeconfig={own}") as up:
        up.until("pilothouse is ready")
        result = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(command, env=result, capture_output=True, text=True, timeout=30, check=True)
        assert done.stdout.split() == ["node/node-0", "node/node-1", "node/node-2"]
        assert f"kubectl --context pilothouse get nodes    # {own}, current" in up.log
        assert up.stop() == 0
    assert own.read_text() == text


@needs_kubectl
def test_two_clusters_in_one_directory(tmp_path: Path) -> None:
    kubectl = Terminal(tmp_path)
    with start(tmp_path, "--nodes=1") as first:
        first.until("pilothouse is ready")
        with start(tmp_path, "--nodes=2") as second:
            second.until("pilothouse is ready")
            beside = re.search(r"kubectl --kubeconfig (\S+) get nodes", second.log)
            assert beside is not None
            assert beside[1].startswith(".pilothouse/kubeconfig-")
            assert kubectl("get", "nodes", "-o", "name").split() == ["node/node-0"]
            assert len(kubectl("--kubeconfig", beside[1], "get", "nodes", "-o", "name").split()) == 2
            assert second.stop() == 0
        assert kubectl("get", "nodes", "-o", "name").split() == ["node/node-0"]
        assert first.stop() == 0
    assert not (tmp_path / ".pilothouse").exists()


@cases(
    "content, message",
    {
        "missing file": (None, "No such file or directory"),
        "token line without user": ("secret\n", "a token line needs token, user and uid, this one has 1 columns"),
    },
)
def test_token_auth_file(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "tokens").write_text(content)
    done = run_pilothouse(tmp_path, "up", "--port=0", "--token-auth-file=tokens")
    assert done.returncode == 1
    assert done.stderr == f"Error: --token-auth-file tokens: {message}\n"


def test_unwritable_kubeconfig_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_pilothouse(tmp_path, "up", "--port=0", "--kubeconfig=file/kubeconfig")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: unable to write kubeconfig file/kubeconfig: File exists; --kubeconfig names another file\n"
    )


@pytest.mark.parametrize("flags", [(), ("--data-dir=data",)], ids=["in memory", "in a data directory"])
def test_kubeconfig_is_private_and_removed_at_exit(tmp_path: Path, flags: tuple[str, ...]) -> None:
    path = tmp_path / ".pilothouse" / "kubeconfig"
    for _time in range(2):
        with start(tmp_path, "--nodes=0", *flags) as up:
            up.until("pilothouse is ready")
            assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
            assert up.stop() == 0
        assert path.exists() is bool(flags)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_gracefully(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, "-f", write(tmp_path, "m.yaml", replica_set())) as up:
        up.until("all manifests are ready")
        signaled_at = time.monotonic()
        up.send(number)
        assert up.wait(10) == 0
        assert time.monotonic() - signaled_at < 5
    assert "Traceback" not in up.log
    assert not re.search(r"^[EW]\d{4} ", up.log, re.MULTILINE)


def test_interrupted_wait_fails(tmp_path: Path) -> None:
    document = replica_set()
    document["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    with start(tmp_path, "-f", write(tmp_path, "m.yaml", document), "--wait") as up:
        up.until("0 of 3 ready")
        up.send(signal.SIGINT)
        assert up.wait(10) == 130
    assert "Traceback" not in up.log


def test_data_directory_is_locked(tmp_path: Path) -> None:
    with start(tmp_path, "--data-dir=data", "--nodes=0") as up:
        up.until("pilothouse is ready")
        done = run_pilothouse(tmp_path, "up", "--port=0", "--data-dir=data")
        assert done.returncode == 1
        assert re.search(
            r"Error: .*the data directory data is in use by process \d+; stop it or choose another", done.stderr
        )
        assert done.stderr.count("\n") == 1


def test_unusable_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_pilothouse(tmp_path, "up", "--port=0", "--data-dir=file/data")
    assert done.returncode == 1
    assert "the data directory file/data can't be used" in done.stderr
    assert done.stderr.count("\n") == 1


@needs_kubectl
@pytest.mark.parametrize("argument", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
def test_restart_continues_from_the_data_directory(tmp_path: Path, argument: signal.Signals) -> None:
    kubectl = Terminal(tmp_path)
    manifest = write(tmp_path, "m.yaml", replica_set())
    with start(tmp_path, "--data-dir=data", "-f", manifest) as up:
        up.until("all manifests are ready")
        before = kubectl.pods()
        up.send(argument)
        up.wait(10)
    began = time.monotonic()
    with start(tmp_path, "--data-dir=data", "--v=1") as up:
        up.until("pilothouse is ready")
        took = time.monotonic() - began
        assert {name: pod["metadata"]["uid"] for name, pod in kubectl.pods().items()} == {
            name: pod["metadata"]["uid"] for name, pod in before.items()
        }
        kubectl("scale", "rs/web", "--replicas=4")
        after = kubectl.until_ready(4)
        assert after > set(before)
        lease = json.loads(kubectl("get", "lease", "-n", "kube-system", "kube-controller-manager", "-o", "json"))
        assert lease["spec"]["holderIdentity"].endswith("_pilothouse-up")
        assert up.stop() == 0
    # Ready includes leading: waiting for the old Lease to expire would take more than fifteen seconds.
    assert took < 10


@needs_kubectl
def test_lease_taken_by_another_holder_does_not_stop_the_cluster(tmp_path: Path) -> None:
    kubectl = Terminal(tmp_path)
    with start(tmp_path, "--nodes=0") as up:
        up.until("pilothouse is ready")
        thief = json.dumps({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 2}})
        kubectl("patch", "lease", "-n", "kube-system", "kube-controller-manager", "--type=merge", "-p", thief)
        up.until("The manager has lost its lease and restarts")
        holder = (
            "get",
            "lease",
            "-n",
            "kube-system",
            "kube-controller-manager",
            "-o",
            "jsonpath={.spec.holderIdentity}",
        )
        until(lambda: kubectl(*holder).endswith("_pilothouse-up"), "the manager leads again")
        kubectl("create", "-f", "-", stdin=replica_set())
        until(lambda: kubectl("get", "pods", "-o", "name").count("pod/") == 3, "and works")
        assert up.stop() == 0
    assert "Traceback" not in up.log


def go_program(name: str) -> str:
    """The path of a real Kubernetes program, "" if it is not installed."""
    path = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere")) / name
    return str(path) if os.access(path, os.X_OK) else ""


CONTROLLERS = "--controllers=replicaset,garbagecollector"


def pilothouse_manager(directory: Path) -> Program:
    """Our manager as a separate process."""
    return pilothouse(directory, "manager", "--kubeconfig=.pilothouse/kubeconfig", CONTROLLERS, "--secure-port=0")


def upstream_manager(directory: Path) -> Program:
    """The real one (v1.20)."""
    kubeconfig = ".pilothouse/kubeconfig"
    if not go_program("kube-controller-manager"):
        pytest.skip("no kube-controller-manager in $KUBEBUILDER_ASSETS")
    command = [
        go_program("kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        CONTROLLERS,
        "--port=0",
        f"--secure-port={free_port()}",
        "--cert-dir=certificates",
        "--leader-elect-resource-lock=leases",
    ]
    return Program(directory, "kube-controller-manager", command, environment=environment(directory))


@needs_kubectl
@pytest.mark.parametrize("manager", [pilothouse_manager, upstream_manager], ids=["pilothouse", "the real one"])
def test_external_manager(tmp_path: Path, manager: Callable[[Path], Program]) -> None:
    kubectl = Terminal(tmp_path)
    with start(tmp_path, "--no-manager", "--no-scheduler", "--data-dir=data") as up:
        up.until("pilothouse is ready")
        scheduler = pilothouse(tmp_path, "scheduler", "--kubeconfig=.pilothouse/kubeconfig")
        with scheduler, manager(tmp_path):
            kubectl("create", "-f", "-", stdin=replica_set())
            kubectl.until_ready(3)
            kubectl("delete", "rs", "web")
            until(lambda: kubectl("get", "pods", "-o", "name") == "", "the pods go too")
        assert up.stop() == 0
    assert "Traceback" not in up.log
