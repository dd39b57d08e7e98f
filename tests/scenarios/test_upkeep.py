"""Default objects under faults: an account and root CA in each namespace, aggregated roles, and a route for each
existing node."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.users import Doc, Restless

from pilothouse.api.core import ROOT_CA_CONFIG_MAP
from pilothouse.controllers.cloud.cloud_node_lifecycle import DESCRIPTOR as MACHINES
from pilothouse.controllers.cloud.cloud_node_lifecycle import CloudNodeLifecycleOptions
from pilothouse.controllers.cloud.node_route import DESCRIPTOR as ROUTES
from pilothouse.controllers.cloud.node_route import NodeRouteOptions
from pilothouse.controllers.identity.root_ca_certificate_publisher import DESCRIPTOR as AUTHORITY
from pilothouse.controllers.identity.root_ca_certificate_publisher import RootCaOptions
from pilothouse.controllers.shared.simulated_cloud import INSTANCE, SimulatedCloud
from pilothouse.env import Env
from pilothouse.sim import Simulation, SimulationOptions, draw

SECONDS = 90.0
NAMESPACES = "/api/v1/namespaces"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NODES = "/api/v1/nodes"
BUNDLE = "the authority"
WHOLES = ("whole-0", "whole-1")


class Person(Restless):
    PAUSES = (0.0, 0.0, 0.05, 0.5, 3.0, 8.0)


class Housekeeper(Person):
    """Makes namespaces and roles, and breaks what is in them."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.create, self.lose, self.tamper, self.part]
        return [*often, *often, self.leave, self.move, self.drop, self.combine, self.rewrite]

    def _namespace(self) -> str:
        return f"{NAMESPACES}/{self._chance.choice(('default', 'n0', 'n1', 'n2'))}"

    async def create(self) -> None:
        """A namespace of one of a few names."""
        await self.request("POST", NAMESPACES, {"metadata": {"name": f"n{self._chance.randrange(3)}"}})

    async def leave(self) -> None:
        """Delete one; sometimes it is made again at once."""
        path = f"{NAMESPACES}/n{self._chance.randrange(3)}"
        await self.request("DELETE", path)
        if self._chance.random() < 0.5:
            await asyncio.sleep(6.0)
            await self.request("POST", NAMESPACES, {"metadata": {"name": path.rpartition("/")[2]}})

    async def lose(self) -> None:
        """Delete an account, or an authority."""
        what = self._chance.choice(("serviceaccounts/default", f"configmaps/{ROOT_CA_CONFIG_MAP}"))
        await self.request("DELETE", f"{self._namespace()}/{what}")

    async def tamper(self) -> None:
        """Write something else into an authority."""
        changes: list[Doc] = [{"data": {"ca.crt": "mine"}}, {"data": {"more": "x"}}, {"data": None}]
        changes.append({"metadata": {"annotations": None}})
        await self.merge(f"{self._namespace()}/configmaps/{ROOT_CA_CONFIG_MAP}", self._chance.choice(changes))

    async def part(self) -> None:
        """A role that others are made of."""
        metadata = {"name": f"part-{self._chance.randrange(4)}", "labels": {self._chance.choice(WHOLES): "yes"}}
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [self._chance.choice(("get", "list"))]}]
        await self.request("POST", ROLES, {"metadata": metadata, "rules": rules})

    async def move(self) -> None:
        """A part belongs to others now."""
        labels = {whole: self._chance.choice(("yes", None)) for whole in WHOLES}
        await self.merge(f"{ROLES}/part-{self._chance.randrange(4)}", {"metadata": {"labels": labels}})

    async def drop(self) -> None:
        """Delete a part, or a whole."""
        await self.request("DELETE", f"{ROLES}/{self._chance.choice((*WHOLES, 'part-0', 'part-1', 'part-2'))}")

    async def combine(self) -> None:
        """A role that is made of others."""
        name = self._chance.choice(WHOLES)
        picks = {"clusterRoleSelectors": [{"matchLabels": {name: "yes"}}]}
        await self.request("POST", ROLES, {"metadata": {"name": name}, "aggregationRule": picks})

    async def rewrite(self) -> None:
        """Give such a role rules by hand."""
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]
        await self.merge(f"{ROLES}/{self._chance.choice(WHOLES)}", {"rules": rules})


async def check(user: Housekeeper) -> None:
    """All is as it should be, and no namespace is stuck."""
    for found in await user.items(NAMESPACES):
        name = found["metadata"]["name"]
        assert found["status"]["phase"] == "Active", name
        assert await user.get(f"{NAMESPACES}/{name}/serviceaccounts/default") is not None, name
        authority = await user.get(f"{NAMESPACES}/{name}/configmaps/{ROOT_CA_CONFIG_MAP}")
        assert authority is not None, name
        assert authority["data"] == {"ca.crt": BUNDLE}
        assert authority["metadata"]["annotations"]
    roles = {found["metadata"]["name"]: found for found in await user.items(ROLES)}
    for whole in roles.keys() & set(WHOLES):
        rules: list[Doc] = []
        for _name, part in sorted(roles.items()):
            if part["metadata"].get("labels", {}).get(whole) == "yes":
                rules += [rule for rule in part["rules"] if rule not in rules]
        assert (roles[whole].get("rules") or []) == rules, whole


@pytest.mark.simulation(
    options=SimulationOptions(
        nodes=1,
        controllers=("serviceaccount", "root-ca-cert-publisher", "clusterrole-aggregation", "namespace"),
        controller_options={AUTHORITY.name: RootCaOptions(authority=BUNDLE)},
    )
)
async def test_namespaces_and_roles_converge(simulation: Simulation, seed: int) -> None:
    user = Housekeeper(simulation)
    resources = ("namespaces", "serviceaccounts", "configmaps", "clusterroles")
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=resources, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.work(40))
    simulation.heal()
    await asyncio.sleep(300.0)
    await simulation.settle()
    await check(user)


class Operator(Person):
    """Adds machines and takes them away."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [self.join, self.join, self.join, self.leave, self.lose, self.lose, self.find]

    def _name(self) -> str:
        return f"m{self._chance.randrange(4)}"

    async def join(self) -> None:
        """A node that nobody has started yet, with a range of its own."""
        name = self._name()
        cidr = f"10.120.{self._chance.randrange(1, 5)}{name[1:]}.0/24"
        await self.request("POST", NODES, {"metadata": {"name": name}, "spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})

    async def leave(self) -> None:
        """Delete a node; often it comes again, and has another range."""
        await self.request("DELETE", f"{NODES}/{self._name()}")
        if self._chance.random() < 0.5:
            await self.join()

    async def lose(self) -> None:
        """A machine is gone."""
        await self.merge(f"{NODES}/{self._name()}", {"metadata": {"annotations": {INSTANCE: "gone"}}})

    async def find(self) -> None:
        """It was a mistake, if it is not too late."""
        await self.merge(f"{NODES}/{self._name()}", {"metadata": {"annotations": {INSTANCE: None}}})


@pytest.fixture
def cloud() -> SimulatedCloud:
    return SimulatedCloud(Env())


def routes(cloud: SimulatedCloud) -> SimulationOptions:
    return SimulationOptions(
        nodes=1,
        controllers=(ROUTES.name, MACHINES.name),
        controller_options={
            ROUTES.name: NodeRouteOptions(provider=cloud, allocate=True, cluster_cidr="10.120.0.0/16"),
            MACHINES.name: CloudNodeLifecycleOptions(provider=cloud),
        },
    )


@pytest.mark.simulation(options=routes)
async def test_routes_converge_to_existing_nodes(simulation: Simulation, cloud: SimulatedCloud, seed: int) -> None:
    user = Operator(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=("nodes",), restarts=True)
    await asyncio.gather(simulation.follow(plan), user.work(40))
    simulation.heal()
    await asyncio.sleep(300.0)
    await simulation.settle()
    nodes = {found["metadata"]["name"]: found for found in await user.items(NODES)}
    assert not [name for name, found in nodes.items() if found["metadata"].get("annotations", {}).get(INSTANCE)]
    wanted = {(cidr, name) for name, found in nodes.items() for cidr in found["spec"].get("podCIDRs", ())}
    assert {(route.destination, route.node) for route in cloud.known_routes.values()} == wanted
    for name in nodes:
        if name.startswith("m"):
            conditions = {condition["type"]: condition for condition in nodes[name]["status"]["conditions"]}
            assert conditions["NetworkUnavailable"]["reason"] == "RouteCreated"


@pytest.mark.parametrize("left", ["serviceaccount", "root-ca-cert-publisher"])
@pytest.mark.simulation(
    options=lambda left: SimulationOptions(
        nodes=1, controllers=(left,), controller_options={AUTHORITY.name: RootCaOptions(authority=BUNDLE)}
    )
)
async def test_invariant_detects_missing_objects(simulation: Simulation, left: str) -> None:
    """Each controller does its half."""
    await asyncio.sleep(60.0)
    await simulation.settle()
    with pytest.raises(AssertionError):
        await check(Housekeeper(simulation))
