"""A stub of ``OwnerGate`` for tests of event handlers, on a cache filled by the test."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.env import Env
from pilothouse.machinery.labels import Selector
from pilothouse.runtime import Cache, UidTrackingExpectations


def gate(
    env: Env, kind: Kind[Any], owners: Cache[Any], selector_of: Callable[[Any], Selector | None] = lambda _owner: None
) -> Any:
    expectations = UidTrackingExpectations(env)
    return SimpleNamespace(
        kind=kind, owners=owners, expectations=expectations, consistency_store=None, selector_of=selector_of
    )
