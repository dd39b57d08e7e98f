"""The usage of a resource in a namespace, from an informer's cache. The usage of an object is remembered until it
changes. Long counts yield to other tasks.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.controllers.policy.resourcequota.replenishment import as_json
from pilothouse.controllers.policy.resourcequota.usage import zero
from pilothouse.env import Env
from pilothouse.machinery.quantities import Quantity
from pilothouse.runtime.informer import SharedInformer
from pilothouse.semantics.pod_amounts import Amounts
from pilothouse.semantics.quota import Evaluator, ScopeRequirement

CONCURRENCY = 100
"""How many objects are counted before other tasks run."""


class CacheNotSynced(Exception):
    """The cache of a resource has not synced."""


class _ObjectUsage(msgspec.Struct, frozen=True):
    obj: Any
    used: Amounts
    scopes: dict[ScopeRequirement, bool]


class Counter:
    """Counts one resource. ``is_measured``: objects have different usage; otherwise each counts as one."""

    def __init__(self, env: Env, evaluator: Evaluator, informer: SharedInformer[Any], *, is_measured: bool) -> None:
        self.evaluator = evaluator
        self.informer = informer
        self._env = env
        self._is_measured = is_measured
        self._known: dict[str, _ObjectUsage] = {}

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    async def count(self, namespace: str, names: Sequence[str], scopes: tuple[ScopeRequirement, ...]) -> Amounts:
        """The usage of these limits in a namespace. Raises ``CacheNotSynced``."""
        if not self.informer.has_synced:
            raise CacheNotSynced(f"{self.informer.kind.group_resource} not yet synced")
        total = zero(names)
        objects = self.informer.cache.list(namespace)
        if not self._is_measured:
            # Objects that are only counted have no scope.
            return total if scopes else dict.fromkeys(names, Quantity(len(objects)))
        for number, obj in enumerate(objects, 1):
            self._add(total, obj, scopes)
            if number % CONCURRENCY == 0:
                await asyncio.sleep(0)
        return total

    def _add(self, total: Amounts, obj: Any, scopes: tuple[ScopeRequirement, ...]) -> None:
        meta = obj.metadata
        object_usage = self._known.get(meta.uid)
        if object_usage is None or object_usage.obj is not obj:
            object_usage = _ObjectUsage(obj, self.evaluator.usage(as_json(obj), self._env.now()), {})
            # Not remembered: terminating objects, whose usage depends on the time; and objects that were deleted during
            # this count, since nothing would remove them.
            if meta.deletion_timestamp is None and meta.uid and self.informer.cache.still_has(meta):
                self._known[meta.uid] = object_usage
        for scope in scopes:
            inside = object_usage.scopes.get(scope)
            if inside is None:
                inside = object_usage.scopes[scope] = self.evaluator.in_scope(scope, as_json(obj))
            if not inside:
                return
        used = object_usage.used
        for name in total:
            amount = used.get(name)
            if amount is not None:
                total[name] += amount
