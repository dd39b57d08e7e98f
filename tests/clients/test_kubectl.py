"""kubectl works with the embedded API server.

Needs a kubectl in ``$KUBEBUILDER_ASSETS`` or on the PATH; skipped without one.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.custom_resources import definition, schema, version
from tests.real_cluster import GOGC, RealCluster
from tests.tables import cases
from tests.workloads import workload


def find_kubectl() -> str | None:
    """kubectl as the ecosystem finds it: the assets folder first, then the PATH."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if assets and os.access(Path(assets) / "kubectl", os.X_OK):
        return str(Path(assets) / "kubectl")
    return shutil.which("kubectl")


KUBECTL = find_kubectl()
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


class Kubectl:
    """Runs kubectl as one user, in one namespace."""

    def __init__(self, server: EmbeddedServer | RealCluster, kubeconfig: Path) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(server.directory),
            "KUBECONFIG": str(kubeconfig),
            "KUBECTL_EXTERNAL_DIFF": "diff -u",
            "GOGC": GOGC,
        }
        self.namespace = "default"

    def command(self, *arguments: str) -> list[str]:
        assert KUBECTL is not None
        return [KUBECTL, f"--namespace={self.namespace}", *arguments]

    def __call__(self, *arguments: str, stdin: Any = None, fails: bool = False) -> str:
        """The output. ``stdin`` is an object to send as JSON; ``fails`` expects an error and returns its text."""
        done = subprocess.run(
            self.command(*arguments),
            input=None if stdin is None else stdin if isinstance(stdin, str) else json.dumps(stdin),
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=30,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr if fails else done.stdout

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """kubectl in the background, its output line by line."""
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, text=True, env=self.environment)

    def get(self, *arguments: str) -> Any:
        return json.loads(self("get", *arguments, "-o", "json"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("kubectl")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(server: EmbeddedServer) -> Kubectl:
    return Kubectl(server, server.kubeconfig("admin", token=ADMIN_TOKEN))


@pytest.fixture
def kubectl(admin: Kubectl, server: EmbeddedServer, request: pytest.FixtureRequest) -> Kubectl:
    """As an administrator with a client certificate, in a namespace of the test's own."""
    root_kubectl = Kubectl(server, server.kubeconfig("root", ("system:masters",)))
    root_kubectl.namespace = request.node.name.replace("_", "-")[:60].rstrip("-")
    admin("create", "namespace", root_kubectl.namespace)
    return root_kubectl


def replica_set(replicas: int = 2, name: str = "web") -> dict[str, Any]:
    container = {"name": "c", "image": "nginx:1.25", "ports": [{"containerPort": 80}]}
    metadata = {"labels": {"app": name}}
    return workload("ReplicaSet", name, pod={"containers": [container]}, metadata=metadata, replicas=replicas)


def pod(name: str = "p", **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "nginx:1.25"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_kubectl_version(admin: Kubectl) -> None:
    version = json.loads(admin("version", "-o", "json"))["serverVersion"]
    assert version["gitVersion"].startswith("v1.36.2+pilothouse.")
    assert (version["major"], version["minor"]) == ("1", "36")
    listed = rows(admin("api-resources", "--no-headers"))
    assert ["replicasets", "rs", "apps/v1", "true", "ReplicaSet"] in listed
    assert ["nodes", "no", "v1", "false", "Node"] in listed
    assert "coordination.k8s.io/v1" in admin("api-versions").splitlines()
    assert admin("get", "--raw", "/readyz") == "ok"
    assert "[+]poststarthook/rbac/bootstrap-roles ok" in admin("get", "--raw", "/readyz?verbose")
    assert "apiserver_request_total{" in admin("get", "--raw", "/metrics")


def test_create_and_get(kubectl: Kubectl) -> None:
    assert "replicaset.apps/web created" in kubectl("create", "-f", "-", stdin=replica_set())
    assert rows(kubectl("get", "rs"))[0] == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert rows(kubectl("get", "rs", "-o", "wide", "--no-headers"))[0][:4] == ["web", "2", "0", "0"]
    assert rows(kubectl("get", "rs", "-o", "wide", "--no-headers"))[0][5:] == ["c", "nginx:1.25", "app=web"]
    assert kubectl("get", "rs", "-o", "name") == "replicaset.apps/web\n"
    assert kubectl("get", "rs", "web", "-o", "jsonpath={.spec.replicas}") == "2"
    assert kubectl("get", "rs", "-o", "custom-columns=N:.metadata.name", "--no-headers") == "web\n"
    assert "uid: " in kubectl("get", "rs", "web", "-o", "yaml")
    assert rows(kubectl("get", "rs", "-A", "--show-labels"))[0][-1] == "LABELS"
    assert kubectl("get", "rs", "--sort-by=.metadata.name", "--no-headers").startswith("web")
    assert kubectl("get", "rs", "-l", "app=other", "-o", "name") == ""
    assert 'replicasets.apps "absent" not found' in kubectl("get", "rs", "absent", fails=True)
    again = kubectl("create", "-f", "-", stdin=replica_set(), fails=True)
    assert 'replicasets.apps "web" already exists' in again


def test_create_generators_send_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "d", "--image=nginx:1.25", "--replicas=0", "--port=80")
    kubectl("create", "configmap", "cm", "--from-literal=a=b", "--from-literal=c=d")
    kubectl("create", "secret", "generic", "s", "--from-literal=k=v")
    kubectl("create", "serviceaccount", "bob")
    kubectl("create", "quota", "q", "--hard=pods=2,requests.cpu=500m")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080")
    kubectl("create", "job", "j", "--image=busybox", "--", "sleep", "1")
    deployment = kubectl.get("deployment", "d")
    assert deployment["spec"]["replicas"] == 0
    assert deployment["spec"]["template"]["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]
    assert "minReadySeconds" not in deployment["spec"]
    assert kubectl.get("configmap", "cm")["data"] == {"a": "b", "c": "d"}
    assert kubectl.get("secret", "s")["data"] == {"k": "dg=="}
    assert kubectl.get("quota", "q")["spec"]["hard"] == {"pods": "2", "requests.cpu": "500m"}
    assert kubectl.get("service", "svc")["spec"]["ports"][0]["targetPort"] == 8080
    assert kubectl.get("job", "j")["spec"]["template"]["spec"]["containers"][0]["command"] == ["sleep", "1"]
    assert rows(kubectl("get", "configmap", "cm", "--no-headers"))[0][:2] == ["cm", "2"]


def test_get_watch(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod())
    watching = kubectl.start("get", "pods", "-w", "-o", "wide")
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().split()[:2] == ["NAME", "READY"]
        assert watching.stdout.readline().split()[:3] == ["p", "0/1", "Pending"]
        time.sleep(0.3)  # kubectl lists, then watches; there is no sign of when the watch starts
        kubectl("create", "-f", "-", stdin=pod("q"))
        assert watching.stdout.readline().split()[:3] == ["q", "0/1", "Pending"]
    finally:
        watching.kill()
        watching.communicate()


def test_change_commands(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=replica_set())
    kubectl("scale", "rs", "web", "--replicas=4")
    assert kubectl.get("rs", "web")["spec"]["replicas"] == 4
    kubectl("scale", "rs", "web", "--replicas=5", "--current-replicas=4")
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:1.26"}]}}}}
    kubectl("patch", "rs", "web", "-p", json.dumps(strategic))
    container = kubectl.get("rs", "web")["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["ports"][0]["containerPort"]) == ("nginx:1.26", 80)
    kubectl("patch", "rs", "web", "--type=merge", "-p", '{"metadata":{"labels":{"x":"y"}}}')
    kubectl("patch", "rs", "web", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":3}]')
    kubectl("label", "rs", "web", "tier=front")
    kubectl("annotate", "rs", "web", "note=hello")
    obj = kubectl.get("rs", "web")
    assert obj["spec"]["replicas"] == 3
    assert obj["metadata"]["labels"] == {"app": "web", "x": "y", "tier": "front"}
    assert obj["metadata"]["annotations"] == {"note": "hello"}
    kubectl("label", "rs", "web", "tier-")
    assert "tier" not in kubectl.get("rs", "web")["metadata"]["labels"]
    kubectl("replace", "-f", "-", stdin=replica_set(7))
    assert kubectl.get("rs", "web")["spec"]["replicas"] == 7
    stale = kubectl("label", "rs", "web", "a=b", "--resource-version=1", fails=True)
    assert "the object has been modified" in stale


def test_client_side_apply(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "-f", "-", stdin=replica_set())
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=replica_set())
    assert "configured" in kubectl("apply", "-f", "-", stdin=replica_set(3))
    changed = replica_set(3)
    del changed["metadata"]["labels"]
    kubectl("apply", "-f", "-", stdin=changed)
    obj = kubectl.get("rs", "web")
    assert obj["spec"]["replicas"] == 3
    assert "labels" not in obj["metadata"]
    misspelt = replica_set()
    misspelt["spec"]["replicaz"] = 1
    assert 'unknown field "spec.replicaz"' in kubectl("apply", "-f", "-", stdin=misspelt, fails=True)


@cases(
    "cascade, finalizers",
    {
        "background: deleted immediately": ("background", None),
        "foreground: waits for its dependents": ("foreground", ["foregroundDeletion"]),
        "orphan: waits until dependents are orphaned": ("orphan", ["orphan"]),
    },
)
def test_delete_commands(admin: Kubectl, cascade: str, finalizers: list[str] | None) -> None:
    name = f"doomed-{cascade}"
    admin("create", "-f", "-", stdin=replica_set(0, name))
    admin("delete", "rs", name, f"--cascade={cascade}", "--wait=false")
    if finalizers is None:
        assert "not found" in admin("get", "rs", name, fails=True)
        return
    # No garbage collector runs here: the finalizer remains, and is then removed manually.
    assert admin.get("rs", name)["metadata"]["finalizers"] == finalizers
    deleting = admin.start("delete", "rs", name, f"--cascade={cascade}")
    assert deleting.stdout is not None
    assert "deleted" in deleting.stdout.readline(), "kubectl says so, and then waits"
    admin("patch", "rs", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    deleting.communicate(timeout=20)
    assert deleting.returncode == 0, "kubectl waits until the object is gone"


def test_delete_collection(kubectl: Kubectl) -> None:
    for name in ("a", "b"):
        kubectl("create", "configmap", name)
    kubectl("delete", "configmap", "--all")
    assert kubectl("get", "configmap", "-o", "name") == ""
    kubectl("create", "-f", "-", stdin=pod("q", labels={"a": "b"}))
    kubectl("delete", "pod", "-l", "a=b", "--now")
    kubectl("create", "-f", "-", stdin=pod("r"))
    kubectl("delete", "pod", "r", "--force", "--grace-period=0")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")
    assert rows(kubectl("get", "namespace", kubectl.namespace, "--no-headers"))[0][1] == "Terminating"


def test_describe(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=replica_set())
    kubectl("create", "-f", "-", stdin=pod())
    kubectl("create", "configmap", "cm", "--from-literal=a=b")
    uid = kubectl.get("pod", "p")["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": kubectl.namespace, "name": "p", "uid": uid},
        "reason": "Scheduled",
        "message": "told so",
        "type": "Normal",
        "source": {"component": "test"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", stdin=event)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    kubectl("create", "-f", "-", stdin=node)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.000006Z"},
    }
    kubectl("create", "-f", "-", stdin=lease)
    assert "Replicas:     0 current / 2 desired" in kubectl("describe", "rs", "web")
    described = kubectl("describe", "pod", "p")
    assert "Status:       Pending" in described
    assert "told so" in described
    assert "Name:               n1" in kubectl("describe", "node", "n1")
    assert "No resource quota." in kubectl("describe", "namespace", kubectl.namespace)
    assert "Reason:" in kubectl("describe", "event", "p.1")
    assert "a:" in kubectl("describe", "configmap", "cm")
    assert "Holder Identity:" in kubectl("describe", "lease", "l")
    assert "told so" in kubectl("events")
    assert "Scheduled" in kubectl("get", "events")


def test_explain(admin: Kubectl) -> None:
    explained = admin("explain", "rs.spec.template.spec.containers.ports")
    assert "containerPort" in explained
    assert "<integer> -required-" in explained
    assert "FIELDS" in admin("explain", "pods", "--recursive")


def test_list_is_validated_by_openapi_v2(kubectl: Kubectl) -> None:
    """No document of v3 has the kind List, so kubectl turns to v2, in protobuf, and checks by itself."""
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("one", "two")]
    document = {"apiVersion": "v1", "kind": "List", "items": items}
    assert "configmap/two created" in kubectl("apply", "-f", "-", stdin=document)
    items[1]["dat"] = {}
    assert 'unknown field "dat"' in kubectl("apply", "-f", "-", stdin=document, fails=True)
    explained = kubectl("explain", "--output", "plaintext-openapiv2", "pods.spec.containers")
    assert "RESOURCE: containers <[]Object>" in explained


def test_auth_can_i(admin: Kubectl, server: EmbeddedServer) -> None:
    jane = Kubectl(server, server.kubeconfig("jane", ("crew",)))
    assert "jane" in jane("auth", "whoami")
    assert "crew" in jane("auth", "whoami")
    refused = jane("get", "pods", fails=True)
    assert (
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"'
        in refused
    )
    admin("create", "role", "reader", "--verb=get,list", "--resource=pods")
    admin("create", "rolebinding", "readers", "--role=reader", "--group=crew")
    assert jane("auth", "can-i", "list", "pods") == "yes\n"
    jane("get", "pods")
    assert "pods" in jane("auth", "can-i", "--list")
    assert "forbidden" in jane("delete", "pod", "p", fails=True)
    assert admin("auth", "can-i", "delete", "nodes") == "yes\n"
    # Impersonation is authorized for jane, who may not impersonate anybody.
    admin("get", "pods", "--as=jane", "--as-group=crew")
    assert "cannot list resource" in admin("get", "nodes", "--as=jane", fails=True)
    assert "cannot impersonate" in jane("get", "pods", "--as=admin", fails=True)


def test_service_account_tokens_authenticate(kubectl: Kubectl, server: EmbeddedServer) -> None:
    kubectl("create", "serviceaccount", "bob")
    token = kubectl("create", "token", "bob").strip()
    bob = Kubectl(server, server.kubeconfig("bob", token=token))
    assert f"system:serviceaccount:{kubectl.namespace}:bob" in bob("auth", "whoami")
    kubectl("delete", "serviceaccount", "bob")
    assert "must be logged in" in bob("get", "pods", fails=True)


SPEED = {"type": "integer", "minimum": 0, "description": "In knots."}
SCHEMA = schema(
    {"type": "object", "properties": {"speed": SPEED}},
    status={"type": "object", "properties": {"port": {"type": "string"}}},
)
SHIPS = definition(
    "Ship",
    version(
        schema={**SCHEMA, "description": "A ship on the sea."},
        subresources={"status": {}},
        additionalPrinterColumns=[{"name": "Speed", "type": "integer", "jsonPath": ".spec.speed"}],
    ),
    group="sea.example.com",
    names={"shortNames": ["sh"], "categories": ["sea"]},
)
SHIP = {
    "apiVersion": "sea.example.com/v1",
    "kind": "Ship",
    "metadata": {"name": "argo"},
    "spec": {"speed": 7},
}


def test_custom_resources(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=SHIPS)
    kubectl("wait", "--for=condition=Established", "crd/ships.sea.example.com", "--timeout=10s")
    kubectl("apply", "-f", "-", stdin=SHIP)
    assert rows(kubectl("get", "ships")) == [["NAME", "SPEED"], ["argo", "7"]]
    assert "argo" in kubectl("get", "sea")
    kubectl("patch", "ship", "argo", "--type=merge", "-p", '{"spec":{"speed":9}}')
    assert kubectl.get("sh", "argo")["spec"]["speed"] == 9
    kubectl("label", "ship", "argo", "a=b")
    assert "Speed:  9" in kubectl("describe", "ship", "argo")
    assert "In knots." in kubectl("explain", "ship.spec.speed")
    wrong = {**SHIP, "spec": {"speed": -1}}
    assert "spec.speed" in kubectl("apply", "-f", "-", stdin=wrong, fails=True)
    kubectl("delete", "ship", "argo")
    kubectl("delete", "crd", "ships.sea.example.com")
    # kubectl remembers what was served; the server does not.
    assert "the server could not find the requested resource" in kubectl("get", "ships", fails=True)
