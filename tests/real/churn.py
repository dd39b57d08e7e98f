"""Random changes of ReplicaSets and DaemonSets, with a record of the desired state to compare with.

Each action has a budget of pods that a controller may have to create because of it. Pods beyond the budget were created
twice.
"""

import http.client
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.real.cluster_view import View, is_active, is_ready
from tests.real_cluster import RealCluster, RequestFailed

MERGE = "application/merge-patch+json"
RELEASED = "released"
"""The value of ``app`` for pods that no longer match their set."""

KINDS = {"replicasets": "ReplicaSet", "daemonsets": "DaemonSet"}


@dataclass
class Wanted:
    """The desired state of one set after the last write."""

    kind: str
    replicas: int = 0
    image: str = "pause:1"
    selective: bool = False
    """A DaemonSet only for nodes with the label ``soak: on``."""
    generation: int = 1
    """Of a DaemonSet's template. A later set of that name begins with it: pods with an older one's number would be
    taken for its own newest (``IsPodUpdated``, v1.36 ``pkg/controller/daemon/util/daemonset_util.go``)."""


class Churn:
    """Performs random actions, and finally reports differences from the desired state."""

    def __init__(self, cluster: RealCluster, nodes: Sequence[str], size: int, seed: int) -> None:
        self.cluster = cluster
        self.view = View(cluster, cluster.namespace("soak"))
        self.rng = random.Random(seed)
        self.size = size
        self.wanted: dict[str, Wanted] = {}
        self.done: Counter[str] = Counter()
        """Number of performed actions by kind."""
        self.worth: Counter[str] = Counter()
        """Upper bound of pods created by each set's controller."""
        self._on = dict.fromkeys(nodes, False)
        self._orphans: dict[str, Wanted] = {}
        """Sets deleted with orphaned pods; a new set of that name adopts them."""
        self._adopting: set[str] = set()
        """New sets that have not adopted those pods yet. They must not be deleted before."""
        self._count = 0

    def fill(self) -> None:
        """Create sets until the desired number exists."""
        while len(self.wanted) < self.size:
            self.create()

    def step(self) -> None:
        """Perform one random action, by weight."""
        acts: list[tuple[int, Callable[[], None]]] = [
            (4, self.create if len(self.wanted) < self.size else self.delete),
            (6, self.scale),
            (5, self.update),
            (2, self.release),
            (3, self.kill),
            (1, self.label_node),
            (1, self.orphan),
            (1, self.adopt),
        ]
        weights = [weight for weight, _act in acts]
        self.rng.choices([act for _weight, act in acts], weights)[0]()

    # Acts

    def create(self) -> None:
        """Create a ReplicaSet or, with probability 1/4, a DaemonSet."""
        self._count += 1
        name = f"set-{self._count}"
        if self.rng.random() < 0.25:
            wanted = Wanted("daemonsets", selective=self.rng.random() < 0.5)
        else:
            wanted = Wanted("replicasets", replicas=self.rng.randrange(6))
        self._create(name, wanted)
        self.done[f"create {wanted.kind}"] += 1

    def delete(self) -> None:
        """Delete a set, with background or foreground propagation."""
        name = self.rng.choice(list(self.wanted))
        policy = self.rng.choice(["Background", "Foreground"])
        if self._has_adopted(name):
            # While the watch of sets is broken and that of pods is not, the set's controller still has it in its cache,
            # and replaces pods that the garbage collector deletes; once, because the status update then fails.
            # Upstream's does so, too.
            self.worth[name] += self._number_of(self.wanted[name])
            self._delete(name, policy)
            self.done[f"delete, {policy}"] += 1

    def orphan(self) -> None:
        """Delete a set and orphan its pods."""
        name = self.rng.choice(list(self.wanted))
        if self._has_adopted(name):
            self._orphans[name] = self.wanted[name]
            self._delete(name, "Orphan")
            self.done["delete, Orphan"] += 1

    def adopt(self) -> None:
        """Create a set that adopts orphaned pods."""
        for name in list(self._orphans):
            if not self._exists(self._orphans[name].kind, name):
                self._create(name, self._orphans.pop(name))
                self._adopting.add(name)
                self.done["adopt"] += 1
                return

    def scale(self) -> None:
        """Scale a ReplicaSet."""
        name = self.rng.choice([n for n, wanted in self.wanted.items() if wanted.kind == "replicasets"])
        wanted, before = self.wanted[name], self.wanted[name].replicas
        wanted.replicas = self.rng.randrange(7)
        self.worth[name] += max(0, wanted.replicas - before)
        self._merge(f"{self._path('replicasets')}/{name}", {"spec": {"replicas": wanted.replicas}})
        self.done["scale"] += 1

    def update(self) -> None:
        """Change the image: a rolling update of a DaemonSet; only new pods of a ReplicaSet are affected."""
        name = self.rng.choice(list(self.wanted))
        wanted = self.wanted[name]
        wanted.image = f"pause:{self.rng.randrange(1000)}"
        if wanted.kind == "daemonsets":
            self.worth[name] += len(self._nodes_of(wanted))
            wanted.generation += 1
        containers = [{"name": "main", "image": wanted.image}]
        self._merge(f"{self._path(wanted.kind)}/{name}", {"spec": {"template": {"spec": {"containers": containers}}}})
        self.done[f"update {wanted.kind}"] += 1

    def release(self) -> None:
        """Remove the selected label from a pod."""
        name, pod = self._some_pod()
        if pod:
            self.worth[name] += 1
            self._merge(f"{self.view.pods_path}/{pod}", {"metadata": {"labels": {"app": RELEASED}}})
            self.done["release a pod"] += 1

    def kill(self) -> None:
        """Delete a pod."""
        name, pod = self._some_pod()
        if pod:
            self.worth[name] += 1
            self._request("DELETE", f"{self.view.pods_path}/{pod}", missing=True)
            self.done["delete a pod"] += 1

    def label_node(self) -> None:
        """Add or remove the label that selective DaemonSets require on a node."""
        node = self.rng.choice(list(self._on))
        self._on[node] = not self._on[node]
        if self._on[node]:
            self.worth.update(name for name, wanted in self.wanted.items() if wanted.selective)
        self._merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"soak": "on" if self._on[node] else None}}})
        self.done["label a node"] += 1

    # Results

    def finish(self, meanwhile: Callable[[], None]) -> None:
        """The final actions: adopt every orphan, and delete pods that lost their owner by this test. Then the state
        must converge until ``problems`` is empty. ``meanwhile`` is called repeatedly."""
        deadline = time.monotonic() + 120
        while self._orphans:
            meanwhile()
            self.adopt()
            assert time.monotonic() < deadline, f"still there, and deleted without their pods: {list(self._orphans)}"
        while released := self._released():
            meanwhile()
            for pod in released:
                path = f"{self.view.pods_path}/{pod['metadata']['name']}?gracePeriodSeconds=0"
                if not pod["metadata"].get("ownerReferences"):
                    self._request("DELETE", path, missing=True)
            assert time.monotonic() < deadline, f"not given up by their sets: {released}"
            time.sleep(0.3)

    def problems(self) -> list[str]:
        """Differences from the desired state. Empty after convergence."""
        sets = {listed["metadata"]["name"]: listed for kind in KINDS for listed in self._items(self._path(kind))}
        result = [f"{name} is there, and deleted" for name in sets.keys() - self.wanted.keys()]
        result += [f"{name} is not there" for name in self.wanted.keys() - sets.keys()]
        owners = {listed["metadata"]["uid"]: name for name, listed in sets.items()}
        by_owner: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for item in [*self._items(self.view.pods_path), *self._items(self._path("controllerrevisions"))]:
            name = item["metadata"]["name"]
            references = item["metadata"].get("ownerReferences", [])
            owner = owners.get(references[0]["uid"]) if len(references) == 1 else None
            if owner is None:
                result.append(f"{name} has no owner: {references}")
            elif "spec" in item:
                by_owner[owner].append(item)
                if not is_active(item):
                    result.append(f"{name} of {owner} is on its way out")
        for name, wanted in self.wanted.items():
            if name in sets:
                result += [f"{name}: {text}" for text in self._differences(wanted, sets[name], by_owner[name])]
        return sorted(result)

    def leftovers(self) -> list[str]:
        """The names of remaining objects after ``clear``."""
        paths = [self.view.pods_path, *map(self._path, [*KINDS, "controllerrevisions"])]
        return [item["metadata"]["name"] for path in paths for item in self._items(path)]

    def clear(self) -> None:
        """Delete all sets."""
        for kind in KINDS:
            self._request("DELETE", f"{self._path(kind)}?propagationPolicy=Background")
        self.wanted.clear()

    def _differences(self, wanted: Wanted, obj: dict[str, Any], pods: list[dict[str, Any]]) -> list[str]:
        status = obj.get("status", {})
        differences = []
        if status.get("observedGeneration") != obj["metadata"]["generation"]:
            differences.append("its last change was not seen")
        ready = sum(is_ready(pod) for pod in pods)
        if wanted.kind == "replicasets":
            counts = len(pods), ready, status.get("replicas"), status.get("readyReplicas", 0)
            number = wanted.replicas
        else:
            nodes = self._nodes_of(wanted)
            number = len(nodes)
            at = sorted(pod["spec"].get("nodeName", "") for pod in pods)
            if at != nodes:
                differences.append(f"wanted on {nodes}, is on {at}")
            if images := {pod["spec"]["containers"][0]["image"] for pod in pods} - {wanted.image}:
                differences.append(f"still runs {images}")
            counts = len(pods), ready, status.get("desiredNumberScheduled"), status.get("numberReady")
        if counts != (number,) * 4:
            differences.append(f"wanted {number}, has (pods, ready, in status, ready in status) {counts}")
        return differences

    def _nodes_of(self, wanted: Wanted) -> list[str]:
        return sorted(node for node, on in self._on.items() if on or not wanted.selective)

    def _number_of(self, wanted: Wanted) -> int:
        """The desired number of pods."""
        return wanted.replicas if wanted.kind == "replicasets" else len(self._nodes_of(wanted))

    def _released(self) -> list[dict[str, Any]]:
        return self._items(f"{self.view.pods_path}?labelSelector=app={RELEASED}")

    # Requests

    def _create(self, name: str, wanted: Wanted) -> None:
        self.worth[name] += self._number_of(wanted)
        self.wanted[name] = wanted
        self._request("POST", self._path(wanted.kind), self._document(name, wanted))

    def _delete(self, name: str, policy: str) -> None:
        kind = self.wanted.pop(name).kind
        self._request("DELETE", f"{self._path(kind)}/{name}?propagationPolicy={policy}")

    def _some_pod(self) -> tuple[str, str]:
        """A random set and one of its pods, or None."""
        name = self.rng.choice(list(self.wanted))
        pods = self._items(f"{self.view.pods_path}?labelSelector=app={name}")
        names = sorted(pod["metadata"]["name"] for pod in pods if is_active(pod))
        return (name, self.rng.choice(names)) if names else (name, "")

    def _has_adopted(self, name: str) -> bool:
        """Whether no matching pod or revision is orphaned."""
        if name in self._adopting:
            paths = self.view.pods_path, self._path("controllerrevisions")
            result = [item for path in paths for item in self._items(f"{path}?labelSelector=app={name}")]
            if all(item["metadata"].get("ownerReferences") for item in result):
                self._adopting.discard(name)
        return name not in self._adopting

    def _path(self, kind: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.view.namespace}/{kind}"

    def _items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._request("GET", path)["items"]
        return items

    def _exists(self, kind: str, name: str) -> bool:
        return self._request("GET", f"{self._path(kind)}/{name}", missing=True) is not None

    def _merge(self, path: str, body: dict[str, Any]) -> None:
        self._request("PATCH", path, body, missing="/pods/" in path)

    def _request(self, method: str, path: str, body: object = None, *, missing: bool = False) -> Any:
        """Send a request with retries. With ``missing`` not found is success."""
        kind = MERGE if method == "PATCH" else "application/json"
        reason: Exception | None = None
        for attempt in range(10):
            try:
                return self.cluster.request(method, path, body, content_type=kind)
            except RequestFailed as error:
                reason = error
                if error.status == 404 and (missing or (method == "DELETE" and attempt)):
                    return None
                if error.status == 409 and method == "POST" and attempt:
                    return None  # an earlier attempt was successful
                if error.status not in {409, 429} and error.status < 500:
                    raise
            except (OSError, http.client.HTTPException) as error:
                reason = error  # a server that has just started; the next attempt shows
            time.sleep(0.3)
        raise AssertionError(f"{method} {path} did not succeed in ten attempts") from reason

    def _document(self, name: str, wanted: Wanted) -> dict[str, Any]:
        labels = {"app": name}
        pod: dict[str, Any] = {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": wanted.image}],
        }
        if wanted.selective:
            pod["nodeSelector"] = {"soak": "on"}
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
        metadata: dict[str, Any] = {"name": name}
        if wanted.kind == "replicasets":
            spec["replicas"] = wanted.replicas
        else:
            metadata["annotations"] = {"deprecated.daemonset.template.generation": str(wanted.generation)}
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
        return {"apiVersion": "apps/v1", "kind": KINDS[wanted.kind], "metadata": metadata, "spec": spec}
