"""Tests that run twice: unchanged, and without a protection, when an invariant must be violated."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pilothouse.sim import SimulationOptions

AS_IT_IS, WITHOUT = "as it is", "without"

Patch = tuple[object, str, object]
"""An object, the name of an attribute, and its replacement."""


def broken_without(
    *patches: Patch | Callable[..., Sequence[Patch]],
    fails: str | Callable[..., str],
    instead: SimulationOptions | None = None,
    **settings: Any,
) -> Callable[[Any], Any]:
    """The scenario succeeds unchanged, and fails matching ``fails`` with the patches, or with the options ``instead``.

    A test with an argument ``variant`` sees which of the two it is."""
    both = pytest.mark.parametrize("variant", [AS_IT_IS, WITHOUT], indirect=True)
    mark = pytest.mark.simulation(patches=patches, fails=fails, instead=instead, **settings)
    return lambda test: mark(both(test))
