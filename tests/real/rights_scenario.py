"""The scenario of ``test_all_rights``, which exercises all paths of each controller.

Slow processes run concurrently: a pod of a missing node is garbage collected after forty seconds of quarantine, a node
becomes unreachable after 13.
"""

import base64
import datetime
import json
import subprocess
from typing import Any

from tests.certificate_requests import REQUESTS, SERVING, document, key_pem, request_pem
from tests.programs import until
from tests.real.cluster_view import View, replica_set
from tests.real.rights_documents import GROUP, custom, daemon_set, definition, deployment, stateful_set
from tests.real.test_secure_port import get
from tests.real_cluster import ADMIN_TOKEN, RealCluster, RequestFailed

from pilothouse.semantics.certificate_requests import KUBELET_CLIENT, KUBELET_SERVING

Doc = dict[str, Any]

NODES = "/api/v1/nodes"
SILENT, LATE = "silent-0", "late-0"
READY = [{"type": "Ready", "status": "True"}]
DOWN = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


ENDED = "served-long-ago"
"""A certificate request that is there before the manager: what it was served with has ended."""


def prepare(cluster: RealCluster) -> None:
    """Objects created before the manager starts, for controllers that run once an hour."""
    request_object = cluster.request("POST", REQUESTS, document(ENDED, request_pem(), KUBELET_CLIENT))
    condition = {"type": "Approved", "status": "True", "reason": "ByHand"}
    request_object["status"] = {"conditions": [condition]}
    request_object = cluster.request("PUT", f"{REQUESTS}/{ENDED}/approval", request_object)
    certificate, _key = cluster.issue("system:node:ended", ["system:nodes"], datetime.timedelta(hours=-1))
    request_object["status"]["certificate"] = base64.b64encode(certificate).decode()
    cluster.request("PUT", f"{REQUESTS}/{ENDED}/status", request_object)


class Scenario:
    """The scenario, run once as administrator."""

    def __init__(self, cluster: RealCluster, port: int) -> None:
        self._cluster = cluster
        self._port = port
        self.view = View(cluster, cluster.namespace("rights"))
        self.doomed = cluster.namespace("doomed")
        self.certificate = b""
        """The certificate of the joining kubelet."""

    def run(self) -> None:
        """Run all parts."""
        self._begin_what_takes_long()
        self._replica_sets()
        self._replication_controllers()
        self._deployments()
        self._daemon_sets()
        self._stateful_sets()
        self._volumes()
        self._labels()
        self._endpoints()
        self._cloud()
        self._garbage()
        self._custom_garbage()
        self._identities()
        self._certificates()
        self._tokens()
        self._bootstrap()
        self._roles()
        self._quota()
        self._namespace()
        self._pages()
        self._end_what_takes_long()

    # Means

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self._cluster.request(method, path, body, content_type=content_type)

    def _exists(self, path: str) -> bool:
        try:
            self._call("GET", path)
        except RequestFailed as error:
            if error.status != 404:
                raise
            return False
        return True

    def _until_deleted(self, path: str, missing: str) -> None:
        until(lambda: not self._exists(path), missing, 60.0)

    def _apply(self, *documents: Doc) -> None:
        for item in documents:
            self.view.kubectl("create", "-f", "-", stdin=json.dumps(item))

    def _pod(self, name: str, *, node: str = "", status: Doc | None = None, **spec: Any) -> str:
        """Create a pod; returns its path."""
        metadata: Doc = {"name": name, "labels": {"by": "hand"}, "finalizers": spec.pop("finalizers", [])}
        spec = {"containers": [{"name": "main", "image": "pause"}], "schedulerName": "nobody", **spec}
        if node:
            spec["nodeName"] = node
        self._call("POST", self.view.pods_path, {"metadata": metadata, "spec": spec})
        path = f"{self.view.pods_path}/{name}"
        if status is not None:
            self._call("PATCH", f"{path}/status", {"status": status})
        return path

    def _node(self, name: str) -> None:
        self._call("POST", NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}}})
        self._call("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": READY}})

    # Nodes and unmanaged pods

    def _begin_what_takes_long(self) -> None:
        until(lambda: self._nodes_with_addresses() == 3, "the three nodes have a range each")
        self._node(SILENT)
        until(lambda: self._nodes_with_addresses() == 4, "the fourth has the last one")
        self._node(LATE)
        until(lambda: self._node_events("CIDRNotAvailable"), "there is none for the fifth")
        running = {"phase": "Running", "conditions": READY}
        brief = [{"key": k, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1} for k in DOWN]
        self.brief = self._pod("brief", node=SILENT, status=running, tolerations=brief)
        self.patient = self._pod("patient", node=SILENT, status=running)
        self.orphan = self._pod("orphan", node="nowhere", status=running)
        self.unscheduled = self._pod("unscheduled", finalizers=["example.com/hold"])
        self._call("DELETE", self.unscheduled)
        self.ended = [self._pod(f"ended-{n}", node=LATE, status={"phase": "Failed"}) for n in range(3)]
        self._call(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition("widgets", "Widget", "Namespaced"),
        )
        self._call(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("racks", "Rack", "Cluster")
        )

    def _nodes_with_addresses(self) -> int:
        return sum(1 for node in self._call("GET", NODES)["items"] if node["spec"].get("podCIDR"))

    def _node_events(self, reason: str) -> list[Doc]:
        items: list[Doc] = self._call("GET", "/api/v1/events")["items"]
        return [event for event in items if event["reason"] == reason]

    def _end_what_takes_long(self) -> None:
        def conditions(path: str) -> dict[str, str]:
            return {c["type"]: c["status"] for c in self._call("GET", path)["status"].get("conditions", ())}

        def taints() -> list[Doc]:
            result: list[Doc] = self._call("GET", f"{NODES}/{SILENT}")["spec"].get("taints", [])
            return result

        until(lambda: conditions(f"{NODES}/{SILENT}")["Ready"] == "Unknown", "the node is called silent")
        until(lambda: conditions(self.patient)["Ready"] == "False", "its pods are marked")
        node = self._call("GET", f"{NODES}/{SILENT}")["metadata"]
        assert node["labels"]["beta.kubernetes.io/os"] == "linux"
        assert node["annotations"]["node.alpha.kubernetes.io/ttl"] == "0"
        until(lambda: "DisruptionTarget" in conditions(self.brief), "whoever tolerates it for a second is evicted")
        out = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
        self._call("PATCH", f"{NODES}/{SILENT}", {"spec": {"taints": [*taints(), out]}})
        until(lambda: self.view.events("TaintManagerEviction"), "the other one must leave now")
        deleted = [self.brief, self.patient, self.orphan]
        until(lambda: not any(map(self._exists, deleted)), "all are collected", 90.0)
        until(lambda: sum(map(self._exists, self.ended)) <= 1, "one that has ended may stay")
        self._call("PATCH", self.unscheduled, {"metadata": {"finalizers": None}})
        self._until_deleted(self.unscheduled, "the one that nobody scheduled has gone")
        self._call("DELETE", f"{NODES}/{SILENT}")
        until(lambda: self._nodes_with_addresses() == 4, "the fifth node gets what the silent one had")

    # ReplicaSets

    def _replica_sets(self) -> None:
        view = self.view
        view.create(replica_set("web", 3))
        until(lambda: view.status("web").get("availableReplicas") == 3, "three pods are available")
        first = sorted(view.pods(), key=lambda name: not name.startswith("web-"))[0]
        view.kubectl("label", "pod", first, "app=other", "--overwrite")
        until(lambda: len(view.pods()) >= 4 and view.status("web").get("readyReplicas") == 3, "one is released")
        view.kubectl("label", "pod", first, "app=web", "--overwrite")
        until(lambda: view.status("web").get("replicas") == 3 and self._owned("web") == 3, "adopted, and one too many")
        view.scale("web", 2)
        until(lambda: view.status("web").get("replicas") == 2, "two are left")
        view.kubectl("delete", "rs", "web", "--cascade=orphan")
        assert len([name for name in view.pods() if name.startswith("web-")]) == 2
        view.create(replica_set("web", 2))
        until(lambda: self._owned("web") == 2, "the orphans are adopted by the next one")
        view.kubectl("delete", "rs", "web", "--cascade=foreground")
        until(lambda: self._owned("web") == 0, "and go with it")

    def _replication_controllers(self) -> None:
        view, path = self.view, f"/api/v1/namespaces/{self.view.namespace}/replicationcontrollers"
        spec = replica_set("old", 2, labels={"app": "old"})["spec"]
        controller = {"metadata": {"name": "old"}, "spec": {**spec, "selector": {"app": "old"}}}
        self._call("POST", path, controller)

        def settled(number: int) -> bool:
            status = self._call("GET", f"{path}/old")["status"]
            return bool(status["replicas"] == status.get("availableReplicas", 0) == number == self._owned("old"))

        until(lambda: settled(2), "two pods are available")
        first = sorted(name for name in view.pods() if name.startswith("old-"))[0]
        view.kubectl("label", "pod", first, "app=other", "--overwrite")
        until(lambda: settled(2) and not self._is_owned(first), "one is released and replaced")
        view.kubectl("label", "pod", first, "app=old", "--overwrite")
        until(lambda: self._is_owned(first) or first not in view.pods(), "it is adopted, and one is too many")
        self._call("PATCH", f"{path}/old", {"spec": {"replicas": 1}})
        until(lambda: settled(1), "one is left")
        view.kubectl("delete", "rc", "old", "--cascade=foreground")
        until(lambda: self._owned("old") == 0, "and goes with it")

    def _is_owned(self, pod: str) -> bool:
        result = self.view.pods().get(pod)
        return result is not None and bool(result["metadata"].get("ownerReferences"))

    def _owned(self, name: str) -> int:
        pods = self.view.pods().values()
        return sum(1 for pod in pods for ref in pod["metadata"].get("ownerReferences", ()) if ref["name"] == name)

    # Deployments

    def _deployments(self) -> None:
        view = self.view
        self._apply(deployment())
        self._until_rolled("pause:1")
        for image in ("pause:2", "pause:3", "pause:4"):
            view.kubectl("set", "image", "deployment/shop", f"main={image}")
            self._until_rolled(image)
        until(lambda: len(self._sets()) == 2, "one of history, and the present one")
        view.kubectl("annotate", "deployment", "shop", "deprecated.deployment.rollback.to=0")
        self._until_rolled("pause:3")
        view.kubectl("scale", "deployment", "shop", "--replicas=3")
        self._until_rolled("pause:3", 3)
        view.kubectl("delete", "deployment", "shop", "--cascade=orphan")
        before = self._sets()
        self._apply(deployment("pause:3"))
        self._until_rolled("pause:3")
        assert before <= self._sets(), "the next one adopts what there is"
        view.kubectl("delete", "deployment", "shop")
        until(lambda: not self._sets(), "and it goes with it")
        until(lambda: not [name for name in view.pods() if name.startswith("shop-")], "so do the pods")

    def _sets(self) -> set[str]:
        items = self._call("GET", f"/apis/apps/v1/namespaces/{self.view.namespace}/replicasets")["items"]
        return {item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith("shop-")}

    def _until_rolled(self, image: str, replicas: int = 2) -> None:
        def rolled() -> bool:
            result = self._call("GET", f"/apis/apps/v1/namespaces/{self.view.namespace}/deployments/shop")
            status = result.get("status", {})
            counts = {status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")}
            now = result["spec"]["template"]["spec"]["containers"][0]["image"]
            return (
                now == image
                and counts == {replicas}
                and bool(status.get("observedGeneration") == result["metadata"]["generation"])
            )

        until(rolled, f"{replicas} pods run {image}")

    # DaemonSets

    def _daemon_sets(self) -> None:
        view = self.view
        self._apply(daemon_set())
        self._until_daemons("pause:1")
        for image in ("pause:2", "pause:3"):
            view.kubectl("set", "image", "ds/agent", f"main={image}")
            self._until_daemons(image)
        assert len(self._revisions()) == 2, "one of history, and the present one"
        view.kubectl("rollout", "undo", "ds/agent")
        self._until_daemons("pause:2")
        assert max(self._revisions().values()) == 4
        pod = sorted(name for name in view.pods() if name.startswith("agent-"))[0]
        self._call("PATCH", f"{view.pods_path}/{pod}/status", {"status": {"phase": "Failed"}})
        until(lambda: view.events("FailedDaemonPod") and pod not in view.pods(), "a failed daemon is replaced")
        self._until_daemons("pause:2")
        view.kubectl("delete", "ds", "agent", "--cascade=orphan")
        before = set(view.pods())
        document = daemon_set("pause:2")
        self._apply(document)
        until(lambda: self._owned("agent") == 3 and len(self._revisions()) >= 1, "the next one adopts its daemons")
        self._until_daemons("pause:2")
        assert {name for name in view.pods() if name.startswith("agent-")} <= before
        view.kubectl("delete", "ds", "agent")
        until(lambda: self._owned("agent") == 0, "and they go with it")

    def _until_daemons(self, image: str) -> None:
        def is_updated() -> bool:
            pods = [pod for name, pod in self.view.pods().items() if name.startswith("agent-")]
            status = self._call("GET", f"/apis/apps/v1/namespaces/{self.view.namespace}/daemonsets/agent")["status"]
            images = [pod["spec"]["containers"][0]["image"] for pod in pods]
            return images == [image] * 3 and status.get("numberAvailable") == status.get("updatedNumberScheduled") == 3

        until(is_updated, f"three daemons run {image}")

    def _revisions(self, prefix: str = "agent-") -> dict[str, int]:
        items = self._call("GET", f"/apis/apps/v1/namespaces/{self.view.namespace}/controllerrevisions")["items"]
        result = {item["metadata"]["name"]: item["revision"] for item in items}
        return {name: number for name, number in result.items() if name.startswith(prefix)}

    # StatefulSets

    def _stateful_sets(self) -> None:
        view = self.view
        self._apply(stateful_set())
        self._until_numbered("pause:1")
        (taken,) = self._revisions("store-")
        view.kubectl("delete", "sts", "store", "--cascade=foreground")
        until(lambda: not self._revisions("store-"), "its revision goes with it")
        revisions = f"/apis/apps/v1/namespaces/{view.namespace}/controllerrevisions"
        self._call("POST", revisions, {"metadata": {"name": taken}, "data": {"somebody": "else's"}, "revision": 1})
        self._apply(stateful_set())
        self._until_numbered("pause:1")
        result = self._call("GET", f"/apis/apps/v1/namespaces/{view.namespace}/statefulsets/store")
        assert result["status"]["collisionCount"] == 1, "the name was taken"
        self._call("DELETE", f"{revisions}/{taken}")
        for image in ("pause:2", "pause:3"):
            view.kubectl("set", "image", "sts/store", f"main={image}")
            self._until_numbered(image)
        until(lambda: len(self._revisions("store-")) == 2, "one of history, and the present one")
        view.kubectl("rollout", "undo", "sts/store")
        self._until_numbered("pause:2")
        view.kubectl("label", "pod", "store-0", "statefulset.kubernetes.io/pod-name-")
        until(lambda: view.events("SuccessfulUpdate"), "the name is put right")
        view.kubectl("scale", "sts", "store", "--replicas=1")
        self._until_numbered("pause:2", 1)
        view.kubectl("delete", "sts", "store", "--cascade=orphan")
        before = set(self._revisions("store-"))
        self._apply(stateful_set("pause:2", replicas=1))
        until(lambda: self._owned("store") == 1, "the next one adopts its pod")
        until(lambda: before <= set(self._revisions("store-")), "and its revisions")
        view.kubectl("delete", "sts", "store")
        until(lambda: self._owned("store") == 0, "and they go with it")
        claims = f"/api/v1/namespaces/{view.namespace}/persistentvolumeclaims"
        assert {claim["metadata"]["name"] for claim in self._call("GET", claims)["items"]} == {
            "data-store-0",
            "data-store-1",
        }

    def _until_numbered(self, image: str, replicas: int = 2) -> None:
        def is_updated() -> bool:
            pods = {name: pod for name, pod in self.view.pods().items() if name.startswith("store-")}
            images = [pod["spec"]["containers"][0]["image"] for pod in pods.values()]
            status = self._call("GET", f"/apis/apps/v1/namespaces/{self.view.namespace}/statefulsets/store")["status"]
            return images == [image] * replicas and bool(status.get("readyReplicas") == replicas)

        until(is_updated, f"{replicas} pods of the StatefulSet run {image}")

    # Claims and volumes

    def _volumes(self) -> None:
        """A provisioned volume deleted with its claim, an unused volume, and an unsatisfiable claim."""
        claims, volumes = (
            f"/api/v1/namespaces/{self.view.namespace}/persistentvolumeclaims",
            "/api/v1/persistentvolumes",
        )
        classes, provisioner = "/apis/storage.k8s.io/v1/storageclasses", "kubernetes.io/host-path"
        folders = {"metadata": {"name": "folders"}, "provisioner": provisioner, "allowVolumeExpansion": True}
        self._call("POST", classes, folders)

        def phase(path: str) -> str:
            return str(self._call("GET", path)["status"].get("phase", ""))

        for name, size, class_name in (("folder", "1Gi", "folders"), ("never", "9Ti", ""), ("idle", "9Ti", "")):
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
            body = {"metadata": {"name": name}, "spec": {**spec, "storageClassName": class_name}}
            self._call("POST", claims, body)
        spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
        self._call("POST", volumes, {"metadata": {"name": "nobodys"}, "spec": spec})
        until(lambda: phase(f"{volumes}/nobodys") == "Available", "a volume is there for whoever wants it")
        until(lambda: phase(f"{claims}/folder") == "Bound", "a volume was made")
        self._grow(claims, volumes)
        volume_name = f"{volumes}/{self._call('GET', f'{claims}/folder')['spec']['volumeName']}"
        data = {"name": "data", "persistentVolumeClaim": {"claimName": "folder"}}
        holder = self._pod("holder", node=LATE, volumes=[data])
        for name in ("folder", "idle"):
            self._call("DELETE", f"{claims}/{name}")
        # One after the other: when the second is deleted, the first has been processed.
        self._until_deleted(f"{claims}/idle", "no pod uses that one")
        assert self._call("GET", f"{claims}/folder")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        self._call("DELETE", holder, {"gracePeriodSeconds": 0})
        self._until_deleted(f"{claims}/folder", "nobody uses the claim any more")
        self._until_deleted(volume_name, "and the volume goes with it")

    def _labels(self) -> None:
        """Two pods with the same disk and different labels. They are kept for the metric at the end."""
        disk = {
            "name": "disk",
            "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:x", "lun": 0},
        }
        mounts = [{"name": "disk", "mountPath": "/disk"}]
        for level in ("s0:c1,c2", "s0:c3,c4"):
            self._pod(
                f"labelled-{level[-1]}",
                volumes=[disk],
                containers=[{"name": "main", "image": "pause", "volumeMounts": mounts}],
                securityContext={"seLinuxOptions": {"level": level}},
            )
        until(lambda: len(self.view.events("SELinuxLabelConflict")) == 2, "each has its event")

    def _grow(self, claims: str, volumes: str) -> None:
        """Expand a claim of a migrated plugin: the event names the CSI driver."""
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        body = {"metadata": {"name": "disk"}, "spec": {**wanted, "storageClassName": "folders", "volumeName": "disk"}}
        self._call("POST", claims, body)
        spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "folders"}
        disk = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
        self._call("POST", volumes, {"metadata": {"name": "disk"}, "spec": {**spec, **disk}})
        until(lambda: self._call("GET", f"{claims}/disk")["status"].get("phase") == "Bound", "a disk is bound")
        more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        self._call("PATCH", f"{claims}/disk", more)
        resizer = "volume.kubernetes.io/storage-resizer"
        until(
            lambda: self._call("GET", f"{claims}/disk")["metadata"]["annotations"].get(resizer) == "ebs.csi.aws.com",
            "it is said who expands it",
        )
        until(lambda: self.view.events("ExternalExpanding"), "and reported")

    # Services

    def _endpoints(self) -> None:
        here = f"/api/v1/namespaces/{self.view.namespace}"

        def addresses() -> int:
            if not self._exists(f"{here}/endpoints/found"):
                return -1
            subsets = self._call("GET", f"{here}/endpoints/found").get("subsets") or []
            return sum(len(subset.get("addresses") or ()) for subset in subsets)

        spec = {"selector": {"app": "found"}, "ports": [{"port": 80}]}
        self._apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "found"}, "spec": spec})
        until(lambda: addresses() == 0, "a service without pods has Endpoints")
        status = {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self._pod("found", status=status)
        self.view.kubectl("label", "pod", "found", "app=found")
        until(lambda: addresses() == 1, "and with one they show it")
        self.view.kubectl("delete", "service", "found")
        self._until_deleted(f"{here}/endpoints/found", "Endpoints go with their service")
        self.view.kubectl("delete", "pod", "found", "--force", "--grace-period=0")

    def _cloud(self) -> None:
        """A load balancer, and a node whose instance is deleted. Routes are created for all nodes."""
        service = f"/api/v1/namespaces/{self.view.namespace}/services/balanced"
        spec = {"type": "LoadBalancer", "selector": {"app": "none"}, "ports": [{"port": 80}]}
        self._apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "balanced"}, "spec": spec})
        until(lambda: self._call("GET", service)["status"]["loadBalancer"].get("ingress"), "it gets an address")
        self._call("PATCH", service, {"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}})
        self.view.kubectl("delete", "service", "balanced")
        self._until_deleted(service, "and goes with its load balancer")
        annotations = {"simulated.pilothouse.dev/instance": "gone"}
        self._call("POST", "/api/v1/nodes", {"metadata": {"name": "dismantled", "annotations": annotations}})
        self._until_deleted("/api/v1/nodes/dismantled", "a node without a machine goes")

    # Owners

    def _garbage(self) -> None:
        here = f"/api/v1/namespaces/{self.view.namespace}/configmaps"
        for policy in ("Background", "Foreground", "Orphan"):
            owner = self._call("POST", here, {"metadata": {"name": f"owner-{policy}".lower()}})["metadata"]
            child = f"{here}/child-{policy}".lower()
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
            reference |= {"name": owner["name"], "uid": owner["uid"]}
            metadata = {"name": child.rpartition("/")[2], "ownerReferences": [reference]}
            self._call("POST", here, {"metadata": metadata})
            self._call("DELETE", f"{here}/{owner['name']}", {"propagationPolicy": policy})
            self._until_deleted(f"{here}/{owner['name']}", f"the owner goes: {policy}")
            if policy != "Orphan":
                self._until_deleted(child, f"what it owned goes: {policy}")
            else:
                assert "ownerReferences" not in self._call("GET", child)["metadata"]
        first = self._call("POST", here, {"metadata": {"name": "first"}})["metadata"]
        second = self._call("POST", here, {"metadata": {"name": "second"}})["metadata"]
        both = [{"apiVersion": "v1", "kind": "ConfigMap", "name": o["name"], "uid": o["uid"]} for o in (first, second)]
        self._call("POST", here, {"metadata": {"name": "of-two", "ownerReferences": both}})
        self._call("DELETE", f"{here}/first")
        until(lambda: len(self._call("GET", f"{here}/of-two")["metadata"]["ownerReferences"]) == 1, "one owner is left")
        away = f"/api/v1/namespaces/{self.doomed}/configmaps"
        wrong = {"apiVersion": "v1", "kind": "ConfigMap", "name": second["name"], "uid": second["uid"]}
        self._call("POST", away, {"metadata": {"name": "astray", "ownerReferences": [wrong]}})
        until(lambda: self._node_events("OwnerRefInvalidNamespace"), "an owner in another namespace is reported")

    def _custom_garbage(self) -> None:
        """Custom resources, which the garbage collector discovers within thirty seconds."""
        racks, widgets = f"/apis/{GROUP}/v1/racks", f"/apis/{GROUP}/v1/namespaces/{self.view.namespace}/widgets"
        rack = self._call("POST", racks, custom("Rack", "rack"))["metadata"]
        owner = {"apiVersion": f"{GROUP}/v1", "kind": "Rack", "name": "rack", "uid": rack["uid"]}
        self._call("POST", widgets, custom("Widget", "one", owner | {"blockOwnerDeletion": True}))
        widget = self._call("POST", widgets, custom("Widget", "two"))["metadata"]
        owner = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "name": "two", "uid": widget["uid"]}
        metadata = {"name": "of-a-widget", "ownerReferences": [owner]}
        secret = f"/api/v1/namespaces/{self.view.namespace}/secrets"
        self._call("POST", secret, {"metadata": metadata})
        self._call("DELETE", f"{racks}/rack", {"propagationPolicy": "Foreground"})
        self._until_deleted(f"{widgets}/one", "a widget goes with its rack")
        self._until_deleted(f"{racks}/rack", "and the rack after it")
        self._call("DELETE", f"{widgets}/two", {"propagationPolicy": "Background"})
        self._until_deleted(f"{secret}/of-a-widget", "a secret goes with its widget")

    # The cluster's CA for pods

    def _identities(self) -> None:
        base = f"/api/v1/namespaces/{self.view.namespace}"
        account, authority = f"{base}/serviceaccounts/default", f"{base}/configmaps/kube-root-ca.crt"
        until(lambda: self._exists(account) and self._exists(authority), "every namespace has both")
        self._call("DELETE", account)
        self._call("PATCH", authority, {"data": {"ca.crt": "another's"}})
        until(lambda: self._exists(account), "the account is made again")
        until(lambda: "BEGIN CERT" in self._call("GET", authority)["data"]["ca.crt"], "the authority is put right")

    # Certificates

    def _certificates(self) -> None:
        """A kubelet joins: its bootstrap request is approved and signed, and the certificate authenticates."""
        until(lambda: not self._exists(f"{REQUESTS}/{ENDED}"), "a request whose certificate has ended is removed")
        rights = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
        joining = self._cluster.user("joining", cluster_roles=["system:node-bootstrapper", rights])
        wanted = document("joins", request_pem("system:node:joined"), KUBELET_CLIENT)
        words = ("--kubeconfig", str(joining))
        self.view.kubectl(*words, "create", "-f", "-", stdin=json.dumps(wanted))

        def status(name: str) -> Doc:
            result: Doc = self._call("GET", f"{REQUESTS}/{name}")["status"]
            return result

        until(lambda: status("joins").get("certificate"), "the kubelet is served")
        self.certificate = base64.b64decode(status("joins")["certificate"])
        directory = self._cluster.directory
        for name, content in (("joined.crt", self.certificate), ("joined.key", key_pem())):
            (directory / name).write_bytes(content)
        self.view.kubectl("create", "clusterrolebinding", "joined", "--clusterrole=view", "--user=system:node:joined")
        login = {"client-certificate": str(directory / "joined.crt"), "client-key": str(directory / "joined.key")}
        config = json.loads(joining.read_text())
        config["users"][0]["user"] = login
        (directory / "joined.conf").write_text(json.dumps(config))
        self.view.kubectl("--kubeconfig", str(directory / "joined.conf"), "get", "pods")
        self._call("POST", REQUESTS, document("wrong", request_pem("jane", ["dev"]), KUBELET_SERVING, SERVING))
        self._call("POST", REQUESTS, document("serves", request_pem(dns=["foo"]), KUBELET_SERVING, SERVING))
        self.view.kubectl("certificate", "approve", "wrong", "serves")
        until(lambda: status("serves").get("certificate"), "a kubelet's server is served, once somebody approves")

        def conditions() -> list[str]:
            return [condition["type"] for condition in status("wrong")["conditions"]]

        until(lambda: "Failed" in conditions(), "and what is no kubelet's fails")

    # Tokens

    def _tokens(self) -> None:
        """A token Secret is populated, its token authenticates, and it is deleted with its account."""
        base = f"/api/v1/namespaces/{self.view.namespace}"
        accounts, secrets = f"{base}/serviceaccounts", f"{base}/secrets"
        kind = "kubernetes.io/service-account-token"
        for name in ("robot", "other"):
            self._call("POST", accounts, {"metadata": {"name": name, "namespace": self.view.namespace}})
            meta = {"name": f"{name}-token", "annotations": {"kubernetes.io/service-account.name": name}}
            self._call("POST", secrets, {"metadata": meta, "type": kind})

        def data(name: str) -> dict[str, str]:
            result = self._call("GET", f"{secrets}/{name}-token").get("data") or {}
            return {key: base64.b64decode(value).decode() for key, value in result.items()}

        until(lambda: "token" in data("robot") and "token" in data("other"), "both are filled")
        filled = data("robot")
        assert (filled["namespace"], filled["ca.crt"]) == (self.view.namespace, self._cluster.ca_file.read_text())
        status, text = get(self._cluster.port, f"{accounts}/robot", token=filled["token"])
        assert status == 403
        assert f"system:serviceaccount:{self.view.namespace}:robot" in text, "known, and not allowed to see that"
        self._call("PATCH", f"{accounts}/other", {"secrets": [{"name": "other-token"}, {"name": "mine"}]})
        self._call("DELETE", f"{secrets}/other-token")
        until(lambda: self._call("GET", f"{accounts}/other")["secrets"] == [{"name": "mine"}], "it is listed no more")
        self._call("DELETE", f"{accounts}/robot")
        self._until_deleted(f"{secrets}/robot-token", "a token goes with its account")

    def _bootstrap(self) -> None:
        """Expired bootstrap tokens are deleted, and valid ones sign."""
        secrets = "/api/v1/namespaces/kube-system/secrets"
        info = "/api/v1/namespaces/kube-public/configmaps"
        data = {"token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}
        for number, ends in (("expire", "2020-01-01T00:00:00Z"), ("stays0", "2099-01-01T00:00:00Z")):
            body = {
                "metadata": {"name": f"bootstrap-token-{number}"},
                "type": "bootstrap.kubernetes.io/token",
                "stringData": {**data, "token-id": number, "expiration": ends},
            }
            self._call("POST", secrets, body)
        self._call("POST", info, {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "a text"}})
        self._until_deleted(f"{secrets}/bootstrap-token-expire", "the one that is over is removed")

        def signatures() -> dict[str, str]:
            result: dict[str, str] = self._call("GET", f"{info}/cluster-info")["data"]
            return {key: value for key, value in result.items() if key.startswith("jws-kubeconfig-")}

        until(lambda: list(signatures()) == ["jws-kubeconfig-stays0"], "the other one has signed")
        assert is_signed_by(signatures()["jws-kubeconfig-stays0"], "a text", data["token-secret"])
        self._call("DELETE", f"{secrets}/bootstrap-token-stays0")
        until(lambda: not signatures(), "a signature goes with its token")
        self._call("DELETE", f"{info}/cluster-info")

    # Roles

    def _roles(self) -> None:
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        picks = {"clusterRoleSelectors": [{"matchLabels": {"rights": "part"}}]}
        self._call("POST", roles, {"metadata": {"name": "whole"}, "aggregationRule": picks})
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
        self._call("POST", roles, {"metadata": {"name": "part", "labels": {"rights": "part"}}, "rules": [rule]})
        until(lambda: self._call("GET", f"{roles}/whole").get("rules") == [rule], "a role is made of another")
        self._call("DELETE", f"{roles}/part")
        until(lambda: not self._call("GET", f"{roles}/whole").get("rules"), "and loses what that had")

    # Quotas

    def _quota(self) -> None:
        base = f"/api/v1/namespaces/{self.view.namespace}"
        self._call("POST", f"{base}/secrets", {"metadata": {"name": "counted"}})
        hard = {"count/secrets": "99"}
        self._call("POST", f"{base}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})

        def used() -> int:
            return int(self._call("GET", f"{base}/resourcequotas/q").get("status", {}).get("used", {}).get(*hard, -1))

        until(lambda: used() > 0, "a quota comes into force")
        before = used()
        self._call("DELETE", f"{base}/secrets/counted")
        until(lambda: used() == before - 1, "and gets back what goes")
        self._call("DELETE", f"{base}/resourcequotas/q")

    # Namespaces

    def _namespace(self) -> None:
        """A namespace with objects of many kinds, and a finalizer that delays its deletion."""
        base = f"/api/v1/namespaces/{self.doomed}"
        self._call("POST", f"/apis/apps/v1/namespaces/{self.doomed}/replicasets", replica_set("web", 2))
        port = {"port": 80, "protocol": "TCP"}
        self._call("POST", f"{base}/services", {"metadata": {"name": "web"}, "spec": {"ports": [port]}})
        self._call("POST", f"{base}/secrets", {"metadata": {"name": "secret"}})
        self._call("POST", f"/apis/{GROUP}/v1/namespaces/{self.doomed}/widgets", custom("Widget", "three"))
        metadata = {"name": "held", "finalizers": ["example.com/hold"]}
        self._call("POST", f"{base}/configmaps", {"metadata": metadata})
        until(lambda: len(self._call("GET", f"{base}/pods")["items"]) == 2, "there are pods")
        self._call("DELETE", base)

        def remaining() -> bool:
            result = self._call("GET", base)["status"].get("conditions", ())
            return any(c["type"] == "NamespaceFinalizersRemaining" and c["status"] == "True" for c in result)

        until(remaining, "it says what holds it", 60.0)
        self._call("PATCH", f"{base}/configmaps/held", {"metadata": {"finalizers": None}})
        self._until_deleted(base, "it has gone")

    # The secure port

    def _pages(self) -> None:
        """TokenReviews and SubjectAccessReviews."""
        assert get(self._port, "/configz", token=ADMIN_TOKEN)[0] == 200
        assert get(self._port, "/configz", token="nobodys")[0] == 401
        assert get(self._port, "/configz")[0] == 403


def is_signed_by(signature: str, text: str, secret: str) -> bool:
    """Whether openssl computes the signature of a detached JWS."""
    head, nothing, parts = signature.split(".")
    signed = f"{head}.{base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')}"
    command = ["openssl", "dgst", "-sha256", "-hmac", secret, "-binary"]
    expected = subprocess.run(command, check=True, capture_output=True, input=signed.encode()).stdout
    return (nothing, parts) == ("", base64.urlsafe_b64encode(expected).decode().rstrip("="))
