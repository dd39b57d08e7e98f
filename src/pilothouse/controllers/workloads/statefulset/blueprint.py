"""The values that are derived from the spec of a StatefulSet once per generation."""

from pilothouse.api.apps import StatefulSet
from pilothouse.controllers.shared.blueprints import template_labels
from pilothouse.controllers.shared.history import template_patch
from pilothouse.controllers.workloads.statefulset.volume_claims import claim_templates
from pilothouse.machinery.labels import Selector


class Blueprint:
    """``selector`` is None if it is invalid."""

    def __init__(self, owner: StatefulSet, selector: Selector | None) -> None:
        spec = owner.spec
        self.selector = selector
        self.template_labels = template_labels(spec.template)
        self.patch = template_patch(spec.template)
        """The data of a revision of this template."""
        selected = spec.selector.match_labels if spec.selector is not None else {}
        self.claims = claim_templates(spec.volume_claim_templates, selected)
