"""API servers that start, stop and report storage versions, under faults: only stopped ones are removed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controllers.alpha_kinds import definition
from tests.scenarios.served import serve
from tests.scenarios.users import Restless
from tests.scenarios.variants import broken_without
from tests.tables import cases

from pilothouse.api.apiserverinternal import STORAGE_VERSIONS
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.cleanup.storageversion_garbage_collector import DESCRIPTOR, controller, decide
from pilothouse.controllers.cleanup.storageversion_garbage_collector.controller import (
    LABEL,
    VALUE,
    StorageVersionGarbageCollector,
)
from pilothouse.controllers.cleanup.storageversion_garbage_collector.decide import api_server_ids
from pilothouse.machinery.splice import replace_fields
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.storage_versions import StorageVersions, entries

OPTIONS = SimulationOptions(nodes=0, controllers=(DESCRIPTOR.name,), gates=DESCRIPTOR.gates)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
VERSIONS = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
HEAD = {"apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion"}
RESOURCES = ("apps.deployments", "batch.jobs")
SERVERS = ("s0", "s1", "s2")
SECONDS = 180.0


class Servers(Restless):
    """API servers, and people who meddle."""

    PAUSES = (0.0, 0.0, 0.01, 0.5, 3.0, 8.0)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.living: dict[str, str] = {}
        """In which version each of them stores."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.come, self.come, self.go, self.come_back, self.say_again]
        return [*often, *often, self.come_late, self.pretend, self.lose, self.note]

    def _version(self) -> str:
        return self._chance.choice(("v1", "v1", "v2"))

    async def come(self) -> None:
        """A server starts, with its Lease first."""
        await self.start(self._chance.choice(SERVERS))

    async def start(self, server: str) -> None:
        """That one."""
        if server not in self.living:
            await self.lease(server)
            version = self.living[server] = self._version()
            await self.say(server, version)

    async def lease(self, server: str, value: str = VALUE) -> None:
        """That it lives."""
        await self.request("POST", LEASES, {"metadata": {"name": server, "labels": {LABEL: value}}})

    async def go(self) -> None:
        """A server ends; its Lease goes, and what it has said stays."""
        await self.stop(self._chance.choice(SERVERS))

    async def stop(self, server: str) -> None:
        """That one."""
        if self.living.pop(server, None) is not None:
            await self.request("DELETE", f"{LEASES}/{server}")

    async def come_back(self) -> None:
        """A server ends, and starts again soon, perhaps as another release."""
        server = self._chance.choice(SERVERS)
        await self.stop(server)
        await asyncio.sleep(self._chance.choice((0.0, 0.005, 0.1, 1.0)))
        await self.start(server)

    async def say_again(self) -> None:
        """All servers that live say what they have said, as they do every ten minutes."""
        for server, version in list(self.living.items()):
            if self.living.get(server) == version:
                await self.say(server, version)

    async def come_late(self) -> None:
        """What a server has sent before it ended."""
        await self.say(self._chance.choice(SERVERS), self._version())

    async def pretend(self) -> None:
        """Somebody else, with a Lease of another kind or none."""
        with contextlib.suppress(Conflict):
            await self.lease("x0", "another-apiserver")
        await self.say(self._chance.choice(("x0", "x1")), self._version())

    async def lose(self) -> None:
        """Somebody deletes an object, or its last word."""
        path = f"{VERSIONS}/{self._chance.choice(RESOURCES)}"
        if self._chance.random() < 0.5:
            await self.request("DELETE", path)
        else:
            await self.merge(f"{path}/status", {"status": {"commonEncodingVersion": None}})

    async def note(self) -> None:
        """Write something on one."""
        labels = {"seen": self._chance.choice(("yes", "no"))}
        await self.merge(f"{VERSIONS}/{self._chance.choice(RESOURCES)}", {"metadata": {"labels": labels}})

    async def say(self, server: str, version: str) -> None:
        """How it stores each of the resources; if somebody else is faster, again."""
        for resource in RESOURCES:
            for _ in range(20):
                with contextlib.suppress(Conflict, NotFound):
                    await self._say(resource, server, version)
                    break
                await asyncio.sleep(0.01)

    async def _say(self, resource: str, server: str, version: str) -> None:
        found = await self.get(f"{VERSIONS}/{resource}")
        if found is None:
            found = await self.request("POST", VERSIONS, {**HEAD, "metadata": {"name": resource}, "spec": {}})
        said = entries(found)
        said[server] = {"apiServerID": server, "encodingVersion": version, "decodableVersions": ["v1", "v2"]}
        versions = {entry["encodingVersion"] for entry in said.values()}
        status = {**found.get("status", {}), "storageVersions": list(said.values())}
        status["commonEncodingVersion"] = versions.pop() if len(versions) == 1 else None
        await self.request("PUT", f"{VERSIONS}/{resource}/status", {**found, "status": status})

    async def named(self) -> dict[str, dict[str, str]]:
        """By object, in which version who stores."""
        return {
            found["metadata"]["name"]: {name: said["encodingVersion"] for name, said in entries(found).items()}
            for found in await self.items(VERSIONS)
        }


async def end(simulation: Simulation, user: Servers) -> None:
    """The faults are over: whoever lives is named once it has spoken, and nobody else. Then all end."""
    await simulation.settle()
    await user.say_again()
    await simulation.settle()
    named = await user.named()
    assert {resource: named[resource] for resource in RESOURCES if user.living} == dict.fromkeys(
        RESOURCES if user.living else (), user.living
    )
    for server in SERVERS:
        await user.stop(server)
    await simulation.settle()
    assert not any((await user.named()).values())


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (StorageVersions(),))
async def test_only_dead_api_servers_are_removed(simulation: Simulation, seed: int) -> None:
    user = Servers(simulation)
    await serve(simulation, definition(STORAGE_VERSIONS))
    plan = draw(
        simulation.env.stream("plan"), SECONDS, count=14, resources=("storageversions", "leases"), restarts=True
    )
    await asyncio.gather(simulation.follow(plan), user.work(60), user.work(60))
    await end(simulation, user)


async def begun(simulation: Simulation, *names: str) -> Servers:
    """These servers live, and have said in which version they store."""
    user = Servers(simulation)
    await serve(simulation, definition(STORAGE_VERSIONS))
    for name in names:
        await user.lease(name)
        user.living[name] = "v1"
        await user.say(name, "v1")
    await asyncio.sleep(100.0)
    return user


async def returned(simulation: Simulation, slow: Rule, *names: str) -> None:
    """A server ends, and comes back while this request of the collector is on its way."""
    user = await begun(simulation, "s0", *names)
    simulation.add_rule(slow)
    await user.stop("s0")
    await asyncio.sleep(2.0)
    await user.lease("s0")
    user.living["s0"] = "v2"
    await user.say("s0", "v2")
    await asyncio.sleep(5.0)
    assert {"s0": "v2"}.items() <= (await user.named())["batch.jobs"].items()
    await end(simulation, user)


async def listed(simulation: Simulation) -> None:
    """The list of all."""
    await returned(simulation, Rule(delay(4.0), verb="list", resource="storageversions"), "s1")


async def last(simulation: Simulation) -> None:
    """The deletion of what nobody else is named in."""
    await returned(simulation, Rule(delay(4.0), verb="delete", resource="storageversions", nth=1))


async def unread(simulation: Simulation) -> None:
    """A server is gone, and whether the others live cannot be found out."""
    user = await begun(simulation, "s0", "s1")
    simulation.add_rule(Rule(fail(500), verb="get", resource="leases", times=6))
    await user.say("x1", "v2")
    await asyncio.sleep(60.0)
    await end(simulation, user)


async def ended(simulation: Simulation) -> None:
    """Servers end."""
    user = await begun(simulation, "s0", "s1", "s2")
    await user.stop("s1")
    await end(simulation, user)


async def list_first(self: Any, key: str) -> None:
    """Upstream's way."""
    if await self._get_lease(key) is None:
        for entry in (await self._client.list_all(STORAGE_VERSIONS, keep_raw=True)).items:
            if key in api_server_ids(entry.object):
                await self._update_or_delete_storage_version(entry.object, entry.raw, {key})


async def gone_if_unread(self: Any, name: str) -> Any:
    """Upstream's way."""
    with contextlib.suppress(ApiError):
        return await found_lease(self, name)
    return None


async def by_name(self: Any, found: Any, raw: Any, gone: Any) -> None:
    """Upstream's way, where nobody else is named."""
    body = decide.remove_servers(raw, found, gone, self.env.now())
    if body is None:
        await self._client.delete(STORAGE_VERSIONS, found.metadata.name)
    else:
        await self._client.update(STORAGE_VERSIONS.raw, found.metadata.name, body, subresource="status")


found_lease = StorageVersionGarbageCollector._get_lease


@cases(
    "scenario, what, instead",
    {
        "the Lease after the list": (listed, "reconcile", list_first),
        "the version that was read": (last, "_update_or_delete_storage_version", by_name),
        "Lease not read": (unread, "_get_lease", gone_if_unread),
    },
)
@broken_without(
    lambda what, instead: [(StorageVersionGarbageCollector, what, instead)],
    fails="since its start",
    options=OPTIONS,
    invariants=lambda: (StorageVersions(),),
)
async def test_liveness_of_api_servers(simulation: Simulation, scenario: Any, what: str, instead: Any) -> None:
    await scenario(simulation)


def without_agreement(raw: Any, found: Any, gone: Any, now: Any) -> bytes | None:
    """The entries alone."""
    body = decide.remove_servers(raw, found, gone, now)
    return body and replace_fields(body, {"status.commonEncodingVersion": b'"v9"'})


@cases(
    "instead, complaint",
    {
        "all entries removed": (lambda *_all: None, "s0, which|since its start"),
        "common version not recorded": (without_agreement, "does not have the common version"),
        "no entry removed": (lambda raw, *_all: bytes(raw), "the collector changed to|still has entries of"),
    },
)
@pytest.mark.simulation(
    options=OPTIONS,
    invariants=lambda: (StorageVersions(),),
    patches=[lambda instead: [(controller, "remove_servers", instead)]],
    fails=lambda complaint: complaint,
)
async def test_invariant_detects_violations(simulation: Simulation, instead: Any, complaint: str) -> None:
    await ended(simulation)


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (StorageVersions(),))
async def test_invariant_observed_changes(simulation: Simulation) -> None:
    await ended(simulation)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, StorageVersions)
    assert (invariant.removed, invariant.deleted) == (6, 2)
