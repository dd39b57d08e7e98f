"""kr8s: objects with methods. It has no PUT and no apply; those use its ``call_api``."""

import asyncio
import contextlib
import json
import os
import warnings
from typing import Any

import httpx
import kr8s
from kr8s.asyncio.objects import APIObject, ConfigMap, Pod, ReplicaSet, new_class
from tests.clients.python.objects import (
    LOG,
    WATCHED,
    config_map,
    custom,
    definition,
    pod,
    replica_set,
    request_restart,
    until_async,
)


async def refusal(call: Any) -> int:
    """The status code of a call that must fail."""
    try:
        await call
    except kr8s.ServerError as error:
        assert error.response is not None
        return int(error.response.status_code)
    raise AssertionError("it was not refused")


async def put(api: Any, obj: APIObject) -> Any:
    """An update with its resourceVersion."""
    path = f"{obj.endpoint}/{obj.name}"
    async with api.call_api(
        "PUT", version=obj.version, url=path, namespace="default", content=json.dumps(obj.raw)
    ) as answer:
        return answer.json()


async def writes(api: Any) -> None:
    """Create, a conflict of updates, patches, apply, deletion with a finalizer."""
    settings = await ConfigMap(config_map("settings", color="red"), api=api)
    await settings.create()
    assert await refusal((await ConfigMap(config_map("settings"), api=api)).create()) == 409
    first, second = await ConfigMap.get("settings", api=api), await ConfigMap.get("settings", api=api)
    first.raw["data"]["color"] = "green"
    await put(api, first)
    second.raw["data"]["color"] = "blue"
    assert await refusal(put(api, second)) == 409
    await second.refresh()
    second.raw["data"]["color"] = "blue"
    await put(api, second)

    await settings.patch({"data": {"size": "1"}})
    assert settings.data == {"color": "blue", "size": "1"}
    await settings.patch([{"op": "remove", "path": "/data/size"}], type="json")
    assert settings.data == {"color": "blue"}
    await settings.label(app="a")
    await settings.annotate({"example.com/note": "yes"})
    assert settings.labels == {"app": "a"}
    assert (await apply(api, config_map("settings", color="blue")))["data"] == {"color": "blue"}
    assert await refusal(apply(api, config_map("settings", color="black"))) == 409

    await settings.patch({"metadata": {"finalizers": ["example.com/wait"]}})
    await settings.delete()
    await settings.refresh()
    assert settings.metadata.deletionTimestamp
    await settings.patch({"metadata": {"finalizers": None}})
    assert not await settings.exists()


async def apply(api: Any, manifest: Any) -> Any:
    """A server-side apply."""
    async with api.call_api(
        "PATCH",
        version="v1",
        url=f"configmaps/{manifest['metadata']['name']}?fieldManager=me",
        namespace="default",
        content=json.dumps(manifest),
        headers={"Content-Type": "application/apply-patch+yaml"},
    ) as answer:
        return answer.json()


async def lists(api: Any) -> None:
    """Selectors; pages of 100, which kr8s requests by itself."""
    await api.create(
        [await ConfigMap(config_map(f"page-{number}", {"page": str(number % 2)}), api=api) for number in range(105)]
    )
    assert len([item async for item in api.get("configmaps", label_selector="page")]) == 105
    odd = [item.name async for item in api.get("cm", label_selector={"page": "1"})]
    assert len(odd) == 52
    named = [item async for item in api.get("configmaps", field_selector={"metadata.name": "page-2"})]
    assert [item.name for item in named] == ["page-2"]
    async with api.call_api("DELETE", url="configmaps?labelSelector=page", namespace="default"):
        pass
    assert not [item async for item in api.get("configmaps", label_selector="page")]


async def runs(api: Any) -> None:
    """A pod until it is ready, its log, scale, and a cascade."""
    one = await Pod(pod("p"), api=api)
    await one.create()
    await one.wait("condition=Ready", timeout=20)
    assert await one.ready()
    assert [line async for line in one.logs()] == LOG
    await one.delete(force=True)
    await one.wait("delete", timeout=20)
    web = await ReplicaSet(replica_set("web", 1), api=api)
    await web.create()
    await web.scale(2)

    async def two_pods_ready() -> bool:
        await web.refresh()
        return bool(web.status.get("readyReplicas") == 2)

    await until_async(two_pods_ready, "two pods are ready")
    await web.delete(propagation_policy="Foreground")

    async def none() -> bool:
        return not [item async for item in api.get("pods", label_selector={"app": "web"})]

    await until_async(none, "its pods are collected")


async def custom_objects(api: Any) -> None:
    """A CustomResourceDefinition, found through discovery, and a class for its kind."""
    crd = await kr8s.asyncio.objects.CustomResourceDefinition(definition("kates", "Kate"), api=api)
    await crd.create()
    await crd.wait("condition=Established", timeout=20)
    kate = new_class("Kate", version="example.com/v1", asyncio=True, namespaced=True)
    one = await kate(custom("Kate", "k", 1), api=api)
    await one.create()
    assert one.metadata.generation == 1
    assert await refusal((await kate(custom("Kate", "bad", 0), api=api)).create()) == 422
    await one.patch({"spec": {"size": 2}})
    await one.patch({"status": {"ready": True}}, subresource="status")
    assert one.status.ready is True
    assert [item.name async for item in api.get("kates.example.com")] == ["k"]
    await one.delete()
    await crd.delete()


async def forbidden_without_permissions() -> None:
    """A user without rights gets Forbidden; ``whoami`` returns the user."""
    api = await kr8s.asyncio.api(kubeconfig=os.environ["KUBECONFIG_OF_NOBODY"])
    async with api.call_api("GET", version="", base="/version") as answer:
        assert answer.json()["minor"] == "36"

    async def listed() -> None:
        async for _secret in api.get("secrets"):
            pass

    assert await refusal(listed()) == 403


class Mirror:
    """Watch, and again when the stream ends. ``since`` is omitted: kr8s keeps requesting it after a 410."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.names: set[str] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                self.names = {item.name async for item in self._api.get("configmaps", label_selector=WATCHED)}
                async for event, obj in self._api.watch("configmaps", label_selector=WATCHED):
                    name = obj.name
                    self.names = self.names - {name} if event == "DELETED" else self.names | {name}
            except httpx.TransportError:
                await asyncio.sleep(0.1)


async def follows(api: Any) -> None:
    """A watch across a restart."""
    for name in ("leaves", "stays"):
        await (await ConfigMap(config_map(name, WATCHED), api=api)).create()
    mirror = Mirror(api)
    running = asyncio.create_task(mirror.run())
    await until_async(lambda: mirror.names == {"leaves", "stays"}, "it has listed")
    await asyncio.to_thread(request_restart)
    await until_async(lambda: mirror.names == {"comes", "stays"}, "it has noticed what happened meanwhile")
    later = await ConfigMap(config_map("later", WATCHED), api=api)
    await later.create()
    await until_async(lambda: "later" in mirror.names, "and it goes on")
    await later.delete()
    await until_async(lambda: "later" not in mirror.names, "in both directions")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def main() -> None:
    """Run the scenario."""
    with warnings.catch_warnings():
        # "Supported versions for kr8s 0.20.15 are 1.28 to 1.35."
        warnings.filterwarnings("ignore", message="Kubernetes version .* is not supported")
        api = await kr8s.asyncio.api()
    await writes(api)
    await lists(api)
    await runs(api)
    await custom_objects(api)
    await forbidden_without_permissions()
    await follows(api)


if __name__ == "__main__":
    asyncio.run(main())
