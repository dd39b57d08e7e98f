"""Counts nodes as they come and go, and writes the annotation of a node that changed."""

from pilothouse.api.core import NODES, Node
from pilothouse.api.meta import Object
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.controllers.node.ttl import DESCRIPTOR
from pilothouse.controllers.node.ttl.decide import ANNOTATION, STEPS, says, step_after_add, step_after_delete
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.runtime import ControllerContext, ManagedController, Requeue

WORKERS = 5

_NODE_META = NODES.read_as(Object)


def build(context: ControllerContext) -> "TTLController":
    """The factory of the descriptor."""
    return TTLController(context)


class TTLController(ManagedController):
    """See the package for the promises."""

    def __init__(self, context: ControllerContext) -> None:
        nodes = context.informer(NODES)
        super().__init__(context, DESCRIPTOR.name, workers=WORKERS, queue_name="ttlcontroller")
        self._client = context.client
        self._nodes = nodes.cache
        self._count = 0
        self._step = 0
        self._written: dict[str, str] = {}  # versions of our own last writes, until the cache has read them
        nodes.add_handler(self._added, lambda _old, node: self.queue.add(node.metadata.name), self._gone)

    def _added(self, node: Node, _initial: bool) -> None:
        self._count += 1
        self._step = step_after_add(self._step, self._count)
        self.queue.add(node.metadata.name)

    def _gone(self, node: Node, _unknown: bool) -> None:
        self._written.pop(node.metadata.name, None)
        self._count -= 1
        self._step = step_after_delete(self._step, self._count)

    async def reconcile(self, key: str) -> Requeue | None:
        """Have the node say what the present step says."""
        node = self._nodes.get(key)
        seconds = STEPS[self._step].seconds
        if node is None or says(node.metadata.annotations, seconds):
            return None
        if is_newer(self._written.get(key, ""), node.metadata.resource_version):
            return None  # the cache is behind our own write, whose event enqueues the key again
        patch = strategic_merge_patch({"metadata": {"annotations": {ANNOTATION: str(seconds)}}})
        try:
            written = await self._client.patch(_NODE_META, key, patch)
        except NotFound:
            return None  # it went, and the cache will hear of it
        if self._nodes.still_has(node.metadata):
            self._written[key] = written.metadata.resource_version
        self.log.info("Changed ttl annotation", v=2, node=key, new=seconds)
        return None
