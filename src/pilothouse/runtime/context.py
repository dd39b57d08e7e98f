"""What a program passes to a controller when it builds it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.cel.limits import GetEvaluator, no_evaluator
from pilothouse.client import Client
from pilothouse.env import Env, Log
from pilothouse.machinery.metrics import Registry
from pilothouse.runtime.cache import Cached, IndexFunction
from pilothouse.runtime.informer import InformerFactory, SharedInformer
from pilothouse.runtime.watches import UndeclaredWatch, Watch

if TYPE_CHECKING:
    from pilothouse.client.discovery import RestMapper

O = TypeVar("O")  # noqa: E741  # the options struct
T = TypeVar("T", bound=Cached)


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a controller may use. ``client`` is its own (identity, rate limit, User-Agent); informers are shared.
    ``env`` has the clock, random streams and uids, ``options`` is read with ``options_as``.

    A controller gets its informers from ``informer``, which checks that its descriptor declares the watch. Only
    controllers that watch discovered resources (garbage collector, resource quota) use the factories: ``informers``
    caches whole views, ``metadata_informers`` only metadata. The program starts the informers after all controllers are
    built.
    """

    env: Env
    client: Client
    informers: InformerFactory
    metadata_informers: InformerFactory
    metrics: Registry = msgspec.field(default_factory=Registry)
    options: object = None
    rest_mapper: "RestMapper | None" = None
    expressions: GetEvaluator = no_evaluator
    """Compiles large expressions off the event loop."""
    log: Log = msgspec.field(default_factory=lambda: Log("controller"))
    name: str = "the controller"
    """Those of the descriptor. ``Descriptor.build`` sets this and the following fields."""
    watches: tuple[Watch, ...] = ()
    awaited: list[SharedInformer[Any]] = msgspec.field(default_factory=list)
    """The informers handed out that the controller waits for."""

    def options_as(self, kind: type[O]) -> O:
        """The options, which must be of that type; its defaults if the program passed none."""
        if self.options is None:
            return kind()
        assert isinstance(self.options, kind), f"options are {type(self.options).__name__}, wanted {kind.__name__}"
        return self.options

    def informer(
        self, kind: Kind[T], *, namespace: str = "", indexes: Mapping[str, IndexFunction[T]] | None = None
    ) -> SharedInformer[T]:
        """The informer that the descriptor declares for this kind, with these additional indexes.

        ``kind`` is that of the ``Watch``: for a watch of ``PODS.metadata`` pass ``PODS.metadata``. No index is needed
        for a namespace: use ``cache.list(namespace)``. ``namespace`` restricts a watch that is declared for all
        namespaces. Raises ``UndeclaredWatch`` for a kind that is not declared.
        """
        watch = next((candidate for candidate in self.watches if candidate.kind == kind), None)
        if watch is None:
            raise UndeclaredWatch(self._undeclared_watch_message(kind))
        if namespace:
            watch = msgspec.structs.replace(watch, namespace=namespace)
        informer = cast("SharedInformer[T]", watch.informer(self.informers))
        for name, function in (indexes or {}).items():
            informer.cache.add_index(name, function)
        if watch.awaited:
            self.awaited.append(informer)
        return informer

    def _undeclared_watch_message(self, kind: Kind[Any]) -> str:
        declared = ", ".join(_describe_kind(watch.kind) for watch in self.watches) or "nothing"
        advice = "add Watch(kind=...) to the descriptor's watches"
        if any(watch.kind.group_resource == kind.group_resource for watch in self.watches):
            advice = "the Watch and the call must have the same kind, such as PODS or PODS.metadata"
        return (
            f"{self.name} requests an informer of {_describe_kind(kind)}, and its descriptor declares {declared}: "
            f"{advice}"
        )


def _describe_kind(kind: Kind[Any]) -> str:
    """``pods (view Pod)``."""
    return f"{kind.group_resource} ({'metadata only' if kind.metadata_only else f'view {kind.view.__name__}'})"
