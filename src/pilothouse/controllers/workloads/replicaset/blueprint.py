"""What the spec of a ReplicaSet comes to, worked out once per generation: selector and labels of the template.

Read at every look by ``controller``, and for every pod without owner by ``pod_events``.
"""

import msgspec

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.meta import View
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector, SelectorError, selector_from
from pilothouse.runtime import object_key


class _TemplateMeta(View, frozen=True):
    labels: dict[str, str] = {}


class _Template(View, frozen=True):
    metadata: _TemplateMeta = _TemplateMeta()


_template = msgspec.json.Decoder(_Template)


class Blueprint(msgspec.Struct, frozen=True):
    """What stays the same between two changes of a spec. ``selector`` is None when what is written selects nothing
    that makes sense; such a ReplicaSet is left alone."""

    uid: str
    generation: int
    selector: Selector | None
    template_labels: dict[str, str]


class Blueprints:
    """The blueprints of all ReplicaSets that were asked for."""

    def __init__(self, kind: str, log: Log) -> None:
        self._kind = kind
        self._log = log
        self._known: dict[str, Blueprint] = {}

    def of(self, owner: ReplicaSet) -> Blueprint:
        """The blueprint of this state of the owner."""
        meta = owner.metadata
        key = object_key(meta)
        known = self._known.get(key)
        if known is not None and known.generation == meta.generation and known.uid == meta.uid:
            return known
        selector: Selector | None
        try:
            selector = selector_from(owner.spec.selector)
        except SelectorError as error:
            self._log.error(
                "Error converting pod selector to selector", error=error, kind=self._kind, key=key
            )  # the user's mistake, no traceback
            selector = None
        labels = _template.decode(owner.spec.template).metadata.labels
        blueprint = self._known[key] = Blueprint(meta.uid, meta.generation, selector, labels)
        return blueprint

    def forget(self, key: str) -> None:
        """The owner is gone."""
        self._known.pop(key, None)
