"""Declarations of an operator: controllers, the kinds that they own and refer to, and when they sync."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.env import Env
from pilothouse.operator.custom_resource import CustomResource, kind_of
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.controller import Requeue
from pilothouse.runtime.rate_limiters import RateLimiter

Predicate = Callable[[Any, Any], bool]
"""Whether an update, from the old object to the new one, is worth a sync."""


class Index(msgspec.Struct, frozen=True):
    """An index of the cache of a kind (controller-runtime's ``IndexField``): the values that ``function`` returns for
    an object, called once per version. ``ctx.list(kind, index=name, value=…)`` uses it."""

    kind: Kind[Any] | CustomResource[Any]
    name: str
    function: Callable[[Any], Iterable[str]]


class Owned(msgspec.Struct, frozen=True):
    """A kind in ``owns`` with ``predicates`` (controller-runtime's ``builder.WithPredicates`` of ``Owns``).

    All of them must accept an update of an owned object before the object that controls it is enqueued. Creation,
    deletion and a change of the controller always count.
    """

    kind: Kind[Any] | CustomResource[Any]
    predicates: tuple[Predicate, ...] = ()


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that a controller reads and does not own; their changes enqueue the objects that refer to them.

    ``of`` returns the objects to which an object refers: keys ``NAMESPACE/NAME``, or names in its own namespace. It is
    an index function, called once per version of the object. ``map`` is for relations without such names: it returns
    the keys of the objects to sync for a changed one, and is called with its old and its new state. Exactly one of them
    is given. ``predicates`` must all accept an update of the referenced object; its creation and deletion always count.
    """

    kind: Kind[Any] | CustomResource[Any]
    of: Callable[[Any], Iterable[str]] | None = None
    map: Callable[[Any], Iterable[str]] | None = None
    predicates: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        if (self.of is None) == (self.map is None):
            raise ValueError(f"a Reference to {kind_of(self.kind).group_resource} has either of= or map=")


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """One controller of an ``App``; see ``App.controller`` for its fields."""

    name: str
    field_manager: str
    kind: Kind[Any]
    reconcile: Callable[[Any, Any], Awaitable[Requeue | None]]
    finalize: Callable[[Any, Any], Awaitable[Requeue | None]] | None
    finalizer: str
    owns: tuple[Owned, ...]
    references: tuple[Reference, ...]
    reads: tuple[Kind[Any], ...]
    predicates: tuple[Predicate, ...]
    indexes: tuple[Index, ...]
    selector: str
    workers: int
    rate_limiter: Callable[[Env], RateLimiter[str]]
    rights: tuple[dict[str, Any], ...] = ()
    status_fields: frozenset[str] | None = None
    """The fields of a custom resource's status; None if they are unknown."""

    reconciler: Callable[[], Any] | None = None
    """The class whose instance has ``reconcile`` and ``finalize``; None for functions."""

    def renewed(self) -> "Declaration":
        """The same with a new instance of its class."""
        if self.reconciler is None:
            return self
        reconciler = self.reconciler()
        return msgspec.structs.replace(self, reconcile=reconciler.reconcile, finalize=reconciler.finalize)

    def index_name(self, name: str) -> str:
        """The name of an index in the cache, which other controllers of the app may share."""
        return f"{self.name}/{name}"

    @property
    def owned_kinds(self) -> Sequence[Kind[Any]]:
        """The kinds that it may write."""
        return tuple(kind_of(owned.kind) for owned in self.owns)

    @property
    def watched(self) -> Sequence[Kind[Any]]:
        """Every kind with a cache, the primary one first, each once."""
        kinds = (self.kind, *self.owned_kinds, *(kind_of(reference.kind) for reference in self.references), *self.reads)
        watched: dict[tuple[str, str], Kind[Any]] = {}
        for kind in kinds:
            watched.setdefault((kind.api_version, kind.kind), kind)
        return tuple(watched.values())


def generation_changed(old: Cached, new: Cached) -> bool:
    """The spec changed, or the deletion started (controller-runtime's ``GenerationChangedPredicate``)."""
    return old.metadata.generation != new.metadata.generation


def any_of(*predicates: Predicate) -> Predicate:
    """At least one of them accepts (controller-runtime's ``predicate.Or``)."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)


def label_changed(name: str) -> Predicate:
    """The value of a label changed."""
    return lambda old, new: old.metadata.labels.get(name) != new.metadata.labels.get(name)


def annotation_changed(name: str) -> Predicate:
    """The value of an annotation changed."""
    return lambda old, new: old.metadata.annotations.get(name) != new.metadata.annotations.get(name)
