"""The binder on kube-apiserver, with the rights of the controller's role."""

from pathlib import Path
from typing import Any

from tests.programs import pilothouse, until
from tests.real_cluster import RealCluster

NEEDED = ("system:kube-controller-manager", "system:controller:persistent-volume-binder")
FLAGS = (
    "--controllers=persistentvolume-binder",
    "--leader-elect=false",
    "--secure-port=0",
    "--use-service-account-credentials=false",
    "--pvclaimbinder-sync-period=2s",
    "--enable-hostpath-provisioner",
)
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MERGE = "application/merge-patch+json"


def test_claims_and_volumes_are_bound(real_cluster: RealCluster, tmp_path: Path) -> None:
    kubeconfig = real_cluster.user("binder", cluster_roles=NEEDED)
    namespace = real_cluster.namespace("binder")
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"

    def claim(name: str, size: str, **spec: Any) -> None:
        requests = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        body = {"metadata": {"name": name}, "spec": {**requests, "storageClassName": "binder-none", **spec}}
        real_cluster.request("POST", claims, body)

    def volume(name: str, size: str, **spec: Any) -> None:
        whole = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": f"/tmp/{name}"}}
        body = {"metadata": {"name": name}, "spec": {**whole, "storageClassName": "binder-none", **spec}}
        real_cluster.request("POST", VOLUMES, body)

    def phase(path: str) -> str:
        status, response = real_cluster.try_request("GET", path)
        return str(response["status"].get("phase", "")) if status == 200 else ""

    def remove(path: str) -> None:
        real_cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
        real_cluster.try_request("DELETE", path)

    def reasons() -> set[str]:
        items = real_cluster.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
        return {f"{item['involvedObject']['name']} {item['reason']}" for item in items}

    with pilothouse(tmp_path, "manager", f"--kubeconfig={kubeconfig}", *FLAGS) as manager:
        for name, size in (("binder-5", "5Gi"), ("binder-10", "10Gi")):
            volume(name, size)
        for name in ("binder-5", "binder-10"):
            until(lambda path=f"{VOLUMES}/{name}": phase(path) == "Available", f"{name} is free")  # type: ignore[misc]
        claim("four", "4Gi")
        until(lambda: phase(f"{claims}/four") == "Bound", "the smallest that does")
        assert real_cluster.request("GET", f"{claims}/four")["spec"]["volumeName"] == "binder-5"
        volume("binder-kept", "1Gi", claimRef={"namespace": namespace, "name": "one"})
        claim("one", "1Gi")
        until(lambda: phase(f"{claims}/one") == "Bound", "the one reserved for it")
        assert real_cluster.request("GET", f"{claims}/one")["spec"]["volumeName"] == "binder-kept"
        claim("named", "20Gi", volumeName="binder-10")
        until(lambda: "named VolumeMismatch" in reasons(), "too small")
        assert "four FailedBinding" not in reasons()
        remove(f"{claims}/four")
        until(lambda: phase(f"{VOLUMES}/binder-5") == "Released", "let go")
        remove(f"{VOLUMES}/binder-kept")
        until(lambda: phase(f"{claims}/one") == "Lost", "lost")
        until(lambda: "one ClaimLost" in reasons(), "and says so")
        real_cluster.request(
            "POST", CLASSES, {"metadata": {"name": "binder-folders"}, "provisioner": "kubernetes.io/host-path"}
        )
        real_cluster.request("POST", CLASSES, {"metadata": {"name": "binder-other"}, "provisioner": "vendor.com/x"})
        claim("folder", "1Gi", storageClassName="binder-folders")
        claim("other", "1Gi", storageClassName="binder-other")
        until(lambda: phase(f"{claims}/folder") == "Bound", "made here")
        until(lambda: "other ExternalProvisioning" in reasons(), "made elsewhere")
        volume_name = real_cluster.request("GET", f"{claims}/folder")["spec"]["volumeName"]
        remove(f"{claims}/folder")
        until(
            lambda: "deletionTimestamp" in str(real_cluster.try_request("GET", f"{VOLUMES}/{volume_name}")),
            "deleted here",
        )
        for name in ("binder-5", "binder-10", volume_name):
            remove(f"{VOLUMES}/{name}")
        for name in ("binder-folders", "binder-other"):
            real_cluster.request("DELETE", f"{CLASSES}/{name}")
        assert manager.stop() == 0
        assert "Traceback" not in manager.log
