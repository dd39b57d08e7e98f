"""A kopf operator with a CRD: a ``Pair`` has a ConfigMap, a status, and a finalizer.

The operator runs on a loop in a thread; the scenario is run from outside with the official client's untyped API.
"""

import asyncio
import threading
from typing import Any

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from tests.clients.python.objects import custom, definition, request_restart, until

NS = "default"
WHERE = ("example.com", "v1", NS, "pairs")
deleted: list[str] = []
seen_names: set[str] = set()


@kopf.on.startup()
def settle(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Fast reconnects, and progress stored in annotations."""
    settings.watching.reconnect_backoff = 0.1
    settings.networking.error_backoffs = [0.1] * 100


@kopf.on.create("example.com", "v1", "pairs")
def create(name: str, spec: Any, body: Any, namespace: str, **_: Any) -> dict[str, Any]:
    """Create the ConfigMap. The return value is stored in the status."""
    core = client.CoreV1Api()
    config_map = {"metadata": {"name": f"{name}-pair"}, "data": {"size": str(spec["size"])}}
    kopf.adopt(config_map)
    core.create_namespaced_config_map(namespace, config_map)
    kopf.info(body, reason="Made", message="there is a config map")
    return {"made": f"{name}-pair"}


@kopf.on.update("example.com", "v1", "pairs", field="spec.size")
def resize(name: str, new: int, patch: Any, namespace: str, **_: Any) -> None:
    """Update the ConfigMap when the size changes."""
    core = client.CoreV1Api()
    core.patch_namespaced_config_map(f"{name}-pair", namespace, {"data": {"size": str(new)}})
    patch.status["size"] = new


@kopf.on.delete("example.com", "v1", "pairs")
def delete(name: str, **_: Any) -> None:
    """Handle the deletion, before the finalizer is removed."""
    deleted.append(name)


@kopf.on.event("", "v1", "configmaps")
def watch_config_maps(type: str | None, name: str, **_: Any) -> None:  # noqa: A002  # kopf's name of it
    """A watch of all ConfigMaps."""
    (seen_names.discard if type == "DELETED" else seen_names.add)(name)


def operate(ready: threading.Event, stop: threading.Event) -> None:
    """The operator's thread."""
    asyncio.run(kopf.operator(namespaces=[NS], standalone=True, ready_flag=ready, stop_flag=stop))


def main() -> None:
    """Run the scenario."""
    config.load_kube_config()
    objects, core = client.CustomObjectsApi(), client.CoreV1Api()
    client.ApiextensionsV1Api().create_custom_resource_definition(definition("pairs", "Pair"))
    core.create_namespaced_config_map(NS, {"metadata": {"name": "leaves"}})
    ready, stop = threading.Event(), threading.Event()
    operator = threading.Thread(target=operate, args=(ready, stop), name="operator")
    operator.start()
    assert ready.wait(20)

    def pair(name: str) -> dict[str, Any]:
        result: dict[str, Any] = objects.get_namespaced_custom_object(*WHERE, name)
        return result

    def is_deleted(name: str) -> bool:
        try:
            pair(name)
        except ApiException as error:
            assert error.status == 404
            return True
        return False

    def size(name: str) -> str:
        return str(core.read_namespaced_config_map(f"{name}-pair", NS).data["size"])

    try:
        objects.create_namespaced_custom_object(*WHERE, custom("Pair", "one", 1))
        until(
            lambda: pair("one").get("status", {}).get("create") == {"made": "one-pair"}, "the result is in the status"
        )
        assert size("one") == "1"
        assert pair("one")["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        objects.patch_namespaced_custom_object(*WHERE, "one", {"spec": {"size": 2}})
        until(lambda: pair("one")["status"].get("size") == 2, "the update is followed")
        assert size("one") == "2"
        until(lambda: core.list_namespaced_event(NS, field_selector="involvedObject.kind=Pair").items, "events arrive")
        until(lambda: {"leaves", "one-pair"} <= seen_names, "config maps are seen")

        request_restart()
        until(lambda: "comes" in seen_names, "what came meanwhile is seen")
        objects.create_namespaced_custom_object(*WHERE, custom("Pair", "two", 5))
        until(lambda: pair("two").get("status", {}).get("create") is not None, "it works on")
        objects.patch_namespaced_custom_object(*WHERE, "one", {"spec": {"size": 3}})
        until(lambda: size("one") == "3", "for what was there before too")

        for name in ("one", "two"):
            objects.delete_namespaced_custom_object(*WHERE, name)
        until(lambda: is_deleted("one") and is_deleted("two"), "the finalizers are taken away")
        assert sorted(deleted) == ["one", "two"]
        until(lambda: "one-pair" not in seen_names, "what they own is collected, and that is seen")
    finally:
        stop.set()
        operator.join(20)
    assert not operator.is_alive()


if __name__ == "__main__":
    main()
