"""The values that are derived from the spec of a ReplicaSet once per generation: selector and labels of the
template."""

import msgspec

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.meta import LabelSelector
from pilothouse.controllers.shared.blueprints import template_labels
from pilothouse.machinery.labels import Selector


class Blueprint(msgspec.Struct, frozen=True):
    """``selector`` is None if it is invalid; such a ReplicaSet is not synced."""

    selector: Selector | None
    template_labels: dict[str, str]


def selector_of(owner: ReplicaSet) -> LabelSelector | None:
    """The selector. That of a ReplicationController is a map of labels."""
    selector: LabelSelector | dict[str, str] | None = owner.spec.selector
    return LabelSelector(match_labels=selector) if isinstance(selector, dict) else selector


def draw(owner: ReplicaSet, selector: Selector | None, _old: Blueprint | None) -> Blueprint:
    """The blueprint of an owner."""
    return Blueprint(selector, template_labels(owner.spec.template))
