"""The steps by number of nodes. Pure. Upstream: v1.36 ``pkg/controller/ttl/ttl_controller.go``."""

import re
from collections.abc import Mapping

import msgspec

ANNOTATION = "node.alpha.kubernetes.io/ttl"

_integer = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Step(msgspec.Struct, frozen=True):
    """Clusters of ``smallest`` to ``largest`` nodes may be on this step. None: however many."""

    smallest: int
    largest: int | None
    seconds: int


STEPS = (
    Step(0, 100, 0),
    Step(90, 500, 15),
    Step(450, 1000, 30),
    Step(900, 2000, 60),
    Step(1800, None, 300),
)


def step_after_add(step: int, nodes: int) -> int:
    """The step of a cluster that has grown to ``nodes``: at most one up."""
    largest = STEPS[step].largest
    return step + 1 if largest is not None and nodes > largest else step


def step_after_delete(step: int, nodes: int) -> int:
    """The step of a cluster that has shrunk to ``nodes``: at most one down."""
    return step - 1 if nodes < STEPS[step].smallest else step


def says(annotations: Mapping[str, str], seconds: int) -> bool:
    """Whether the annotation is there and is this number, in whatever spelling."""
    text = annotations.get(ANNOTATION)
    return text is not None and _integer.fullmatch(text) is not None and int(text) == seconds
