"""kubectl apply --server-side: ownership, conflicts, force, and migration from client-side apply."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.clients.test_kubectl import KUBECTL, Kubectl

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: i, ports: [{containerPort: 80}]}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '%s'}\n"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with EmbeddedServer(tmp_path_factory.mktemp("apply")) as running:
        yield Kubectl(running, running.kubeconfig("admin", token=ADMIN_TOKEN))


def owners(kubectl: Kubectl, path: str) -> list[tuple[str, str, str]]:
    """Manager, operation and subresource of each entry."""
    document = json.loads(kubectl("get", path, "-o", "json", "--show-managed-fields"))
    return [
        (entry["manager"], entry["operation"], entry.get("subresource", ""))
        for entry in document["metadata"]["managedFields"]
    ]


def test_conflict_is_reported_and_can_be_forced(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT % 2)
    apply = ("apply", "--server-side", "-f", str(file))
    assert kubectl(*apply).strip() == "deployment.apps/web serverside-applied"
    assert kubectl(*apply).strip() == "deployment.apps/web serverside-applied"
    kubectl("scale", "deployment", "web", "--replicas=5")
    assert owners(kubectl, "deployment/web") == [("kubectl", "Apply", ""), ("kubectl", "Update", "scale")]
    refused = kubectl(*apply, fails=True)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in refused
    kubectl(*apply, "--force-conflicts")
    assert owners(kubectl, "deployment/web") == [("kubectl", "Apply", "")]
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "2"


def test_client_side_apply_is_migrated(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG_MAP % 1)
    kubectl("apply", "-f", str(file))
    assert owners(kubectl, "configmap/c") == [("kubectl-client-side-apply", "Update", "")]
    file.write_text(CONFIG_MAP % 2)
    assert kubectl("apply", "--server-side", "-f", str(file)).strip() == "configmap/c serverside-applied"
    assert ("kubectl", "Apply", "") in owners(kubectl, "configmap/c")
    assert ("kubectl-client-side-apply", "Update", "") not in owners(kubectl, "configmap/c")
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "2"
