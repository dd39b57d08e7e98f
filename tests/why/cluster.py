"""A cluster, a kubectl user, and explanations."""

import asyncio
from typing import Any

import msgspec

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import PODS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.patches import merge_patch
from pilothouse.testing import AsyncCluster
from pilothouse.why import Explanation, Reference, ServerEvidence, Step, explain, text_lines

NAMESPACE = "default"


class Cluster:
    """``plane`` is the cluster, ``user`` the client of a kubectl user."""

    def __init__(self, plane: AsyncCluster) -> None:
        self.plane = plane
        self.user: Client = plane.client

    def as_user(self, name: str) -> "Cluster":
        """The same cluster, with the client of another administrator."""
        other = Cluster(self.plane)
        other.user = self.plane.plane.client(name, ("system:masters",), agent="pilothouse-testing")
        return other

    async def why(self, resource: str, name: str, namespace: str = NAMESPACE) -> Explanation:
        """The explanation of an object."""
        evidence = ServerEvidence(self.user, await self.user.discover())
        return await explain(evidence, Reference(resource, namespace, name), time=self.plane.plane.env.now())

    async def documents(self, resource: str, namespace: str) -> list[dict[str, Any]]:
        """The objects of a resource."""
        return await ServerEvidence(self.user, await self.user.discover()).objects(resource, namespace)

    async def create(self, manifest: dict[str, Any]) -> None:
        """Create an object."""
        await self.plane.create(manifest)

    async def patch(self, kind: Kind[Any], name: str, patch: dict[str, Any], namespace: str = NAMESPACE) -> None:
        """Send a merge patch."""
        await self.user.patch(kind.read_as(Object), name, merge_patch(patch), namespace)

    async def deployment(self, name: str = "web", *, replicas: int = 2, **template: Any) -> None:
        """Create a Deployment, and wait until it is available."""
        await self.create(deployment(name, replicas=replicas, **template))
        await asyncio.sleep(10)

    async def scale(self, name: str, replicas: int) -> None:
        """Scale a Deployment, and wait."""
        await self.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}})
        await asyncio.sleep(10)

    async def pods(self) -> list[str]:
        """The names of the pods."""
        return [pod.metadata.name for pod in (await self.user.list(PODS, NAMESPACE)).items]


def deployment(name: str, *, replicas: int = 2, image: str = "nginx", **spec: Any) -> dict[str, Any]:
    """The manifest of a Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": image}], **spec},
            },
        },
    }


def texts(steps: list[Step]) -> list[str]:
    """The texts of steps, without times."""
    return [f"{step.text}, by {step.by}" if step.by else step.text for step in steps]


def roots(explanation: Explanation) -> list[str]:
    """The texts of the explanation's root causes."""
    return texts(explanation.roots())


def text(explanation: Explanation) -> str:
    """The explanation as printed to a terminal."""
    return "\n".join(text_lines(explanation))


def links(explanation: Explanation) -> list[str]:
    """The objects of the first branch, from the explained one to the root."""
    result = []
    steps = explanation.steps
    while steps:
        result.append(steps[0].object)
        steps = steps[0].because
    return result


def encoded(explanation: Explanation) -> Any:
    """As ``-o json`` prints it."""
    return msgspec.json.decode(msgspec.json.encode(explanation))
