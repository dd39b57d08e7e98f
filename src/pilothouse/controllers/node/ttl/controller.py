"""Counts nodes, and writes the annotation of a node that was added or changed. Upstream: v1.36
``pkg/controller/ttl/ttl_controller.go``."""

import re
from collections.abc import Mapping

import msgspec

from pilothouse.api.core import NODES, Node
from pilothouse.api.meta import Object
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.controllers.node.ttl import DESCRIPTOR
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.runtime import ControllerContext, ManagedController, Requeue

ANNOTATION = "node.alpha.kubernetes.io/ttl"

_integer = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Step(msgspec.Struct, frozen=True):
    """The step applies to clusters of ``smallest`` to ``largest`` nodes; None: no limit."""

    smallest: int
    largest: int | None
    seconds: int


STEPS = (
    Step(0, 100, 0),
    Step(90, 500, 15),
    Step(450, 1000, 30),
    Step(900, 2000, 60),
    Step(1800, None, 300),
)


def step_after_add(step: int, nodes: int) -> int:
    """The step after the cluster has grown to ``nodes``: at most one up."""
    largest = STEPS[step].largest
    return step + 1 if largest is not None and nodes > largest else step


def step_after_delete(step: int, nodes: int) -> int:
    """The step after the cluster has shrunk to ``nodes``: at most one down."""
    return step - 1 if nodes < STEPS[step].smallest else step


def is_up_to_date(annotations: Mapping[str, str], seconds: int) -> bool:
    """Whether the annotation is this number, in whatever spelling."""
    text = annotations.get(ANNOTATION)
    return text is not None and _integer.fullmatch(text) is not None and int(text) == seconds


WORKERS = 5

_NODE_META = NODES.read_as(Object)


class TTLController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        nodes = context.informer(NODES)
        super().__init__(context, DESCRIPTOR.name, workers=WORKERS, queue_name="ttlcontroller")
        self._client = context.client
        self._nodes = nodes.cache
        self._count = 0
        self._step = 0
        self._written: dict[str, str] = {}  # versions of our own last writes, until the cache has read them
        nodes.add_handler(self._add_node, lambda _old, node: self.queue.add(node.metadata.name), self._delete_node)

    def _add_node(self, node: Node, _initial: bool) -> None:
        self._count += 1
        self._step = step_after_add(self._step, self._count)
        self.queue.add(node.metadata.name)

    def _delete_node(self, node: Node, _unknown: bool) -> None:
        self._written.pop(node.metadata.name, None)
        self._count -= 1
        self._step = step_after_delete(self._step, self._count)

    async def reconcile(self, key: str) -> Requeue | None:
        node = self._nodes.get(key)
        seconds = STEPS[self._step].seconds
        if node is None or is_up_to_date(node.metadata.annotations, seconds):
            return None
        if is_newer(self._written.get(key, ""), node.metadata.resource_version):
            return None  # the cache is behind our own write, whose event enqueues the key again
        patch = strategic_merge_patch({"metadata": {"annotations": {ANNOTATION: str(seconds)}}})
        record_decision(f"{self._count} nodes: kubelets are to keep Secrets and ConfigMaps for {seconds} s")
        try:
            written = await self._client.patch(_NODE_META, key, patch)
        except NotFound:
            return None  # it was deleted
        if self._nodes.still_has(node.metadata):
            self._written[key] = written.metadata.resource_version
        self.log.info("Changed ttl annotation", v=2, node=key, new=seconds)
        return None


build = TTLController
