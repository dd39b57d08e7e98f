"""A namespace of the real cluster: its current pods, and a history of their changes."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
from types import TracebackType
from typing import Any, Self

from tests.programs import until
from tests.real_cluster import ADMIN_TOKEN, RealCluster
from tests.workloads import pod_spec, workload

LABELS = {"app": "web"}


def replica_set(name: str, replicas: int, *, labels: dict[str, str] | None = None, grace: int = 1) -> dict[str, Any]:
    """A ReplicaSet with idle pods."""
    pod = pod_spec(terminationGracePeriodSeconds=grace)
    return workload("ReplicaSet", name, pod=pod, labels=LABELS if labels is None else labels, replicas=replicas)


class View:
    """Access to one namespace as administrator."""

    def __init__(self, cluster: RealCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl in this namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *words, stdin=stdin)

    def create(self, document: dict[str, Any]) -> None:
        """Create a ReplicaSet."""
        self.cluster.request("POST", self.sets, document)

    def scale(self, name: str, replicas: int) -> None:
        """Scale the ReplicaSet."""
        body = {"spec": {"replicas": replicas}}
        self.cluster.request("PATCH", f"{self.sets}/{name}", body, content_type="application/merge-patch+json")

    def status(self, name: str) -> dict[str, Any]:
        """The status of a ReplicaSet, if its controller has seen the newest generation; else empty."""
        obj = self.cluster.request("GET", f"{self.sets}/{name}")
        status: dict[str, Any] = obj.get("status", {})
        return status if status.get("observedGeneration") == obj["metadata"]["generation"] else {}

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods that are not being deleted, by name."""
        items = self.cluster.request("GET", self.pods_path)["items"]
        return {pod["metadata"]["name"]: pod for pod in items if is_active(pod)}

    def ready(self) -> set[str]:
        """The names of the pods that are Running and Ready."""
        return {name for name, pod in self.pods().items() if is_ready(pod)}

    def clear(self) -> None:
        """Delete all ReplicaSets and pods, which would burden nodes and controllers of other tests."""
        self.cluster.request("DELETE", f"{self.sets}?propagationPolicy=Background")
        self.cluster.request("DELETE", f"{self.pods_path}?gracePeriodSeconds=0")

    def events(self, reason: str) -> list[dict[str, Any]]:
        """The events of this reason."""
        items = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"]
        return [event for event in items if event["reason"] == reason]


def is_active(pod: dict[str, Any]) -> bool:
    """Whether the pod is active."""
    phase = pod.get("status", {}).get("phase")
    return "deletionTimestamp" not in pod["metadata"] and phase not in {"Succeeded", "Failed"}


def is_ready(pod: dict[str, Any]) -> bool:
    """Running, with a Ready condition that is true."""
    status = pod.get("status", {})
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))
    return status.get("phase") == "Running" and ready


def three_ready(view: View) -> set[str]:
    """Wait for the three pods of ReplicaSet ``web``, and return their names."""
    until(lambda: len(view.ready()) == 3 == len(view.pods()), "three pods are Running and Ready")
    until(lambda: view.status("web").get("availableReplicas") == 3, "the status says so")
    return view.ready()


class PodHistory:
    """Watches the pods of a namespace, from its creation to the end of the ``with`` block."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, name="pod history", daemon=True)
        self._active: set[str] = set()
        self.counts: list[int] = [0]
        """The number of active pods after each change."""
        self.created: list[str] = []

    def __enter__(self) -> Self:
        cluster = self._view.cluster
        revision = cluster.request("GET", self._view.pods_path)["metadata"]["resourceVersion"]
        context = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=context)
        path = f"{self._view.pods_path}?watch=1&resourceVersion={revision}"
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._connection is not None
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._connection.close()

    @property
    def most(self) -> int:
        """The maximum number of active pods."""
        return max(self.counts)

    def _follow(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            for line in self._response:
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        name = pod["metadata"]["name"]
        if event["type"] == "ADDED":
            self.created.append(name)
        if event["type"] != "DELETED" and is_active(pod):
            self._active.add(name)
        else:
            self._active.discard(name)
        self.counts.append(len(self._active))
