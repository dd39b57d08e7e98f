"""``App``: the controllers of one operator, and how they run."""

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, Literal, TypeVar, overload

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector
from pilothouse.api.rbac import PolicyRule
from pilothouse.client import Client, apply_patch
from pilothouse.client.decode import decoders_of
from pilothouse.client.errors import UndecodableObject
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.labels import parse_selector
from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.names import dns_label_errors
from pilothouse.operator.admission import Mutate, Operation, Validate, Webhook
from pilothouse.operator.arguments import (
    Items,
    check_arguments,
    check_call,
    check_function,
    function_name,
    keys_of,
    shown,
)
from pilothouse.operator.client_config import ClientConfig
from pilothouse.operator.configurations import checked, configurations
from pilothouse.operator.context import Context
from pilothouse.operator.controller import DeclaredController
from pilothouse.operator.custom_resource import A_KIND, CustomResource, kind_of
from pilothouse.operator.declaration import Declaration, Index, Owned, Predicate, Reference
from pilothouse.operator.health import Health
from pilothouse.operator.reconciler import Reconciler, Sync
from pilothouse.operator.rights import Grant, grants, rules
from pilothouse.operator.webhook_handler import WebhookHandler
from pilothouse.operator.webhook_server import WebhookServer, WebhookSettings, service_name
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.election import Fence, LeaderElector
from pilothouse.runtime.events import EventRecorder
from pilothouse.runtime.informer import InformerFactory, SharedInformer
from pilothouse.runtime.rate_limiters import RateLimiter, default_controller_limiter

T = TypeVar("T", bound=Cached)
R = TypeVar("R", bound="type[Reconciler[Any]]")
AnyKind = Kind[Any] | CustomResource[Any]
_NOT_INSTALLED = "pilothouse run --install applies it, or apply the manifests of pilothouse generate manifests"
_ESTABLISHED_SECONDS = 30.0
_EXPLAINED = 3
"""Objects of one controller."""
_MAX_FIELD_MANAGER = 128
"""``FieldManagerMaxLength`` (apimachinery ``pkg/apis/meta/v1/validation``, v0.36)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app runs. Only ``namespaces`` are watched; all if there are none. With ``leader_elect`` controllers run
    only while this process holds the Lease ``lease_namespace/NAME-OF-THE-APP``."""

    namespaces: tuple[str, ...] = ()
    leader_elect: bool = False
    lease_namespace: str = "default"
    identity: str = ""
    """The identity of this process; generated if empty."""
    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0
    webhooks: WebhookSettings | None = None
    """How webhooks and conversions are served, if there are any; None for not at all, as in virtual time."""


class ControllerFunction(Generic[T]):
    """A declared function. It can be called as before, and takes a ``finalizer``."""

    def __init__(self, app: "App", position: int, function: Sync[T]) -> None:
        self._app = app
        self._position = position
        self._function = function
        self.__doc__ = function.__doc__

    def __call__(self, obj: T, ctx: Context[T]) -> Any:
        return self._function(obj, ctx)

    def finalizer(self, name: str) -> Callable[[Sync[T]], Sync[T]]:
        """Decorate a function for cleanup: objects get the finalizer ``name`` (``DOMAIN/PATH``) before their first
        sync, and lose it when the function has returned None while they are being deleted.

        Raises ``ValueError`` for a second one: one function cleans everything up."""

        finalizer = _checked_finalizer(name)

        def register(function: Sync[T]) -> Sync[T]:
            check_function(function, *_SYNC_ARGUMENTS)
            declared = self._app._declarations[self._position]
            if declared.finalizer:
                raise ValueError(
                    f"controller {declared.name!r} has the finalizer {declared.finalizer}: clean up in its function, "
                    f"instead of a second one for {finalizer}"
                )
            changed = msgspec.structs.replace(declared, finalizer=finalizer, finalize=function)
            self._app._declarations[self._position] = changed
            return function

        return register


class App:
    """An operator: controllers that run together, under one name.

    The name is the source component of its events and the name of its Lease. Each controller is a separate field
    manager, ``APP/CONTROLLER``: two that apply the same object own their fields independently.
    """

    def __init__(self, name: str) -> None:
        if errors := dns_label_errors(name):
            raise ValueError(f"the name of an app, {name!r}, is invalid: {errors[0]}")
        self.name = name
        """The name of the app and of its Lease, and part of its field managers."""
        self.metrics: Registry = Registry()
        """Metrics of the controllers; an operator may add its own."""
        self._declarations: list[Declaration] = []
        self._resources: dict[str, CustomResource[Any]] = {}
        self._webhooks: list[Webhook] = []
        self._running: list[DeclaredController] = []

    def controller(
        self,
        resource: Kind[T] | CustomResource[T],
        *,
        name: str = "",
        owns: Iterable[AnyKind | Owned] = (),
        references: Iterable[Reference] = (),
        reads: Iterable[AnyKind] = (),
        finalizer: str = "",
        predicates: Iterable[Predicate] = (),
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | Iterable[Index] = (),
        selector: str = "",
        workers: int = 1,
        rate_limiter: Callable[[Env], RateLimiter[str]] = default_controller_limiter,
        rights: Iterable[Mapping[str, Any]] = (),
    ) -> "_Declare[T]":
        """Decorate the function or ``Reconciler`` class that syncs objects of this kind.

        An object is synced when it changes (``predicates`` must all accept an update), when an object of a kind in
        ``owns`` changes that it controls (``Owned`` has predicates for updates), and when one of its ``references``
        changes. Kinds in ``reads`` are only cached. ``indexes`` are functions of the primary kind by name, or each an
        ``Index`` of any cached kind; ``ctx.list`` uses them. ``selector`` is a label selector for the primary kind. An
        object is synced by one of ``workers`` at a time.

        After a failure an object waits as long as the ``rate_limiter`` returns, which is created for each run
        (``pilothouse.runtime.rate_limiters``; the default waits 5 ms, doubling up to 1000 s, and allows ten failures
        per second after the first hundred). ``rights`` are additional rules of the ClusterRole that cannot be derived
        from the declaration. ``finalizer`` is for classes; functions have ``ControllerFunction.finalizer``.

        ``name`` defaults to the kind in lower case. It is in the log, in metrics and in the field manager
        (``APP/NAME``): after a change, what the controller applied before has two managers.

        Raises ``ValueError`` for a name that another controller of the app has, for a wrong finalizer or selector, for
        no workers, for unknown fields of ``rights``, and for an index of a kind that is not cached; ``TypeError`` for
        arguments of other types.
        """
        kind = self._kind(resource, "a controller", decorator="controller")
        name = name or kind.kind.lower()
        if any(other.name == name for other in self._declarations):
            raise ValueError(f"app {self.name} has a controller {name!r} already; give this one another name=")
        field_manager = f"{self.name}/{name}"
        if len(field_manager) > _MAX_FIELD_MANAGER or not field_manager.isprintable():
            raise ValueError(
                f"{field_manager!r} is the field manager of a controller: at most {_MAX_FIELD_MANAGER} printable "
                "characters; give the controller another name="
            )
        of_controller = f"= of controller {name!r}"
        _check_scalars(of_controller, selector, workers, rate_limiter)
        references = _REFERENCES.of(f"references{of_controller}", references)
        for reference in references:
            self._kind(reference.kind, f"references{of_controller}")
        owned = tuple(map(self._owned, _OWNS.of(f"owns{of_controller}", owns)))
        for each in (*references, *owned):
            _predicates(of_controller, each.predicates)
        rights = _RIGHTS.of(f"rights{of_controller}", rights)
        for right in rights:
            keys_of(f"rights{of_controller}: a rule", right, _RULE_FIELDS, "field")
        declaration = Declaration(
            name=name,
            field_manager=field_manager,
            kind=kind,
            reconcile=_undeclared,
            finalize=None,
            finalizer=_checked_finalizer(finalizer) if finalizer else "",
            owns=owned,
            references=references,
            reads=self._kinds(f"reads{of_controller}", reads),
            predicates=_predicates(of_controller, predicates),
            indexes=_indexes(kind, f"indexes{of_controller}", indexes),
            selector=selector,
            workers=workers,
            rate_limiter=rate_limiter,
            rights=tuple(map(dict, rights)),
            status_fields=resource.status_fields if isinstance(resource, CustomResource) else None,
        )
        cached = {(kind.api_version, kind.kind) for kind in declaration.watched}
        for index in declaration.indexes:
            indexed = self._kind(index.kind, f"indexes{of_controller}")
            if (indexed.api_version, indexed.kind) not in cached:
                raise ValueError(
                    f"controller {name!r} has an index {index.name!r} of {indexed.group_resource}, which it "
                    "does not declare: add its kind to owns=, references= or reads="
                )
        return _Declare(self, declaration)

    def validating(
        self,
        resource: Kind[T] | CustomResource[T],
        *,
        name: str = "",
        operations: Iterable[Operation] = ("CREATE", "UPDATE"),
        failure_policy: Literal["Fail", "Ignore"] = "Fail",
        timeout_seconds: int = 10,
        side_effects: Literal["None", "NoneOnDryRun"] = "None",
        object_selector: LabelSelector | None = None,
        namespace_selector: LabelSelector | None = None,
        match_conditions: Mapping[str, str] | None = None,
        reads: Iterable[AnyKind] = (),
    ) -> "_DeclareWebhook[Validate[T]]":
        """Decorate a function that validates objects of this kind (controller-runtime's ``CustomValidator``).

        ``name`` defaults to the function's. The other arguments are the fields of a ValidatingWebhookConfiguration;
        ``match_conditions`` are CEL expressions by their names. The function may read kinds in ``reads`` with
        ``AdmissionRequest.client``; nothing else is granted.

        Raises ``ValueError`` for a name that another webhook of the app has, and for values that the API server would
        not take.
        """
        return self._webhook(
            resource,
            mutating=False,
            name=name,
            operations=_OPERATIONS.of("operations= of a webhook", operations),
            failure_policy=failure_policy,
            timeout_seconds=timeout_seconds,
            side_effects=side_effects,
            object_selector=object_selector,
            namespace_selector=namespace_selector,
            match_conditions=dict(match_conditions or {}),
            reads=self._kinds("reads= of a webhook", reads),
        )

    def mutating(
        self,
        resource: Kind[T] | CustomResource[T],
        *,
        name: str = "",
        operations: Iterable[Operation] = ("CREATE", "UPDATE"),
        failure_policy: Literal["Fail", "Ignore"] = "Fail",
        timeout_seconds: int = 10,
        side_effects: Literal["None", "NoneOnDryRun"] = "None",
        object_selector: LabelSelector | None = None,
        namespace_selector: LabelSelector | None = None,
        match_conditions: Mapping[str, str] | None = None,
        reinvocation_policy: Literal["Never", "IfNeeded"] = "Never",
        reads: Iterable[AnyKind] = (),
    ) -> "_DeclareWebhook[Mutate[T]]":
        """Decorate a function that mutates objects of this kind (controller-runtime's ``CustomDefaulter``); see
        ``validating``. Its arguments are those of a MutatingWebhookConfiguration."""
        return self._webhook(
            resource,
            mutating=True,
            name=name,
            operations=_OPERATIONS.of("operations= of a webhook", operations),
            failure_policy=failure_policy,
            timeout_seconds=timeout_seconds,
            side_effects=side_effects,
            object_selector=object_selector,
            namespace_selector=namespace_selector,
            match_conditions=dict(match_conditions or {}),
            reinvocation_policy=reinvocation_policy,
            reads=self._kinds("reads= of a webhook", reads),
        )

    def _webhook(self, resource: AnyKind, *, name: str, **parts: Any) -> "_DeclareWebhook[Any]":
        kind = self._kind(resource, "a webhook", decorator="mutating" if parts["mutating"] else "validating")

        def declare(function: Any) -> None:
            chosen = name or function_name(function).replace("_", "-").strip("-").lower()
            self._webhooks.append(checked(Webhook(name=chosen, kind=kind, function=function, **parts), self._webhooks))

        return _DeclareWebhook(declare)

    @property
    def has_webhooks(self) -> bool:
        """Whether the API server has to reach the app: for admission, or for conversions."""
        return bool(self._webhooks) or any(resource.has_conversion for resource in self._resources.values())

    def webhook_handler(self, client: Client) -> WebhookHandler:
        """An ASGI application that serves the webhooks and conversions of the app. ``client`` is for functions that
        read."""
        return WebhookHandler(self._webhooks, self._resources.values(), client=client, metrics=self.metrics)

    def webhook_configurations(self, webhooks: ClientConfig | None = None) -> list[dict[str, Any]]:
        """The MutatingWebhookConfiguration and ValidatingWebhookConfiguration, if there are webhooks, with the address
        ``webhooks``; by default the app's Service in the namespace ``default``."""
        return configurations(self.name, self._webhooks, webhooks or self._default_config)

    @property
    def _default_config(self) -> ClientConfig:
        return ClientConfig(service_name=service_name(self.name), service_namespace="default")

    def definitions(self, webhooks: ClientConfig | None = None) -> list[dict[str, Any]]:
        """The CustomResourceDefinitions of the declared custom resources. The address of their conversions is
        ``webhooks``; by default the app's Service in the namespace ``default``."""
        return [resource.definition(webhooks or self._default_config) for resource in self._resources.values()]

    def rules(self) -> list[dict[str, Any]]:
        """The RBAC rules that the controllers and functions of webhooks need, and nothing more: for a ClusterRole. The
        Lease of leader election is not among them, it needs a Role in its namespace (``rights.lease_rules``)."""
        return rules(self._declarations, self._webhooks)

    def _check_declared(self) -> None:
        """Raise ``ValueError`` if there are neither controllers nor webhooks: there is nothing to run."""
        if not self._declarations and not self.has_webhooks:
            raise ValueError(f"app {self.name} has no controllers and no webhooks")

    def grants(self) -> list[Grant]:
        """The rights behind ``rules``, each with the declaration that implies it."""
        return list(grants(self._declarations, self._webhooks))

    def explain(self, api_version: str, kind: str, key: str) -> list[str]:
        """The state of an object in the running controllers, in one line each: its place in the queue, and the error of
        its last sync; then other objects whose syncs fail."""
        lines: list[str] = []
        for controller in self._running:
            keys = controller.failing
            if (controller.kind.api_version, controller.kind.kind) == (api_version, kind):
                keys = [key, *(other for other in keys if other != key)]
            controller_lines = (
                f"controller {controller.name}: {failing_key} {controller.explain(failing_key)}"
                for failing_key in keys[:_EXPLAINED]
            )
            lines += controller_lines
        return lines

    def retried_errors(self) -> list[str]:
        """The objects whose syncs fail and are retried in the running controllers, in one line each."""
        return [line for controller in self._running for line in controller.retried_errors()]

    def is_failing(self, api_version: str, kind: str, key: str) -> bool:
        """Whether the last sync of an object has failed."""
        return any(
            (controller.kind.api_version, controller.kind.kind) == (api_version, kind) and key in controller.failing
            for controller in self._running
        )

    def misfit(self, obj: dict[str, Any]) -> str:
        """Why an object cannot be decoded by the class of its declared custom resource, so that controllers do not get
        it; "" if it can, or if there is no class."""
        group, _slash, version = str(obj.get("apiVersion", "")).rpartition("/")
        for resource in self._resources.values():
            if (resource.kind.group, resource.kind.kind) == (group, obj.get("kind")) and version in resource.versions:
                view = resource.versions[version].view
                try:
                    decoders_of(view).one(msgspec.json.encode(obj), lambda: "")
                except UndecodableObject as error:
                    text = f"the object does not fit {view.__name__}, so controllers do not see it"
                    return f"{text}: {error.error}"
        return ""

    async def install(self, client: Client, webhooks: ClientConfig | None = None) -> None:
        """Apply the CustomResourceDefinitions (``definitions``) and wait until they are served. Raises ``TimeoutError``
        after half a minute, and the API server's errors."""
        names = []
        for definition in self.definitions(webhooks):
            name = definition["metadata"]["name"]
            names.append(name)
            await client.patch(
                CUSTOM_RESOURCE_DEFINITIONS.raw, name, apply_patch(definition), field_manager=self.name, force=True
            )
        async with asyncio.timeout(_ESTABLISHED_SECONDS):
            for name in self._resources:
                while not await _is_established(client, name):  # noqa: ASYNC110  # there is no event to wait for
                    await asyncio.sleep(0.05)
        log = Log(self.name)
        for name in names:
            log.info("Applied the CustomResourceDefinition", name=name)

    def restarted(self) -> "App":
        """The same app as another process would have it: with new instances of its reconcilers, and with the same
        metrics."""
        again = copy.copy(self)
        again._running = []
        again._declarations = [declaration.renewed() for declaration in self._declarations]
        return again

    async def run(
        self,
        client: Client,
        env: Env,
        settings: Settings = Settings(),  # noqa: B008  # immutable
        health: Health | None = None,
    ) -> None:
        """Run webhooks and controllers until cancelled; running syncs then have ten seconds to finish.

        Webhooks are served by every replica, and before controllers start, because their caches may need conversions.
        ``health`` is ready when the webhooks are served, and the caches of controllers are synced. A replica that waits
        for the Lease has no caches, and does not wait for them. Neither does an app with conversions: its caches may
        need them, and a Service only sends requests to ready pods.

        Raises ``LeadershipLost`` when the Lease is lost: the process should exit. Raises ``ValueError`` for
        contradictory settings, and if there are neither controllers nor webhooks.
        """
        settings = msgspec.structs.replace(settings, namespaces=self._namespaces(settings))
        health = health or Health()
        recorder = EventRecorder(client, env, self.name)
        async with TaskGroup(self.name) as group:
            tasks = [group.start(recorder.run(), name="events")]
            checks: dict[str, Callable[[], bool]] = {"caches": lambda: False}
            if not self._declarations or any(resource.has_conversion for resource in self._resources.values()):
                del checks["caches"]
            try:
                if settings.webhooks is not None and self.has_webhooks:
                    server = WebhookServer(self, settings.webhooks, client=client, env=env)
                    health.expect({"webhooks": server.ready.is_set, **checks})
                    tasks.append(group.start(server.run(), name="webhooks"))
                    await server.ready.wait()
                else:
                    health.expect(checks)
                if not self._declarations:
                    await asyncio.Event().wait()
                elif settings.leader_elect:
                    await self._lead(client, env, settings, recorder, health)
                else:
                    await self._work(client, env, settings, recorder, health)
            finally:
                for task in tasks:
                    task.cancel()

    async def _lead(
        self, client: Client, env: Env, settings: Settings, recorder: EventRecorder, health: Health
    ) -> None:
        fence = Fence(env)
        health.replace("caches", lambda: True)
        elector = LeaderElector(
            client,
            env,
            identity=settings.identity or f"{self.name}_{env.uid()}",
            name=self.name,
            namespace=settings.lease_namespace,
            lease_duration_seconds=settings.lease_duration_seconds,
            renew_deadline_seconds=settings.renew_deadline_seconds,
            retry_period_seconds=settings.retry_period_seconds,
            fence=fence,
            recorder=recorder,
            metrics=self.metrics,
        )
        await elector.run(lambda: self._work(client.fenced(fence.check), env, settings, recorder, health))

    async def _work(
        self, client: Client, env: Env, settings: Settings, recorder: EventRecorder, health: Health
    ) -> None:
        caches: dict[str, list[SharedInformer[Any]]] = {}
        async with TaskGroup(f"{self.name}: controllers") as group:
            for namespace in settings.namespaces:
                # Their gauges would overwrite each other under one name.
                name = f"{self.name}/{namespace}" if namespace else self.name
                hints = dict.fromkeys(self._resources, _NOT_INSTALLED)
                informers = InformerFactory(client, env, name=name, metrics=self.metrics, not_served_hints=hints)
                for declaration in self._declarations:
                    controller = DeclaredController(
                        declaration,
                        client=client,
                        env=env,
                        informers=informers,
                        namespace=namespace,
                        recorder=recorder,
                        metrics=self.metrics,
                    )
                    group.start(self._run_controller(controller), name=declaration.name)
                for informer in informers.informers:
                    caches.setdefault(f"cache of {informer.kind.group_resource}", []).append(informer)
                informers.start(group)
            health.divide("caches", {name: partial(_have_synced, of_kind) for name, of_kind in caches.items()})

    async def _run_controller(self, controller: DeclaredController) -> None:
        self._running.append(controller)
        try:
            await controller.run()
        finally:
            self._running.remove(controller)

    def _namespaces(self, settings: Settings) -> tuple[str, ...]:
        """Each once: two controllers of one namespace would sync the same objects at the same time."""
        self._check_declared()
        if not settings.namespaces or "" in settings.namespaces:
            return ("",)
        namespaces = tuple(dict.fromkeys(settings.namespaces))
        for name in namespaces:
            if errors := dns_label_errors(name):
                raise ValueError(f"app {self.name} cannot watch the namespace {name!r}: {errors[0]}")
        for declaration in self._declarations:
            if len(namespaces) > 1 and not declaration.kind.namespaced:
                raise ValueError(
                    f"{declaration.kind.kind} is in no namespace: "
                    f"controller {declaration.name} can watch one namespace or all"
                )
        return namespaces

    def _owned(self, declared: AnyKind | Owned) -> Owned:
        owned = declared if isinstance(declared, Owned) else Owned(declared)
        return msgspec.structs.replace(owned, kind=self._kind(owned.kind, "owns="))

    def _kinds(self, argument: str, resources: Iterable[AnyKind]) -> tuple[Kind[Any], ...]:
        return tuple(self._kind(resource, argument) for resource in _KINDS.of(argument, resources))

    def _kind(self, resource: AnyKind, argument: str, *, decorator: str = "") -> Kind[Any]:
        try:
            kind = kind_of(resource)
        except TypeError as error:
            given: object = resource  # what is decorated, if the parentheses were forgotten
            hint = f": write @app.{decorator}(KIND)" if decorator and inspect.isfunction(given) else ""
            raise TypeError(f"{argument}: {error}{hint}") from None
        if isinstance(resource, CustomResource):
            self._resources[resource.name] = resource
        return kind


class _Declare(Generic[T]):
    """The decorator of ``App.controller``."""

    def __init__(self, app: App, declaration: Declaration) -> None:
        self._app = app
        self._declaration = declaration

    @overload
    def __call__(self, target: R) -> R: ...

    @overload
    def __call__(self, target: Sync[T]) -> ControllerFunction[T]: ...

    def __call__(self, target: Any) -> Any:
        declarations = self._app._declarations
        if inspect.isclass(target):
            if not issubclass(target, Reconciler):
                raise TypeError(f"{target.__name__} is no Reconciler: derive it from pilothouse.operator.Reconciler")
            if not self._declaration.finalizer and target.finalize is not Reconciler.finalize:
                raise ValueError(f"{target.__name__}.finalize is never called without finalizer=")
            declared = msgspec.structs.replace(self._declaration, reconciler=target).renewed()
            for method in (declared.reconcile, declared.finalize):
                check_arguments(method, f"{target.__name__}.{function_name(method)}", *_SYNC_ARGUMENTS)
            declarations.append(declared)
            return target
        check_function(target, *_SYNC_ARGUMENTS)
        if self._declaration.finalizer:
            raise ValueError("finalizer= is for classes; decorate a function with @NAME.finalizer(...) instead")
        declarations.append(msgspec.structs.replace(self._declaration, reconcile=target))
        return ControllerFunction(self._app, len(declarations) - 1, target)


F = TypeVar("F", bound=Callable[..., Any])


class _DeclareWebhook(Generic[F]):
    """The decorator of ``App.validating`` and ``App.mutating``. It returns the function as it was."""

    def __init__(self, declare: Callable[[F], None]) -> None:
        self._declare = declare

    def __call__(self, function: F) -> F:
        check_function(function, "obj", "request")
        self._declare(function)
        return function


_SYNC_ARGUMENTS = ("obj", "ctx")
_KINDS = Items("kinds", "KIND", (Kind, CustomResource), A_KIND)
_OWNS = Items("kinds", "KIND", (Kind, CustomResource, Owned), A_KIND)
_REFERENCES = Items(
    "References",
    "REFERENCE",
    (Reference,),
    "write Reference(kind=KIND, of=FUNCTION) or Reference(kind=KIND, map=FUNCTION)",
)
_OPERATIONS = Items("operations", "OPERATION", (str,))
_PREDICATES = Items("predicates", "PREDICATE", hint="a predicate is a function of the old and the new object")
_INDEXES = Items("Indexes", "INDEX", (Index,), "write Index(KIND, NAME, FUNCTION)")
_RIGHTS = Items(
    "rules",
    "RULE",
    (Mapping,),
    "a rule is a dict such as {'apiGroups': [''], 'resources': ['configmaps'], 'verbs': ['get']}",
)


_RULE_FIELDS = [field.encode_name for field in msgspec.structs.fields(PolicyRule)]


def _predicates(of_controller: str, predicates: Iterable[Predicate]) -> tuple[Predicate, ...]:
    argument = f"predicates{of_controller}"
    checked_predicates = _PREDICATES.of(argument, predicates)
    for predicate in checked_predicates:
        check_call(argument, predicate, "old", "new")
    return checked_predicates


def _check_scalars(of_controller: str, selector: Any, workers: Any, rate_limiter: Any) -> None:
    """Raise ``TypeError`` and ``ValueError`` for arguments that are no tuples."""
    if not isinstance(selector, str):
        raise TypeError(f"selector{of_controller} is a text such as 'team=a,!old', got {shown(selector)}")
    parse_selector(selector)
    if not isinstance(workers, int):
        raise TypeError(f"workers{of_controller} is a number, got {shown(workers)}")
    if workers < 1:
        raise ValueError(f"workers{of_controller}: it needs a worker, got workers={workers}")
    example = "lambda env: ExponentialFailureLimiter(1.0, 300.0)"
    expected = f"rate_limiter{of_controller} is a function of the Env, such as {example}"
    if not callable(rate_limiter):
        raise TypeError(f"{expected}, got {shown(rate_limiter)}")
    check_call(expected, rate_limiter, "env")


def _indexes(
    kind: Kind[Any], argument: str, indexes: Mapping[str, Callable[[Any], Iterable[str]]] | Iterable[Index]
) -> tuple[Index, ...]:
    if isinstance(indexes, Mapping):
        return tuple(Index(kind, name, function) for name, function in indexes.items())
    return _INDEXES.of(argument, indexes)


async def _undeclared(_obj: Any, _ctx: Any) -> None:
    raise AssertionError("the declaration is complete before it runs")


def _have_synced(informers: Iterable[SharedInformer[Any]]) -> bool:
    return all(informer.has_synced for informer in informers)


def _checked_finalizer(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(
            "a finalizer is named DOMAIN/PATH, such as example.com/cleanup, got "
            f"{shown(name)}: write @NAME.finalizer('example.com/cleanup')"
        )
    domain, slash, path = name.partition("/")
    if not slash or not domain or not path:
        raise ValueError(f"a finalizer is named DOMAIN/PATH, such as example.com/cleanup, got {name!r}")
    return name


async def _is_established(client: Client, name: str) -> bool:
    conditions = (await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)).status.conditions
    return any(condition.type == "Established" and condition.status == "True" for condition in conditions)
