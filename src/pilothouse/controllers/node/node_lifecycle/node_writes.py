"""The requests about nodes: taints, labels, conditions.

Taints are patched with the resourceVersion that was read. Upstream: v1.36 ``pkg/controller/controller_utils.go``,
``pkg/controller/util/node``.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pilothouse.api.core import NODES, Node, NodeCondition, Taint
from pilothouse.api.meta import Object
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import Conflict
from pilothouse.controllers.node.node_lifecycle.taints import has_taint, with_taint, without_taints
from pilothouse.env import Env
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.times import format_time
from pilothouse.semantics.nodes import is_node_ready, node_ready_condition

TRIES = 5
PAUSE_SECONDS = 0.1

_NODE_META = NODES.read_as(Object)
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


class NodeWrites:
    """The requests for nodes. They raise the client's errors; a conflict only after five attempts."""

    def __init__(self, client: Client, env: Env) -> None:
        self._client = client
        self._env = env
        self._random = env.stream("node-writes")

    async def swap_node_controller_taint(
        self, node: Node, add: Sequence[Taint], remove: Sequence[Taint], *, while_ready_is: str = ""
    ) -> bool:
        """Add and then remove, in two requests as upstream: in between there are both.

        ``while_ready_is``: only on a node whose condition Ready has that status in the very version that is changed.
        False if it has another one by now; then nothing was done.
        """
        now = self._env.now()
        taints_to_add = [msgspec.structs.replace(taint, time_added=now) for taint in add]
        applies = True

        def change(live_node: Node) -> Sequence[Taint]:
            nonlocal applies
            ready = node_ready_condition(live_node)
            applies = not while_ready_is or (ready is not None and ready.status == while_ready_is)
            return _with_taints(live_node.spec.taints, taints_to_add) if applies else live_node.spec.taints

        if taints_to_add:
            await self._change_taints(node.metadata.name, change)
        if applies:
            await self.remove_taints(node, remove)
        return applies

    async def remove_taints(self, node: Node, taints: Sequence[Taint]) -> None:
        if any(has_taint(node, taint) for taint in taints):
            await self._change_taints(
                node.metadata.name, lambda live_node: without_taints(live_node.spec.taints, taints)
            )

    async def set_labels(self, name: str, labels: dict[str, str]) -> None:
        """Set these labels, unless the live node has them: the cache may be older than the controller's own write."""
        node = await self._client.get(_NODE_META, name, resource_version="0")
        if labels.items() <= node.metadata.labels.items():
            return
        await self._client.patch(_NODE_META, name, strategic_merge_patch({"metadata": {"labels": labels}}))

    async def is_ready(self, name: str) -> bool:
        return is_node_ready(await self._client.get(NODES, name))

    async def get_with_all_fields(self, name: str) -> msgspec.Raw:
        """The live node with all fields, including unknown ones."""
        return await self._client.get(NODES.raw, name)

    async def update_conditions(
        self, raw: msgspec.Raw, previous: Sequence[NodeCondition], after: Sequence[NodeCondition]
    ) -> None:
        """Write the conditions; unchanged ones keep their JSON. ``raw`` is the node with ``previous``."""
        old = _raw_list.decode(take_field(raw, "status.conditions") or b"[]")
        written = [
            old[index] if index < len(previous) and condition == previous[index] else _encoded(condition)
            for index, condition in enumerate(after)
        ]
        body = replace_fields(raw, {"status.conditions": msgspec.json.encode(written), "metadata.managedFields": None})
        name = msgspec.json.decode(take_field(raw, "metadata.name") or b'""')
        await self._client.update(_NODE_META, name, body, subresource="status")

    async def _change_taints(self, name: str, change: Callable[[Node], Sequence[Taint]]) -> None:
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_SECONDS * (1.0 + self._random.random()))
            # A cached read is enough at first: a stale version is a conflict.
            node = await self._client.get(NODES, name, resource_version="" if attempt else "0")
            after = change(node)
            if tuple(after) == node.spec.taints:
                return
            body = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": [_taint(taint) for taint in after] or None},
            }
            try:
                await self._client.patch(_NODE_META, name, strategic_merge_patch(body))
            except Conflict:
                if attempt == TRIES - 1:
                    raise
            else:
                return


def _with_taints(taints: Sequence[Taint], new: Sequence[Taint]) -> list[Taint]:
    after = list(taints)
    for taint in new:
        after = with_taint(after, taint)
    return after


def _taint(taint: Taint) -> dict[str, Any]:
    fields: dict[str, Any] = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        fields["value"] = taint.value
    if taint.time_added is not None:
        fields["timeAdded"] = format_time(taint.time_added)
    return fields


def _encoded(condition: NodeCondition) -> msgspec.Raw:
    fields: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    for name, at in (
        ("lastHeartbeatTime", condition.last_heartbeat_time),
        ("lastTransitionTime", condition.last_transition_time),
    ):
        fields[name] = None if at is None else format_time(at)
    return msgspec.Raw(msgspec.json.encode(fields))
