"""Tests that run twice: as pilothouse is, and without a protection, where an invariant must be broken."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pilothouse.sim import SimulationOptions

AS_IT_IS, WITHOUT = "as it is", "without"

Patch = tuple[object, str, object]
"""An object, the name of an attribute, and what it is replaced by."""


def broken_without(
    *patches: Patch | Callable[..., Sequence[Patch]],
    fails: str | Callable[..., str],
    instead: SimulationOptions | None = None,
    **settings: Any,
) -> Callable[[Any], Any]:
    """The scenario succeeds as it is, and fails like ``fails`` with the patches, or with the options ``instead``.

    A test with an argument ``variant`` sees which of the two it is."""
    both = pytest.mark.parametrize("variant", [AS_IT_IS, WITHOUT], indirect=True)
    mark = pytest.mark.simulation(patches=patches, fails=fails, instead=instead, **settings)
    return lambda test: mark(both(test))
