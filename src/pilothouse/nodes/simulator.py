"""``NodeSimulator``: simulated nodes and the pods on them, as one program.

Every node writes with its own identity through ``client_for(name)``, so that an API server can enforce the permissions
of ``system:node:NAME``; informers are shared by all nodes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.nodes.behaviour import DeriveBehaviour, behaviour_of
from pilothouse.nodes.eviction_manager import CONDITIONS, EvictionManager
from pilothouse.nodes.heartbeats import Heartbeats
from pilothouse.nodes.kubelet_api import KubeletApi
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.pod_workers import PodWorkers
from pilothouse.nodes.profile import Profile
from pilothouse.nodes.recording import NodeEventRecorder
from pilothouse.runtime import InformerFactory

if TYPE_CHECKING:
    from pilothouse.nodes.stages import Stage
    from pilothouse.nodes.stages.stage_controller import StageController

with lazy_imports():
    from pilothouse.nodes.stages import stage_controller


class NodeSimulator:
    """Simulated nodes ``names`` on one API server.

    ``stages`` replace the built-in behavior of their kinds: the status of Nodes, the lifecycle of Pods, but not
    registration and Leases. With ``storage`` pods wait for volumes that must be attached.

    ``administrator`` is the client for writes that a node may not make: taints, the deletion of a Node whose machine is
    gone, and those of stages. Default: the node's own client.

    ``profiles`` returns the profiles of nodes that differ in size and timing, by name; it replaces ``profile``, which
    then only determines whether commands are interpreted and events sent. ``derive_behaviour`` may change the behavior
    of pods.

    Faults (``silence`` …) may be set at any time; they take effect with the next sync of the node.
    """

    def __init__(
        self,
        env: Env,
        *,
        names: Sequence[str],
        informers: InformerFactory,
        client_for: Callable[[str], Client],
        administrator: Client | None = None,
        profile: Profile | None = None,
        profiles: Mapping[str, Profile] | None = None,
        derive_behaviour: DeriveBehaviour = behaviour_of,
        stages: "Sequence[Stage]" = (),
        storage: bool = False,
        log: Log | None = None,
    ) -> None:
        profile = profile or Profile()
        profiles = profiles or dict.fromkeys(names, profile)
        log = log or Log("nodes")
        self._env = env
        self._index = {name: number for number, name in enumerate(names)}
        self._clients = {name: client_for(name) for name in names}
        self._administrators = {name: administrator or client for name, client in self._clients.items()}
        self._outages = Outages(env)
        self.kubelet_api = KubeletApi(env, self._index, commands=profile.commands, is_down=self._outages.is_down)
        enabled = profile.sends_events(len(names))
        self._record_event = NodeEventRecorder(env, self._clients, self._outages, enabled=enabled)
        self._eviction_manager = EvictionManager(env, profiles, self._record_event, log)
        staged = {stage.kind for stage in stages}
        nodes = informers.informer(NODES)
        self._heartbeats = Heartbeats(
            env,
            self._index,
            informers=informers,
            clients=self._clients,
            administrators=self._administrators,
            profiles=profiles,
            outages=self._outages,
            eviction_manager=self._eviction_manager,
            record_event=self._record_event,
            log=log,
            reports="Node" not in staged,
        )
        self._pod_workers: PodWorkers | None = None
        if "Pod" not in staged:
            self._pod_workers = PodWorkers(
                env,
                self._index,
                informers=informers,
                nodes=nodes.cache,
                clients=self._clients,
                profiles=profiles,
                outages=self._outages,
                eviction_manager=self._eviction_manager,
                record_event=self._record_event,
                log=log,
                storage=storage,
                derive_behaviour=derive_behaviour,
            )
        self._stage_controllers = [
            self._play(kind, stages, informers, log) for kind in (NODES, PODS) if kind.kind in staged
        ]

    def _play(
        self, kind: "object", stages: "Sequence[Stage]", informers: InformerFactory, log: Log
    ) -> "StageController":
        return stage_controller.StageController(
            self._env,
            self._index,
            kind,  # type: ignore[arg-type]  # NODES or PODS
            stages,
            informers=informers,
            clients=self._administrators,
            outages=self._outages,
            record_event=self._record_event,
            log=log,
        )

    @property
    def ready(self) -> asyncio.Event:
        """Set once every node has registered and reported Ready; with stages for Nodes, once all have registered."""
        return self._heartbeats.ready

    async def run(self) -> None:
        """Register, heartbeat and serve pods until cancelled."""
        async with TaskGroup("nodes") as group:
            self._record_event.start(group)
            await self._heartbeats.adopt_silent_nodes()
            group.start(self._heartbeats.run(), name="node heartbeats")
            if self._pod_workers is not None:
                group.start(self._pod_workers.run(), name="node pods")
                if self._pod_workers.volume_manager is not None:
                    group.start(self._pod_workers.volume_manager.run(), name="node volumes")
            group.start(self._eviction_manager.run(), name="node pressure")
            for controller in self._stage_controllers:
                group.start(controller.run(), name="stages")

    # Faults

    def silence(self, name: str) -> None:
        """The node sends nothing, as with a broken network; its containers keep running."""
        self._outages.silence(self._known(name))

    def slow(self, name: str, seconds: float) -> None:
        """Delay everything that the node sends; 0 ends that."""
        if seconds < 0:
            raise ValueError(f"a node can't be early: {seconds}")
        self._outages.slow(self._known(name), seconds)

    def vanish(self, name: str) -> None:
        """Delete the machine, and its Node, as a cloud provider's controller does."""
        self._outages.remove(self._known(name))

    def take_out_of_service(self, name: str) -> None:
        """Silence the node and add the taint ``node.kubernetes.io/out-of-service``, as an administrator does."""
        self._outages.take_out_of_service(self._known(name))

    def revive(self, name: str, *, pods: bool = True) -> None:
        """End all faults of the node: it is reachable, quick, in service and registered.

        With ``pods`` its containers have continued to run. Without, and always after ``vanish``, the machine has
        rebooted: its containers have ended with exit code 255, and are restarted by their restart policy.
        """
        self._outages.restore(self._known(name), containers=pods)

    def press(self, name: str, resource: str, amount: int | None = None) -> None:
        """Put the node under pressure of ``memory``, ``disk`` or ``pids``: it reports the condition, and evicts a pod
        every ten seconds.

        With ``amount`` until the evicted pods used so much, otherwise until ``relieve``.
        """
        self._eviction_manager.press(self._known(name), resource, amount)

    def relieve(self, name: str, resource: str = "") -> None:
        """End the pressure, of one resource or of all. The node's condition changes five minutes later."""
        if resource and resource not in CONDITIONS:
            raise ValueError(f"{resource!r} is none of {', '.join(CONDITIONS)}")
        self._eviction_manager.relieve(self._known(name), resource)

    def crash(self, namespace: str, name: str, container: str = "", exit_code: int = 1) -> bool:
        """End a container of a pod, or all of them; the restart policy determines what follows. Returns whether any was
        running on these nodes."""
        return self._pod_workers is not None and self._pod_workers.crash(f"{namespace}/{name}", container, exit_code)

    def _known(self, name: str) -> str:
        if name not in self._index:
            raise KeyError(f"no simulated node is called {name!r}")
        return name
