"""``examples/guestbook.yaml`` on ``pilothouse up``: from the first apply to the deletion of its namespace, with
kubectl.

The manager runs as a separate process, because the autoscaler's sync period is one of its flags. The tests are steps of
one scenario, in order.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.clients.test_up import Terminal, start
from tests.programs import ROOT, pilothouse, until

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")

MANIFEST = str(ROOT / "examples/guestbook.yaml")
LOAD = "simulated.pilothouse.dev/cpu-load"
FLAGS = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--leader-elect=false",
    "--secure-port=0",
)
FRONTEND = "tier=frontend"
AVAILABLE, WANTED = 2, 3
"""What the budget and the strategy leave at any time, and the size at rest."""


class GuestbookKubectl(Terminal):
    """kubectl in the namespace of the application."""

    namespace = "guestbook"

    def __call__(self, *words: str, stdin: Any = None) -> str:
        return super().__call__(f"--namespace={self.namespace}", *words, stdin=stdin)

    def items(self, *words: str) -> list[dict[str, Any]]:
        obj: list[dict[str, Any]] = self.get(*words)["items"]
        return obj

    def ready_frontends(self) -> list[dict[str, Any]]:
        pods = self.items("pods", "-l", FRONTEND)
        return [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]

    def images(self) -> set[str]:
        return {pod["spec"]["containers"][0]["image"] for pod in self.ready_frontends()}

    def addresses(self, service: str) -> set[str]:
        """The ready addresses of all EndpointSlices."""
        slices = self.items("endpointslices", "-l", f"kubernetes.io/service-name={service}")
        endpoints = [item for endpoint_slice in slices for item in endpoint_slice.get("endpoints") or ()]
        return {
            address for endpoint in endpoints if endpoint["conditions"]["ready"] for address in endpoint["addresses"]
        }


def is_ready(pod: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


class FewestReady:
    """The smallest number of frontends that were ready at once, by a watch of every change."""

    def __init__(self, town: GuestbookKubectl) -> None:
        assert KUBECTL is not None
        self._ready: set[str] = {pod["metadata"]["name"] for pod in town.ready_frontends()}
        self.seen = len(self._ready)
        self.changes = 0
        command = [KUBECTL, "--kubeconfig", ".pilothouse/kubeconfig", "--namespace=guestbook", "get", "pods"]
        self._watch = subprocess.Popen(
            [*command, "-l", FRONTEND, "--watch", "--output-watch-events", "-o", "json"],
            cwd=town.directory,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> "FewestReady":
        self._thread.start()
        until(lambda: self.changes >= WANTED, "the watch has begun")
        return self

    def __exit__(self, *_error: object) -> None:
        self._watch.terminate()
        self._thread.join()
        assert self._watch.stdout is not None
        self._watch.stdout.close()
        self._watch.wait()

    def _follow(self) -> None:
        assert self._watch.stdout is not None
        text = ""
        for line in self._watch.stdout:
            text += line
            try:
                event = json.loads(text)
            except ValueError:
                continue  # continued in the next line
            text = ""
            self._note(event)

    def _note(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        name = pod["metadata"]["name"]
        serves = event["type"] != "DELETED" and is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        (self._ready.add if serves else self._ready.discard)(name)
        self.changes += 1
        self.seen = min(self.seen, len(self._ready))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestbookKubectl]:
    directory = tmp_path_factory.mktemp("guestbook")
    with start(directory, "--nodes=3", "--no-manager", "--pod-ready-delay=200ms") as up:
        up.until("is ready")
        with pilothouse(directory, "manager", "--kubeconfig=.pilothouse/kubeconfig", *FLAGS) as manager:
            manager.until("Starting controller")
            yield GuestbookKubectl(directory)
            assert manager.stop() == 0
            assert "Traceback" not in manager.log
        assert up.stop() == 0
        assert "Traceback" not in up.log


def test_guestbook_becomes_ready(town: GuestbookKubectl) -> None:
    town("create", "namespace", "guestbook")
    town("apply", "-f", MANIFEST)
    for workload in ("deployment/frontend", "deployment/cache", "statefulset/db"):
        town("rollout", "status", workload, "--timeout=30s")
    until(lambda: len(town.addresses("frontend")) == WANTED, "the service has its endpoints")
    assert len(town.addresses("cache")) == 1
    assert town.addresses("db") == {pod["status"]["podIP"] for pod in town.items("pods", "-l", "tier=db")}
    claims = [row.split() for row in town("get", "pvc", "--no-headers").splitlines()]
    assert [(row[0], row[1], row[3], row[5]) for row in claims] == [
        (f"data-db-{ordinal}", "Bound", "1Gi", "standard") for ordinal in range(2)
    ]
    until(lambda: town.get("pdb", "frontend")["status"]["disruptionsAllowed"] == 1, "one may go")
    until(lambda: "cpu: 10%/50%" in town("get", "hpa", "frontend"), "the autoscaler looks")
    town("create", "job", "first-backup", "--from=cronjob/backup")
    town("wait", "--for=condition=complete", "job/first-backup", "--timeout=20s")


def test_rollout_and_rollback_respect_bounds(town: GuestbookKubectl) -> None:
    with FewestReady(town) as fewest:
        town("set", "image", "deployment/frontend", "php=guestbook-frontend:v6")
        town("rollout", "status", "deployment/frontend", "--timeout=30s")
        assert town.images() == {"guestbook-frontend:v6"}
        town("rollout", "undo", "deployment/frontend")
        town("rollout", "status", "deployment/frontend", "--timeout=30s")
        assert town.images() == {"guestbook-frontend:v5"}
    assert fewest.seen >= AVAILABLE
    assert fewest.changes > 2 * WANTED
    assert re.search(r"3 +<none>", town("rollout", "history", "deployment/frontend"))
    town("set", "image", "statefulset/db", "postgres=postgres:18")
    town("rollout", "status", "statefulset/db", "--timeout=30s")
    assert {pod["spec"]["containers"][0]["image"] for pod in town.items("pods", "-l", "tier=db")} == {"postgres:18"}


def test_autoscaler_follows_the_load(town: GuestbookKubectl) -> None:
    town("annotate", "deployment", "frontend", f"{LOAD}=300m")
    until(lambda: len(town.ready_frontends()) == 6, "six share 300m at 50m each")
    assert (
        sum(
            int(row.split()[1].removesuffix("m"))
            for row in town("top", "pods", "--no-headers", "-l", FRONTEND).splitlines()
        )
        == 300
    )
    until(lambda: len(town.addresses("frontend")) == 6, "and all serve")
    town("annotate", "deployment", "frontend", f"{LOAD}-")
    until(lambda: len(town.ready_frontends()) == WANTED, "back at rest")


def test_drain_respects_the_budget(town: GuestbookKubectl) -> None:
    until(lambda: town.get("pdb", "frontend")["status"]["disruptionsAllowed"] == 1, "one may go")
    places = [pod["spec"]["nodeName"] for pod in town.ready_frontends()]
    node = max(sorted(set(places)), key=places.count)
    with FewestReady(town) as fewest:
        assert f"node/{node} drained" in town(
            "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"
        )
        until(lambda: len(town.ready_frontends()) == WANTED, "they are back elsewhere")
    assert fewest.seen >= AVAILABLE
    assert node not in {pod["spec"]["nodeName"] for pod in town.ready_frontends()}
    town("rollout", "status", "statefulset/db", "--timeout=30s")
    claims = {row.split()[0]: row.split()[1] for row in town("get", "pvc", "--no-headers").splitlines()}
    assert claims == {"data-db-0": "Bound", "data-db-1": "Bound"}
    town("uncordon", node)


def test_namespace_deletion_removes_everything(town: GuestbookKubectl) -> None:
    volumes = town("get", "pv", "-o", "name").splitlines()
    assert len(volumes) == 2
    town("delete", "namespace", "guestbook", "--timeout=60s")
    until(lambda: not town("get", "pv", "-o", "name"), "its volumes are reclaimed")
    for resource in ("pods", "deployments", "statefulsets", "jobs", "endpointslices", "pvc", "hpa", "pdb", "events"):
        assert town("get", resource, "-o", "name") == "", resource
