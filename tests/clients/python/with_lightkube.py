"""lightkube: typed models, synchronous here; its watch resumes after errors if configured."""

import os
import threading
from typing import Any

import httpx2
from lightkube import ApiError, Client, KubeConfig
from lightkube.codecs import from_dict
from lightkube.generic_resource import create_namespaced_resource, load_in_cluster_generic_resources
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import ReplicaSet
from lightkube.resources.core_v1 import ConfigMap, Pod, Secret
from lightkube.types import CascadeType, OnErrorAction, OnErrorResult, PatchType
from tests.clients.python.objects import (
    LOG,
    WATCHED,
    config_map,
    custom,
    definition,
    pod,
    replica_set,
    request_restart,
    until,
)


def refusal(call: Any, *arguments: Any, **more: Any) -> int:
    """The status code of a call that must fail."""
    try:
        call(*arguments, **more)
    except ApiError as error:
        assert error.status.reason
        return int(error.status.code)
    raise AssertionError(f"{call} was not refused")


def writes(client: Client) -> None:
    """Create, a conflict of updates, every kind of patch, apply, deletion with a finalizer."""
    client.create(from_dict(config_map("settings", color="red")))
    assert refusal(client.create, from_dict(config_map("settings"))) == 409
    first, second = client.get(ConfigMap, "settings"), client.get(ConfigMap, "settings")
    first.data["color"] = "green"
    client.replace(first)
    second.data["color"] = "blue"
    assert refusal(client.replace, second) == 409
    again = client.get(ConfigMap, "settings")
    again.data["color"] = "blue"
    client.replace(again)

    def patch(body: Any, kind: PatchType) -> Any:
        return client.patch(ConfigMap, "settings", body, patch_type=kind).data

    assert patch({"data": {"size": "1"}}, PatchType.STRATEGIC) == {"color": "blue", "size": "1"}
    assert patch({"data": {"size": None}}, PatchType.MERGE) == {"color": "blue"}
    assert patch([{"op": "add", "path": "/data/size", "value": "2"}], PatchType.JSON)["size"] == "2"
    wanted = from_dict(config_map("settings", color="black"))
    assert refusal(client.apply, wanted, field_manager="me") == 409
    assert client.apply(wanted, field_manager="me", force=True).data == {"color": "black", "size": "2"}
    assert client.set(ConfigMap, "settings", labels={"app": "a"}).metadata.labels == {"app": "a"}
    patch({"metadata": {"finalizers": ["example.com/wait"]}}, PatchType.MERGE)
    client.delete(ConfigMap, "settings")
    assert client.get(ConfigMap, "settings").metadata.deletionTimestamp is not None
    patch({"metadata": {"finalizers": None}}, PatchType.MERGE)
    assert refusal(client.get, ConfigMap, "settings") == 404


def lists(client: Client) -> None:
    """Selectors and pages."""
    for number in range(7):
        client.create(from_dict(config_map(f"page-{number}", {"page": str(number % 2)})))
    odd = client.list(ConfigMap, labels={"page": ["1", "3"]})
    assert [item.metadata.name for item in odd] == ["page-1", "page-3", "page-5"]
    paged = client.list(ConfigMap, labels={"page": None}, chunk_size=3)
    assert [item.metadata.name for item in paged] == [f"page-{number}" for number in range(7)]
    assert int(paged.resourceVersion) > 0
    named = client.list(ConfigMap, fields={"metadata.name": "page-2"})
    assert [item.metadata.name for item in named] == ["page-2"]
    for number in range(7):
        client.delete(ConfigMap, f"page-{number}")


def runs(client: Client) -> None:
    """A pod until it is ready, its log, scale, and a cascade."""
    client.create(from_dict(pod("p")))
    client.wait(Pod, "p", for_conditions=["Ready"])
    assert list(client.log("p", tail_lines=1, newlines=False)) == LOG[1:]
    assert [line.split()[1] for line in client.log("p", container="main", timestamps=True)] == LOG
    client.delete(Pod, "p", grace_period=0)
    client.create(from_dict(replica_set("web", 1)))
    until(lambda: client.get(ReplicaSet, "web").status.readyReplicas == 1, "one pod is ready")
    client.patch(ReplicaSet.Scale, "web", {"spec": {"replicas": 2}}, patch_type=PatchType.MERGE)
    until(lambda: client.get(ReplicaSet, "web").status.readyReplicas == 2, "two pods are ready")
    assert client.get(ReplicaSet.Scale, "web").status.replicas == 2
    client.delete(ReplicaSet, "web", cascade=CascadeType.FOREGROUND)
    until(lambda: not list(client.list(Pod, labels={"app": "web"})), "its pods are collected")


def custom_objects(client: Client) -> None:
    """A CustomResourceDefinition, and generic resources."""
    client.create(from_dict(definition("lights", "Light")))
    client.wait(CustomResourceDefinition, "lights.example.com", for_conditions=["Established"])
    load_in_cluster_generic_resources(client)
    light = create_namespaced_resource("example.com", "v1", "Light", "lights")
    created = client.create(light(**custom("Light", "l", 1)))
    assert created.metadata.generation == 1
    assert refusal(client.create, light(**custom("Light", "bad", 0))) == 422
    client.patch(light.Status, "l", {"status": {"ready": True}}, patch_type=PatchType.MERGE)
    applied = client.apply(light(metadata=ObjectMeta(name="l"), spec={"size": 2}), field_manager="me", force=True)
    assert applied.spec["size"] == 2
    assert applied.status == {"ready": True}
    assert [item.metadata.name for item in client.list(light)] == ["l"]
    client.delete(light, "l")
    client.delete(CustomResourceDefinition, "lights.example.com")


def forbidden_without_permissions() -> None:
    """A user without rights gets Forbidden."""
    with Client(config=KubeConfig.from_file(os.environ["KUBECONFIG_OF_NOBODY"])) as client:
        assert refusal(lambda: list(client.list(Secret))) == 403


class Mirror:
    """Events of a watch: its error handler resumes it, with a new list after a 410."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.names: set[str] = set()
        self.expired = 0

    def run(self) -> None:
        """Run until the program exits."""
        version = self._list()
        while True:
            try:
                for event, obj in self._client.watch(
                    ConfigMap, labels=WATCHED, resource_version=version, on_error=self._on_error
                ):
                    name, version = obj.metadata.name, obj.metadata.resourceVersion
                    self.names = self.names - {name} if event == "DELETED" else self.names | {name}
            except httpx2.TransportError:
                # ``on_error`` is not called for a refused connection, only for errors of an established one.
                threading.Event().wait(0.1)

    def _list(self) -> str:
        result = self._client.list(ConfigMap, labels=WATCHED)
        self.names = {item.metadata.name for item in result}
        return str(result.resourceVersion)

    def _on_error(self, error: Exception, _count: int) -> OnErrorResult:
        if isinstance(error, ApiError) and error.status.code == 410:
            # The watch restarts with all existing objects, but without events for deleted ones.
            self.names = set()
            self.expired += 1
        return OnErrorResult(OnErrorAction.RETRY, sleep=0.1)


def follows(client: Client) -> None:
    """A watch across a restart after which its resourceVersion is too old."""
    for name in ("leaves", "stays"):
        client.create(from_dict(config_map(name, WATCHED)))
    mirror = Mirror(client)
    threading.Thread(target=mirror.run, daemon=True).start()
    until(lambda: mirror.names == {"leaves", "stays"}, "it has listed")
    request_restart()
    until(lambda: mirror.names == {"comes", "stays"}, "it has noticed what happened meanwhile")
    assert mirror.expired  # more than once, if it is slower than the history is long
    client.create(from_dict(config_map("later", WATCHED)))
    until(lambda: "later" in mirror.names, "and it goes on")
    client.delete(ConfigMap, "later")
    until(lambda: "later" not in mirror.names, "in both directions")


def main() -> None:
    """Run the scenario."""
    client = Client(field_manager="lightkube")
    writes(client)
    lists(client)
    runs(client)
    custom_objects(client)
    forbidden_without_permissions()
    follows(client)


if __name__ == "__main__":
    main()
