"""kube-controller-manager and kube-scheduler (v1.20 or v1.36) on our API server, with protobuf as by default.

Beside them only our simulated nodes run. A Deployment, a DaemonSet, a StatefulSet and a Job reach their desired state,
the DaemonSet and the StatefulSet keep one revision, and the programs' logs have only errors that occur with
kube-apiserver too.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs import Program, environment, free_port, pilothouse, until
from tests.real_cluster import minor_version, without_insecure_port
from tests.tables import cases

PROGRAMS = ("kube-controller-manager", "kube-scheduler", "kubectl")
TEMPLATE = {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]}

EXPECTED = (
    # No cloud provider and no key are named on the command line.
    r"no cloud provider provided",
    r"is disabled because there is no private key",
    # A server without --requestheader-client-ca-file has no front proxy's authority to publish.
    r'missing content for CA bundle \\?"client-ca::kube-system::extension-apiserver-authentication::requestheader-',
    # Two controllers of the program met on one object; the next look puts it right, on a real server as well.
    r"the object has been modified; please apply your changes to the latest version and try again",
    # A set is synced before its cache has the pod that was just created, also with a real server.
    r'error syncing StatefulSet .* pods ".*" already exists',
    # APIs that v1.20 requests in versions that have been removed since (v1.22 to v1.25).
    r"v1beta1 resources are not available",
    r"could not find the requested resource",
    # v1.36: a sync is tried again until the cache has what the controller has written itself.
    r"is not as new as written version",
    r"The manifest file is empty, ignoring",
    # The attach-detach controller receives a node's pods before the node.
    r"Failed to update statusUpdateNeeded field in actual state of world",
)


def _missing() -> str:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not assets:
        return "KUBEBUILDER_ASSETS is not set"
    absent = [name for name in PROGRAMS if shutil.which(name, path=assets) is None]
    return f"KUBEBUILDER_ASSETS has no {' and no '.join(absent)}" if absent else ""


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing())


class Cluster:
    """Our server and nodes with kube-controller-manager and kube-scheduler."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.assets = Path(os.environ["KUBEBUILDER_ASSETS"])
        self.plane = pilothouse(
            directory,
            "up",
            "--no-manager",
            "--no-scheduler",
            "--nodes=3",
            "--port=0",
            f"--kubeconfig={self.kubeconfig}",
        )
        self.plane.until("pilothouse is ready")
        self.manager = self._go("kube-controller-manager")
        # v1.20 binds nothing without policy/v1beta1.
        old = minor_version("kube-scheduler") < 25
        self.scheduler = self._go("kube-scheduler", *(["--feature-gates=PodDisruptionBudget=false"] if old else []))

    def stop(self) -> None:
        for program in (self.scheduler, self.manager, self.plane):
            program.kill()

    def _go(self, name: str, *flags: str) -> Program:
        command = [
            str(self.assets / name),
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--leader-elect-resource-lock=leases",
            *without_insecure_port(name),
            f"--secure-port={free_port()}",
            f"--cert-dir={self.directory}",
            *flags,
        ]
        return Program(self.directory, name, command, environment=environment(self.directory))

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        answer = subprocess.run(
            [self.assets / "kubectl", f"--kubeconfig={self.kubeconfig}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=environment(self.directory),
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def read(self, path: str) -> Any:
        return json.loads(self.kubectl("get", path, "-o", "json"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("go"))
    try:
        running.kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, manifests())))
        yield running
    finally:
        running.stop()


def manifests() -> list[dict[str, Any]]:
    def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": TEMPLATE}
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
        }

    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {
            "completions": 2,
            "template": {
                "metadata": {"annotations": {"simulated.pilothouse.dev/run-time": "1s"}},
                "spec": {**TEMPLATE, "restartPolicy": "Never"},
            },
        },
    }
    return [
        workload("Deployment", "dep", replicas=3),
        workload("DaemonSet", "ds"),
        workload("StatefulSet", "sts", replicas=2, serviceName="sts"),
        job,
    ]


@cases(
    "scenario, wanted",
    {
        "a Deployment": ("deployment/dep", {"availableReplicas": 3, "updatedReplicas": 3}),
        "a DaemonSet": ("daemonset/ds", {"numberAvailable": 3, "updatedNumberScheduled": 3}),
        "a StatefulSet": ("statefulset/sts", {"readyReplicas": 2, "updatedReplicas": 2}),
        "a Job": ("job/job", {"succeeded": 2}),
    },
)
def test_workload_reaches_its_desired_state(cluster: Cluster, scenario: str, wanted: dict[str, int]) -> None:
    until(lambda: wanted.items() <= cluster.read(scenario).get("status", {}).items(), f"{scenario} has {wanted}", 60)


def test_sets_keep_one_revision(cluster: Cluster) -> None:
    """The stored revision equals, byte for byte, what Go would store."""
    until(lambda: cluster.read("statefulset/sts").get("status", {}).get("readyReplicas") == 2, "the set is ready", 60)
    for name in ("ds", "sts"):
        revisions = json.loads(cluster.kubectl("get", "controllerrevisions", "-l", f"app={name}", "-o", "json"))[
            "items"
        ]
        assert len(revisions) == 1, f"{name} has {len(revisions)} revisions"


def test_rollout_and_rollback(cluster: Cluster) -> None:
    cluster.kubectl("set", "image", "deployment/dep", "main=registry.k8s.io/pause:3.9")
    cluster.kubectl("rollout", "status", "deployment/dep", "--timeout=50s")
    cluster.kubectl("rollout", "undo", "deployment/dep")
    cluster.kubectl("rollout", "status", "deployment/dep", "--timeout=50s")
    image = cluster.read("deployment/dep")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == TEMPLATE["containers"][0]["image"]


@pytest.mark.parametrize("program", ["manager", "scheduler"])
def test_logs_have_no_unexpected_errors(cluster: Cluster, program: str) -> None:
    log = getattr(cluster, program).log
    errors = [line for line in log.splitlines() if re.match(r"[EF]\d{4} ", line)]
    strange = [line[:300] for line in errors if not any(re.search(known, line) for known in EXPECTED)]
    assert strange == []
