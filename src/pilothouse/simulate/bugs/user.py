"""``User``: an administrator of a simulated cluster, whose requests are not subject to faults; and builders of
objects."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.client import Client
from pilothouse.client.errors import NotFound

Doc = dict[str, Any]

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
APPS = "/apis/apps/v1/namespaces/default"
SETS = f"{APPS}/replicasets"


class User:
    """Sends requests by path."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Doc:
        """Send a request; returns the decoded response."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        response = await self._client.request(method, path, body=encoded, headers={"content-type": content_type})
        document: Doc = msgspec.json.decode(response.body)
        return document

    async def get(self, path: str) -> Doc | None:
        """The object, None if it does not exist."""
        try:
            return await self.request("GET", path)
        except NotFound:
            return None

    async def items(self, path: str) -> list[Doc]:
        """The objects of a collection."""
        items: list[Doc] = (await self.request("GET", path))["items"]
        return items

    async def merge(self, path: str, changes: Doc) -> None:
        """Send a JSON merge patch."""
        await self.request("PATCH", path, changes, "application/merge-patch+json")

    async def delete_all(self, path: str, which: Callable[[Doc], bool] | None = None) -> None:
        """Delete the objects of a collection, or those that ``which`` selects."""
        for item in await self.items(path):
            if which is None or which(item):
                with contextlib.suppress(NotFound):
                    await self.request("DELETE", f"{path}/{item['metadata']['name']}")


def pod_spec(image: str = "pause", *, container: str = "main", **spec: Any) -> Doc:
    """The spec of a pod with one container."""
    return {"containers": [{"name": container, "image": image}], **spec}


def workload(
    kind: str,
    name: str = "web",
    *,
    pod: Doc,
    labels: Doc | None = None,
    metadata: Doc | None = None,
    **spec: Any,
) -> Doc:
    """A workload of apps/v1 with the pod spec ``pod`` and these pod labels (default: ``app=NAME``)."""
    labels = {"app": name} if labels is None else labels
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def replica_set(name: str, replicas: int, labels: dict[str, str], **spec: Any) -> Doc:
    """A ReplicaSet."""
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "pause:1"}]}}
    selector = {"matchLabels": {"app": labels["app"]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }
