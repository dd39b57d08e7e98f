"""The manager with the service account and flags of ``deploy/deployment.yaml``, the rights of ``deploy/rbac.yaml`` and
v1.36's roles only, on kube-apiserver. ReplicaSets come on top: there is no other manager that would look after them.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.controllermanager.usual import USUAL
from tests.programs import ROOT, free_port, pilothouse, until
from tests.real.cluster_view import View, replica_set, three_ready
from tests.real.conftest import apply_v1_36
from tests.real.test_rights import answers

pytestmark = pytest.mark.usefixtures("machines")


def documents(name: str) -> list[dict[str, Any]]:
    """The objects of a manifest."""
    return [item for item in yaml.safe_load_all((ROOT / "deploy" / name).read_text(encoding="utf-8")) if item]


def test_rights_of_the_deployment_manifest_are_sufficient(view: View, tmp_path: Path) -> None:
    """Electing, tokens for every controller, replacing a pod, emptying a namespace: nothing is refused."""
    cluster = view.cluster
    for descriptor in USUAL:
        apply_v1_36(cluster, "clusterroles", f"system:controller:{descriptor.client_name}")
        apply_v1_36(cluster, "clusterrolebindings", f"system:controller:{descriptor.client_name}")
    cluster.kubectl("apply", "-f", str(ROOT / "deploy" / "rbac.yaml"))
    path = "/api/v1/namespaces/kube-system/serviceaccounts/pilothouse-manager/token"
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    token = cluster.request("POST", path, {**kind, "spec": {"expirationSeconds": 3600}})["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    (deployment,) = documents("deployment.yaml")
    _program, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["command"]
    port = free_port()
    pod_has = [f"--{name}={kubeconfig}" for name in ("kubeconfig", "authentication-kubeconfig")]
    here = [
        *pod_has,
        "--controllers=replicaset-controller",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--secure-port={port}",
        "--v=2",
    ]
    with pilothouse(
        tmp_path, "manager", *flags, *here, "--authorization-always-allow-paths=/metrics,/readyz"
    ) as manager:
        view.create(replica_set("web", 3))
        first = three_ready(view)
        view.kubectl("delete", "pod", sorted(first)[0], "--wait=true")
        until(lambda: len(view.ready()) == 3, "the deleted pod is replaced")
        cluster.kubectl("create", "namespace", "passing")
        cluster.kubectl("--namespace=passing", "create", "configmap", "settings")
        cluster.kubectl("delete", "namespace", "passing", "--timeout=60s")
        view.kubectl("delete", "replicaset", "web")
        until(lambda: not view.pods(), "the garbage collector follows", 60.0)
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pilothouse-manager"
        assert cluster.request("GET", lease)["spec"]["holderIdentity"]
        counts = answers(port)
        assert manager.stop() == 0
    assert counts["201"] >= 10, "the metrics count requests"
    # In a terminating namespace its account and CA cannot be created again.
    assert int(counts.get("403", 0)) <= 2
    assert not re.search(r"^[EW]\d{4} .*(forbidden|Traceback)", manager.log, re.MULTILINE)
