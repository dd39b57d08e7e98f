"""Scaling a Deployment. Cases of ``TestScale``, v1.36 ``pkg/controller/deployment/sync_test.go``, and of
``TestGetReplicaSetFraction``, ``TestAnnotationUtils``, ``util/deployment_util_test.go``."""

from tests.controllers.deployment.builders import deployment, replica_set
from tests.tables import cases

from pilothouse.api.apps import DeploymentStatus, ReplicaSet
from pilothouse.controllers.workloads.deployment.scaling import (
    get_proportion,
    is_saturated,
    is_scaling_event,
    largest_first,
    scale,
)
from pilothouse.controllers.workloads.deployment.sizes import size_of
from pilothouse.machinery.int_or_percent import scaled


def scaled_to(
    before: int, surge: int | str, to: int, new: int | None, old: list[int], surge_before: int | str | None = None
) -> list[int]:
    """Sizes of the new one (if any) and the old ones, newest first, after scaling from ``before``."""
    most = before + scaled(surge if surge_before is None else surge_before, before, up=True)
    owner = deployment(to, surge, 0, status=DeploymentStatus(replicas=most))
    newest = None if new is None else replica_set("new", new, desired=before, most=most)
    older = [
        replica_set(f"old-{index}", size, desired=before, most=most, age=index + 1) for index, size in enumerate(old)
    ]
    sizes = {item.metadata.name: size_of(item) for item in older} | ({"new": new} if new is not None else {})
    for step in scale(owner, newest, older):
        sizes[step.name] = step.size
    result = [sizes[f"old-{index}"] for index in range(len(old))]
    return ([] if new is None else [sizes["new"]]) + result


@cases(
    "before, surge, to, new, old, expected",
    {
        "normal scaling: 10 to 12": (10, 0, 12, 10, [], [12]),
        "normal scaling: 10 to 5": (10, 0, 5, 10, [], [5]),
        "proportional: 5 + 5 to 6 + 6": (10, 0, 12, 5, [5], [6, 6]),
        "proportional: 5 + 5 to 3 + 2": (10, 0, 5, 5, [5], [3, 2]),
        "proportional: 5 + 3 + 2 to 20": (10, 0, 20, 5, [3, 2], [10, 6, 4]),
        "proportional: 5 + 3 + 2 to 1": (10, 0, 1, 5, [3, 2], [1, 0, 0]),
        "to zero": (10, 0, 0, 5, [3, 2], [0, 0, 0]),
        "from nothing: the new one": (0, 0, 10, 0, [0, 0], [10, 0, 0]),
        "from nothing without a new one: the latest": (0, 0, 6, None, [0, 0], [6, 0]),
        "remainder of rounding goes to the largest": (30, 0, 5, 20, [10], [3, 2]),
        "one more: the newest of equal size": (6, 0, 7, 2, [2, 2], [3, 2, 2]),
        "one less: the oldest of equal size": (6, 0, 5, 2, [2, 2], [2, 2, 1]),
        "with surge: 3 + 2 to 6 + 4": (4, "25%", 8, 3, [2], [6, 4]),
        "with surge: 6 + 4 to 3 + 2": (8, "25%", 4, 6, [4], [3, 2]),
        "missing replicas go to the largest": (10, 3, 10, 3, [8], [3, 10]),
        "doubled": (5, 0, 10, 2, [3], [4, 6]),
        "5 to 3": (5, 0, 3, 2, [3], [1, 2]),
        "9 to 4: the small one is scaled to zero": (9, 0, 4, 8, [1], [4, 0]),
        "7 to 10": (7, 0, 10, 2, [3, 2], [3, 4, 3]),
        "13 to 8": (13, 0, 8, 2, [8, 3], [1, 5, 2]),
        "3 to 4: the new one gets it": (3, 0, 4, 1, [1, 1], [2, 1, 1]),
        "3 to 2: the oldest loses it": (3, 0, 2, 1, [1, 1], [1, 1, 0]),
        "without a new one: the latest": (4, 0, 5, None, [2, 2], [3, 2]),
        "from zero with desired-replicas annotation": (6, 0, 6, 0, [0, 0], [6, 0, 0]),
        "doubled, with surge": (10, 2, 20, 6, [6], [11, 11]),
        "new template and new size": (10, 0, 14, None, [7, 3], [10, 4]),
        "new replicas unavailable: the old one is kept": (2, 1, 2, 2, [1], [2, 1]),
    },
)
def test_scale_proportionally(
    before: int, surge: int | str, to: int, new: int | None, old: list[int], expected: list[int]
) -> None:
    assert scaled_to(before, surge, to, new, old) == expected


def test_change_of_surge_and_size() -> None:
    """``TestScale``, "change both surge and size"."""
    assert scaled_to(10, 6, 50, 5, [8], surge_before=3) == [22, 34]


def test_replica_set_that_was_not_updated_is_scaled_later() -> None:
    """``TestScale``, "failed rs update": when scaling from 3 to 5 the middle ReplicaSet was not updated, and its
    annotation is still 3."""
    new = replica_set("new", 2, desired=5, most=5)
    old = [replica_set("old", 1, desired=3, most=3, age=1), replica_set("older", 1, desired=5, most=5, age=2)]
    steps = scale(deployment(5), new, old)
    assert {step.name: step.size for step in steps} == {"new": 2, "old": 2, "older": 1}


@cases(
    "replicas, surge, limits, size, most, expected",
    {
        "zero desired replicas": (0, 0, 0, 10, None, -10),
        "no desired-replicas annotation": (10, 0, 0, 5, None, 0),
        "desired-replicas annotation of 0": (10, 0, 0, 5, 0, 0),
        "a fifth more, by the status": (120, 0, 100, 50, None, 10),
        "20 % more, invalid annotation: by the status": (120, 0, 100, 50, 0, 10),
        "a fifth more": (120, 0, 0, 50, 100, 10),
        "20 % more, without the surge": (120, 10, 0, 50, 110, 9),
        "a sixth less": (10, 0, 0, 6, 12, -1),
        "a sixth less, without the surge": (100, 10, 0, 50, 130, -8),
    },
)
def test_replica_set_fraction(
    replicas: int, surge: int, limits: int, size: int, most: int | None, expected: int
) -> None:
    """``TestGetReplicaSetFraction``."""
    owner = deployment(replicas, surge, 1, status=DeploymentStatus(replicas=limits))
    result = get_proportion(owner, replica_set("a", size, most=most), 1000 if expected > 0 else -1000, 0)
    assert result == expected


def test_saturated_new_replica_set_scales_old_ones_to_zero() -> None:
    new = replica_set("new", 4, desired=4, available=4)
    steps = scale(deployment(4), new, [replica_set("old", 2, age=1), replica_set("older", 0, age=2)])
    assert [(step.name, step.size) for step in steps] == [("old", 0)]


@cases(
    "new, expected",
    {
        "saturated": (replica_set("new", 4, desired=4, available=4), True),
        "no desired-replicas annotation": (replica_set("new", 4, available=4), False),
        "sized for another number": (replica_set("new", 4, desired=3, available=4), False),
        "size differs": (replica_set("new", 3, desired=4, available=4), False),
        "one not available": (replica_set("new", 4, desired=4, available=3), False),
    },
)
def test_is_saturated(new: ReplicaSet, expected: bool) -> None:
    assert is_saturated(deployment(4), new) is expected


def test_recreate_is_not_scaled_proportionally() -> None:
    old = [replica_set("a", 1, desired=2), replica_set("b", 1, desired=2)]
    assert scale(deployment(4, strategy="Recreate"), None, old) == []


def test_annotations_are_updated_if_the_size_is_unchanged() -> None:
    """Upstream does not update it, and the Deployment seems to be scaling forever."""
    (step,) = scale(deployment(5), replica_set("new", 5, desired=3), [])
    assert step.annotate
    assert step.size == 5


def test_all_replica_sets_are_annotated_at_the_same_size() -> None:
    steps = scale(deployment(4, 1), replica_set("new", 3, desired=9), [replica_set("old", 2, desired=9, age=1)])
    assert all(step.annotate for step in steps)
    assert sorted((step.name, step.size) for step in steps) == [("new", 3), ("old", 2)]


@cases(
    "sets, expected",
    {
        "sized for another number": ([replica_set("a", 1, desired=2)], True),
        "sized for this one": ([replica_set("a", 1, desired=4)], False),
        "no replicas": ([replica_set("a", 0, desired=2)], False),
        "no annotation": ([replica_set("a", 1)], False),
        "an invalid annotation": (
            [replica_set("a", 1, annotations={"deployment.kubernetes.io/desired-replicas": "-1"})],
            False,
        ),
        "an annotation out of range": (
            [replica_set("a", 1, annotations={"deployment.kubernetes.io/desired-replicas": "2147483648"})],
            False,
        ),
        "one of two ReplicaSets": ([replica_set("a", 1, desired=4), replica_set("b", 1, desired=3)], True),
    },
)
def test_is_scaling_event(sets: list[ReplicaSet], expected: bool) -> None:
    """``TestDeploymentController_isScalingEvent`` is of ``sync_test.go``'s ``isScalingEvent``."""
    assert is_scaling_event(deployment(4), sets) is expected


def test_replica_sets_by_size() -> None:
    """``TestReplicaSetsBySize``-like orders of ``controller_utils_test.go``: by size, then by age, then by name."""
    sets = [
        replica_set("a", 1, age=3),
        replica_set("b", 2, age=2),
        replica_set("c", 2, age=5),
        replica_set("d", 2, age=2),
    ]
    assert [item.metadata.name for item in largest_first(sets, 1)] == ["d", "b", "c", "a"]
    assert [item.metadata.name for item in largest_first(sets, -1)] == ["c", "b", "d", "a"]
    assert largest_first(sets, 0) == sets
