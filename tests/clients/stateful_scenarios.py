"""StatefulSet scenarios, run on ``pilothouse up`` and on kube-apiserver."""

import json
from typing import Any

from tests.clients.daemon_scenarios import KubectlCluster, is_ready
from tests.programs import until
from tests.workloads import pod_spec, workload

Doc = dict[str, Any]


def stateful_set(name: str, **spec: Any) -> Doc:
    """A StatefulSet with three small pods, or as ``spec``."""
    pod = pod_spec("pause:1", terminationGracePeriodSeconds=1)
    return workload("StatefulSet", name, pod=pod, **{"replicas": 3, "serviceName": name, **spec})


class StatefulSetCluster(KubectlCluster):
    """A cluster accessed with kubectl, with the StatefulSet ``web``."""

    def clear(self) -> None:
        """Delete everything, including claims."""
        self.delete_all("sts", "pods")
        until(lambda: not self.get("pods")["items"], "all pods are gone")
        self.delete_all("pvc")
        until(lambda: not self.get("pvc")["items"], "all claims are gone")
        self.delete_all("controllerrevisions", "events")

    def create(self, **spec: Any) -> None:
        """Create the StatefulSet with kubectl."""
        self.create_object(stateful_set("web", **spec))

    def wait_for_rollout(self) -> None:
        """Wait with ``kubectl rollout status``."""
        self("rollout", "status", "sts/web", "--timeout=50s")

    def members(self) -> dict[str, Doc]:
        """The pods that are not terminating, by name."""
        items = self.get("pods", "-l", "app=web")["items"]
        return {item["metadata"]["name"]: item for item in items if "deletionTimestamp" not in item["metadata"]}

    def image_of(self) -> dict[str, str]:
        """The image of each pod, once all are ready; else empty."""
        members = self.members()
        if not all(map(is_ready, members.values())):
            return {}
        return {name: pod["spec"]["containers"][0]["image"].rpartition(":")[2] for name, pod in members.items()}

    def wait_for_images(self, **images: str) -> None:
        """Wait until exactly these pods run: ``web0="2"``."""
        wanted = {name.replace("web", "web-"): image for name, image in images.items()}
        until(lambda: self.image_of() == wanted, f"the pods run {wanted}")

    def wait_for_ready(self, count: int) -> None:
        """Wait until this number of pods is ready and in the status."""
        names = {f"web-{ordinal}" for ordinal in range(count)}
        until(lambda: set(self.image_of()) == names, f"{count} pods are there")
        until(lambda: self.web()["status"].get("readyReplicas", 0) == count, "the status says so")

    def web(self) -> Doc:
        """The StatefulSet."""
        obj: Doc = self.get("sts", "web")
        return obj

    def uids(self) -> dict[str, str]:
        """The uids of the pods."""
        return {name: pod["metadata"]["uid"] for name, pod in self.members().items()}

    def patch(self, spec: Doc) -> None:
        """Patch the spec."""
        self("patch", "sts", "web", "--type=merge", "-p", json.dumps({"spec": spec}))

    def event_pods(self, reason: str) -> list[str]:
        """The pod names in events of this reason, in order."""
        items = self.get("events", "--field-selector", f"reason={reason},involvedObject.kind=StatefulSet")["items"]
        pods = [item for item in items if " Pod web-" in item["message"] and " Claim " not in item["message"]]
        pods.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [item["message"].split()[2] for item in pods]


CLAIMS: list[Doc] = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


def ordered_scaling_keeps_claims(stage: StatefulSetCluster) -> None:
    """Names, labels and claims; up to five and down to one."""
    stage.create(volumeClaimTemplates=CLAIMS)
    stage.wait_for_rollout()
    stage.wait_for_ready(3)
    assert stage.event_pods("SuccessfulCreate") == ["web-0", "web-1", "web-2"]
    pod = stage.members()["web-1"]
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-1"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "web")
    volumes = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert volumes == ["data-web-1"]
    assert "3/3" in stage("get", "sts", "web")
    stage("scale", "sts", "web", "--replicas=5")
    stage.wait_for_ready(5)
    stage("scale", "sts", "web", "--replicas=1")
    stage.wait_for_ready(1)
    assert stage.event_pods("SuccessfulDelete") == ["web-4", "web-3", "web-2", "web-1"]
    assert [item["metadata"]["name"] for item in stage.get("pvc")["items"]] == [f"data-web-{n}" for n in range(5)]
    stage("delete", "sts", "web")
    until(lambda: not stage.members(), "the pods go with it")
    assert len(stage.get("pvc")["items"]) == 5, "and the claims stay"


def partitioned_rollout_and_rollback(stage: StatefulSetCluster) -> None:
    """A canary by partition, the full rollout, and a rollback."""
    stage.create()
    stage.wait_for_rollout()
    stage.patch({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}})
    stage("set", "image", "sts/web", "main=pause:2")
    stage.wait_for_images(web0="1", web1="1", web2="2")
    first = stage.uids()["web-0"]
    stage("delete", "pod", "web-0")
    until(lambda: stage.uids().get("web-0", first) != first, "it is made again")
    stage.wait_for_images(web0="1", web1="1", web2="2")

    def counts() -> tuple[int, int]:
        status = stage.web()["status"]
        return status.get("currentReplicas", 0), status.get("updatedReplicas", 0)

    until(lambda: counts() == (2, 1), "the status counts both revisions")
    stage.patch({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}})
    stage.wait_for_rollout()
    stage.wait_for_images(web0="2", web1="2", web2="2")
    until(lambda: stage.web()["status"]["currentRevision"] == stage.web()["status"]["updateRevision"], "it is over")
    assert sorted(stage.revisions().values()) == [1, 2]
    stage("rollout", "undo", "sts/web")
    stage.wait_for_images(web0="1", web1="1", web2="1")
    assert sorted(stage.revisions().values()) == [2, 3], "the old revision is the newest"
    assert stage("rollout", "history", "sts/web").count("<none>") == 2


def orphaned_pods_are_adopted(stage: StatefulSetCluster) -> None:
    """Pods are orphaned and readopted by a recreated StatefulSet."""
    stage.create()
    stage.wait_for_ready(3)
    before, revisions = stage.uids(), stage.revisions()
    stage("delete", "sts", "web", "--cascade=orphan")
    assert stage.uids() == before
    assert all("ownerReferences" not in pod["metadata"] for pod in stage.members().values())
    stage.create()
    until(lambda: all("ownerReferences" in pod["metadata"] for pod in stage.members().values()), "all are adopted")
    stage.wait_for_ready(3)
    assert (stage.uids(), stage.revisions()) == (before, revisions)
    stage("label", "pod", "web-1", "statefulset.kubernetes.io/pod-name=other", "--overwrite")
    name = "statefulset.kubernetes.io/pod-name"
    until(lambda: stage.members()["web-1"]["metadata"]["labels"][name] == "web-1", "its name is put right")
    stage("label", "pod", "web-2", "app=other", "--overwrite")
    until(lambda: "ownerReferences" not in stage.get("pod", "web-2")["metadata"], "who does not match is released")
    stage("delete", "pod", "web-2")
    stage.wait_for_ready(3)
    stage("delete", "sts", "web", "--cascade=foreground")
    assert not stage.members()


def parallel_management_replaces_failed_pods(stage: StatefulSetCluster) -> None:
    """Parallel pod management, and a failed pod that is recreated."""
    stage.create(podManagementPolicy="Parallel", replicas=4)
    stage.wait_for_ready(4)
    before = stage.uids()
    failed = {"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}}
    stage("patch", "pod", "web-1", "--subresource=status", "--type=merge", "-p", json.dumps(failed))
    until(lambda: stage.uids().get("web-1", before["web-1"]) != before["web-1"], "it is made again")
    stage.wait_for_ready(4)
    after = stage.uids()
    assert {name for name in after if after[name] != before[name]} == {"web-1"}


def claim_retention_policy(stage: StatefulSetCluster) -> None:
    """The retention policy. (A v1.20 server drops it.)"""
    stage.create(
        volumeClaimTemplates=CLAIMS,
        persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete", "whenDeleted": "Delete"},
    )
    stage.wait_for_ready(3)

    def owners() -> dict[str, list[str]]:
        return {
            item["metadata"]["name"]: [owner["kind"] for owner in item["metadata"].get("ownerReferences", ())]
            for item in stage.get("pvc")["items"]
            if "deletionTimestamp" not in item["metadata"]
        }

    until(lambda: owners() == {f"data-web-{n}": ["StatefulSet"] for n in range(3)}, "all belong to the StatefulSet")
    stage("scale", "sts", "web", "--replicas=2")
    stage.wait_for_ready(2)
    until(lambda: set(owners()) == {"data-web-0", "data-web-1"}, "the third is collected")
    stage("delete", "sts", "web")
    until(lambda: not owners(), "and the others with their StatefulSet")
