"""Default objects under faults: an account and root CA in each namespace, aggregated roles, and a route for each
existing node."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.users import Doc, RandomUser

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
MANUAL_RULES = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]


class PausingUser(RandomUser):
    PAUSES = (0.0, 0.0, 0.05, 0.5, 3.0, 8.0)


class NamespaceAndRoleUser(PausingUser):
    """Creates and deletes namespaces and ClusterRoles, and changes generated objects."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.create, self.delete_dependent, self.change_bundle, self.create_aggregated]
        return [
            *often,
            *often,
            self.delete,
            self.relabel_aggregated,
            self.delete_role,
            self.create_aggregating,
            self.change_rules,
        ]

    def _namespace(self) -> str:
        return f"{NAMESPACES}/{self._rng.choice(('default', 'n0', 'n1', 'n2'))}"

    async def create(self) -> None:
        """Create a namespace with one of a few names."""
        await self.request("POST", NAMESPACES, {"metadata": {"name": f"n{self._rng.randrange(3)}"}})

    async def delete(self) -> None:
        """Delete a namespace; sometimes recreate it immediately."""
        path = f"{NAMESPACES}/n{self._rng.randrange(3)}"
        await self.request("DELETE", path)
        if self._rng.random() < 0.5:
            await asyncio.sleep(6.0)
            await self.request("POST", NAMESPACES, {"metadata": {"name": path.rpartition("/")[2]}})

    async def delete_dependent(self) -> None:
        """Delete a default ServiceAccount or a root CA ConfigMap."""
        dependent = self._rng.choice(("serviceaccounts/default", f"configmaps/{ROOT_CA_CONFIG_MAP}"))
        await self.request("DELETE", f"{self._namespace()}/{dependent}")

    async def change_bundle(self) -> None:
        """Change a root CA ConfigMap."""
        changes: list[Doc] = [{"data": {"ca.crt": "mine"}}, {"data": {"more": "x"}}, {"data": None}]
        changes.append({"metadata": {"annotations": None}})
        await self.merge(f"{self._namespace()}/configmaps/{ROOT_CA_CONFIG_MAP}", self._rng.choice(changes))

    async def create_aggregated(self) -> None:
        """Create a role that others aggregate."""
        metadata = {"name": f"part-{self._rng.randrange(4)}", "labels": {self._rng.choice(WHOLES): "yes"}}
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [self._rng.choice(("get", "list"))]}]
        await self.request("POST", ROLES, {"metadata": metadata, "rules": rules})

    async def relabel_aggregated(self) -> None:
        """Change which roles aggregate it."""
        labels = {whole: self._rng.choice(("yes", None)) for whole in WHOLES}
        await self.merge(f"{ROLES}/part-{self._rng.randrange(4)}", {"metadata": {"labels": labels}})

    async def delete_role(self) -> None:
        """Delete an aggregated or aggregating role."""
        await self.request("DELETE", f"{ROLES}/{self._rng.choice((*WHOLES, 'part-0', 'part-1', 'part-2'))}")

    async def create_aggregating(self) -> None:
        """Create a role with an aggregation rule."""
        name = self._rng.choice(WHOLES)
        picks = {"clusterRoleSelectors": [{"matchLabels": {name: "yes"}}]}
        await self.request("POST", ROLES, {"metadata": {"name": name}, "aggregationRule": picks})

    async def change_rules(self) -> None:
        """Change the rules of an aggregating role."""
        await self.merge(f"{ROLES}/{self._rng.choice(WHOLES)}", {"rules": MANUAL_RULES})


async def check(user: NamespaceAndRoleUser) -> None:
    """All generated objects are correct, and no namespace is stuck."""
    for item in await user.items(NAMESPACES):
        name = item["metadata"]["name"]
        assert item["status"]["phase"] == "Active", name
        assert await user.get(f"{NAMESPACES}/{name}/serviceaccounts/default") is not None, name
        authority = await user.get(f"{NAMESPACES}/{name}/configmaps/{ROOT_CA_CONFIG_MAP}")
        assert authority is not None, name
        assert authority["data"] == {"ca.crt": BUNDLE}
        assert authority["metadata"]["annotations"]
    roles = {obj["metadata"]["name"]: obj for obj in await user.items(ROLES)}
    for whole in roles.keys() & set(WHOLES):
        rules: list[Doc] = []
        for _name, part in sorted(roles.items()):
            if part["metadata"].get("labels", {}).get(whole) == "yes":
                rules += [rule for rule in part["rules"] if rule not in rules]
        # An apply configuration without rules leaves those that somebody else wrote.
        assert (roles[whole].get("rules") or []) in ([rules] if rules else ([], MANUAL_RULES)), whole


@pytest.mark.simulation(
    options=SimulationOptions(
        nodes=1,
        controllers=("serviceaccount", "root-ca-cert-publisher", "clusterrole-aggregation", "namespace"),
        controller_options={AUTHORITY.name: RootCaOptions(authority=BUNDLE)},
    )
)
async def test_namespaces_and_roles_converge(simulation: Simulation, seed: int) -> None:
    user = NamespaceAndRoleUser(simulation)
    resources = ("namespaces", "serviceaccounts", "configmaps", "clusterroles")
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=resources, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(40))
    simulation.end_faults()
    await asyncio.sleep(300.0)
    await simulation.run_until_idle()
    await check(user)


class Operator(PausingUser):
    """Creates and deletes nodes and machines."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.create_node,
            self.create_node,
            self.create_node,
            self.delete_node,
            self.delete_machine,
            self.delete_machine,
            self.restore_machine,
        ]

    def _name(self) -> str:
        return f"m{self._rng.randrange(4)}"

    async def create_node(self) -> None:
        """Create a node with a podCIDR of its own."""
        name = self._name()
        cidr = f"10.120.{self._rng.randrange(1, 5)}{name[1:]}.0/24"
        await self.request("POST", NODES, {"metadata": {"name": name}, "spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})

    async def delete_node(self) -> None:
        """Delete a node; often recreate it with another podCIDR."""
        await self.request("DELETE", f"{NODES}/{self._name()}")
        if self._rng.random() < 0.5:
            await self.create_node()

    async def delete_machine(self) -> None:
        """Delete the machine of a node."""
        await self.merge(f"{NODES}/{self._name()}", {"metadata": {"annotations": {INSTANCE: "gone"}}})

    async def restore_machine(self) -> None:
        """Restore the machine."""
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
    await asyncio.gather(simulation.follow(plan), user.run_actions(40))
    simulation.end_faults()
    await asyncio.sleep(300.0)
    await simulation.run_until_idle()
    nodes = {item["metadata"]["name"]: item for item in await user.items(NODES)}
    assert not [
        name for name, actual_route in nodes.items() if actual_route["metadata"].get("annotations", {}).get(INSTANCE)
    ]
    wanted = {(cidr, name) for name, actual_route in nodes.items() for cidr in actual_route["spec"].get("podCIDRs", ())}
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
    await simulation.run_until_idle()
    with pytest.raises(AssertionError):
        await check(NamespaceAndRoleUser(simulation))
