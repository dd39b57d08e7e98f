"""A scenario of the catalogue: kubectl on a real ``pilothouse up``, in a namespace and on nodes of its own."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from tests.programs import run_pilothouse, until
from tests.why.catalogue.place import SECONDS, Place
from tests.workloads import pod_spec, workload

from pilothouse.api.core import NAMESPACES, NODES
from pilothouse.api.meta import Object
from pilothouse.cli.resource_arguments import find_resource
from pilothouse.client.errors import NotFound
from pilothouse.client.patches import merge_patch
from pilothouse.why import Explanation, Reference

Doc = dict[str, Any]

ADMIN = "kubernetes-admin with kubectl"
"""Who types the commands. kubectl names the whole command (``set image``) since v1.22, older releases a part of it."""


class Scene:
    """One scenario. It is called as kubectl is: ``scene("scale", "deployment", "web", "--replicas=2")``."""

    def __init__(self, place: Place, namespace: str) -> None:
        self.place = place
        self.namespace = namespace
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        place.run(place.client.create(NAMESPACES.raw, msgspec.json.encode(document)))

    # What people do

    def __call__(self, *words: str, stdin: Any = None, fails: bool = False) -> str:
        """kubectl: its output, or the text of the error that it is expected to end with. ``stdin`` is an object."""
        text = None if stdin is None else json.dumps(stdin)
        return self.place.kubectl(f"--namespace={self.namespace}", *words, stdin=text, fails=fails)

    def apply(self, *documents: Doc) -> None:
        """``kubectl apply -f -``."""
        self("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": documents})

    def deployment(self, name: str = "web", replicas: int = 2, **pod: Any) -> list[str]:
        """``kubectl apply`` of a Deployment, and wait until its pods are ready; their names."""
        self.apply(workload("Deployment", name, pod=quick_pod(**pod), replicas=replicas))
        return self.until_ready(replicas)

    def nodes(self, count: int) -> tuple[list[str], Doc]:
        """Nodes of the scenario's own, and what the spec of a pod needs to run there, and only there."""
        names = self.place.take_nodes(count)
        patch = merge_patch({"metadata": {"labels": {"scene": self.namespace}}})
        for name in names:
            self.place.run(self.place.client.patch(NODES.read_as(Object), name, patch))
        return names, {
            "nodeSelector": {"scene": self.namespace},
            "tolerations": [{"key": "scene", "operator": "Exists"}],
        }

    # What is to be seen

    def get(self, resource: str, name: str, namespace: str | None = None) -> Doc | None:
        """An object, read without kubectl; None if there is none."""
        found = find_resource(self.place.discovery, resource)
        namespace = (self.namespace if namespace is None else namespace) if found.namespaced else ""
        try:
            raw = self.place.run(self.place.client.get(found.as_kind().raw, name, namespace))
        except NotFound:
            return None
        document: Doc = msgspec.json.decode(raw)
        return document

    def objects(self, resource: str) -> list[Doc]:
        """The objects of the namespace."""
        found = find_resource(self.place.discovery, resource)
        items = self.place.run(self.place.client.list(found.as_kind().raw, self.namespace)).items
        return [msgspec.json.decode(item) for item in items]

    def pods(self) -> list[str]:
        """The names of the pods that are not being deleted."""
        return [pod["metadata"]["name"] for pod in self.objects("pods") if "deletionTimestamp" not in pod["metadata"]]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until it holds."""
        until(condition, f"{self.namespace}: {what}", SECONDS)

    def until_ready(self, count: int) -> list[str]:
        """Wait until so many pods are there, all of them ready; their names."""
        self.until(lambda: [is_ready(pod) for pod in self.objects("pods")] == [True] * count, f"{count} pods are ready")
        return self.pods()

    def until_some(self, resource: str, matches: Callable[[Doc], object], what: str) -> str:
        """Wait for an object that matches; its name."""
        found: list[str] = []

        def look() -> list[str]:
            found[:] = [each["metadata"]["name"] for each in self.objects(resource) if matches(each)]
            return found

        self.until(look, what)
        return found[0]

    def until_gone(self, resource: str, name: str) -> None:
        """Wait until an object is gone."""
        self.until(lambda: self.get(resource, name) is None, f"{resource}/{name} is gone")

    # The question

    def why(self, target: str, namespace: str | None = None) -> Explanation:
        """The answer of ``pilothouse why TYPE/NAME``, given in this process."""
        text, _slash, name = target.partition("/")
        found = find_resource(self.place.discovery, text)
        namespace = (self.namespace if namespace is None else namespace) if found.namespaced else ""
        return self.place.run(self.place.explained(Reference(found.group_resource, namespace, name)))

    def why_by_command(self, target: str) -> Explanation:
        """The same from ``pilothouse why -o json``, as a process."""
        words = (
            "why",
            target,
            f"--kubeconfig={self.place.kubeconfig}",
            "-n",
            self.namespace,
            "-o",
            "json",
            *self.place.why_flags,
        )
        done = run_pilothouse(self.place.directory, *words, seconds=SECONDS)
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout, type=Explanation)


def quick_pod(**spec: Any) -> Doc:
    """The spec of a pod that has ended soon after it is deleted."""
    return pod_spec(**{"terminationGracePeriodSeconds": 1, **spec})


def is_ready(pod: Doc) -> bool:
    """Whether a pod is ready and stays."""
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
