"""The values that are derived from the spec of a DaemonSet once per generation."""

import msgspec

from pilothouse.api.apps import DaemonSet
from pilothouse.api.core import PodTemplateSpec
from pilothouse.controllers.shared import blueprints as shared
from pilothouse.controllers.shared.history import template_patch
from pilothouse.controllers.workloads.daemonset.placement import Placements, node_requirements_of
from pilothouse.controllers.workloads.daemonset.pod_template import PinnedTemplate
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector

_template = msgspec.json.Decoder(PodTemplateSpec)


class Blueprint:
    """``selector`` is None if it is invalid."""

    def __init__(
        self,
        owner: DaemonSet,
        selector: Selector | None,
        placements: Placements | None,
        *,
        comparison_operators: bool = False,
    ) -> None:
        self.selector = selector
        self.template = owner.spec.template
        read = _template.decode(self.template)
        self.template_labels = read.metadata.labels
        self.patch = template_patch(self.template)
        """The data of a revision of this template."""
        requirements = node_requirements_of(read.spec, comparison_operators=comparison_operators)
        # A new image changes nothing about which nodes are eligible: the known placements stay.
        self.placements = (
            placements
            if placements is not None and placements.requirements == requirements
            else Placements(requirements)
        )
        self._pinned: tuple[str, int | None, PinnedTemplate] | None = None

    def pinned_template(self, revision_hash: str, generation: int | None) -> PinnedTemplate:
        pinned = self._pinned
        if pinned is not None and pinned[0] == revision_hash and pinned[1] == generation:
            return pinned[2]
        pinned_template = PinnedTemplate(self.template, revision_hash=revision_hash, generation=generation)
        self._pinned = (revision_hash, generation, pinned_template)
        return pinned_template


class Blueprints(shared.Blueprints[DaemonSet, Blueprint]):
    """The blueprints of all DaemonSets."""

    def __init__(self, log: Log, *, comparison_operators: bool = False) -> None:
        def draw(owner: DaemonSet, selector: Selector | None, old: Blueprint | None) -> Blueprint:
            placements = old.placements if old is not None else None
            return Blueprint(owner, selector, placements, comparison_operators=comparison_operators)

        super().__init__("DaemonSet", lambda owner: owner.spec.selector, draw, log)

    def forget_node(self, name: str) -> None:
        for blueprint in self.all():
            blueprint.placements.forget(name)
