"""Managers with leader election on one virtual loop: the environment of 14-startup and 16-leader-election.

Nothing else is there, no node and no scheduler. A kill is a cut connection: what is killed says no more.
"""

import asyncio

import msgspec
from tests.traces.audit import AuditedServer, Traced
from tests.traces.kubectl_user import OPTIONS

from pilothouse.api import wire
from pilothouse.api.rbac import CLUSTER_ROLES
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.client import Client
from pilothouse.client.interceptor import Interceptor, Rule, delay, refuse
from pilothouse.controllermanager.compatibility import own_controllers
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import LeaderElection
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.plane import LocalClients
from pilothouse.storage import MemoryStore

UPSTREAMS = tuple(descriptor for descriptor in DESCRIPTORS if descriptor not in own_controllers(DESCRIPTORS))
"""The controllers that the recordings include."""
ELECTING = msgspec.structs.replace(OPTIONS, leader_election=LeaderElection())


class Process:
    """One manager process."""

    def __init__(self, name: str, env: Env, server: AuditedServer, group: TaskGroup) -> None:
        self.identity = f"host-{name}_{env.uid()}"
        self._connections: list[Interceptor] = []

        def connect(_program: str, transport: wire.Transport) -> wire.Transport:
            connection = Interceptor(transport, env)
            connection.add(Rule(delay(0.0005, 0.002)))
            self._connections.append(connection)
            return Traced(connection, server, name)

        clients = LocalClients(env, server.transport, connect).manager()
        manager = Manager(env, ELECTING, clients, UPSTREAMS, identity=self.identity)
        self._task = group.start(manager.run(), name=f"manager {name}")

    def kill(self) -> None:
        """Kill the process, as ``kill -9``."""
        for connection in self._connections:
            connection.clear()
            connection.add(Rule(refuse()))
        self._task.cancel()


def start_up(seconds: float = 22.0) -> AuditedServer:
    """14: a manager starts on a cluster with only the bootstrap roles."""

    async def main(env: Env) -> AuditedServer:
        server = AuditedServer(env, MemoryStore(env))
        admin = Client(server.transport("admin", ["system:masters"]), env)
        for resource, role in bootstrap_objects():
            if resource == "clusterroles":
                await admin.create(CLUSTER_ROLES, role)
        async with TaskGroup("processes") as group:
            group.start(server.run(), name="API server")
            await asyncio.sleep(1.0)
            Process("A", env, server, group)
            await asyncio.sleep(seconds)
            records = list(server.records)  # what a stop sends is not of the scenario
            group.cancel()
        server.records = records
        return server

    return virtual.run(main)


def take_over(seed: int = 0) -> AuditedServer:
    """16: A leads for minutes, B starts, A is killed after 20 seconds."""

    async def main(env: Env) -> AuditedServer:
        server = AuditedServer(env, MemoryStore(env))
        async with TaskGroup("processes") as group:
            first = Process("A", env, server, group)
            await asyncio.sleep(180.0)
            server.zero = env.monotonic()
            server.records.clear()
            Process("B", env, server, group)
            await asyncio.sleep(20.006)
            first.kill()
            await asyncio.sleep(28.0)
            records = list(server.records)
            group.cancel()
        server.records = records
        return server

    return virtual.run(main, seed=seed)
