"""A step of the rolling update. Cases of v1.36 ``pkg/controller/deployment/rolling_test.go``:
``TestDeploymentController_reconcileNewReplicaSet``, ``…_reconcileOldReplicaSets``, ``…_cleanupUnhealthyReplicas``,
``…_scaleDownOldReplicaSetsForRollingUpdate``. There each half of the second step has a test of its own; here it is
what both come to."""

from tests.controllers.deployment.builders import deployment, replica_set, sized
from tests.tables import cases

from pilothouse.controllers.workloads.deployment.rolling import reconcile_new_replica_set, reconcile_old_replica_sets
from pilothouse.controllers.workloads.deployment.sizes import Resize


@cases(
    "replicas, surge, old, new, expected",
    {
        "no surge: not scaled": (10, 0, 10, 0, None),
        "the surge": (10, 2, 10, 0, 2),
        "surge and the reduction of the old one": (10, 2, 5, 0, 7),
        "the surge is used up": (10, 2, 10, 2, None),
        "too large: scaled down to the desired replicas": (10, 2, 2, 11, 10),
        "already at replicas": (10, 2, 0, 10, None),
    },
)
def test_reconcile_new_replica_set(replicas: int, surge: int, old: int, new: int, expected: int | None) -> None:
    steps = reconcile_new_replica_set(
        deployment(replicas, surge, 0), replica_set("new", new), [replica_set("old", old, age=9)]
    )
    assert sized(steps) == ([] if expected is None else [Resize("new", expected)])


@cases(
    "replicas, unavailable, old, new, old_available, new_available, expected",
    {
        "maxUnavailable 0": (10, 0, 10, 0, 10, 0, []),
        "scaled down by maxUnavailable": (10, 2, 10, 0, 10, 0, [8]),
        "only the unhealthy replicas": (10, 2, 10, 0, 8, 0, [8]),
        "unhealthy replicas first, then healthy ones": (10, 2, 10, 0, 9, 0, [9, 8]),
        "unavailable new replicas count towards maxUnavailable": (10, 2, 8, 2, 8, 0, []),
        "old replicas are reduced as new ones become available": (10, 2, 8, 2, 8, 2, [6]),
        "one surge replica available": (10, 0, 10, 2, 10, 1, [9]),
        "one surge replica available: unhealthy first": (10, 0, 10, 2, 9, 1, [9]),
        "no old replicas": (10, 2, 0, 10, 0, 10, []),
        "available replicas at the minimum": (10, 2, 8, 5, 6, 0, []),
        "all unhealthy: up to maxUnavailable": (10, 3, 10, 0, 0, 0, [7]),
        "maxUnavailable of 100 %": (5, 5, 5, 0, 5, 0, [0]),
    },
)
def test_reconcile_old_replica_sets(
    replicas: int,
    unavailable: int,
    old: int,
    new: int,
    old_available: int,
    new_available: int,
    expected: list[int],
) -> None:
    steps = reconcile_old_replica_sets(
        deployment(replicas, 0 if unavailable else 2, unavailable),
        replica_set("new", new, available=new_available),
        [replica_set("old", old, available=old_available, age=9)],
    )
    assert sized(steps) == [Resize("old", size) for size in expected]


def test_oldest_replica_set_is_scaled_down_first() -> None:
    old = [replica_set("b", 3, available=3, age=5), replica_set("a", 3, available=3, age=9)]
    steps = reconcile_old_replica_sets(deployment(6, 0, 4), replica_set("new"), old)
    assert sized(steps) == [Resize("a", 0), Resize("b", 2)]


def test_equal_ages_are_ordered_by_name() -> None:
    old = [replica_set("b", 1, available=1), replica_set("a", 1, available=1)]
    assert sized(reconcile_old_replica_sets(deployment(2, 0, 1), replica_set("new"), old)) == [Resize("a", 0)]


def test_unhealthy_replicas_of_all_old_replica_sets_are_cleaned_up_first() -> None:
    old = [replica_set("a", 4, available=4, age=9), replica_set("b", 4, available=1, age=5)]
    steps = reconcile_old_replica_sets(deployment(8, 0, 4), replica_set("new"), old)
    assert sized(steps) == [Resize("b", 1), Resize("a", 3)]


def test_stale_available_replicas_are_not_scaled_down_twice() -> None:
    """3 must stay available: of a's four available pods one is already scaled down, and b has none. Upstream scales
    down another one."""
    old = [replica_set("a", 3, available=4, age=9), replica_set("b", 2, available=0, age=5)]
    assert sized(reconcile_old_replica_sets(deployment(4, 1, 1), replica_set("new"), old)) == [Resize("b", 0)]


def test_every_step_respects_max_surge_and_max_unavailable() -> None:
    """Every step of every small rollout, exhaustively."""
    for replicas in range(5):
        for surge, unavailable in ((0, 1), (1, 0), (1, 1), (2, 0), (0, 3)):
            owner = deployment(replicas, surge, unavailable)
            least = replicas - min(unavailable, replicas)
            for old, new in ((old, new) for old in range(replicas + surge + 1) for new in range(replicas + 1)):
                if old + new > replicas + surge:
                    continue
                for old_available in range(old + 1):
                    for new_available in range(new + 1):
                        newest = replica_set("new", new, available=new_available)
                        oldest = replica_set("old", old, available=old_available, age=1)
                        grown = reconcile_new_replica_set(owner, newest, [oldest])
                        assert all(old + step.size <= replicas + surge for step in grown)
                        remaining = [step.size for step in reconcile_old_replica_sets(owner, newest, [oldest])]
                        if remaining:
                            assert min(old_available, remaining[-1]) + new_available >= min(
                                least, old_available + new_available
                            )
