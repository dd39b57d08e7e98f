"""What the spec of a ReplicaSet comes to, worked out once per generation: selector and labels of the template.

Read at every sync by ``controller``, and for every pod without owner by ``pod_events``.
"""

import msgspec

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.meta import LabelSelector, View
from pilothouse.controllers.shared import blueprints as shared
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector


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


def selector_of(owner: ReplicaSet) -> LabelSelector | None:
    """What the owner selects. That of a ReplicationController is a map of labels."""
    found: LabelSelector | dict[str, str] | None = owner.spec.selector
    return LabelSelector(match_labels=found) if isinstance(found, dict) else found


class Blueprints(shared.Blueprints[ReplicaSet, Blueprint]):
    """The blueprints of all ReplicaSets that were asked for."""

    def __init__(self, kind: str, log: Log) -> None:
        super().__init__(kind, selector_of, _draw, log)


def _draw(owner: ReplicaSet, selector: Selector | None, _before: Blueprint | None) -> Blueprint:
    labels = _template.decode(owner.spec.template).metadata.labels
    return Blueprint(owner.metadata.uid, owner.metadata.generation, selector, labels)
