"""``NodeSimulator``: simulated nodes and the pods on them, as one program.

Every node writes as itself through ``client_for(name)``, so that an API server can hold it to the rights of
``system:node:NAME``; what is read is read once, through the informers, for all of them.
"""

import asyncio
from collections.abc import Callable, Sequence

from pilothouse.api.core import ObjectReference
from pilothouse.client import Client
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.nodes.heartbeats import Heartbeats
from pilothouse.nodes.pod_lives import PodLives
from pilothouse.nodes.profile import Profile
from pilothouse.runtime import EventRecorder, InformerFactory


class NodeSimulator:
    """Simulated nodes ``names`` on one API server."""

    def __init__(
        self,
        env: Env,
        *,
        names: Sequence[str],
        informers: InformerFactory,
        client_for: Callable[[str], Client],
        profile: Profile | None = None,
        log: Log | None = None,
    ) -> None:
        profile = profile or Profile()
        log = log or Log("nodes")
        index = {name: number for number, name in enumerate(names)}
        clients = {name: client_for(name) for name in names}
        self._recorders: dict[str, EventRecorder] = {}
        if profile.sends_events(len(names)):
            self._recorders = {name: EventRecorder(clients[name], env, "kubelet", host=name) for name in names}
        self._heartbeats = Heartbeats(
            env, index, informers=informers, clients=clients, profile=profile, tell=self._tell, log=log
        )
        self._pod_lives = PodLives(
            env, index, informers=informers, clients=clients, profile=profile, tell=self._tell, log=log
        )

    @property
    def ready(self) -> asyncio.Event:
        """Set once every node has registered and reported Ready."""
        return self._heartbeats.ready

    async def run(self) -> None:
        """Register, heartbeat and serve pods until cancelled."""
        async with TaskGroup("nodes") as group:
            for name, recorder in self._recorders.items():
                group.start(recorder.run(), name=f"events of {name}")
            group.start(self._heartbeats.run(), name="node heartbeats")
            group.start(self._pod_lives.run(), name="node pods")

    def _tell(self, node: str, about: ObjectReference, reason: str, message: str) -> None:
        recorder = self._recorders.get(node)
        if recorder is not None:
            recorder.event(about, "Normal", reason, message)
