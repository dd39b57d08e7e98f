"""Invariants of autoscaled workloads: never outside the bounds, and never faster than the policies allow.

Checks the replicas that a manager sets through ``scale``. As upstream, a manager does not have the history of its
predecessor: policies limit one process.
"""

import math
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.apps import Deployment
from pilothouse.api.autoscaling import HorizontalPodAutoscaler, HPAScalingPolicy
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.sim.process import Process

_deployment = msgspec.json.Decoder(Deployment).decode


class Autoscalers(Invariant):
    """Deployments that each have an autoscaler with their name, whose spec does not change. ``now`` returns loop time.
    ``changes`` counts scalings by a manager."""

    def __init__(self, now: "Callable[[], float]") -> None:
        self._now = now
        self._autoscalers = Objects("autoscaling/horizontalpodautoscalers/", HorizontalPodAutoscaler)
        self._sizes: dict[str, list[tuple[float, int]]] = {}
        """By Deployment: all replicas since the start of this process, with times."""
        self.changes = 0

    def started(self, process: "Process") -> None:
        self._sizes = {key: sizes[-1:] for key, sizes in self._sizes.items()}

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not self._autoscalers.follow(change) and change.key.startswith("apps/deployments/"):
            key = change.key.removeprefix("apps/deployments/")
            if change.type == "DELETED":
                self._sizes.pop(key, None)
                return
            size = _deployment(change.value).spec.replicas or 0
            sizes = self._sizes.setdefault(key, [(self._now(), size)])
            if sizes[-1][1] == size:
                return
            if origin is not None and origin.program.startswith("manager") and origin.call.subresource == "scale":
                self.changes += 1
                self._check(key, size)
            sizes.append((self._now(), size))

    def _check(self, key: str, size: int) -> None:
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None:
            return  # it was just deleted, and the manager has not observed that
        spec, old = autoscaler.spec, self._sizes[key][-1][1]
        least = 1 if spec.min_replicas is None else spec.min_replicas
        if not least <= size <= spec.max_replicas:
            raise Violation(f"{key} is scaled to {size}, outside of {least} to {spec.max_replicas}")
        if not least <= old <= spec.max_replicas:
            return  # corrected immediately, whatever the difference
        up = size > old
        if spec.behavior is None:
            if size > max(2 * old, 4):
                raise Violation(f"{key} goes from {old} to {size} in one sync")
            return
        rules = spec.behavior.scale_up if up else spec.behavior.scale_down
        assert rules is not None, "the server fills in both"
        allowed = [self._policy_limit(key, policy, 1 if up else -1) for policy in rules.policies]
        furthest = max(allowed) if up else min(allowed)
        if (size > furthest) if up else (size < furthest):
            raise Violation(f"{key} goes from {old} to {size}, the policies allow {furthest}: {self._sizes[key]}")

    def _policy_limit(self, key: str, policy: HPAScalingPolicy, direction: int) -> int:
        """The limit of a policy, relative to the size at the start of its period."""
        since = self._now() - policy.period_seconds
        sizes = self._sizes[key]
        start = next((size for time, size in reversed(sizes) if time <= since), sizes[0][1])
        change = policy.value if policy.type == "Pods" else start * policy.value / 100
        return math.ceil(start + change) if direction > 0 else math.trunc(start - change)

    def check_final_state(self) -> None:
        """At the end the replicas equal ``desiredReplicas``, and metrics are available."""
        for key, autoscaler in self._autoscalers.items():
            size, status = self._sizes[key][-1][1], autoscaler.status
            if status.desired_replicas != size:
                raise Violation(f"{key} is {size}, its autoscaler says {status.desired_replicas}")
            not_true = [
                condition.type
                for condition in status.conditions
                if condition.status != "True" and condition.type != "ScalingLimited"
            ]
            if not_true or not status.conditions:
                raise Violation(f"{key} came to rest without {not_true}: {status.conditions}")
