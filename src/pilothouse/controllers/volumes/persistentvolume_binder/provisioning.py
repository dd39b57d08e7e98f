"""Provisioning: by annotation for external provisioners; host paths are created here.

Upstream: ``provisionClaimOperationExternal`` and ``provisionClaimOperation``, v1.36
``pkg/controller/volume/persistentvolume/pv_controller.go``, and ``pkg/volume/hostpath/host_path.go``. The container
runtime creates the directory, on the node that uses it.
"""

import asyncio
from typing import Any

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, Node
from pilothouse.api.storage import StorageClass
from pilothouse.client.errors import AlreadyExists, ApiError, Conflict
from pilothouse.controllers.shared.volume_links import YES, Claim
from pilothouse.controllers.shared.volume_plugins import HOST_PATH
from pilothouse.controllers.volumes.persistentvolume_binder import links
from pilothouse.controllers.volumes.persistentvolume_binder.operations import OperationFailed
from pilothouse.controllers.volumes.persistentvolume_binder.plugins import HOST_PATHS
from pilothouse.controllers.volumes.persistentvolume_binder.writes import Writes
from pilothouse.env import Env
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.splice import take_field
from pilothouse.runtime import Cache, object_key, object_reference
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.volumes import (
    BOUND_BY_CONTROLLER,
    IN_TREE_FINALIZER,
    PROVISIONED_BY,
    SELECTED_NODE,
    claim_class,
)

TRIES = 5
PAUSE_SECONDS = 10.0
"""For a volume that was created but rejected by the API server."""
FAILED = "ProvisioningFailed"


class Provisioning:
    """The provisioning operations. Each records its failure and raises ``OperationFailed``. ``host_paths`` is
    ``--enable-hostpath-provisioner``."""

    def __init__(self, env: Env, writes: Writes, nodes: Cache[Node], *, host_paths: bool) -> None:
        self._env = env
        self._host_paths = host_paths
        self._writes = writes
        self._nodes = nodes

    async def provision_externally(self, claim: Claim, provisioner: str) -> None:
        """Annotate the claim for the external provisioner, and record an event that the controller waits for it."""
        record_decision(f"no volume matches the claim: requested from external provisioner {provisioner}")
        try:
            claim = await self._writes.update_claim(claim, links.claim_with_provisioner(claim, provisioner))
        except Conflict:
            # The claim has just changed, and its event enqueues it. Upstream records a warning.
            return
        except ApiError as error:
            self._record_failure(claim, f"Error saving claim: {error}")
            raise
        message = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        self._writes.record_claim_event(claim.object, NORMAL, "ExternalProvisioning", message)

    async def provision_host_path(self, claim: Claim, class_: StorageClass) -> None:
        """Create a volume that is a directory on the node."""
        if take_field(claim.raw, "spec.dataSource") is not None:
            reason = "is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
            raise self._failed(claim, f"plugin {quote(HOST_PATH)} {reason}")
        record_decision(f"no volume fits the claim: {HOST_PATH} makes one by StorageClass {class_.metadata.name}")
        try:
            claim = await self._writes.update_claim(claim, links.claim_with_provisioner(claim, class_.provisioner))
        except Conflict:
            return
        name = f"pvc-{claim.object.metadata.uid}"
        if await self._writes.live_volume(name) is not None:
            return
        if class_.mount_options:
            options = f"[{' '.join(class_.mount_options)}]"
            class_name = quote(class_.metadata.name)
            text = f"Mount options are not supported by the provisioner but StorageClass {class_name} has mount options"
            raise self._failed(claim, f"{text} {options}")
        if not self._host_paths:
            reason = f"provisioning in volume plugin {quote(HOST_PATH)} is disabled"
            raise self._failed(claim, f"Failed to create provisioner: {reason}")
        node = claim.object.metadata.annotations.get(SELECTED_NODE)
        if node is not None and self._nodes.get(node) is None:
            raise self._failed(claim, f"Failed to get target node: node {quote(node)} not found")
        if claim.object.spec.volume_mode == "Block":
            await self._writes.update_claim(claim, links.claim_without_selected_node(claim))
            reason = f"{HOST_PATH} does not support block volume provisioning"
            text = f"Failed to provision volume with StorageClass {quote(class_.metadata.name)}: {reason}"
            raise self._failed(claim, text)
        await self._create_volume(claim, self._host_path(claim, class_, name))
        message = f"Successfully provisioned volume {name} using {HOST_PATH}"
        self._writes.record_claim_event(claim.object, NORMAL, "ProvisioningSucceeded", message)

    def _host_path(self, claim: Claim, class_: StorageClass, name: str) -> dict[str, Any]:
        spec = claim.object.spec
        annotations = {
            "kubernetes.io/createdby": "hostpath-dynamic-provisioner",
            BOUND_BY_CONTROLLER: YES,
            PROVISIONED_BY: HOST_PATH,
        }
        metadata: dict[str, Any] = {"name": name, "annotations": annotations}
        if class_.reclaim_policy == "Delete":
            metadata["finalizers"] = [IN_TREE_FINALIZER]
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata,
            "spec": {
                "capacity": {"storage": spec.resources.requests["storage"]},
                "accessModes": list(spec.access_modes),
                "claimRef": object_reference(PERSISTENT_VOLUME_CLAIMS, claim.object.metadata),
                "hostPath": {"path": f"{HOST_PATHS}/{self._env.uid()}"},
                "persistentVolumeReclaimPolicy": class_.reclaim_policy,
                "storageClassName": claim_class(claim.object),
            },
        }

    async def _create_volume(self, claim: Claim, body: dict[str, Any]) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._writes.create_volume(body)
            except AlreadyExists:
                return
            except (ApiError, OSError) as error:
                if attempt == TRIES:
                    key = object_key(claim.object.metadata)
                    text = f"Error creating provisioned PV object for claim {key}: {error}. Deleting the volume."
                    raise self._failed(claim, text) from error
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return

    def _failed(self, claim: Claim, message: str) -> OperationFailed:
        self._record_failure(claim, message)
        return OperationFailed(message)

    def _record_failure(self, claim: Claim, message: str) -> None:
        self._writes.record_claim_event(claim.object, WARNING, FAILED, message)
