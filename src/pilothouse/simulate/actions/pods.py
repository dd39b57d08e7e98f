"""Actions on pods: selection, evictions, and ``kubectl drain``.

As kubectl v0.36 ``pkg/drain``: filters as in ``filters.go``, evictions every five seconds while a budget rejects them,
a read per second while a pod terminates.
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
from pilothouse.simulate.scenario.scalars import counted, shown_seconds

EVICTION_RETRY_SECONDS = 5.0
_POLL_SECONDS = 1.0
_NAMED = 5
"""Maximum number of pods in a message."""
_MIRROR = "kubernetes.io/config.mirror"
Pod = dict[str, Any]
Rejected = dict[str, dict[str, str]]
"""The reasons of rejected evictions that are retried, by node and by ``NAMESPACE/NAME`` of the pod."""


async def select(client: Client, selection: actions.PodSelection, rng: random.Random) -> list[Pod]:
    """The selected pods, by name. Raises ``ActionError`` if there are none."""
    pods = [
        pod
        for pod in await _pods(client, selection.namespace, selection.selector, selection.node)
        if selection.name in ("", pod["metadata"]["name"]) and not pod["metadata"].get("deletionTimestamp")
    ]
    if selection.count is not None and selection.count < len(pods):
        chosen = {pod["metadata"]["uid"] for pod in rng.sample(pods, selection.count)}
        pods = [pod for pod in pods if pod["metadata"]["uid"] in chosen]
    if not pods:
        raise ActionError(f"no pods match: {selection}")
    return pods


async def _pods(client: Client, namespace: str, selector: str, node: str) -> list[Pod]:
    fields = f"spec.nodeName={node}" if node else ""
    page = await client.list(PODS.raw, namespace, label_selector=selector, field_selector=fields)
    return [msgspec.json.decode(item) for item in page.items]


async def evict(client: Client, pod: Pod, grace_period: float | None = None, *, dry_run: bool = False) -> None:
    """Send one eviction. Raises ``ApiError``."""
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


async def drain(
    client: Client, nodes: Nodes, names: Sequence[str], drained: actions.Drain, rejected: Rejected | None = None
) -> None:
    """Cordon the nodes and evict their pods. ``rejected`` is updated with the currently rejected evictions. Raises
    ``ActionError``."""
    rejected = {} if rejected is None else rejected
    await nodes.cordon(names, unschedulable=True)
    if not drained.parallel:
        for name in names:
            await drain_node(client, name, drained, rejected=rejected)
        return
    async with TaskGroup("drain") as group:
        for name in names:
            group.start(drain_node(client, name, drained, rejected=rejected), name=f"drain {name}")


async def evictable(client: Client, node: str) -> list[Pod]:
    """The pods of a node that a drain evicts."""
    return [pod for pod in await _pods(client, "", "", node) if _is_evictable(pod)]


def rejected_lines(rejected: Rejected) -> list[str]:
    """The pods that can't be evicted, each with the reason."""
    return [
        f"node {node}: pod {pod} can't be evicted: {reason}"
        for node, reasons in rejected.items()
        for pod, reason in reasons.items()
    ]


async def drain_node(
    client: Client,
    name: str,
    drained: actions.Drain,
    *,
    force_option: str = "force: true",
    rejected: Rejected | None = None,
) -> None:
    """Evict the pods of one node, which is cordoned. ``force_option`` is how users set ``drained.force``; ``rejected``
    is updated with the currently rejected evictions. Raises ``ActionError``."""
    pods = await evictable(client, name)
    if reasons := [reason for pod in pods if (reason := _obstacle(pod, drained, force_option))]:
        raise ActionError(f"unable to drain node {name}: {'; '.join(reasons[:_NAMED])}")
    waiting = {} if rejected is None else rejected.setdefault(name, {})
    try:
        async with asyncio.timeout(drained.timeout), TaskGroup(f"drain {name}") as group:
            for pod in pods:
                group.start(_evict_and_wait(client, pod, drained.grace_period, waiting), name=pod["metadata"]["name"])
    except TimeoutError:
        left = await evictable(client, name)
        listed = ", ".join(pod["metadata"]["name"] for pod in left[:_NAMED])
        limit = shown_seconds(drained.timeout or 0.0)
        number = f"{counted(len(left), 'pod')} {'is' if len(left) == 1 else 'are'} left"
        reasons = [] if rejected is None else rejected_lines({name: dict(list(waiting.items())[:_NAMED])})
        text = "; ".join([f"{number}: {listed}", *reasons])
        raise ActionError(f"node {name} was not drained within {limit}: {text}") from None


async def _evict_and_wait(client: Client, pod: Pod, grace_period: float | None, rejected: dict[str, str]) -> None:
    """Evict with retries, then wait for the deletion. ``rejected`` has the pod and the reason while evictions are
    rejected."""
    meta = pod["metadata"]
    key = f"{meta['namespace']}/{meta['name']}"
    while True:
        try:
            await evict(client, pod, grace_period)
        except NotFound:
            rejected.pop(key, None)
            return
        except TooManyRequests as error:
            rejected[key] = "; ".join(cause.message for cause in error.causes) or str(error)
            await asyncio.sleep(EVICTION_RETRY_SECONDS)
            continue
        except ApiError as error:
            raise ActionError(f"unable to evict pod {key}: {error}") from error
        break
    rejected.pop(key, None)
    while True:
        try:
            current = await client.get(PODS.raw, meta["name"], meta["namespace"])
        except NotFound:
            return
        if msgspec.json.decode(current)["metadata"]["uid"] != meta["uid"]:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _is_evictable(pod: Pod) -> bool:
    """Whether the pod is neither a mirror pod nor one of a DaemonSet, as with --ignore-daemonsets."""
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
    if not drained.delete_empty_dir_data and any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ()):
        return f"{name} has local storage (deleteEmptyDirData: true)"
    return ""


def _controller(pod: Pod) -> dict[str, Any] | None:
    return next(
        (reference for reference in pod["metadata"].get("ownerReferences") or () if reference.get("controller")),
        None,
    )


def _is_finished(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
