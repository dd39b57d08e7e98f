"""API servers that start, stop and report storage versions, under faults: only stopped ones are removed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controllers.alpha_kinds import definition
from tests.scenarios.served import serve
from tests.scenarios.users import RandomUser
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


class Servers(RandomUser):
    """API servers that start and stop, and users that change their objects."""

    PAUSES = (0.0, 0.0, 0.01, 0.5, 3.0, 8.0)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.running: dict[str, str] = {}
        """In which version each of them stores."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.start_any, self.start_any, self.stop_any, self.restart_any, self.report_all]
        return [*often, *often, self.report_late, self.report_without_identity_lease, self.delete_or_reset, self.label]

    def _version(self) -> str:
        return self._rng.choice(("v1", "v1", "v2"))

    async def start_any(self) -> None:
        """Start a random server, its Lease first."""
        await self.start(self._rng.choice(SERVERS))

    async def start(self, server: str) -> None:
        """Start this server."""
        if server not in self.running:
            await self.create_lease(server)
            version = self.running[server] = self._version()
            await self.report(server, version)

    async def create_lease(self, server: str, value: str = VALUE) -> None:
        """Create the identity Lease."""
        await self.request("POST", LEASES, {"metadata": {"name": server, "labels": {LABEL: value}}})

    async def stop_any(self) -> None:
        """Stop a random server: its Lease is deleted, its entries remain."""
        await self.stop(self._rng.choice(SERVERS))

    async def stop(self, server: str) -> None:
        """Stop this server."""
        if self.running.pop(server, None) is not None:
            await self.request("DELETE", f"{LEASES}/{server}")

    async def restart_any(self) -> None:
        """Stop a server and start it soon after, possibly with another release."""
        server = self._rng.choice(SERVERS)
        await self.stop(server)
        await asyncio.sleep(self._rng.choice((0.0, 0.005, 0.1, 1.0)))
        await self.start(server)

    async def report_all(self) -> None:
        """All running servers report their storage versions, as every ten minutes."""
        for server, version in list(self.running.items()):
            if self.running.get(server) == version:
                await self.report(server, version)

    async def report_late(self) -> None:
        """The write of a server that arrives after it has stopped."""
        await self.report(self._rng.choice(SERVERS), self._version())

    async def report_without_identity_lease(self) -> None:
        """Entries of a client with a Lease of another kind or none."""
        with contextlib.suppress(Conflict):
            await self.create_lease("x0", "another-apiserver")
        await self.report(self._rng.choice(("x0", "x1")), self._version())

    async def delete_or_reset(self) -> None:
        """Delete a StorageVersion, or its commonEncodingVersion."""
        path = f"{VERSIONS}/{self._rng.choice(RESOURCES)}"
        if self._rng.random() < 0.5:
            await self.request("DELETE", path)
        else:
            await self.merge(f"{path}/status", {"status": {"commonEncodingVersion": None}})

    async def label(self) -> None:
        """Change a label."""
        labels = {"seen": self._rng.choice(("yes", "no"))}
        await self.merge(f"{VERSIONS}/{self._rng.choice(RESOURCES)}", {"metadata": {"labels": labels}})

    async def report(self, server: str, version: str) -> None:
        """Write a server's entry for each resource, with retries on conflicts."""
        for resource in RESOURCES:
            for _ in range(20):
                with contextlib.suppress(Conflict, NotFound):
                    await self._report(resource, server, version)
                    break
                await asyncio.sleep(0.01)

    async def _report(self, resource: str, server: str, version: str) -> None:
        obj = await self.get(f"{VERSIONS}/{resource}")
        if obj is None:
            obj = await self.request("POST", VERSIONS, {**HEAD, "metadata": {"name": resource}, "spec": {}})
        by_server = entries(obj)
        by_server[server] = {"apiServerID": server, "encodingVersion": version, "decodableVersions": ["v1", "v2"]}
        versions = {entry["encodingVersion"] for entry in by_server.values()}
        status = {**obj.get("status", {}), "storageVersions": list(by_server.values())}
        status["commonEncodingVersion"] = versions.pop() if len(versions) == 1 else None
        await self.request("PUT", f"{VERSIONS}/{resource}/status", {**obj, "status": status})

    async def encoding_versions(self) -> dict[str, dict[str, str]]:
        """For each StorageVersion: the encoding version by server."""
        return {
            item["metadata"]["name"]: {name: entry["encodingVersion"] for name, entry in entries(item).items()}
            for item in await self.items(VERSIONS)
        }


async def check_final_state(simulation: Simulation, user: Servers) -> None:
    """After the faults exactly the running servers have entries once they have reported. Then all stop."""
    await simulation.run_until_idle()
    await user.report_all()
    await simulation.run_until_idle()
    named = await user.encoding_versions()
    assert {resource: named[resource] for resource in RESOURCES if user.running} == dict.fromkeys(
        RESOURCES if user.running else (), user.running
    )
    for server in SERVERS:
        await user.stop(server)
    await simulation.run_until_idle()
    assert not any((await user.encoding_versions()).values())


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (StorageVersions(),))
async def test_only_dead_api_servers_are_removed(simulation: Simulation, seed: int) -> None:
    user = Servers(simulation)
    await serve(simulation, definition(STORAGE_VERSIONS))
    plan = draw(
        simulation.env.stream("plan"), SECONDS, count=14, resources=("storageversions", "leases"), restarts=True
    )
    await asyncio.gather(simulation.follow(plan), user.run_actions(60), user.run_actions(60))
    await check_final_state(simulation, user)


async def started_servers(simulation: Simulation, *names: str) -> Servers:
    """Running servers that have reported their storage versions."""
    user = Servers(simulation)
    await serve(simulation, definition(STORAGE_VERSIONS))
    for name in names:
        await user.create_lease(name)
        user.running[name] = "v1"
        await user.report(name, "v1")
    await asyncio.sleep(100.0)
    return user


async def returned(simulation: Simulation, slow: Rule, *names: str) -> None:
    """A server stops, and starts again while this request of the collector is in flight."""
    user = await started_servers(simulation, "s0", *names)
    simulation.add_rule(slow)
    await user.stop("s0")
    await asyncio.sleep(2.0)
    await user.create_lease("s0")
    user.running["s0"] = "v2"
    await user.report("s0", "v2")
    await asyncio.sleep(5.0)
    assert {"s0": "v2"}.items() <= (await user.encoding_versions())["batch.jobs"].items()
    await check_final_state(simulation, user)


async def listed(simulation: Simulation) -> None:
    """The list of StorageVersions is delayed."""
    await returned(simulation, Rule(delay(4.0), verb="list", resource="storageversions"), "s1")


async def delete_last(simulation: Simulation) -> None:
    """The deletion of a StorageVersion without other entries is delayed."""
    await returned(simulation, Rule(delay(4.0), verb="delete", resource="storageversions", nth=1))


async def lease_unreadable(simulation: Simulation) -> None:
    """A server has stopped, and the Leases of the others cannot be read."""
    user = await started_servers(simulation, "s0", "s1")
    simulation.add_rule(Rule(fail(500), verb="get", resource="leases", times=6))
    await user.report("x1", "v2")
    await asyncio.sleep(60.0)
    await check_final_state(simulation, user)


async def ended(simulation: Simulation) -> None:
    """Servers stop."""
    user = await started_servers(simulation, "s0", "s1", "s2")
    await user.stop("s1")
    await check_final_state(simulation, user)


async def list_first(self: Any, key: str) -> None:
    """Upstream's order."""
    if await self._get_lease(key) is None:
        for entry in (await self._client.list_all(STORAGE_VERSIONS, keep_raw=True)).items:
            if key in api_server_ids(entry.object):
                await self._update_or_delete_storage_version(entry.object, entry.raw, {key})


async def missing_if_unreadable(self: Any, name: str) -> Any:
    """A Lease that cannot be read counts as missing, as upstream."""
    with contextlib.suppress(ApiError):
        return await found_lease(self, name)
    return None


async def by_name(self: Any, entries_found: Any, raw: Any, deleted: Any) -> None:
    """Upstream's deletion of a StorageVersion without other entries."""
    body = decide.remove_servers(raw, entries_found, deleted, self.env.now())
    if body is None:
        await self._client.delete(STORAGE_VERSIONS, entries_found.metadata.name)
    else:
        await self._client.update(STORAGE_VERSIONS.raw, entries_found.metadata.name, body, subresource="status")


found_lease = StorageVersionGarbageCollector._get_lease


@cases(
    "scenario, check, instead",
    {
        "Lease read before the list": (listed, "reconcile", list_first),
        "deletion without resourceVersion": (delete_last, "_update_or_delete_storage_version", by_name),
        "Lease not read": (lease_unreadable, "_get_lease", missing_if_unreadable),
    },
)
@broken_without(
    lambda check, instead: [(StorageVersionGarbageCollector, check, instead)],
    fails="since its start",
    options=OPTIONS,
    invariants=lambda: (StorageVersions(),),
)
async def test_liveness_of_api_servers(simulation: Simulation, scenario: Any, check: str, instead: Any) -> None:
    await scenario(simulation)


def without_agreement(raw: Any, entries_found: Any, deleted: Any, now: Any) -> bytes | None:
    """Writes the entries only."""
    body = decide.remove_servers(raw, entries_found, deleted, now)
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
