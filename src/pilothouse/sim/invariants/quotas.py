"""Invariants of ResourceQuotas: ``status.hard`` equals the spec, and at the end ``used`` equals the existing objects.

Computed from the committed objects, for quotas of the number of pods.
"""

from pilothouse.api.core import Pod, ResourceQuota
from pilothouse.semantics.pods import is_terminal
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change


class Quotas(Invariant):
    """The ResourceQuotas of all namespaces. ``writes`` counts writes of quotas."""

    def __init__(self) -> None:
        self.pods = Objects("/pods/", Pod)
        self.quotas = Objects("/resourcequotas/", ResourceQuota)
        self.writes = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not self.pods.follow(change) and (update := self.quotas.follow(change)):
            self.writes += 1
            _key, old, quota = update
            if quota is not None:
                self._check(quota, old)

    def _check(self, quota: ResourceQuota, old: ResourceQuota | None) -> None:
        name, status = quota.metadata.name, quota.status
        if set(status.used) - set(status.hard):
            raise Violation(f"quota {name} reports resources without a limit: {sorted(status.used)}")
        if any(int(quantity) < 0 for quantity in status.used.values()):
            raise Violation(f"quota {name} has negative usage: {status.used}")
        if old is not None and status.hard not in (old.status.hard, old.spec.hard):
            raise Violation(f"quota {name} sets status.hard to {status.hard}, spec.hard was {old.spec.hard}")

    def check_final_state(self) -> None:
        for quota in self.quotas.values():
            meta = quota.metadata
            live = [p for p in self.pods.values() if p.metadata.namespace == meta.namespace and not is_terminal(p)]
            if quota.status.hard != quota.spec.hard:
                raise Violation(f"quota {meta.name} has status.hard {quota.status.hard}, not {quota.spec.hard}")
            if quota.status.used != {"pods": str(len(live))}:
                raise Violation(f"quota {meta.name} reports {quota.status.used}, there are {len(live)} pods")
