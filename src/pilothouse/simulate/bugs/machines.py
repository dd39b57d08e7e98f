"""Nodes of a simulated cluster that become unreachable and return, controlled by the scenario."""

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.client.errors import ApiError
from pilothouse.sim import Simulation
from pilothouse.simulate.bugs.user import Doc, User

NODES = "/api/v1/nodes"
ZONE = "topology.kubernetes.io/zone"


class Machines(User):
    """The nodes. A silent one is disconnected from the API server; its containers keep running."""

    def __init__(self, simulation: Simulation, zones: dict[str, str]) -> None:
        super().__init__(simulation.user)
        self._zones = zones
        self._silent: dict[str, None] = {}
        simulation.plane.server.authorize = self._check

    def _check(self, identity: Identity, request: RequestInfo) -> None:
        if identity.user.removeprefix("system:node:") in self._silent:
            raise StatusError(503, "ServiceUnavailable", f"{identity.user} is cut off: {request.verb} {request.path}")

    @property
    def names(self) -> list[str]:
        """The names of all nodes."""
        return list(self._zones)

    def is_silent(self, name: str) -> bool:
        """Whether the node is disconnected."""
        return name in self._silent

    async def label(self) -> None:
        """Set the zone label of each node."""
        for name in self._zones:
            await self._label(name)

    async def _label(self, name: str) -> None:
        if self._zones[name]:
            await self.merge(f"{NODES}/{name}", {"metadata": {"labels": {ZONE: self._zones[name]}}})

    def silence(self, name: str) -> None:
        """Disconnect the node from the API server."""
        self._silent[name] = None

    async def restore(self, name: str) -> None:
        """Reconnect the node; create its Node again if it was deleted."""
        self._silent.pop(name, None)
        if await self.get(f"{NODES}/{name}") is None:
            labels = {ZONE: self._zones[name]} if self._zones[name] else {}
            await self.request("POST", NODES, {"metadata": {"name": name, "labels": labels}})

    async def delete(self, name: str) -> None:
        """Delete the Node object."""
        await self.request("DELETE", f"{NODES}/{name}")

    async def get_node(self, name: str) -> Doc:
        """The Node object."""
        return await self.request("GET", f"{NODES}/{name}")

    async def taints(self, name: str) -> list[Doc]:
        """The taints of the node."""
        taints: list[Doc] = (await self.get_node(name))["spec"].get("taints") or []
        return taints

    async def taint(self, name: str, key: str, effect: str = "NoExecute", *, since: str = "") -> None:
        """Add a taint, replacing those with the same key."""
        taint = {"key": key, "effect": effect, **({"timeAdded": since} if since else {})}
        await self._change(name, key, [taint])

    async def untaint(self, name: str, key: str) -> None:
        """Remove a taint."""
        await self._change(name, key, [])

    async def _change(self, name: str, key: str, more: list[Doc]) -> None:
        """With resourceVersion, as kubectl does, so no concurrent change is lost."""
        node = await self.get_node(name)
        kept = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != key]
        meta = {"resourceVersion": node["metadata"]["resourceVersion"]}
        await self.merge(f"{NODES}/{name}", {"metadata": meta, "spec": {"taints": kept + more or None}})

    async def restore_all(self, *, but: str = "", own_taints: tuple[str, ...] = ()) -> None:
        """Reconnect all nodes and remove ``own_taints``, except for the node ``but``."""
        for name in self.names:
            if name == but:
                continue
            await self.restore(name)
            for key in own_taints:
                for _try in range(20):
                    try:
                        await self.untaint(name, key)
                    except ApiError:
                        continue
                    break
