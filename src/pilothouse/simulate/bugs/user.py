"""``User``: an administrator of a simulated cluster, whose requests never meet faults; and documents for it to send."""

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
    """Requests by path."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Doc:
        """Any request."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        response = await self._client.request(method, path, body=encoded, headers={"content-type": content_type})
        document: Doc = msgspec.json.decode(response.body)
        return document

    async def get(self, path: str) -> Doc | None:
        """An object, or None."""
        try:
            return await self.ask("GET", path)
        except NotFound:
            return None

    async def items(self, path: str) -> list[Doc]:
        """The objects of a collection."""
        items: list[Doc] = (await self.ask("GET", path))["items"]
        return items

    async def merge(self, path: str, changes: Doc) -> None:
        """JSON merge patch."""
        await self.ask("PATCH", path, changes, "application/merge-patch+json")

    async def delete_all(self, path: str, which: Callable[[Doc], bool] | None = None) -> None:
        """Delete the objects of a collection, or some of them: what is still there when its turn comes."""
        for item in await self.items(path):
            if which is None or which(item):
                with contextlib.suppress(NotFound):
                    await self.ask("DELETE", f"{path}/{item['metadata']['name']}")


def pod_spec(image: str = "pause", *, container: str = "main", **spec: Any) -> Doc:
    """That of a pod with one container."""
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
    """An object of apps/v1 whose pods have the spec ``pod``, and these labels (``app=NAME`` if none are given)."""
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
