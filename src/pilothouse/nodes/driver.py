"""A complete simulated CSI driver: provisioner, attacher and resizer in one program.

``attach``: whether its volumes must be attached, which requires a manager with the attach/detach controller: then there
is a CSIDriver with ``attachRequired``, and simulated nodes wait for their volumes (``volume_manager``).
"""

import asyncio

from pilothouse.api.storage import CSI_DRIVERS
from pilothouse.client import Client
from pilothouse.client.errors import AlreadyExists, ApiError
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.causes import begin_sync, record_decision
from pilothouse.nodes.attacher import Attacher
from pilothouse.nodes.provisioner import PROVISIONER, Provisioner
from pilothouse.nodes.resizer import Resizer
from pilothouse.runtime import InformerFactory


class SimulatedDriver:
    """The driver ``PROVISIONER``."""

    def __init__(self, env: Env, *, client: Client, informers: InformerFactory, attach: bool) -> None:
        self._client = client
        self._attach = attach
        self._log = Log("driver")
        self._provisioner = Provisioner(env, client=client, informers=informers)
        self._attacher = Attacher(env, PROVISIONER, client=client, informers=informers)
        self._resizer = Resizer(env, PROVISIONER, client=client, informers=informers)

    @property
    def ready(self) -> asyncio.Event:
        """Set once there is a default class."""
        return self._provisioner.ready

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._attach:
            await self._announce()
        async with TaskGroup("driver") as group:
            group.start(self._attacher.run(), name="attacher")
            group.start(self._resizer.run(), name="resizer")
            await self._provisioner.run()

    async def _announce(self) -> None:
        body = {
            "apiVersion": CSI_DRIVERS.api_version,
            "kind": CSI_DRIVERS.kind,
            "metadata": {"name": PROVISIONER},
            "spec": {"attachRequired": True, "podInfoOnMount": False},
        }
        begin_sync("csi-driver", PROVISIONER)
        record_decision(f"the simulated driver {PROVISIONER} starts, and its volumes have to be attached")
        try:
            await self._client.create(CSI_DRIVERS.raw, body)
        except AlreadyExists:
            return
        except (ApiError, OSError) as error:
            self._log.error("Failed to create the CSIDriver: nodes will not wait for volumes", error=error)
