"""What CSI drivers report: limits of nodes, attached volumes, and the storage capacity.

The informers start with the first pod that has claims. Kinds that the server does not have, or does not permit to list,
are not considered: CSIStorageCapacity is in ``storage.k8s.io/v1`` since v1.24, and older servers do not permit
kube-scheduler to list VolumeAttachments.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.api.storage import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
    CSIStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from pilothouse.client import Client
from pilothouse.env import Log
from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.runtime import InformerFactory
from pilothouse.runtime.informer import SharedInformer
from pilothouse.scheduler.cache_sync import is_listed
from pilothouse.scheduler.framework.types import selector_or_nothing

_NODE_INDEX = "node"
_CLASS_INDEX = "class"


class CSIManager:
    """The informers of one scheduler."""

    def __init__(self, client: Client, informers: InformerFactory, log: Log) -> None:
        self._client = client
        self._informers = informers
        self._log = log
        self._started: dict[str, SharedInformer[Any]] = {}
        self.started = False
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change that may make a pod schedulable."""

    async def start(self) -> None:
        """Start the informers, and wait until they have synced."""
        for kind in (CSI_NODES, CSI_DRIVERS, CSI_STORAGE_CAPACITIES, VOLUME_ATTACHMENTS):
            if not await is_listed(self._client, kind, self._log, otherwise="Scheduling without this kind"):
                continue
            informer: SharedInformer[Any] = self._informers.informer(kind)
            if kind is VOLUME_ATTACHMENTS:
                informer.cache.add_index(_NODE_INDEX, _node_of)
            if kind is CSI_STORAGE_CAPACITIES:
                informer.cache.add_index(_CLASS_INDEX, _class_of)
            # As upstream, attachments only matter when they are deleted: an added one takes room.
            frees_only = kind is VOLUME_ATTACHMENTS
            informer.add_handler(
                None if frees_only else lambda _object, _initial: self.on_change(),
                None if frees_only else lambda _old, _object: self.on_change(),
                lambda _object, _unknown: self.on_change(),
                resync_seconds=0.0,
            )
            self._started[kind.group_resource] = informer
        for informer in self._started.values():
            await informer.wait_synced()
        self.started = True

    def volume_limits(self, node_name: str) -> Mapping[str, int]:
        """How many volumes can be attached to the node, by driver."""
        csi_node = self._get(CSI_NODES, node_name)
        if csi_node is None:
            return {}
        return {
            driver.name: driver.allocatable.count
            for driver in csi_node.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    def attachments(self, node_name: str) -> Iterable[VolumeAttachment]:
        """The attachments to the node."""
        informer = self._started.get(VOLUME_ATTACHMENTS.group_resource)
        return informer.cache.by_index(_NODE_INDEX, node_name) if informer is not None else ()

    def has_enough_capacity(self, storage_class: StorageClass, size: int, labels: Mapping[str, str]) -> bool:
        """Whether a volume of that size can be provisioned for a node with these labels (``hasEnoughCapacity``)."""
        driver = self._get(CSI_DRIVERS, storage_class.provisioner)
        capacities = self._started.get(CSI_STORAGE_CAPACITIES.group_resource)
        if driver is None or not driver.spec.storage_capacity or capacities is None:
            return True
        return any(
            limit is not None and limit.value >= size and selector_or_nothing(one.node_topology).matches(labels)
            for one in capacities.cache.by_index(_CLASS_INDEX, storage_class.metadata.name)
            for limit in (_volume_limit(one),)
        )

    def _get(self, kind: Kind[Any], name: str) -> Any:
        informer = self._started.get(kind.group_resource)
        return informer.cache.get(name) if informer is not None else None


def _node_of(attachment: VolumeAttachment) -> tuple[str]:
    return (attachment.spec.node_name,)


def _class_of(capacity: CSIStorageCapacity) -> tuple[str]:
    return (capacity.storage_class_name,)


def _volume_limit(capacity: CSIStorageCapacity) -> Quantity | None:
    """The largest volume. ``maximumVolumeSize`` is more precise than what is left in all."""
    text = capacity.maximum_volume_size or capacity.capacity
    return parse_quantity(text) if text else None
