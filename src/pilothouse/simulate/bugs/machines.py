"""Nodes of a simulated cluster that fall silent, are given up and come back, as a person sees it."""

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.client.errors import ApiError
from pilothouse.sim import Simulation
from pilothouse.simulate.bugs.user import Doc, User

NODES = "/api/v1/nodes"
ZONE = "topology.kubernetes.io/zone"


class Machines(User):
    """The nodes. One that is silent is cut off from the API server; what runs on it runs on."""

    def __init__(self, simulation: Simulation, zones: dict[str, str]) -> None:
        super().__init__(simulation.user)
        self._zones = zones
        self._silent: dict[str, None] = {}
        simulation.plane.server.authorize = self._check

    def _check(self, identity: Identity, asked: RequestInfo) -> None:
        if identity.user.removeprefix("system:node:") in self._silent:
            raise StatusError(503, "ServiceUnavailable", f"{identity.user} is cut off: {asked.verb} {asked.path}")

    @property
    def names(self) -> list[str]:
        """All of them."""
        return list(self._zones)

    def is_silent(self, name: str) -> bool:
        """Whether it is cut off."""
        return name in self._silent

    async def label(self) -> None:
        """Put each node into its zone."""
        for name in self._zones:
            await self._label(name)

    async def _label(self, name: str) -> None:
        if self._zones[name]:
            await self.merge(f"{NODES}/{name}", {"metadata": {"labels": {ZONE: self._zones[name]}}})

    def silence(self, name: str) -> None:
        """Cut it off."""
        self._silent[name] = None

    async def restore(self, name: str) -> None:
        """Make it reachable again; if its Node was deleted, it is created again."""
        self._silent.pop(name, None)
        if await self.get(f"{NODES}/{name}") is None:
            labels = {ZONE: self._zones[name]} if self._zones[name] else {}
            await self.ask("POST", NODES, {"metadata": {"name": name, "labels": labels}})

    async def delete(self, name: str) -> None:
        """Delete its Node."""
        await self.ask("DELETE", f"{NODES}/{name}")

    async def see(self, name: str) -> Doc:
        """Its Node."""
        return await self.ask("GET", f"{NODES}/{name}")

    async def taints(self, name: str) -> list[Doc]:
        """Its taints."""
        taints: list[Doc] = (await self.see(name))["spec"].get("taints") or []
        return taints

    async def taint(self, name: str, key: str, effect: str = "NoExecute", *, since: str = "") -> None:
        """Add a taint, in place of another one of that key."""
        taint = {"key": key, "effect": effect, **({"timeAdded": since} if since else {})}
        await self._change(name, key, [taint])

    async def untaint(self, name: str, key: str) -> None:
        """Take a taint off."""
        await self._change(name, key, [])

    async def _change(self, name: str, key: str, more: list[Doc]) -> None:
        """As kubectl does: nothing that somebody else writes at the same time is lost."""
        node = await self.see(name)
        kept = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != key]
        meta = {"resourceVersion": node["metadata"]["resourceVersion"]}
        await self.merge(f"{NODES}/{name}", {"metadata": meta, "spec": {"taints": kept + more or None}})

    async def restore_all(self, *, but: str = "", own_taints: tuple[str, ...] = ()) -> None:
        """All are there and speak, and nobody's own taints are left; but for one that stays as it is."""
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
