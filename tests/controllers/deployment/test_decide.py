"""Which way a sync goes. Cases of ``TestScaleDownOldReplicaSets`` and ``TestOldPodsRunning``, v1.36
``pkg/controller/deployment/recreate_test.go``; the order is ``syncDeployment``'s."""

import pytest
from tests.controllers.deployment.builders import deployment, replica_set

from pilothouse.api.apps import Deployment, ReplicaSet
from pilothouse.api.core import Pod, PodStatus
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.deployment.annotations import ROLLBACK_TO
from pilothouse.controllers.workloads.deployment.decide import (
    Plan,
    UnknownStrategy,
    Way,
    next_recreation,
    next_roll,
    way_of,
)
from pilothouse.controllers.workloads.deployment.recreate import are_old_pods_left
from pilothouse.controllers.workloads.deployment.sizes import Resize

SCALED = [replica_set("a", 1, desired=3)]
WISH = {ROLLBACK_TO: "1"}


@pytest.mark.parametrize(
    ("owner", "sets", "expected"),
    [
        pytest.param(deployment(), [], Way.ROLL, id="rolling update"),
        pytest.param(deployment(strategy="Recreate"), [], Way.RECREATE, id="recreate"),
        pytest.param(deployment(), SCALED, Way.SCALE, id="scaled"),
        pytest.param(deployment(annotations=WISH), SCALED, Way.ROLL_BACK, id="going back comes before scaling"),
        pytest.param(deployment(annotations=WISH, paused=True), [], Way.SCALE, id="a pause comes before going back"),
        pytest.param(deployment(deleted=True, paused=True), SCALED, Way.REPORT, id="deletion comes first"),
    ],
)
def test_the_way(owner: Deployment, sets: list[ReplicaSet], expected: Way) -> None:
    assert way_of(owner, sets) is expected


def test_an_unknown_strategy() -> None:
    with pytest.raises(UnknownStrategy, match="unexpected deployment strategy type: Canary"):
        way_of(deployment(strategy="Canary"), [])


def test_rolling_makes_the_new_one_then_grows_it_then_shrinks_the_old_ones() -> None:
    owner = deployment(4, 1, 0)
    old = replica_set("old", 4, available=4, age=9)
    assert next_roll(owner, None, [old]) == Plan(create=True)
    assert next_roll(owner, replica_set("new"), [old]) == Plan((Resize("new", 1),))
    assert next_roll(owner, replica_set("new", 1), [old]) == Plan()
    assert next_roll(owner, replica_set("new", 1, available=1), [old]) == Plan((Resize("old", 3),))


def test_recreate_empties_waits_makes_and_fills() -> None:
    owner = deployment(4, strategy="Recreate")
    old, empty = replica_set("old", 4), replica_set("old")
    assert next_recreation(owner, None, [old], old_pods_left=True) == Plan((Resize("old", 0),))
    assert next_recreation(owner, None, [empty], old_pods_left=True) == Plan(waits=True)
    assert next_recreation(owner, None, [empty], old_pods_left=False) == Plan(create=True)
    assert next_recreation(owner, replica_set("new"), [empty], old_pods_left=False) == Plan((Resize("new", 4),))
    assert next_recreation(owner, replica_set("new", 4), [empty], old_pods_left=False) == Plan()


def pod(phase: str, *, terminating: bool = False) -> Pod:
    meta = ObjectMeta(
        name="pod", deletion_timestamp=replica_set("a").metadata.creation_timestamp if terminating else None
    )
    return Pod(metadata=meta, status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("old", "pods", "expected"),
    [
        pytest.param([], [], False, id="nothing old"),
        pytest.param([replica_set("old", replicas=1)], [], True, id="a ReplicaSet says it has some"),
        pytest.param([replica_set("old")], [pod("Running")], True, id="one runs"),
        pytest.param([replica_set("old")], [pod("Running", terminating=True)], True, id="one is on its way out"),
        pytest.param([replica_set("old")], [pod("Pending")], True, id="one is to run"),
        pytest.param([replica_set("old")], [pod("Unknown")], True, id="nobody knows"),
        pytest.param([replica_set("old")], [pod("Succeeded"), pod("Failed")], False, id="what has ended is gone"),
    ],
)
def test_old_pods_left(old: list[ReplicaSet], pods: list[Pod], expected: bool) -> None:
    assert are_old_pods_left(old, pods) is expected
