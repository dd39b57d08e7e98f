"""How far a rollout may stray from ``replicas``. Pure; read by ``rolling``, ``scaling`` and ``status``.

Upstream: ``ResolveFenceposts``, ``MaxUnavailable`` and ``MaxSurge``, v1.36 ``pkg/controller/deployment/util/
deployment_util.go``.
"""

import msgspec

from pilothouse.api.apps import Deployment
from pilothouse.machinery.int_or_percent import InvalidBound, scaled

ROLLING_UPDATE = "RollingUpdate"
RECREATE = "Recreate"


class Bounds(msgspec.Struct, frozen=True):
    """maxUnavailable and maxSurge as numbers of pods. Not both 0 if there are replicas."""

    unavailable: int = 0
    surge: int = 0


def desired_replicas(deployment: Deployment) -> int:
    replicas = deployment.spec.replicas
    return 1 if replicas is None else replicas


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == ROLLING_UPDATE


def bounds_of(deployment: Deployment) -> Bounds:
    """The bounds for this number of replicas. Of 10 replicas, 25 % is a surge of 3 and 2 that may be unavailable.

    If both would be 0, one pod may be unavailable. With Recreate both are 0. Invalid values count as 0, as upstream.
    """
    replicas = desired_replicas(deployment)
    rolling = deployment.spec.strategy.rolling_update
    if not is_rolling(deployment) or rolling is None:
        unavailable = surge = 0
    else:
        try:
            unavailable = scaled(rolling.max_unavailable, replicas, up=False)
            surge = scaled(rolling.max_surge, replicas, up=True)
        except InvalidBound:
            return Bounds()
    if not is_rolling(deployment):
        return Bounds()
    if unavailable == 0 and surge == 0:
        unavailable = 1
    return Bounds(min(unavailable, replicas), surge)
