"""Invariants of ResourceQuotas: ``status.hard`` equals the spec, and at the end ``used`` equals the existing objects.

Computed from the committed objects, for all resources that quotas limit.
"""

import datetime
from collections import defaultdict
from typing import Any

import msgspec

from pilothouse.api.core import ResourceQuota
from pilothouse.controllers.policy.resourcequota.usage import scopes_of
from pilothouse.machinery.quantities import Quantity
from pilothouse.semantics.pod_amounts import Amounts, add, amounts
from pilothouse.semantics.quota import evaluator_for
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_ZERO = Quantity(0)
_BEFORE_ALL = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_AFTER_ALL = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class Quotas(Invariant):
    """The ResourceQuotas of all namespaces. ``writes`` counts writes of quotas."""

    def __init__(self) -> None:
        self.quotas = Objects("/resourcequotas/", ResourceQuota)
        self.writes = 0
        self._stored: dict[str, dict[tuple[str, str], dict[str, bytes]]] = defaultdict(lambda: defaultdict(dict))
        """The objects by namespace, then by group and resource, then by name."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        match change.key.split("/"):
            case [group, resource, namespace, name]:
                objects = self._stored[namespace][group, resource]
                if change.type == "DELETED":
                    objects.pop(name, None)
                else:
                    objects[name] = change.value
        if update := self.quotas.follow(change):
            self.writes += 1
            _key, old, quota = update
            if quota is not None:
                self._check(quota, old)

    def _check(self, quota: ResourceQuota, old: ResourceQuota | None) -> None:
        name, status = quota.metadata.name, quota.status
        if set(status.used) - set(status.hard):
            raise Violation(f"quota {name} reports resources without a limit: {sorted(status.used)}")
        if any(used < _ZERO for used in amounts(status.used).values()):
            raise Violation(f"quota {name} has negative usage: {status.used}")
        if old is not None and status.hard not in (old.status.hard, old.spec.hard):
            raise Violation(f"quota {name} sets status.hard to {status.hard}, spec.hard was {old.spec.hard}")

    def check_final_state(self) -> None:
        for quota in self.quotas.values():
            name, used = quota.metadata.name, amounts(quota.status.used)
            if amounts(quota.status.hard) != amounts(quota.spec.hard):
                raise Violation(f"quota {name} has status.hard {quota.status.hard}, not {quota.spec.hard}")
            # A pod whose grace period has passed is not counted any more, but nothing is written at that moment: the
            # usage may be that before or after.
            before, after = self._usage(quota, _BEFORE_ALL), self._usage(quota, _AFTER_ALL)
            for resource in sorted({*used, *before}):
                counted = (before.get(resource, _ZERO), after.get(resource, _ZERO))
                if used.get(resource) not in counted:
                    raise Violation(
                        f"quota {name} reports {resource}: {used.get(resource)}, its objects use {counted[0]}"
                    )

    def _usage(self, quota: ResourceQuota, now: datetime.datetime) -> Amounts:
        """What the existing objects use of the limited resources."""
        scopes = scopes_of(quota)
        total: Amounts = {}
        for (group, resource), objects in self._stored[quota.metadata.namespace].items():
            evaluator = evaluator_for(group, resource)
            limited = evaluator.matching(quota.spec.hard) if evaluator is not None else []
            if evaluator is None or not limited:
                continue
            for stored in objects.values():
                obj: dict[str, Any] = msgspec.json.decode(stored)
                if all(evaluator.in_scope(scope, obj) for scope in scopes):
                    used = evaluator.usage(obj, now)
                    add(total, {name: used[name] for name in limited if name in used})
        return total
