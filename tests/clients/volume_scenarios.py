"""Claim and volume scenarios, run on ``pilothouse up`` and on kube-apiserver."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

from tests.clients.daemon_scenarios import is_ready
from tests.clients.stateful_scenarios import CLAIMS, StatefulSetCluster, stateful_set
from tests.programs import until

Doc = dict[str, Any]
PROVISIONER = "simulated.pilothouse.dev"


class VolumeCluster(StatefulSetCluster):
    """A cluster accessed with kubectl, with a provisioner."""

    def clear(self) -> None:
        """Delete everything, including volumes, and all classes except the default one."""
        super().clear()
        until(lambda: not self.volumes(), "the volumes are gone")
        for item in self.get("storageclass")["items"]:
            if item["metadata"]["name"] != "standard":
                self("delete", "storageclass", item["metadata"]["name"])

    def at(self, namespace: str) -> "VolumeCluster":
        """The same cluster, in another namespace."""
        return VolumeCluster([*self._command, f"-n={namespace}"], self._environment, self.nodes)

    def volumes(self) -> dict[str, Doc]:
        """The volumes by name."""
        return {item["metadata"]["name"]: item for item in self.get("pv")["items"]}

    def claims(self) -> dict[str, Doc]:
        """The claims by name."""
        return {item["metadata"]["name"]: item for item in self.get("pvc")["items"]}

    def phases(self) -> dict[str, str]:
        """The phases of the claims."""
        return {name: item["status"].get("phase", "") for name, item in self.claims().items()}

    def delete_claim(self, claim: str) -> None:
        """Delete an unused claim, and wait."""
        self("delete", "pvc", claim, "--timeout=30s")

    def create_class(self, name: str, **more: Any) -> None:
        """Create a class with the same provisioner."""
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        self.create_object({**head, "provisioner": PROVISIONER, **more})

    def create_claim(self, name: str, class_name: str) -> None:
        """A claim."""
        size = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": class_name}
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        self.create_object(document)

    def create_pod(self, name: str, claim: str) -> None:
        """A pod that uses a claim."""
        spec = {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "pause:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.create_object(document)

    def event_reasons(self, name: str) -> set[str]:
        """The reasons of the events of an object."""
        items = self.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
        return {item["reason"] for item in items}


def stateful_set_volumes_are_kept(stage: VolumeCluster) -> None:
    """Volumes of a StatefulSet: bound, kept when it is deleted, and deleted with their claims."""
    stage.create(volumeClaimTemplates=CLAIMS)
    stage.wait_for_rollout()
    assert stage.phases() == {f"data-web-{n}": "Bound" for n in range(3)}
    line = next(line for line in stage("get", "pvc").splitlines() if line.startswith("data-web-1"))
    volume = stage.claims()["data-web-1"]["spec"]["volumeName"]
    assert re.split(r" {2,}", line)[:6] == ["data-web-1", "Bound", volume, "1Gi", "RWO", "standard"]
    line = next(line for line in stage("get", "pv").splitlines() if line.startswith(volume))
    namespace = stage.claims()["data-web-1"]["metadata"]["namespace"]
    columns = re.split(r" {2,}", line)[:7]
    assert columns == [volume, "1Gi", "RWO", "Delete", "Bound", f"{namespace}/data-web-1", "standard"]
    described = stage("describe", "pvc", "data-web-1")
    assert re.search(r"Used By:\s+web-1", described)
    assert "pv.kubernetes.io/bind-completed: yes" in described
    assert f"volume.kubernetes.io/storage-provisioner: {PROVISIONER}" in described
    until(lambda: "ProvisioningSucceeded" in stage("describe", "pvc", "data-web-1"), "it says who made the volume")
    assert {"ExternalProvisioning", "Provisioning"} <= stage.event_reasons("data-web-1")
    before = {name: item["spec"]["volumeName"] for name, item in stage.claims().items()}
    stage("delete", "pod", "web-1")
    stage.wait_for_ready(3)
    assert {name: item["spec"]["volumeName"] for name, item in stage.claims().items()} == before, "the same volumes"
    stage("delete", "sts", "web")
    until(lambda: not stage.members(), "the pods go with it")
    assert stage.phases() == {f"data-web-{n}": "Bound" for n in range(3)}, "the claims stay"
    stage.delete_claim("data-web-1")
    until(lambda: volume not in stage.volumes(), "the volume goes with its claim")
    assert len(stage.volumes()) == 2


def retained_volume_is_kept(stage: VolumeCluster) -> None:
    """A retained volume: kept until its claimRef is removed, then bound to a matching claim."""
    stage.create_class("kept", reclaimPolicy="Retain")
    stage.create_claim("mine", "kept")
    until(lambda: stage.phases()["mine"] == "Bound", "it is bound")
    (name,) = stage.volumes()
    stage.delete_claim("mine")
    until(lambda: stage.volumes()[name]["status"]["phase"] == "Released", "it is let go")
    stage("patch", "pv", name, "--type=merge", "-p", '{"spec":{"claimRef":null}}')
    until(lambda: stage.volumes()[name]["status"]["phase"] == "Available", "and free")
    stage.create_claim("next", "kept")
    until(lambda: stage.phases()["next"] == "Bound", "somebody else gets it")
    assert stage.claims()["next"]["spec"]["volumeName"] == name
    stage.delete_claim("next")
    until(lambda: stage.volumes()[name]["status"]["phase"] == "Released", "it is let go again")
    stage("delete", "pv", name, "--timeout=30s")


def wait_for_first_consumer(stage: VolumeCluster) -> None:
    """A class whose volumes wait for their first consumer."""
    stage.create_class("local", volumeBindingMode="WaitForFirstConsumer")
    stage.create_claim("mine", "local")
    until(lambda: "WaitForFirstConsumer" in stage("describe", "pvc", "mine"), "it says what it waits for")
    assert stage.phases() == {"mine": "Pending"}
    stage.create_pod("first", "mine")
    until(lambda: is_ready(stage.get("pod", "first")), "the pod runs")
    node = stage.get("pod", "first")["spec"]["nodeName"]
    claim = stage.claims()["mine"]
    assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == node
    described = stage("describe", "pv", claim["spec"]["volumeName"])
    assert re.search(
        rf"Node Affinity:\s+\n\s+Required Terms:\s+\n\s+Term 0:\s+kubernetes.io/hostname in \[{node}\]", described
    )
    stage("delete", "pod", "first")
    stage("cordon", node)
    stage.create_pod("second", "mine")
    text = "node(s) didn't match PersistentVolume's node affinity"
    until(lambda: text in stage("describe", "pod", "second"), "there is no other place")
    stage("uncordon", node)
    until(lambda: is_ready(stage.get("pod", "second")), "it runs where its volume is")
    assert stage.get("pod", "second")["spec"]["nodeName"] == node


def pod_waits_for_an_unbound_claim(stage: VolumeCluster) -> None:
    """A pod without a matching volume emits an event, and runs after one was created manually."""
    stage.create_pod("early", "late")
    until(
        lambda: 'persistentvolumeclaim "late" not found' in stage("describe", "pod", "early"), "it waits for the claim"
    )
    stage.create_claim("late", "by-hand")
    text = "pod has unbound immediate PersistentVolumeClaims"
    until(lambda: text in stage("describe", "pod", "early"), "and for the volume")
    until(
        lambda: 'storageclass.storage.k8s.io "by-hand" not found' in stage("describe", "pvc", "late"), "that says why"
    )
    spec = {
        "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
        "hostPath": {"path": "/tmp/by-hand"}, "persistentVolumeReclaimPolicy": "Delete",
    }  # fmt: skip
    document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "by-hand"}, "spec": spec}
    stage.create_object(json.loads(json.dumps(document)))
    until(lambda: stage.phases()["late"] == "Bound", "it is found", 40.0)
    until(lambda: is_ready(stage.get("pod", "early")), "and the pod runs")
    assert stage.claims()["late"]["status"]["capacity"] == {"storage": "5Gi"}, "what it got is more than it asked for"
    stage("delete", "pod", "early")
    stage.delete_claim("late")
    until(lambda: not stage.volumes(), "the volume goes, too")


def claims_and_volumes_in_use_are_protected(stage: VolumeCluster) -> None:
    """Protection: a claim until its pod is deleted, even if terminated; a volume until its claim is deleted."""
    stage.create_claim("mine", "standard")
    stage.create_pod("holder", "mine")
    until(lambda: is_ready(stage.get("pod", "holder")), "the pod runs")
    volume = stage.claims()["mine"]["spec"]["volumeName"]
    stage("delete", "pv", volume, "--wait=false")
    stage("delete", "pvc", "mine", "--wait=false")
    assert re.search(r"^mine +Terminating ", stage("get", "pvc"), re.MULTILINE)
    assert re.search(rf"^{volume} .* Terminating ", stage("get", "pv"), re.MULTILINE)
    stage.create_pod("late", "mine")
    text = 'persistentvolumeclaim "mine" is being deleted'
    until(lambda: text in stage("describe", "pod", "late"), "nobody new gets it")
    assert stage.claims()["mine"]["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "kubernetes.io/pv-protection" in stage.volumes()[volume]["metadata"]["finalizers"]
    assert is_ready(stage.get("pod", "holder")), "it runs on"
    stage("delete", "pod", "holder")
    until(lambda: not stage.claims(), "the claim goes with its pod")
    until(lambda: not stage.volumes(), "and the volume with its claim")


def namespace_deletion_deletes_volumes(stage: VolumeCluster) -> None:
    """Deleting a namespace deletes pods, claims and volumes."""
    stage("create", "namespace", "doomed")
    away = stage.at("doomed")
    for number in range(3):
        away.create_claim(f"c{number}", "standard")
        away.create_pod(f"p{number}", f"c{number}")
    until(lambda: all(is_ready(pod) for pod in away.get("pods")["items"]), "the pods run")
    assert len(away.volumes()) == 3
    stage("delete", "namespace", "doomed", "--timeout=60s")
    until(lambda: not stage.volumes(), "the volumes are gone")


def claim_expansion_and_pod_move(stage: VolumeCluster) -> None:
    """A claim is expanded, its pod moves to another node, and the volume is detached and attached there."""
    stage.create(replicas=1, volumeClaimTemplates=CLAIMS)
    stage.wait_for_rollout()
    volume = stage.claims()["data-web-0"]["spec"]["volumeName"]
    old = stage.get("pod", "web-0")["spec"]["nodeName"]

    def places() -> dict[str, bool]:
        """The nodes that have the volume, and whether it is attached there."""
        items = stage.get("volumeattachments")["items"]
        attachments = [item for item in items if item["spec"]["source"]["persistentVolumeName"] == volume]
        return {item["spec"]["nodeName"]: item["status"]["attached"] for item in attachments}

    assert places() == {old: True}
    assert stage.get("csidriver", PROVISIONER)["spec"]["attachRequired"]
    assert re.search(rf"{PROVISIONER} +{volume} +{old} +true", stage("get", "volumeattachments"))
    name = f"kubernetes.io/csi/{PROVISIONER}^{volume}"
    status = stage.get("node", old)["status"]
    assert ([attachment["name"] for attachment in status["volumesAttached"]], status["volumesInUse"]) == (
        [name],
        [name],
    )
    assert "SuccessfulAttachVolume" in stage.event_reasons("web-0")
    stage("patch", "pvc", "data-web-0", "-p", '{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}')
    until(lambda: stage.claims()["data-web-0"]["status"]["capacity"] == {"storage": "3Gi"}, "it has what it asks for")
    assert stage.volumes()[volume]["spec"]["capacity"] == {"storage": "3Gi"}
    reported = {"ExternalExpanding", "Resizing", "VolumeResizeSuccessful"}
    until(lambda: reported <= stage.event_reasons("data-web-0"), "and says how it came to it")
    stage("cordon", old)
    stage("delete", "pod", "web-0")
    until(lambda: "web-0" in stage.members() and is_ready(stage.get("pod", "web-0")), "it runs again")
    new = stage.get("pod", "web-0")["spec"]["nodeName"]
    assert new != old
    assert places() == {new: True}
    until(lambda: "volumesInUse" not in stage.get("node", old)["status"], "its old node has forgotten it")
    stage("uncordon", old)
    stage("delete", "sts", "web")
    until(lambda: not places(), "nobody uses it any more")
    stage.delete_claim("data-web-0")
    until(lambda: volume not in stage.volumes(), "the volume goes with its claim")


def multi_attach_of_a_volume(stage: VolumeCluster) -> None:
    """The second pod emits a multi-attach event, and gets the volume when the first is deleted."""
    stage.create_claim("mine", "standard")
    stage.create_pod("first", "mine")
    until(lambda: is_ready(stage.get("pod", "first")), "the first runs")
    node = stage.get("pod", "first")["spec"]["nodeName"]
    stage("cordon", node)
    stage.create_pod("second", "mine")
    text = "Volume is already used by pod(s) first"
    until(lambda: text in stage("describe", "pod", "second"), "the second says what it waits for")
    assert stage.get("pod", "second")["status"]["phase"] == "Pending"
    stage("uncordon", node)
    stage("delete", "pod", "first")
    until(lambda: is_ready(stage.get("pod", "second")), "the second runs")


def ephemeral_volume(stage: VolumeCluster) -> None:
    """An ephemeral volume: its claim is created and deleted with the pod."""
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "pause:1"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": size}}}],
    }
    stage.create_object({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}, "spec": spec})
    until(lambda: is_ready(stage.get("pod", "busy")), "it runs")
    assert stage.phases() == {"busy-scratch": "Bound"}
    stage("delete", "pod", "busy")
    until(lambda: not stage.claims(), "the claim goes with the pod")
    until(lambda: not stage.volumes(), "and the volume")


def retention_and_reclaim_policies(stage: VolumeCluster) -> None:
    """StatefulSets under each retention policy, on volumes of each reclaim policy: scaled down, then deleted."""
    stage.create_class("kept", reclaimPolicy="Retain")
    ways = [
        (scaled, deleted, kept)
        for scaled in ("Retain", "Delete")
        for deleted in ("Retain", "Delete")
        for kept in (0, 1)
    ]
    names = {way: f"scaled-{way[0]}-deleted-{way[1]}-{way[2]}".lower() for way in ways}
    items = []
    for (scaled, deleted, kept), name in names.items():
        (template,) = copy.deepcopy(CLAIMS)
        template["spec"]["storageClassName"] = "kept" if kept else "standard"
        spec = {"replicas": 2, "podManagementPolicy": "Parallel", "volumeClaimTemplates": [template]}
        policy = {"whenScaled": scaled, "whenDeleted": deleted}
        items.append(stateful_set(name, **spec, persistentVolumeClaimRetentionPolicy=policy))
    stage.create_object({"apiVersion": "v1", "kind": "List", "items": items})
    pods = {f"{name}-{ordinal}" for name in names.values() for ordinal in range(2)}
    until(lambda: {pod["metadata"]["name"] for pod in stage.get("pods")["items"] if is_ready(pod)} == pods, "all run")

    def phases() -> dict[str, str]:
        """The phases of the volumes, by their current or former claims."""
        return {value["spec"]["claimRef"]["name"]: value["status"]["phase"] for value in stage.volumes().values()}

    def expected(is_left: Callable[[str, str, int], bool]) -> dict[str, str]:
        result = {}
        for (scaled, deleted, kept), name in names.items():
            for ordinal in range(2):
                if is_left(scaled, deleted, ordinal):
                    result[f"data-{name}-{ordinal}"] = "Bound"
                elif kept:
                    result[f"data-{name}-{ordinal}"] = "Released"
        return result

    assert set(phases().values()) == {"Bound"}
    stage("scale", "sts", "--all", "--replicas=1")
    wanted = expected(lambda scaled, _deleted, ordinal: ordinal == 0 or scaled == "Retain")
    until(lambda: phases() == wanted, "claims of pods that are too many go as whenScaled says")
    stage("delete", "sts", "--all")
    wanted = expected(lambda scaled, deleted, ordinal: deleted == "Retain" and (ordinal == 0 or scaled == "Retain"))
    until(lambda: phases() == wanted, "and the others as whenDeleted says")
    bound = {name for name, phase in wanted.items() if phase == "Bound"}
    assert set(stage.claims()) == bound
    stage("delete", "pvc", "--all")
    until(lambda: set(phases().values()) == {"Released"}, "what is not kept goes with the last claims")
    stage("delete", "pv", "--all", "--timeout=30s")


ATTACHING = [
    claim_expansion_and_pod_move,
    multi_attach_of_a_volume,
    ephemeral_volume,
    retention_and_reclaim_policies,
]
"""Scenarios that need a current API server, or the attach/detach controller."""
SCENARIOS = [
    stateful_set_volumes_are_kept,
    retained_volume_is_kept,
    wait_for_first_consumer,
    pod_waits_for_an_unbound_claim,
    claims_and_volumes_in_use_are_protected,
    namespace_deletion_deletes_volumes,
]
