"""What a controller works out from an owner's spec, kept until the spec changes.

Selectors are compiled and templates read once per generation, not once per sync. The controllers say what their
blueprint holds; this keeps the newest one of each owner.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from pilothouse.api.meta import LabelSelector, ObjectMeta
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector, SelectorError, selector_from
from pilothouse.runtime import object_key


class Specified(Protocol):
    """An object whose spec has a generation and a selector of pods."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""
        ...


class Drawn(Protocol):
    """A blueprint: it knows of which state of which object it is."""

    @property
    def uid(self) -> str:
        """The object's uid."""
        ...

    @property
    def generation(self) -> int:
        """The object's generation."""
        ...


Owner = TypeVar("Owner", bound=Specified)
Blueprint = TypeVar("Blueprint", bound=Drawn)


class Blueprints(Generic[Owner, Blueprint]):
    """The blueprints of all owners that were asked for.

    ``draw`` makes one from the owner, its selector (``None`` when what is written makes no sense, which is in the log)
    and the blueprint before.
    """

    def __init__(
        self,
        kind: str,
        selector_of: Callable[[Owner], LabelSelector | None],
        draw: Callable[[Owner, Selector | None, Blueprint | None], Blueprint],
        log: Log,
    ) -> None:
        self._kind = kind
        self._selector_of = selector_of
        self._draw = draw
        self._log = log
        self._known: dict[str, Blueprint] = {}

    def of(self, owner: Owner) -> Blueprint:
        """The blueprint of this state of the owner."""
        meta = owner.metadata
        key = object_key(meta)
        known = self._known.get(key)
        if known is not None and known.generation == meta.generation and known.uid == meta.uid:
            return known
        selector: Selector | None
        try:
            selector = selector_from(self._selector_of(owner))
        except SelectorError as error:
            # The user's mistake: no traceback.
            self._log.error("Error converting pod selector to selector", error=error, kind=self._kind, key=key)
            selector = None
        drawn = self._known[key] = self._draw(owner, selector, known)
        return drawn

    def all(self) -> Iterable[Blueprint]:
        """Every one, in the order in which their owners were first asked for."""
        return self._known.values()

    def forget(self, key: str) -> None:
        """The owner is gone."""
        self._known.pop(key, None)
