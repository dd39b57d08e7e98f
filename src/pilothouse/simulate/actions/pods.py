"""Actions about pods: which ones are meant, evictions, and ``kubectl drain``.

Facts: kubectl v0.36 ``pkg/drain``: filters in ``filters.go``, evictions every five seconds while a budget rejects them,
a second between reads while a pod terminates.
"""

import asyncio
import random  # noqa: TID251  # the type of a stream
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.core import PODS
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, NotFound, TooManyRequests
from pilothouse.env import TaskGroup
from pilothouse.simulate.actions.administrator import ActionError
from pilothouse.simulate.actions.nodes import Nodes
from pilothouse.simulate.scenario import actions
from pilothouse.simulate.scenario.scalars import shown_seconds

EVICTION_RETRY_SECONDS = 5.0
_POLL_SECONDS = 1.0
_MIRROR = "kubernetes.io/config.mirror"
Pod = dict[str, Any]


async def select(client: Client, selection: actions.PodSelection, chance: random.Random) -> list[Pod]:
    """The pods that are meant, by name. Raises ``ActionError`` if there is none."""
    found = [
        pod
        for pod in await _pods(client, selection.namespace, selection.selector, selection.node)
        if selection.name in ("", pod["metadata"]["name"]) and not pod["metadata"].get("deletionTimestamp")
    ]
    if selection.count is not None and selection.count < len(found):
        chosen = {pod["metadata"]["uid"] for pod in chance.sample(found, selection.count)}
        found = [pod for pod in found if pod["metadata"]["uid"] in chosen]
    if not found:
        raise ActionError(f"there are no such pods: {selection}")
    return found


async def _pods(client: Client, namespace: str, selector: str, node: str) -> list[Pod]:
    fields = f"spec.nodeName={node}" if node else ""
    page = await client.list(PODS.raw, namespace, label_selector=selector, field_selector=fields)
    return [msgspec.json.decode(each) for each in page.items]


async def evict(client: Client, pod: Pod, grace_period: float | None = None, *, dry_run: bool = False) -> None:
    """Once. Raises ``ApiError``."""
    meta = pod["metadata"]
    delete_options: dict[str, Any] = {} if grace_period is None else {"gracePeriodSeconds": round(grace_period)}
    if dry_run:
        delete_options["dryRun"] = ["All"]
    options = {"deleteOptions": delete_options} if delete_options else {}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        **options,
    }
    await client.create(PODS.raw, body, meta["namespace"], subresource="eviction", name=meta["name"])


async def drain(client: Client, nodes: Nodes, names: Sequence[str], drained: actions.Drain) -> None:
    """Cordon the nodes and evict their pods. Raises ``ActionError``."""
    await nodes.cordon(names, unschedulable=True)
    if not drained.parallel:
        for name in names:
            await drain_node(client, name, drained)
        return
    async with TaskGroup("drain") as group:
        for name in names:
            group.start(drain_node(client, name, drained), name=f"drain {name}")


async def evictable(client: Client, node: str) -> list[Pod]:
    """The pods of a node that a drain evicts."""
    return [pod for pod in await _pods(client, "", "", node) if _is_evictable(pod)]


async def drain_node(client: Client, name: str, drained: actions.Drain, *, force_option: str = "force: true") -> None:
    """Evict the pods of one node, which is cordoned. ``force_option`` is what the user sets for ``drained.force``.
    Raises ``ActionError``."""
    pods = await evictable(client, name)
    if reasons := [reason for pod in pods if (reason := _obstacle(pod, drained, force_option))]:
        raise ActionError(f"unable to drain node {name}: {'; '.join(reasons[:5])}")
    try:
        async with asyncio.timeout(drained.timeout), TaskGroup(f"drain {name}") as group:
            for pod in pods:
                group.start(_evict_and_wait(client, pod, drained.grace_period), name=pod["metadata"]["name"])
    except TimeoutError:
        left = await evictable(client, name)
        listed = ", ".join(pod["metadata"]["name"] for pod in left[:5])
        limit = shown_seconds(drained.timeout or 0.0)
        raise ActionError(f"node {name} was not drained within {limit}: {len(left)} pods are left: {listed}") from None


async def _evict_and_wait(client: Client, pod: Pod, grace_period: float | None) -> None:
    meta = pod["metadata"]
    while True:
        try:
            await evict(client, pod, grace_period)
        except NotFound:
            return
        except TooManyRequests:
            await asyncio.sleep(EVICTION_RETRY_SECONDS)
            continue
        except ApiError as error:
            raise ActionError(f"unable to evict pod {meta['namespace']}/{meta['name']}: {error}") from error
        break
    while True:
        try:
            found = await client.get(PODS.raw, meta["name"], meta["namespace"])
        except NotFound:
            return
        if msgspec.json.decode(found)["metadata"]["uid"] != meta["uid"]:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _is_evictable(pod: Pod) -> bool:
    """Neither a mirror pod nor one of a DaemonSet, as with --ignore-daemonsets."""
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        return False
    owner = _controller(pod)
    return owner is None or owner["kind"] != "DaemonSet" or _is_finished(pod)


def _obstacle(pod: Pod, drained: actions.Drain, force_option: str) -> str:
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if _is_finished(pod):
        return ""
    if _controller(pod) is None and not drained.force:
        return f"{name} has no controller and would be lost ({force_option})"
    if not drained.delete_empty_dir_data and any("emptyDir" in each for each in pod["spec"].get("volumes") or ()):
        return f"{name} has local storage (deleteEmptyDirData: true)"
    return ""


def _controller(pod: Pod) -> dict[str, Any] | None:
    return next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)


def _is_finished(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
