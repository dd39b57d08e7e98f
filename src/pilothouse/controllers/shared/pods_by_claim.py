"""The index of pods by claim, shared by the controllers that add it."""

from pilothouse.semantics.volumes import UsesVolumes, claim_names

CLAIM_INDEX = "claim"
"""Pods by the claims that they name, those of their ephemeral volumes included."""


def index_by_claim(pod: UsesVolumes) -> list[str]:
    """The index function of ``CLAIM_INDEX``: namespace and name."""
    return [f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)]
