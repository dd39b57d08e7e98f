"""Values that a controller derives from an owner's spec, such as its parsed selector, cached until the spec changes.

Selectors are compiled and templates read once per generation, not once per sync.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from pilothouse.api.meta import LabelSelector, View
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector, SelectorError, selector_from
from pilothouse.runtime import object_key
from pilothouse.runtime.cache import Cached

Owner = TypeVar("Owner", bound=Cached)
Blueprint = TypeVar("Blueprint")


class Blueprints(Generic[Owner, Blueprint]):
    """The newest blueprint of each owner.

    ``draw`` computes one from the owner, its selector (``None`` if it is invalid, which is logged) and the previous
    blueprint.
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
        self._known: dict[str, tuple[str, int, Blueprint]] = {}
        """By key the uid and the generation that the blueprint is of."""

    def of(self, owner: Owner) -> Blueprint:
        meta = owner.metadata
        key = object_key(meta)
        cached = self._known.get(key)
        if cached is not None and cached[1] == meta.generation and cached[0] == meta.uid:
            return cached[2]
        selector: Selector | None
        try:
            selector = selector_from(self._selector_of(owner))
        except SelectorError as error:
            # The user's mistake: no traceback.
            self._log.error("Error converting pod selector to selector", error=error, kind=self._kind, key=key)
            selector = None
        drawn = self._draw(owner, selector, None if cached is None else cached[2])
        self._known[key] = (meta.uid, meta.generation, drawn)
        return drawn

    def all(self) -> Iterable[Blueprint]:
        """All of them, in the order in which they were first computed."""
        return (blueprint for _uid, _generation, blueprint in self._known.values())

    def forget(self, key: str) -> None:
        self._known.pop(key, None)


class _TemplateMeta(View, frozen=True):
    labels: dict[str, str] = {}


class _Template(View, frozen=True):
    metadata: _TemplateMeta = _TemplateMeta()


_template = msgspec.json.Decoder(_Template)


def template_labels(template: msgspec.Raw) -> dict[str, str]:
    """The labels of a pod template."""
    return _template.decode(template).metadata.labels
