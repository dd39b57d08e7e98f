"""``kubernetes_asyncio``: the official client's API for asyncio (models of its release 36)."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable
from typing import Any

import aiohttp
from kubernetes_asyncio import client, config, dynamic, utils, watch
from kubernetes_asyncio.client.exceptions import ApiException
from tests.clients.python.objects import (
    LOG,
    WATCHED,
    config_map,
    custom,
    definition,
    pod,
    request_restart,
    until_async,
)

NS = "default"


async def refusal(call: Awaitable[Any]) -> ApiException:
    """The error of a call that must fail."""
    try:
        await call
    except ApiException as error:
        return error
    raise AssertionError("it was not refused")


async def writes(core: client.CoreV1Api) -> None:
    """Create, a conflict of updates, every kind of patch, apply, deletion with a finalizer."""
    await core.create_namespaced_config_map(NS, config_map("settings", color="red"))
    first = await core.read_namespaced_config_map("settings", NS)
    second = await core.read_namespaced_config_map("settings", NS)
    first.data["color"] = "green"
    await core.replace_namespaced_config_map("settings", NS, first)
    second.data["color"] = "blue"
    assert (await refusal(core.replace_namespaced_config_map("settings", NS, second))).status == 409
    again = await core.read_namespaced_config_map("settings", NS)
    again.data["color"] = "blue"
    await core.replace_namespaced_config_map("settings", NS, again)

    async def patch(body: Any, content_type: str, **more: Any) -> Any:
        return (await core.patch_namespaced_config_map("settings", NS, body, _content_type=content_type, **more)).data

    strategic = {"data": {"size": "1"}}
    assert await patch(strategic, "application/strategic-merge-patch+json") == {"color": "blue", "size": "1"}
    assert await patch({"data": {"size": None}}, "application/merge-patch+json") == {"color": "blue"}
    operations = [{"op": "add", "path": "/data/size", "value": "2"}]
    assert await patch(operations, "application/json-patch+json") == {"color": "blue", "size": "2"}
    apply, wanted = "application/apply-patch+yaml", config_map("settings", color="black")
    conflict = await refusal(patch(wanted, apply, field_manager="me"))
    assert conflict.status == 409
    assert "conflict with" in str(conflict.body)
    applied = await patch(wanted, apply, field_manager="me", force=True)
    assert applied == {"color": "black", "size": "2"}, "what others own stays"

    await patch({"metadata": {"finalizers": ["example.com/wait"]}}, "application/merge-patch+json")
    await core.delete_namespaced_config_map("settings", NS)
    assert (await core.read_namespaced_config_map("settings", NS)).metadata.deletion_timestamp is not None
    await patch({"metadata": {"finalizers": None}}, "application/merge-patch+json")
    assert (await refusal(core.read_namespaced_config_map("settings", NS))).status == 404


async def lists(core: client.CoreV1Api) -> None:
    """Selectors and pages."""
    await asyncio.gather(
        *(core.create_namespaced_config_map(NS, config_map(f"page-{n}", {"page": str(n % 2)})) for n in range(7))
    )
    odd = await core.list_namespaced_config_map(NS, label_selector="page in (1)")
    assert [item.metadata.name for item in odd.items] == ["page-1", "page-3", "page-5"]
    observed: list[str] = []
    token: str | None = None
    while token != "":
        page = await core.list_namespaced_config_map(NS, label_selector="page", limit=3, _continue=token)
        observed += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    assert observed == [f"page-{n}" for n in range(7)]
    await core.delete_collection_namespaced_config_map(NS, label_selector="page")
    assert not (await core.list_namespaced_config_map(NS, label_selector="page")).items


async def runs(core: client.CoreV1Api, api: client.ApiClient) -> None:
    """A pod until it runs, its log, and its deletion."""
    await utils.create_from_dict(api, pod("p"), namespace=NS)
    async with watch.Watch() as watcher:
        async for event in watcher.stream(core.list_namespaced_pod, NS, field_selector="metadata.name=p"):
            if event["object"].status.phase == "Running":
                break
    assert (await core.read_namespaced_pod_log("p", NS)).splitlines() == LOG
    await core.delete_namespaced_pod("p", NS, grace_period_seconds=0)


async def custom_objects(api: client.ApiClient) -> None:
    """A CustomResourceDefinition; its objects by the typed API and by the dynamic client."""
    extensions, objects = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    await extensions.create_custom_resource_definition(definition("asyncs", "Async"))

    async def established() -> bool:
        status = (await extensions.read_custom_resource_definition("asyncs.example.com")).status
        return {"Established"} <= {c.type for c in status.conditions or () if c.status == "True"}

    await until_async(established, "the kind is served")
    resource = ("example.com", "v1", NS, "asyncs")
    await objects.create_namespaced_custom_object(*resource, custom("Async", "a", 1))
    refused = await refusal(objects.create_namespaced_custom_object(*resource, custom("Async", "bad", 0)))
    assert refused.status == 422
    await objects.patch_namespaced_custom_object_status(
        *resource, "a", {"status": {"ready": True}}, _content_type="application/merge-patch+json"
    )
    kinds = await dynamic.DynamicClient(api)
    asyncs = await kinds.resources.get(api_version="example.com/v1", kind="Async")
    applied = await asyncs.server_side_apply(
        body=custom("Async", "a", 2), namespace=NS, field_manager="me", force_conflicts=True
    )
    assert (applied.spec.size, applied.status.ready) == (2, True)
    assert [item.metadata.name for item in (await asyncs.get(namespace=NS)).items] == ["a"]
    await asyncs.delete(name="a", namespace=NS)
    await extensions.delete_custom_resource_definition("asyncs.example.com")


async def forbidden_without_permissions() -> None:
    """A user without rights gets Forbidden."""
    api = await config.new_client_from_config(os.environ["KUBECONFIG_OF_NOBODY"])
    async with api:
        assert (await refusal(client.CoreV1Api(api).list_namespaced_secret(NS))).status == 403


class Mirror:
    """A list and watch loop, as users of this client write it, which has no informer."""

    def __init__(self, core: client.CoreV1Api) -> None:
        self._core = core
        self.names: set[str] = set()
        self.expired = 0

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                result = await self._core.list_namespaced_config_map(NS, label_selector="watched=yes")
                self.names = {item.metadata.name for item in result.items}
                await self._watch(result.metadata.resource_version)
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)
            except ApiException as error:
                if error.status not in {410, 503}:
                    raise
                self.expired += error.status == 410

    async def _watch(self, version: str) -> None:
        while True:
            watcher = watch.Watch()
            try:
                async for event in watcher.stream(
                    self._core.list_namespaced_config_map, NS, label_selector="watched=yes", resource_version=version
                ):
                    version = event["object"].metadata.resource_version
                    name = event["object"].metadata.name
                    self.names = self.names - {name} if event["type"] == "DELETED" else self.names | {name}
            except aiohttp.ClientError:
                # The server is away for a moment: go on from here, which is what 410 is an answer to.
                await asyncio.sleep(0.1)


async def follows(core: client.CoreV1Api) -> None:
    """A watch that resumes, across a restart after which its resourceVersion is too old."""
    for name in ("leaves", "stays"):
        await core.create_namespaced_config_map(NS, config_map(name, WATCHED))
    mirror = Mirror(core)
    running = asyncio.create_task(mirror.run())
    await until_async(lambda: mirror.names == {"leaves", "stays"}, "it has listed")
    await asyncio.to_thread(request_restart)
    await until_async(lambda: mirror.names == {"comes", "stays"}, "it has noticed what happened meanwhile")
    assert mirror.expired  # more than once, if it is slower than the history is long
    await core.create_namespaced_config_map(NS, config_map("later", WATCHED))
    await until_async(lambda: "later" in mirror.names, "and it goes on")
    await core.delete_namespaced_config_map("later", NS)
    await until_async(lambda: "later" not in mirror.names, "in both directions")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def main() -> None:
    """Run the scenario."""
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await writes(core)
        await lists(core)
        await runs(core, api)
        await custom_objects(api)
        await forbidden_without_permissions()
        await follows(core)


if __name__ == "__main__":
    asyncio.run(main())
