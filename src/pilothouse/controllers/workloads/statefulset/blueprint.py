"""What the spec of a StatefulSet comes to, worked out once per generation.

Read at every sync by ``controller``, and by the pod handlers for pods without owner.
"""

import msgspec

from pilothouse.api.apps import StatefulSet
from pilothouse.api.meta import View
from pilothouse.controllers.shared import blueprints as shared
from pilothouse.controllers.shared.history import template_patch
from pilothouse.controllers.workloads.statefulset.volume_claims import claim_templates
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector


class _TemplateMeta(View, frozen=True):
    labels: dict[str, str] = {}


class _Template(View, frozen=True):
    metadata: _TemplateMeta = _TemplateMeta()


class Blueprint:
    """What stays the same between two changes of a spec. ``selector`` is None when what is written makes no sense."""

    def __init__(self, owner: StatefulSet, selector: Selector | None) -> None:
        spec = owner.spec
        self.uid = owner.metadata.uid
        self.generation = owner.metadata.generation
        self.selector = selector
        self.template_labels = msgspec.json.decode(spec.template, type=_Template).metadata.labels
        self.patch = template_patch(spec.template)
        """What a revision of this template has as data."""
        selected = spec.selector.match_labels if spec.selector is not None else {}
        self.claims = claim_templates(spec.volume_claim_templates, selected)


class Blueprints(shared.Blueprints[StatefulSet, Blueprint]):
    """The blueprints of all StatefulSets that were asked for."""

    def __init__(self, log: Log) -> None:
        super().__init__("StatefulSet", lambda owner: owner.spec.selector, _draw, log)


def _draw(owner: StatefulSet, selector: Selector | None, _before: Blueprint | None) -> Blueprint:
    return Blueprint(owner, selector)
