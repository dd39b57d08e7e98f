"""The path of a sync.

Cases of ``TestScaleDownOldReplicaSets`` and ``TestOldPodsRunning``, v1.36
``pkg/controller/deployment/recreate_test.go``; the order is ``syncDeployment``'s.
"""

import pytest
from tests.controllers.deployment.builders import deployment, replica_set, sized
from tests.tables import cases

from pilothouse.api.apps import Deployment, ReplicaSet
from pilothouse.api.core import Pod, PodStatus
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.deployment.annotations import ROLLBACK_TO
from pilothouse.controllers.workloads.deployment.decide import (
    Plan,
    SyncCase,
    UnknownStrategy,
    rollout_recreate,
    rollout_rolling,
    sync_case,
)
from pilothouse.controllers.workloads.deployment.recreate import old_pods_running
from pilothouse.controllers.workloads.deployment.sizes import Resize

SCALED = [replica_set("a", 1, desired=3)]
WISH = {ROLLBACK_TO: "1"}


@cases(
    "owner, sets, expected",
    {
        "rolling update": (deployment(), [], SyncCase.ROLL),
        "recreate": (deployment(strategy="Recreate"), [], SyncCase.RECREATE),
        "scaled": (deployment(), SCALED, SyncCase.SCALE),
        "rollback precedes scaling": (deployment(annotations=WISH), SCALED, SyncCase.ROLL_BACK),
        "pause precedes rollback": (deployment(annotations=WISH, paused=True), [], SyncCase.SCALE),
        "deletion precedes everything": (deployment(deleted=True, paused=True), SCALED, SyncCase.REPORT),
    },
)
def test_sync_path(owner: Deployment, sets: list[ReplicaSet], expected: SyncCase) -> None:
    assert sync_case(owner, sets) is expected


def test_unknown_strategy_is_an_error() -> None:
    with pytest.raises(UnknownStrategy, match="unexpected deployment strategy type: Canary"):
        sync_case(deployment(strategy="Canary"), [])


def test_rolling_update_creates_then_scales_up_then_scales_down() -> None:
    owner = deployment(4, 1, 0)
    old = replica_set("old", 4, available=4, age=9)
    assert rollout_rolling(owner, None, [old]) == Plan(create=True)
    assert sized(rollout_rolling(owner, replica_set("new"), [old]).resizes) == [Resize("new", 1)]
    assert rollout_rolling(owner, replica_set("new", 1), [old]) == Plan()
    assert sized(rollout_rolling(owner, replica_set("new", 1, available=1), [old]).resizes) == [Resize("old", 3)]


def test_recreate_scales_down_waits_creates_and_scales_up() -> None:
    owner = deployment(4, strategy="Recreate")
    old, empty = replica_set("old", 4), replica_set("old")
    assert sized(rollout_recreate(owner, None, [old], old_pods_left=True).resizes) == [Resize("old", 0)]
    assert rollout_recreate(owner, None, [empty], old_pods_left=True) == Plan(waits=True)
    assert rollout_recreate(owner, None, [empty], old_pods_left=False) == Plan(create=True)
    grown = rollout_recreate(owner, replica_set("new"), [empty], old_pods_left=False)
    assert sized(grown.resizes) == [Resize("new", 4)]
    assert rollout_recreate(owner, replica_set("new", 4), [empty], old_pods_left=False) == Plan()


def pod(phase: str, *, terminating: bool = False) -> Pod:
    meta = ObjectMeta(
        name="pod", deletion_timestamp=replica_set("a").metadata.creation_timestamp if terminating else None
    )
    return Pod(metadata=meta, status=PodStatus(phase=phase))


@cases(
    "old, pods, expected",
    {
        "no old ReplicaSets": ([], [], False),
        "a ReplicaSet has status.replicas": ([replica_set("old", replicas=1)], [], True),
        "running pod": ([replica_set("old")], [pod("Running")], True),
        "terminating pod": ([replica_set("old")], [pod("Running", terminating=True)], True),
        "pending pod": ([replica_set("old")], [pod("Pending")], True),
        "an unknown phase": ([replica_set("old")], [pod("Unknown")], True),
        "succeeded and failed pods": ([replica_set("old")], [pod("Succeeded"), pod("Failed")], False),
    },
)
def test_old_pods_running(old: list[ReplicaSet], pods: list[Pod], expected: bool) -> None:
    assert old_pods_running(old, pods) is expected
