"""Scenarios of Deployments, ReplicationControllers and Endpoints, run on ``pilothouse up`` and on a
real API server."""

import json
import time
from collections import Counter
from typing import Any

from tests.clients.daemon_scenarios import KubectlCluster, Record, is_live, is_ready
from tests.programs import until

Doc = dict[str, Any]
LABELS = {"app": "shop"}
REVISION = "deployment.kubernetes.io/revision"
SELECTED = ("-l", "app=shop")
NOWHERE = {"template": {"spec": {"nodeSelector": {"pool": "nowhere"}}}}


class DeploymentCluster(KubectlCluster):
    """A cluster accessed with kubectl, with the Deployment ``shop``."""

    def clear(self) -> None:
        """Delete everything."""
        self.delete_all("deploy", "rc", "rs")
        self("delete", "service", "--ignore-not-found", "shop")
        self.delete_all("pods")
        until(lambda: not self.get("pods")["items"], "all pods are gone")

    def create(self, **spec: Any) -> None:
        """Four replicas, at most five, at least three of them available."""
        whole = {
            "replicas": 4,
            "selector": {"matchLabels": LABELS},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "template": template(),
            **spec,
        }
        document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": whole}
        self.create_object(document)

    def wait_for_rollout(self) -> None:
        """Wait with ``kubectl rollout status``."""
        assert "successfully rolled out" in self("rollout", "status", "deploy/shop", "--timeout=50s")

    def patch(self, spec: Doc) -> None:
        """Patch the spec."""
        self("patch", "deploy", "shop", "--type=merge", "-p", json.dumps({"spec": spec}))

    def members(self) -> dict[str, Doc]:
        """The pods that are not terminating, by name."""
        items = self.get("pods", *SELECTED)["items"]
        return {item["metadata"]["name"]: item for item in items if "deletionTimestamp" not in item["metadata"]}

    def running(self) -> Counter[str]:
        """The number of ready pods by image, once no pod is pending or terminating."""
        members = self.members().values()
        if not all(map(is_ready, members)):
            return Counter()
        return Counter(image_of(pod) for pod in members)

    def sets(self) -> dict[str, int]:
        """The desired replicas of each ReplicaSet, by its revision."""
        items = self.get("rs", *SELECTED)["items"]
        return {item["metadata"]["annotations"].get(REVISION, ""): item["spec"]["replicas"] for item in items}

    def condition(self, type_: str) -> tuple[str, str]:
        """Status and reason of a condition of the Deployment; empty if it does not exist."""
        for item in self.get("deploy", "shop").get("status", {}).get("conditions", ()):
            if item["type"] == type_:
                return item["status"], item["reason"]
        return "", ""


def template(image: str = "pause:1") -> Doc:
    """The pod template."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]}
    return {"metadata": {"labels": LABELS}, "spec": spec}


def image_of(pod: Doc) -> str:
    """The image of the pod."""
    return str(pod["spec"]["containers"][0]["image"])


def rollout_respects_bounds_and_rolls_back(shop: DeploymentCluster) -> None:
    """``maxSurge: 1`` and ``maxUnavailable: 1``, after every write; history and undo."""
    shop.create()
    shop.wait_for_rollout()
    most, least = 4, 4
    exceeded_at = 0.0

    def check(pods: list[Doc]) -> None:
        nonlocal most, least, exceeded_at
        live, ready = sum(map(is_live, pods)), sum(map(is_ready, pods))
        # The Deployment controller bounds the sizes of its ReplicaSets. They are synced side by side: one may create a
        # pod a moment before the other deletes the pod that makes room for it.
        exceeded_at = 0.0 if live <= 5 else exceeded_at or time.monotonic()
        assert live <= 6, f"{live} pods at once"
        assert not exceeded_at or time.monotonic() - exceeded_at < 2, f"{live} pods for two seconds"
        assert ready >= 3, f"{ready} pods are ready"
        most, least = max(most, min(live, 5)), min(least, ready)

    with Record(shop, check, owner=("deploy", "shop"), pods="app=shop") as record:
        shop("set", "image", "deploy/shop", "main=pause:2")
        shop.wait_for_rollout()
        until(lambda: shop.running() == {"pause:2": 4}, "all are new")
        assert shop.sets() == {"1": 0, "2": 4}
        shop("rollout", "undo", "deploy/shop")
        shop.wait_for_rollout()
        until(lambda: shop.running() == {"pause:1": 4}, "all are old again")
    assert (most, least) == (5, 3), "the bounds were made use of"
    # Twice four pods, each created, bound, running, marked for deletion and removed.
    assert record.states >= 2 * 4 * 5, record.states
    assert shop.sets() == {"2": 0, "3": 4}, "the first ReplicaSet is the newest"
    history = shop("rollout", "history", "deploy/shop").split()
    assert [word for word in history if word.isdigit()] == ["2", "3"]
    assert shop.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    assert shop.condition("Available") == ("True", "MinimumReplicasAvailable")


def paused_rollout(shop: DeploymentCluster) -> None:
    """While paused, template changes wait and scaling works."""
    shop.create(replicas=2)
    shop.wait_for_rollout()
    shop("rollout", "pause", "deploy/shop")
    until(lambda: shop.condition("Progressing") == ("Unknown", "DeploymentPaused"), "it says that it is paused")
    shop("set", "image", "deploy/shop", "main=pause:2")
    shop("scale", "deploy", "shop", "--replicas=3")
    until(lambda: shop.running() == {"pause:1": 3}, "it grows as it was")
    assert shop.sets() == {"1": 3}
    shop("rollout", "resume", "deploy/shop")
    shop.wait_for_rollout()
    until(lambda: shop.running() == {"pause:2": 3}, "and now it changes")


def recreate_strategy(shop: DeploymentCluster) -> None:
    """Recreate: no new pod before the last old one is deleted."""
    shop.create(strategy={"type": "Recreate"}, replicas=3)
    shop.wait_for_rollout()

    def check(pods: list[Doc]) -> None:
        images = {image_of(pod) for pod in pods if pod["status"].get("phase") not in {"Failed", "Succeeded"}}
        assert len(images) <= 1, f"{images} at once"

    with Record(shop, check, owner=("deploy", "shop"), pods="app=shop") as record:
        shop("set", "image", "deploy/shop", "main=pause:2")
        shop.wait_for_rollout()
        until(lambda: shop.running() == {"pause:2": 3}, "all are new")
    assert min(status.get("replicas", 0) for status in record.statuses) == 0, "there was a moment without any"


def stuck_rollout_is_scaled_proportionally(shop: DeploymentCluster) -> None:
    """An unschedulable update: the progress deadline is exceeded, scaling is proportional, and it is rolled back."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
    shop.create(progressDeadlineSeconds=2, strategy=strategy, replicas=5)
    shop.wait_for_rollout()
    shop.patch(NOWHERE)
    until(lambda: shop.condition("Progressing") == ("False", "ProgressDeadlineExceeded"), "it gives up")
    assert shop.sets() == {"1": 4, "2": 3}
    shop("scale", "deploy", "shop", "--replicas=10")
    until(lambda: sum(shop.sets().values()) == 12, "ten and two more")
    assert shop.sets() == {"1": 7, "2": 5}
    shop("rollout", "undo", "deploy/shop")
    shop.wait_for_rollout()
    until(lambda: shop.sets() == {"2": 0, "3": 10}, "the first template has all of them")


def orphaned_replica_sets_are_adopted(shop: DeploymentCluster) -> None:
    """Pods are orphaned and readopted by a recreated Deployment, and finally deleted with it."""
    shop.create(replicas=2)
    shop.wait_for_rollout()
    before = {name: pod["metadata"]["uid"] for name, pod in shop.members().items()}
    shop("delete", "deploy", "shop", "--cascade=orphan")
    (left,) = shop.get("rs", *SELECTED)["items"]
    assert "ownerReferences" not in left["metadata"]
    shop.create(replicas=2)
    shop.wait_for_rollout()
    (replica_sets,) = shop.get("rs", *SELECTED)["items"]
    assert (replica_sets["metadata"]["uid"], replica_sets["metadata"]["ownerReferences"][0]["kind"]) == (
        left["metadata"]["uid"],
        "Deployment",
    )
    assert {name: pod["metadata"]["uid"] for name, pod in shop.members().items()} == before
    shop("delete", "deploy", "shop", "--cascade=foreground")
    assert not shop.get("rs", *SELECTED)["items"]
    assert not shop.members()


def endpoints_follow_pods(shop: DeploymentCluster) -> None:
    """Endpoints follow the addresses of the pods."""
    shop.create(replicas=2)
    shop("expose", "deploy", "shop", "--port=80", "--target-port=8080")
    shop.wait_for_rollout()

    def addresses() -> set[str]:
        subsets = shop.get("endpoints", "shop").get("subsets") or ()
        return {address["ip"] for subset in subsets for address in subset.get("addresses") or ()}

    def of_pods() -> set[str]:
        return {pod["status"].get("podIP", "") for pod in shop.members().values()}

    until(lambda: addresses() == of_pods() and len(of_pods()) == 2, "both are found")
    (subset,) = shop.get("endpoints", "shop")["subsets"]
    assert [(port["port"], port["protocol"]) for port in subset["ports"]] == [(8080, "TCP")]
    assert {address["targetRef"]["name"] for address in subset["addresses"]} == set(shop.members())
    shop("scale", "deploy", "shop", "--replicas=3")
    until(lambda: len(addresses()) == 3, "the third as well")
    name, pod = sorted(shop.members().items())[0]
    shop("label", "pod", name, "app=alone", "--overwrite")
    until(lambda: pod["status"]["podIP"] not in addresses(), "who is somebody else's is not found")
    until(lambda: addresses() == of_pods() and len(of_pods()) == 3, "and who takes the place is")
    shop("delete", "service", "shop")
    until(lambda: not shop.get("endpoints", "--field-selector=metadata.name=shop")["items"], "they go with it")


def replication_controller(shop: DeploymentCluster) -> None:
    """A ReplicationController."""
    pods = ("pods", *SELECTED)
    spec = {"replicas": 2, "selector": LABELS, "template": template()}
    document = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": spec}
    shop.create_object(document)

    def settled(count: int) -> bool:
        status = shop.get("rc", "old")["status"]
        return bool(status["replicas"] == status.get("availableReplicas", 0) == count)

    until(lambda: settled(2), "two are available")
    first, second = sorted(shop.members())
    shop("delete", "pod", first)
    until(lambda: settled(2) and first not in shop.members(), "who goes is replaced")
    shop("scale", "rc", "old", "--replicas=4")
    until(lambda: settled(4), "it grows")
    shop("label", "pod", second, "app=other", "--overwrite")
    until(lambda: "ownerReferences" not in shop.get("pod", second)["metadata"], "who does not match is released")
    until(lambda: settled(4), "and replaced")
    shop("delete", "rc", "old", "--cascade=orphan")
    assert len(shop.get(*pods)["items"]) == 4
    shop.create_object(document)
    until(lambda: settled(2) and len(shop.members()) == 2, "the next one adopts them, and two are too many")
    shop("delete", "rc", "old", "--cascade=foreground")
    assert not shop.members()


ALL = (
    rollout_respects_bounds_and_rolls_back,
    paused_rollout,
    recreate_strategy,
    stuck_rollout_is_scaled_proportionally,
    orphaned_replica_sets_are_adopted,
    endpoints_follow_pods,
    replication_controller,
)
