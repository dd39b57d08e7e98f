"""An operator with five bugs that no ordinary test finds, and what finds them: docs/finding-bugs.md.

    kind: Database
    spec: {version: 2}

A Database gets a port of its own (a ConfigMap ``NAME-port``), a job that sets it up, a schema of its version (a
ConfigMap ``NAME-schema``) and a record in the registry of all databases. ``python examples/buggy_operator.py`` explores
it. Each bug is marked; none shows as long as nothing goes wrong.
"""

import asyncio
import contextlib
from typing import Any

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client import merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound
from pilothouse.operator import App, Context, CustomResource, ObjectMeta, Reconciler, Requeue, View
from pilothouse.testing import AsyncCluster, ExplorationFailed, State, explore


class DatabaseSpec(View, frozen=True):
    version: int = 1


class DatabaseStatus(View, frozen=True):
    phases: tuple[str, ...] = ()


class Database(View, frozen=True):
    """A database."""

    spec: DatabaseSpec = DatabaseSpec()
    metadata: ObjectMeta = ObjectMeta()
    status: DatabaseStatus = DatabaseStatus()


DATABASES = CustomResource("example.com/v1", Database)
DATABASE = ("example.com/v1", "Database")
MAP = ("v1", "ConfigMap")
FIRST_PORT = 5432
RIGHTS = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"]},)


def config_map(owner: ObjectMeta, part: str, data: dict[str, str], **meta: Any) -> dict[str, Any]:
    """A ConfigMap that belongs to a Database."""
    reference = {"apiVersion": DATABASE[0], "kind": DATABASE[1], "name": owner.name, "uid": owner.uid}
    labels = {"database": owner.name, "part": part}
    metadata = {"labels": labels, "ownerReferences": [{**reference, "controller": True}], **meta}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def buggy() -> App:
    """The operator."""
    app = App("databases")

    @app.controller(DATABASES, owns=(CONFIG_MAPS,), rights=RIGHTS)
    async def databases(found: Database, ctx: Context[Database]) -> None:
        meta = found.metadata
        # Stale read: which ports are taken is looked up in a cache that may not have the last ones yet.
        maps = ctx.list(CONFIG_MAPS, namespace=meta.namespace)
        ports = {each.metadata.name: int(each.data["port"]) for each in maps if "port" in each.data}
        if f"{meta.name}-port" not in ports:
            port = next(each for each in range(FIRST_PORT, 65536) if each not in ports.values())
            body = config_map(meta, "port", {"port": str(port)}, name=f"{meta.name}-port")
            await ctx.create_once(body, owned=False)
        # Double create: the name is made up by the API server, and an error is taken for "not created".
        if not any(each.metadata.labels.get("part") == "job" for each in ctx.owned(CONFIG_MAPS)):
            body = config_map(meta, "job", {}, generateName=f"{meta.name}-job-")
            await ctx.client.create(CONFIG_MAPS.raw, body, meta.namespace)
        # Status fight: the list is written whole, and what the controller "health" has put into it is removed.
        if found.status.phases != ("Ready",):
            await ctx.client.patch(
                DATABASES.kind.raw,
                meta.name,
                merge_patch({"status": {"phases": ["Ready"]}}),
                meta.namespace,
                subresource="status",
            )

    @app.controller(DATABASES, name="registry", reads=(CONFIG_MAPS,), rights=RIGHTS, finalizer="example.com/registry")
    class Registry(Reconciler[Database]):
        """Lost finalizer: it is removed, and nothing cleaned up, if another process has registered the object."""

        def __init__(self) -> None:
            self.registered: set[str] = set()

        async def reconcile(self, obj: Database, ctx: Context[Database]) -> None:
            name = f"registry-{obj.metadata.name}"
            if ctx.get(CONFIG_MAPS, name) is None and name not in self.registered:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
                with contextlib.suppress(AlreadyExists):
                    await ctx.client.create(CONFIG_MAPS.raw, body, obj.metadata.namespace)
                self.registered.add(name)

        async def finalize(self, obj: Database, ctx: Context[Database]) -> None:
            name = f"registry-{obj.metadata.name}"
            if name in self.registered:
                with contextlib.suppress(NotFound):
                    await ctx.client.delete(CONFIG_MAPS, name, obj.metadata.namespace)
                self.registered.discard(name)

    @app.controller(DATABASES, name="schema", owns=(CONFIG_MAPS,))
    class Schema(Reconciler[Database]):
        """Missed event: it migrates when it sees the version change, and remembers the version in memory."""

        def __init__(self) -> None:
            self.seen: dict[str, int] = {}

        async def reconcile(self, obj: Database, ctx: Context[Database]) -> None:
            name, version = f"{obj.metadata.name}-schema", obj.spec.version
            before = self.seen.get(obj.metadata.uid)
            exists = ctx.get(CONFIG_MAPS, name) is not None
            if not exists or (before is not None and before != version):
                await ctx.apply(config_map(obj.metadata, "schema", {"version": str(version)}, name=name), owned=False)
            self.seen[obj.metadata.uid] = version

    @app.controller(DATABASES, name="health", owns=(CONFIG_MAPS,))
    class Health(Reconciler[Database]):
        """The other side of the status fight: what has failed once is degraded as long as this process lives."""

        def __init__(self) -> None:
            self.degraded: set[str] = set()

        async def reconcile(self, obj: Database, ctx: Context[Database]) -> Requeue:
            name = obj.metadata.name
            try:
                await ctx.apply(config_map(obj.metadata, "probe", {}, name=f"{name}-probe"), owned=False)
            except (ApiError, ConnectionError, TimeoutError):
                self.degraded.add(name)
            if name in self.degraded and "Degraded" not in obj.status.phases:
                ctx.status["phases"] = [*obj.status.phases, "Degraded"]
            return Requeue(60.0)

    return app


async def scenario(cluster: AsyncCluster) -> None:
    """What happens to three Databases."""
    for number in range(3):
        database = {"apiVersion": DATABASE[0], "kind": DATABASE[1], "metadata": {"name": f"db-{number}"}}
        await cluster.create({**database, "spec": {"version": 1}})
        await asyncio.sleep(10)
    await cluster.patch(*DATABASE, "db-1", {"spec": {"version": 2}})
    await asyncio.sleep(10)
    await cluster.delete(*DATABASE, "db-0")
    await asyncio.sleep(10)


def parts(state: State, part: str) -> list[dict[str, Any]]:
    """The ConfigMaps of Databases that are a part of this kind."""
    maps = state.list(*MAP, "default")
    return [each for each in maps if (each["metadata"].get("labels") or {}).get("part") == part]


def no_port_is_given_twice(state: State) -> None:
    """The stale read."""
    ports = [each["data"]["port"] for each in parts(state, "port")]
    assert len(set(ports)) == len(ports), f"ports: {sorted(ports)}"


def no_job_runs_twice(state: State) -> None:
    """The double create."""
    names = [each["metadata"]["labels"]["database"] for each in parts(state, "job")]
    assert len(set(names)) == len(names), f"jobs of {sorted(names)}"


def the_registry_forgets(state: State) -> None:
    """The lost finalizer."""
    if state.converged:
        names = {each["metadata"]["name"] for each in state.list(*DATABASE)}
        maps = [each["metadata"]["name"] for each in state.list(*MAP, "default")]
        left = [name for name in maps if name.startswith("registry-") and name.removeprefix("registry-") not in names]
        assert not left, f"nobody deletes {left}"


def schemas_are_migrated(state: State) -> None:
    """The missed event."""
    if state.converged:
        versions = {each["metadata"]["name"]: str(each["spec"]["version"]) for each in state.list(*DATABASE)}
        schemas = {each["metadata"]["labels"]["database"]: each["data"]["version"] for each in parts(state, "schema")}
        for name, version in versions.items():
            assert schemas[name] == version, f"{name} has schema {schemas[name]}, and its version is {version}"


CHECKS = (no_port_is_given_twice, no_job_runs_twice, the_registry_forgets, schemas_are_migrated)
"""The status fight needs none: a cluster that never comes to rest is a failure by itself."""


if __name__ == "__main__":
    try:
        explore(buggy(), scenario, CHECKS, faults="sieve", keep_going=True, nodes=0, controllers=("garbagecollector",))
    except ExplorationFailed as failed:
        for failure in failed.failures:
            print(f"{failure.reason}\n  by {', '.join(map(str, failure.faults))}\n  {failure.command}")
