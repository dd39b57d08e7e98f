"""The live reads of nodes by manager processes, with their results, for the invariants of deletions."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.core import Node
from pilothouse.client.interceptor import Answered, Observation
from pilothouse.sim.run_log import Origin

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_node = msgspec.json.Decoder(Node).decode
_Key = tuple[str, str, str]
"""Program, controller, node."""


class LiveReads:
    """The latest live read of each node by each controller. Reads that accept an older state do not count."""

    def __init__(self) -> None:
        self._reads: dict[_Key, tuple[float, Node | None]] = {}

    def observe(self, process: "Process", observation: Observation) -> None:
        """Process a request or response of a process."""
        if not isinstance(observation, Answered) or observation.injected:
            return
        call = observation.call
        if call.verb != "get" or call.resource != "nodes" or "resourceVersion=" in observation.request.target:
            return
        agent = observation.request.headers.get("user-agent", "")
        key = (process.name, agent.rpartition("/")[2].rpartition(":")[2], call.name)
        if observation.response.status in (200, 404):
            node = _node(observation.response.body) if observation.response.status == 200 else None
            self._reads[key] = (asyncio.get_running_loop().time(), node)

    def newest(self, origin: Origin, node: str, *, max_age: float) -> tuple[float, Node | None] | None:
        """The time and result of the last live read of the node by the sender of this request; None if it is too
        old."""
        newest = self._reads.get((origin.program, origin.controller, node))
        if newest is None or asyncio.get_running_loop().time() - newest[0] > max_age:
            return None
        return newest
