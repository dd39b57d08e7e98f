"""A scenario of the catalogue: kubectl on a real ``pilothouse up``, in its own namespace and with its own nodes."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from tests.programs import run_pilothouse, until
from tests.why.catalogue.cluster import SECONDS, ScenarioCluster
from tests.workloads import pod_spec, workload

from pilothouse.api.core import NAMESPACES, NODES
from pilothouse.api.meta import Object
from pilothouse.cli.resource_arguments import find_resource
from pilothouse.client.errors import NotFound
from pilothouse.client.patches import merge_patch
from pilothouse.why import Explanation, Reference

Doc = dict[str, Any]

ADMIN = "kubernetes-admin with kubectl"
"""The user. kubectl reports the whole command (``set image``) since v1.22, older releases a part of it."""


class Scenario:
    """One scenario, called as kubectl: ``scenario("scale", "deployment", "web", "--replicas=2")``."""

    def __init__(self, cluster: ScenarioCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        cluster.run(cluster.client.create(NAMESPACES.raw, msgspec.json.encode(document)))

    # Actions

    def __call__(self, *words: str, stdin: Any = None, fails: bool = False) -> str:
        """Run kubectl; returns its output, or the error that it must exit with. ``stdin`` is an object."""
        text = None if stdin is None else json.dumps(stdin)
        return self.cluster.kubectl(f"--namespace={self.namespace}", *words, stdin=text, fails=fails)

    def apply(self, *documents: Doc) -> None:
        """``kubectl apply -f -``."""
        self("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": documents})

    def deployment(self, name: str = "web", replicas: int = 2, **pod: Any) -> list[str]:
        """``kubectl apply`` a Deployment, wait until its pods are ready, and return their names."""
        self.apply(workload("Deployment", name, pod=quick_pod(**pod), replicas=replicas))
        return self.until_ready(replicas)

    def nodes(self, count: int) -> tuple[list[str], Doc]:
        """Reserve nodes, and return their names with the node selector and tolerations for pods that run only there."""
        names = self.cluster.take_nodes(count)
        patch = merge_patch({"metadata": {"labels": {"scenario": self.namespace}}})
        for name in names:
            self.cluster.run(self.cluster.client.patch(NODES.read_as(Object), name, patch))
        return names, {
            "nodeSelector": {"scenario": self.namespace},
            "tolerations": [{"key": "scenario", "operator": "Exists"}],
        }

    # State

    def get(self, resource: str, name: str, namespace: str | None = None) -> Doc | None:
        """Read an object without kubectl; None if it does not exist."""
        result = find_resource(self.cluster.discovery, resource)
        namespace = (self.namespace if namespace is None else namespace) if result.namespaced else ""
        try:
            raw = self.cluster.run(self.cluster.client.get(result.as_kind().raw, name, namespace))
        except NotFound:
            return None
        document: Doc = msgspec.json.decode(raw)
        return document

    def objects(self, resource: str) -> list[Doc]:
        """The namespace's objects of a resource."""
        result = find_resource(self.cluster.discovery, resource)
        items = self.cluster.run(self.cluster.client.list(result.as_kind().raw, self.namespace)).items
        return [msgspec.json.decode(item) for item in items]

    def pods(self) -> list[str]:
        """The names of the pods that are not terminating."""
        return [pod["metadata"]["name"] for pod in self.objects("pods") if "deletionTimestamp" not in pod["metadata"]]

    def until(self, condition: Callable[[], object], description: str) -> None:
        """Wait until the condition is true."""
        until(condition, f"{self.namespace}: {description}", SECONDS)

    def until_ready(self, count: int) -> list[str]:
        """Wait for exactly ``count`` pods, all ready, and return their names."""
        self.until(lambda: [is_ready(pod) for pod in self.objects("pods")] == [True] * count, f"{count} pods are ready")
        return self.pods()

    def until_some(self, resource: str, matches: Callable[[Doc], object], description: str) -> str:
        """Wait for a matching object, and return its name."""
        result: list[str] = []

        def look() -> list[str]:
            result[:] = [obj["metadata"]["name"] for obj in self.objects(resource) if matches(obj)]
            return result

        self.until(look, description)
        return result[0]

    def until_gone(self, resource: str, name: str) -> None:
        """Wait until an object is deleted."""
        self.until(lambda: self.get(resource, name) is None, f"{resource}/{name} is gone")

    # Explanations

    def why(self, target: str, namespace: str | None = None) -> Explanation:
        """The explanation of ``pilothouse why TYPE/NAME``, computed in this process."""
        text, _slash, name = target.partition("/")
        result = find_resource(self.cluster.discovery, text)
        namespace = (self.namespace if namespace is None else namespace) if result.namespaced else ""
        return self.cluster.run(self.cluster.explained(Reference(result.group_resource, namespace, name)))

    def why_by_command(self, target: str) -> Explanation:
        """The same from ``pilothouse why -o json``, as a process."""
        words = (
            "why",
            target,
            f"--kubeconfig={self.cluster.kubeconfig}",
            "-n",
            self.namespace,
            "-o",
            "json",
            *self.cluster.why_flags,
        )
        done = run_pilothouse(self.cluster.directory, *words, seconds=SECONDS)
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout, type=Explanation)


def quick_pod(**spec: Any) -> Doc:
    """The spec of a pod that terminates quickly."""
    return pod_spec(**{"terminationGracePeriodSeconds": 1, **spec})


def is_ready(pod: Doc) -> bool:
    """Whether a pod is ready and not terminating."""
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
