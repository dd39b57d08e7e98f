"""``async_plane``: a plane in the event loop of the test, and ``AsyncCluster``, its interface for tests.

``synchronous`` puts the same on a thread. The virtual loop works as well as a real one, as long as nothing is served
on a port: ``pilothouse.env.virtual.run(main)`` with ``async_plane(env=env, serve=False)``.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.client import Client, apply_patch, merge_patch
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError, Expired, NotFound
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.controllermanager.selection import hint_of_controller, unknown_names
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.nodes import Profile
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.plane.options import SERVICE_RANGE
from pilothouse.storage import MemoryStore
from pilothouse.testing import manifests
from pilothouse.testing.running import MissingRight, Program, ProgramUnderTest, check_arguments
from pilothouse.testing.snapshot import DEFINITIONS, Snapshot

if TYPE_CHECKING:
    import pytest

    from pilothouse.client.interceptor import Rule
    from pilothouse.operator import App, Settings
    from pilothouse.operator.webhook_handler import WebhookHandler
    from pilothouse.testing.manifests import Definitions, Manifests, OneObject
    from pilothouse.testing.webhooks import LocalWebhooks

with lazy_imports():
    from pilothouse import why
    from pilothouse.apiserver import handler_chain
    from pilothouse.apiserver.admission import names as admission_names
    from pilothouse.env import temporary
    from pilothouse.plane import evidence, explain, served
    from pilothouse.testing import mistakes, webhooks

Object = dict[str, Any]
Objects = list[Object]
Condition = Callable[[Object | None], bool]

_STRICT = "Strict"
_WHY_LINES = 60
_MANAGER = "pilothouse-testing"
_MODES = "Node,RBAC"
"""As in kubeadm's clusters: mode Node grants nodes their permissions, which no RBAC role does."""
QUICK = Profile(start_delay=0.0, stop_delay=0.0)
"""Nodes on which pods start and stop immediately."""


class Timeout(AssertionError):
    """A cluster did not get to where a test waited for it to get."""


class Shared:
    """The state that all clusters of one plane share: whether users need permissions, and the running programs under
    test."""

    def __init__(self, *, rights: bool = False) -> None:
        self.rights = rights
        self.programs: list[ProgramUnderTest] = []
        self.webhooks: LocalWebhooks | None = None


def expected() -> tuple[type[BaseException], ...]:
    """Failures of the test rather than of pilothouse: shown without a traceback of pilothouse."""
    return ApiError, Timeout, MissingRight, mistakes.Mistake


def is_expected(raised: "pytest.ExceptionInfo[BaseException]") -> bool:
    """For pytest, which calls it for each frame of this package: whether to omit it from a traceback."""
    return isinstance(raised.value, expected())


__tracebackhide__ = is_expected


class AsyncCluster:
    """A running plane, with a default namespace, as the administrator.

    Objects are addressed as in a manifest, by apiVersion, kind and name, and are plain dictionaries. Errors of the API
    server are raised as ``pilothouse.client.errors.ApiError``. For everything else use ``client``.
    """

    def __init__(
        self,
        plane: Plane,
        snapshot: Snapshot,
        *,
        namespace: str = "default",
        served: "Served | None" = None,
        shared: "Shared | None" = None,
        client: Client | None = None,
    ) -> None:
        self.plane = plane
        """With its API server (``plane.server``) and environment (``plane.env``)."""
        self._snapshot = snapshot
        self._shared = shared or Shared()
        self.namespace = namespace
        """The namespace of objects that have none. It must not be empty."""
        self.client: Client = client or plane.client(agent=_MANAGER)
        """The administrator's."""
        self._served = served
        self._mapper = RestMapper(self.client)

    @property
    def url(self) -> str:
        """Where it is served. Raises ``RuntimeError`` if it is not."""
        return self._port().url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file of the administrator in this namespace; deleted with the plane."""
        return self._port().kubeconfig(self.namespace)

    def in_namespace(self, name: str) -> "AsyncCluster":
        """The same plane, with another default namespace."""
        return AsyncCluster(
            self.plane,
            self._snapshot,
            namespace=name,
            served=self._served,
            shared=self._shared,
            client=self.client,
        )

    async def new_namespace(self, prefix: str = "test-") -> "AsyncCluster":
        """Create a namespace for one test."""
        namespace = await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": prefix}})
        return self.in_namespace(namespace["metadata"]["name"])

    @contextlib.asynccontextmanager
    async def running(
        self,
        program: "Program | App",
        *,
        as_: str = "",
        settings: "Settings | None" = None,
        faults: "Sequence[Rule]" = (),
    ) -> AsyncIterator[None]:
        """Run your own program during the block: an ``App`` (with these ``settings``), or a coroutine function
        ``program(client, env)``, cancelled at its end. The definitions of an app are applied unless they exist, and the
        API server calls its webhooks and conversions directly, unless its settings have ``webhooks``.

        It is an administrator, or the user ``as_``. A service account (``system:serviceaccount:NAMESPACE:NAME``) gets
        the roles that are generated for the app, for the block; the plane needs ``authorization="RBAC"``. ``faults``
        happen to its requests only.

        If it fails, the block is cancelled and the error raised, in an ``ExceptionGroup`` if the block has failed, too.
        Raises ``MissingRight`` at the end if it sent a request that it is not allowed to. Enter and leave the block in
        the same task.
        """
        started = await self.start_program(program, as_=as_, settings=settings, faults=faults)
        running: asyncio.Task[Any] | None = None
        try:
            async with TaskGroup("testing: program") as group:
                running = group.start(started.run(), name="program")
                try:
                    yield
                finally:
                    running.cancel()
        except Exception as error:
            # Whatever was raised: an assertion or a wait of the block also fails if the program lacks a permission.
            # That is the reason, and raised instead.
            started.check_rights()
            if isinstance(error, ExceptionGroup) and running is not None and not running.cancelled():
                failure = running.exception()
                if failure is not None and error.exceptions == (failure,):
                    raise failure from None
            raise
        finally:
            await self.end_program(started)
        started.check_rights()

    async def start_program(
        self,
        program: "Program | App",
        *,
        as_: str = "",
        settings: "Settings | None" = None,
        faults: "Sequence[Rule]" = (),
    ) -> ProgramUnderTest:
        """Apply the objects that a program needs before it runs. For ``running``, which also runs it."""
        check_arguments(program, as_, settings, faults)
        if as_ and not self._shared.rights:
            raise ValueError(f'users need no rights on this plane, {as_} neither: start it with authorization="RBAC"')
        env, server = self.plane.env, self.plane.server
        started = ProgramUnderTest(env, server, program, as_=as_, settings=settings, faults=faults)
        if started.app is not None:
            config = webhooks.client_config(started.app.name) if started.webhooks is not None else None
            for definition in started.app.definitions(config):
                existing = server.store.get(f"{DEFINITIONS}{definition['metadata']['name']}")
                if not existing or (config is not None and "webhook" in definition["spec"].get("conversion", {})):
                    await self._apply(definition)
        await self.apply(started.account_objects())
        self._shared.programs.append(started)
        if started.webhooks is not None:
            await self._call_webhooks(started, started.webhooks)
        return started

    async def _call_webhooks(self, started: ProgramUnderTest, handler: "WebhookHandler") -> None:
        """Have the API server call the webhooks of an app, from before its configurations are there."""
        assert started.app is not None
        local = self._shared.webhooks = self._shared.webhooks or webhooks.LocalWebhooks(self.plane.server)
        local.add(started.app.name, handler)
        await self.apply(started.app.webhook_configurations(webhooks.client_config(started.app.name)))

    async def end_program(self, started: ProgramUnderTest) -> None:
        """Remove the permissions and webhook configurations that were created for a program."""
        self._shared.programs.remove(started)
        objects = started.account_objects()
        local = self._shared.webhooks
        if local is not None and started.app is not None and started.webhooks is not None:
            objects += started.app.webhook_configurations() if local.remove(started.app.name, started.webhooks) else ()
        for obj in objects:
            meta = obj["metadata"]
            within = self.in_namespace(meta.get("namespace") or self.namespace)
            with contextlib.suppress(NotFound):
                await within.delete(obj["apiVersion"], obj["kind"], meta["name"])

    def lag(self, seconds: float) -> None:
        """From now on the API server serves watches, and lists from its cache, with a state of that age, as a stale one
        of several servers. Infinity: it does not advance. 0: it is up to date.

        Writes, and reads without a resource version, always use the current state.
        """
        self.plane.server.set_lag(seconds)

    def compact(self) -> None:
        """Make the API server drop its history: an older resource version or ``continue`` token gets 410, with reason
        Expired. Open watches continue."""
        self.plane.server.compact()

    @contextlib.asynccontextmanager
    async def restoring_definitions(self, *, seconds: float = 10.0) -> AsyncIterator[None]:
        """At the end of the block restore the CustomResourceDefinitions of its start: new ones are deleted with all
        their objects, regardless of finalizers; changed and deleted ones are restored.

        Raises ``Timeout`` with the objects that could not be deleted.
        """
        definitions = Snapshot(self.plane, DEFINITIONS)
        try:
            yield
        finally:
            await _restore(definitions, "the definitions of custom resources are", seconds)

    async def reset(self, *, seconds: float = 10.0) -> None:
        """Restore the state in which the plane was ready: objects created since are deleted, regardless of finalizers,
        and changed or deleted ones are restored, except their status. Affects the whole plane.

        Raises ``Timeout`` with the objects that could not be deleted, because something keeps creating them.
        """
        await _restore(self._snapshot, "the plane is", seconds)

    async def create(self, manifest: "OneObject") -> Object:
        """Create an object, in its own namespace if it has one. Returns the stored object. Unknown fields are an error,
        as with kubectl. ``manifest`` may be YAML text of one object, or a model of the ``kubernetes`` package."""
        manifest = manifests.one_object(manifest)
        kind = await self._kind(manifest["apiVersion"], manifest["kind"])
        namespace = manifest.get("metadata", {}).get("namespace") or self.namespace
        return _decoded(await self.client.create(kind, dict(manifest), namespace, field_validation=_STRICT))

    async def apply(self, manifest: "Manifests") -> Objects:
        """Server-side apply with force, in the given order; returns the stored objects.

        ``manifest`` is the path of a file or directory, YAML text, a mapping, or a list of them. When this returns,
        CustomResourceDefinitions are established. Unknown fields are an error.
        """
        return [await self._apply(obj) for obj in manifests.objects_of(manifest)]

    async def _apply(self, manifest: Mapping[str, Any]) -> Object:
        api_version, kind, meta = manifest["apiVersion"], manifest["kind"], manifest.get("metadata") or {}
        if not meta.get("name"):
            raise ValueError(f"an applied {kind} needs a name: use create for generateName")
        namespace = meta.get("namespace") or self.namespace
        applied = await self.client.patch(
            await self._kind(api_version, kind),
            meta["name"],
            apply_patch(dict(manifest)),
            namespace,
            field_manager=_MANAGER,
            field_validation=_STRICT,
            force=True,
        )
        if kind == manifests.DEFINITION_KIND:
            await self.wait_for(api_version, kind, meta["name"], _is_established)
            self._mapper.reset()
        return _decoded(applied)

    async def get(self, api_version: str, kind: str, name: str) -> Object:
        """One object. Raises ``NotFound``."""
        return _decoded(await self.client.get(await self._kind(api_version, kind), name, self.namespace))

    async def list(self, api_version: str, kind: str, *, label_selector: str = "") -> Objects:
        """The objects of a kind, by name."""
        listed = await self.client.list(
            await self._kind(api_version, kind), self.namespace, label_selector=label_selector
        )
        return [_decoded(raw) for raw in listed.items]

    async def patch(
        self, api_version: str, kind: str, name: str, changes: Mapping[str, Any], *, subresource: str = ""
    ) -> Object:
        """Change an object by a JSON merge patch: fields are replaced, ``None`` removes one."""
        of = await self._kind(api_version, kind)
        patch = merge_patch(dict(changes))
        return _decoded(
            await self.client.patch(of, name, patch, self.namespace, subresource=subresource, field_validation=_STRICT)
        )

    async def delete(self, api_version: str, kind: str, name: str, *, propagation_policy: str = "Background") -> None:
        """Request an object's deletion. Returns immediately: ``wait_for`` waits until it is gone."""
        of = await self._kind(api_version, kind)
        await self.client.delete(of, name, self.namespace, propagation_policy=propagation_policy)

    async def wait_for(
        self, api_version: str, kind: str, name: str, condition: Condition, *, seconds: float = 10.0
    ) -> Object | None:
        """Wait until the condition is true for the object, ``None`` if it does not exist; returns it.

        Every change is observed, without polling. A ``LookupError`` or ``TypeError`` of the condition means that it
        is not true yet, as for a field that is not set. Raises ``Timeout`` with the last state of the object and the
        reasons: its conditions, events of it and its dependents, and missing permissions of programs under test; for
        an ``App`` the backoff of the object and the error of its last sync.
        """
        of = await self._kind(api_version, kind)
        observed = _Seen()
        try:
            async with asyncio.timeout(seconds):
                while not await self._holds(of, name, condition, observed):
                    pass
        except TimeoutError:
            why = await self._explain(of, name, observed.object)
            raise Timeout(f"{kind} {name}: not as expected after {seconds:g} s{observed.mistake}{why}") from None
        return observed.object

    async def _explain(self, of: Kind[msgspec.Raw], name: str, observed: Object | None) -> str:
        """The text about an object that is not as expected: reasons, and its state."""
        meta = (observed or {}).get("metadata", {})
        namespace = meta.get("namespace", "") if observed is not None else self.namespace
        explainer = explain.Explainer(self.client)
        lines = await explainer.warnings(of.kind, name, namespace, meta.get("uid", ""))
        lines += [f"condition {condition}" for condition in map(_condition, _conditions(observed))]
        lines += await explainer.normal_events(of.kind, name, namespace)
        key = f"{namespace or self.namespace}/{name}" if of.namespaced else name
        failing = False
        for program in self._shared.programs:
            lines += program.explain(of.api_version, of.kind, key, observed)
            failing = failing or program.is_failing(of.api_version, of.kind, key)
        server = self.plane.server
        store_evidence = evidence.StoreEvidence(server.store, server.core.table)
        explanation = await why.explain(
            store_evidence, evidence.reference(of, namespace or self.namespace, name), time=self.plane.env.now()
        )
        # Only an error of the last sync is a reason.
        if not failing and explanation.state not in (why.NOT_FOUND, *why.UNREMARKABLE):
            lines += ["why:", *(f"  {line}" for line in why.text_lines(explanation)[:_WHY_LINES])]
        lines_text = "".join(f"\n  {line}" for line in lines)
        if observed is None:
            return f"; it does not exist{lines_text}"
        fields = {**observed, "metadata": {field: meta[field] for field in meta if field != "managedFields"}}
        return f"{lines_text}\nlast seen:\n{json.dumps(fields, indent=2)}"

    async def _holds(self, kind: Kind[msgspec.Raw], name: str, condition: Condition, observed: "_Seen") -> bool:
        """Read, then follow the changes until the condition is true. False if the watch ended before."""
        only = f"metadata.name={name}"
        listed = await self.client.list(kind, self.namespace, field_selector=only)
        observed.object = _decoded(listed.items[0]) if listed.items else None
        if observed.meets(condition):
            return True
        version = listed.metadata.resource_version
        watch = self.client.watch(kind, self.namespace, resource_version=version, field_selector=only)
        with contextlib.suppress(Expired):
            async with watch as batches:
                async for batch in batches:
                    for event in batch:
                        if event.type == "BOOKMARK":
                            continue
                        observed.object = None if event.type == "DELETED" else _decoded(event.object)
                        if observed.meets(condition):
                            return True
        return False

    async def _kind(self, api_version: str, kind: str) -> Kind[msgspec.Raw]:
        resource = await self._mapper.kind_for(api_version, kind)
        if resource is None:
            # Its definition may have been created since.
            self._mapper.reset()
            resource = await self._mapper.kind_for(api_version, kind)
        if resource is None:
            hint = (await self._mapper.discovery()).hint(api_version, kind)
            raise mistakes.UnknownKind.of(api_version, kind, hint)
        return resource.raw

    def _port(self) -> "Served":
        if self._served is None:
            raise RuntimeError("this plane is not served on a port: start it with serve=True")
        return self._served


async def _restore(snapshot: Snapshot, subject: str, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await snapshot.restore()
    except TimeoutError:
        left = ", ".join(snapshot.remains()) or "nothing"
        raise Timeout(f"{subject} not as at the beginning after {seconds:g} s; what remains: {left}") from None


def _is_established(definition: Object | None) -> bool:
    return any(
        (condition.get("type"), condition.get("status")) == ("Established", "True")
        for condition in _conditions(definition)
    )


def _conditions(observed: Object | None) -> Objects:
    status = (observed or {}).get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return (
        [condition for condition in conditions if isinstance(condition, dict)] if isinstance(conditions, list) else []
    )


def _condition(condition: Object) -> str:
    detail = [condition.get(field) for field in ("reason", "message")]
    return ": ".join([f"{condition.get('type')}={condition.get('status')}", *(text for text in detail if text)])


class _Seen:
    """The last state of an object; None if it does not exist."""

    def __init__(self) -> None:
        self.object: Object | None = None
        self.mistake = ""
        """The end of the message: that the condition raised an exception for it, or returned nothing."""

    def meets(self, condition: Condition) -> bool:
        """Whether the condition is true for it."""
        self.mistake = ""
        try:
            result: bool | None = condition(self.object)
        except (LookupError, TypeError) as error:
            self.mistake = f", the condition raised {error!r}"
            return False
        if result is None:
            self.mistake = ", the condition returned None"
        return bool(result)


class Served:
    """The port of a plane, and the kubeconfig files written for it; ``files`` deletes them."""

    def __init__(self, document: Mapping[str, Any], files: contextlib.ExitStack) -> None:
        self.document = document
        self._files = files
        self._directory: Path | None = None

    @property
    def url(self) -> str:
        """Where the API server is."""
        return str(self.document["clusters"][0]["cluster"]["server"])

    def kubeconfig(self, namespace: str) -> Path:
        """A kubeconfig file whose context has that namespace; written at the first use."""
        path = self._own_directory() / f"{namespace}.kubeconfig"
        if not path.exists():
            context = self.document["contexts"][0]
            within = {**context, "context": {**context["context"], "namespace": namespace}}
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({**self.document, "contexts": [within]}, file)
        return path

    def _own_directory(self) -> Path:
        if self._directory is None:
            self._directory = self._files.enter_context(temporary.directory())
        return self._directory


@contextlib.asynccontextmanager
async def async_plane(
    *,
    nodes: int = 3,
    scheduler: bool = True,
    controllers: Sequence[str] = ("*",),
    profile: Profile = QUICK,
    serve: bool = False,
    secure: bool = False,
    crds: "Definitions" = (),
    authorization: str = "AlwaysAllow",
    env: Env | None = None,
) -> AsyncIterator[AsyncCluster]:
    """A plane in the running loop, ready: nodes have registered, controllers have synced caches. A controller that has
    nothing to do before there is an object of its kind is built with the first one.

    ``controllers`` as kube-controller-manager's flag; an empty sequence: no manager. ``serve`` serves the API on a free
    port of 127.0.0.1, where every client is the administrator; ``secure`` adds TLS and a token. Everything is in
    memory. If a program of the plane fails, the test's task is cancelled and the error is raised here.

    ``crds`` are CustomResourceDefinitions that are served from the start: files, folders, YAML text, mappings or
    ``CustomResource`` values. With ``authorization="RBAC"`` users need rights, and so do the programs of the plane, as
    in a cluster that kubeadm has set up; clients over plain HTTP and the test itself are administrators all the same.
    """
    if nodes < 0:
        raise mistakes.InvalidValue(f"nodes must not be negative, got {nodes}")
    check_controllers(controllers)
    definitions = manifests.definitions_of(crds)
    env = env or Env()
    if authorization not in ("AlwaysAllow", "RBAC"):
        raise mistakes.InvalidValue(f"authorization is AlwaysAllow or RBAC, got {authorization!r}")
    rights = authorization == "RBAC"
    manager = Options(
        controllers=tuple(controllers),
        leader_election=LeaderElection(enabled=False),
        # Upstream grants these permissions to controllers, not to the manager.
        use_service_account_credentials=rights,
    )
    options = PlaneOptions(
        nodes=nodes,
        profile=profile,
        scheduler=scheduler,
        on_demand=True,
        storage=scheduler,  # which starts no pod before its claims have volumes
        manager=manager if controllers else None,
    )
    async with contextlib.AsyncExitStack() as stack:
        served = None
        if serve or secure:
            server, served = await stack.enter_async_context(_on_a_port(env, secure=secure, rights=rights))
        else:
            server = await _without_port(env, rights=rights)
            stack.push_async_callback(server.close)
        plane = Plane(env, server.store, options, server=server)
        group = await stack.enter_async_context(TaskGroup("testing: plane"))
        running = group.start(plane.run(), name="plane")
        try:
            await plane.wait_ready()
            if definitions:
                await AsyncCluster(plane, Snapshot(plane)).apply(definitions)
            yield AsyncCluster(plane, Snapshot(plane), served=served, shared=Shared(rights=rights))
        finally:
            running.cancel()


@contextlib.asynccontextmanager
async def _on_a_port(env: Env, *, secure: bool, rights: bool) -> AsyncIterator[tuple[ApiServer, Served]]:
    core = ServerOptions(service_range=SERVICE_RANGE)
    options = served.ServedOptions(port=0, secure=secure, server=core)
    if rights:
        options = msgspec.structs.replace(options, authorization=_MODES, admission_plugins=_plugins())
    listening = served.ServedApiServer(env, options)
    with contextlib.ExitStack() as files:
        try:
            await listening.start()
            yield listening.server, Served(listening.kubeconfig(), files)
        finally:
            await listening.stop()


async def _without_port(env: Env, *, rights: bool) -> ApiServer:
    if not rights:
        return ApiServer(env, MemoryStore(env), options=ServerOptions(service_range=SERVICE_RANGE))
    options = ServerOptions(service_range=SERVICE_RANGE, admission_plugins=_plugins())
    server = ApiServer(env, MemoryStore(env), options=options)
    await handler_chain.HandlerChain(server, address="", authorization=_MODES).start()
    return server


def _plugins() -> tuple[str, ...]:
    return admission_names.default_plugins(authorization=_MODES, service_accounts=False)


def check_controllers(controllers: Sequence[str]) -> None:
    """Raises ``TypeError`` and ``ValueError`` for what is no value of ``controllers``."""
    if isinstance(controllers, str):  # which is a sequence, too: of letters
        raise TypeError(f"controllers must be a list of names, got {controllers!r}")
    unknown = unknown_names(controllers, DESCRIPTORS)
    if unknown:
        hint = hint_of_controller(unknown[0], DESCRIPTORS)
        raise mistakes.InvalidValue(f"{unknown[0]!r} is not in the list of known controllers{hint}")


def _decoded(raw: msgspec.Raw) -> Object:
    decoded: Object = msgspec.json.decode(raw)
    return decoded
