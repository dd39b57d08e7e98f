"""Faults as a person commands them: ``pilothouse up`` in one terminal, kubectl in the other."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.programs import pilothouse, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH"),
]
PREFIX = "simulated.pilothouse.dev"
STAGES = Path(__file__).parents[2] / "examples" / "stages"


class Terminal:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *words: str, stdin: Any = None) -> str:
        done = self.kubectl(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def command(self, *words: str) -> list[str]:
        assert KUBECTL is not None
        return [KUBECTL, "--kubeconfig", ".pilothouse/kubeconfig", *words]

    def kubectl(self, *words: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever its exit code."""
        return subprocess.run(
            self.command(*words),
            input="" if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            cwd=self.directory,
            timeout=30,
            check=False,
        )

    def condition(self, node: str, kind: str) -> str:
        path = f'jsonpath={{.status.conditions[?(@.type=="{kind}")].status}}'
        return self("get", "node", node, "-o", path)

    def pod(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self("get", "pod", name, "-o", "json"))
        return document

    def run(self, name: str, *, node: str = "", policy: str = "Always", **annotations: str) -> None:
        metadata = {"name": name, "annotations": {f"{PREFIX}/{k.replace('_', '-')}": v for k, v in annotations.items()}}
        spec = {"containers": [{"name": "main", "image": "nginx"}], "restartPolicy": policy}
        spec |= {"nodeName": node} if node else {}
        self("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    directory = tmp_path_factory.mktemp("faults")
    with pilothouse(directory, "up", "--port=0", "--nodes=3", "--pod-profile=instant") as up:
        up.until("pilothouse is ready")
        yield Terminal(directory)
        assert up.stop() == 0
        assert "Traceback" not in up.log


def test_a_pod_crashes_completes_and_is_unready_as_annotated(kubectl: Terminal) -> None:
    kubectl.run("crash", exit_code="1", run_time="100ms")
    kubectl.run("done", policy="Never", exit_code="0", run_time="100ms")
    kubectl.run("unready")
    until(lambda: "CrashLoopBackOff" in kubectl("get", "pods"), "the crash loop is seen")
    until(lambda: "Completed" in kubectl("get", "pod", "done"), "the other completes")
    until(lambda: "1/1" in kubectl("get", "pod", "unready"), "the third is ready")
    kubectl("annotate", "pod", "unready", f"{PREFIX}/readiness-probe=fail")
    until(lambda: "0/1" in kubectl("get", "pod", "unready"), "not any more")
    assert "Back-off restarting failed container main" in kubectl("describe", "pod", "crash")
    kubectl("annotate", "pod", "unready", f"{PREFIX}/colour=red")
    until(lambda: "InvalidAnnotation" in kubectl("describe", "pod", "unready"), "a mistake is told")


def test_kubectl_run_returns_the_output_and_exit_code_of_the_pod(kubectl: Terminal) -> None:
    """kubectl cannot attach, reports that, and prints the log instead."""

    def once(name: str, *command: str) -> subprocess.CompletedProcess[str]:
        words = ("run", name, "--rm", "-i", "--restart=Never", "--image=busybox", "--", *command)
        return kubectl.kubectl(*words)

    done = once("hello", "echo", "hello")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "hello")
    failed = once("fails", "sh", "-c", "echo begun; sleep 1; exit 3")
    assert failed.returncode == 3, failed.stderr
    assert failed.stdout.startswith("begun\n")
    assert "attach is not possible" in failed.stderr
    assert once("quiet", "./some-program").returncode == 0
    assert "NotFound" in kubectl.kubectl("get", "pod", "quiet").stderr, "--rm"


def test_a_shell_with_standard_input_waits_for_it(kubectl: Terminal) -> None:
    """kubectl waits until its pod runs, and reports that it cannot attach."""
    command = kubectl.command("run", "shell", "-i", "--image=busybox", "--pod-running-timeout=20s", "--", "sh")
    with subprocess.Popen(command, cwd=kubectl.directory, stdin=PIPE, stderr=PIPE, text=True) as shell:
        assert shell.stderr is not None
        until(lambda: "1/1" in kubectl("get", "pods"), "the pod is ready")
        time.sleep(1)
        kubectl("delete", "pod", "shell", "--now")
        printed = shell.communicate(timeout=20)[1]
    assert "attach is not possible" in printed
    done = kubectl.kubectl("run", "once", "--rm", "-i", "--restart=Never", "--image=busybox", "--", "/bin/sh", "-l")
    assert done.returncode == 0, done.stderr
    kubectl("run", "batch", "--image=busybox", "--", "sh")
    until(lambda: "CrashLoopBackOff" in kubectl("get", "pod", "batch"), "without --stdin its input is empty")


def test_kubectl_debug_does_not_wait_forever(kubectl: Terminal) -> None:
    kubectl.run("debugged")
    until(lambda: "1/1" in kubectl("get", "pod", "debugged"), "the pod is ready")
    result = kubectl.kubectl("debug", "debugged", "--image=busybox", "-c", "debugger", "-it", "--", "sleep", "1.5")
    assert result.returncode == 0, result.stderr
    assert "couldn't attach to pod/debugged, falling back to streaming logs" in result.stderr

    def state() -> dict[str, Any]:
        (status,) = kubectl.pod("debugged")["status"]["ephemeralContainerStatuses"]
        container_state: dict[str, Any] = status["state"]
        return container_state

    until(lambda: "terminated" in state(), "the debugger ends")
    assert state()["terminated"]["exitCode"] == 0
    assert "debugger" in kubectl("describe", "pod", "debugged")
    on_node = kubectl.kubectl("debug", "node/node-1", "--image=busybox", "-it")
    assert on_node.returncode == 0, on_node.stderr


def test_a_missing_image_is_reported_as_by_a_kubelet(kubectl: Terminal) -> None:
    kubectl("run", "imageless", "--image=invalid.registry.k8s.io/invalid/alpine:3.1")
    until(lambda: "ImagePullBackOff" in kubectl("get", "pod", "imageless"), "pulling fails")
    described = kubectl("describe", "pod", "imageless")
    assert 'Back-off pulling image "invalid.registry.k8s.io/invalid/alpine:3.1"' in described
    assert "lookup invalid.registry.k8s.io: no such host" in described
    refused = kubectl.kubectl("logs", "imageless")
    assert "is waiting to start: trying and failing to pull image" in refused.stderr


def test_a_node_under_pressure_reports_it_and_evicts_pods(kubectl: Terminal) -> None:
    kubectl.run("hungry", node="node-1", memory_usage="2Gi")
    until(lambda: "1/1" in kubectl("get", "pod", "hungry"), "the pod is ready")
    kubectl("annotate", "node", "node-1", f"{PREFIX}/pressure=memory=1Gi")
    until(lambda: kubectl.condition("node-1", "MemoryPressure") == "True", "the condition holds")
    until(lambda: kubectl.pod("hungry")["status"].get("reason") == "Evicted", "the pod is evicted")
    assert kubectl.pod("hungry")["status"]["phase"] == "Failed"
    assert "The node was low on resource: memory" in kubectl("describe", "pod", "hungry")
    until(lambda: "node.kubernetes.io/memory-pressure" in kubectl("describe", "node", "node-1"), "the node is tainted")
    kubectl("annotate", "node", "node-1", f"{PREFIX}/pressure-")


def test_a_node_is_deleted_and_returns(kubectl: Terminal) -> None:
    kubectl("annotate", "node", "node-2", f"{PREFIX}/fault=gone")
    until(lambda: "node-2" not in kubectl("get", "nodes", "-o", "name"), "its Node is deleted")
    kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2"}})
    until(lambda: kubectl.condition("node-2", "Ready") == "True", "it is ready again")


def test_a_silent_node_renews_no_lease(kubectl: Terminal) -> None:
    def renewed() -> str:
        return kubectl("get", "lease", "-n", "kube-node-lease", "node-0", "-o", "jsonpath={.spec.renewTime}")

    kubectl("annotate", "node", "node-0", f"{PREFIX}/fault=silent")
    kubectl.run("waits", node="node-0")
    before = renewed()
    until(lambda: kubectl("get", "pod", "waits", "-o", "jsonpath={.spec.nodeName}") == "node-0", "the pod is bound")
    assert "startTime" not in kubectl.pod("waits")["status"]
    assert renewed() == before
    kubectl("annotate", "node", "node-0", f"{PREFIX}/fault-")
    until(lambda: "1/1" in kubectl("get", "pod", "waits"), "the pod runs")
    until(lambda: renewed() != before, "the Lease is renewed")


def test_stages_from_the_command_line(tmp_path: Path) -> None:
    with pilothouse(tmp_path, "up", "--port=0", "--nodes=1", f"--stages={STAGES}") as up:
        up.until("pilothouse is ready")
        kubectl = Terminal(tmp_path)
        until(lambda: kubectl.condition("node-0", "Ready") == "True", "the node's stage was played")
        kubectl.run("web")
        kubectl("annotate", "pod", "web", "example.com/start-delay=10ms")
        until(lambda: "1/1" in kubectl("get", "pod", "web"), "the pod's stages were played")
        assert kubectl.pod("web")["status"]["podIP"] == "10.128.0.1"


def test_a_stage_file_with_a_mistake_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text((STAGES / "web-pod.yaml").read_text().replace("Quote", "Kwote", 1))
    with pilothouse(tmp_path, "up", "--port=0", f"--stages={file}") as up:
        assert up.wait() == 2
        assert "bad.yaml: stage 'create': spec.next.statusTemplate, line 3, column 22: function 'Kwote'" in up.log
