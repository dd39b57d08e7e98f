"""Sets of indexes. Rows mirror ``pkg/controller/job/indexed_job_utils_test.go`` of v1.36."""

from tests.controllers.job.builders import job, pod
from tests.tables import cases

from pilothouse.controllers.workloads.job.decide import active_pods_for_removal
from pilothouse.controllers.workloads.job.indexes import (
    INDEX,
    UNKNOWN,
    Indexes,
    first_pending_indexes,
    index_of,
    pod_generate_name_with_index,
)


@cases(
    "text, completions, more, expected, total",
    {
        "no indexes": ("", 10, (), "", 0),
        "single ones": ("0,5", 10, (), "0,5", 2),
        "two adjacent indexes": ("0-1", 10, (), "0,1", 2),
        "an interval between single ones": ("1,3-5,7", 10, (), "1,3-5,7", 5),
        "completions were lowered into an interval": ("0-9", 5, (), "0-4", 5),
        "completions were lowered below an interval": ("0,7-9", 5, (), "0", 1),
        "extends the preceding interval": ("0-2", 10, (3,), "0-3", 4),
        "extends the following interval": ("4-6", 10, (3,), "3-6", 4),
        "joins two intervals": ("0-2,4-6", 10, (3,), "0-6", 7),
        "unsorted indexes": ("", 10, (7, 2, 3, 9, 4), "2-4,7,9", 5),
        "duplicate index": ("1", 10, (1, 1), "1", 1),
        "invalid text": ("a-b", 10, (), "", 0),
        "empty item": ("0,,1", 10, (), "0,1", 2),
        "invalid items are dropped": ("0,1-foo,bar", 4, (3,), "0,3", 2),
        "one index": ("", 2, (1,), "1", 1),
        "two indexes, one duplicate": ("", 11, (5, 5, 10), "5,10", 2),
        "two intervals": ("", 8, (2, 3, 5, 6, 7), "2,3,5-7", 5),
        "one index and one interval": ("", 6, (0, 2, 3, 4, 5), "0,2-5", 5),
        "an old interval is out of range": ("0-5,8-10", 8, (), "0-5", 6),
        "an old interval is out of range in part": ("0-5,8-10", 10, (), "0-5,8,9", 8),
        "disjoint old and new intervals": ("0,4,5,10-12", 13, (2, 7, 8), "0,2,4,5,7,8,10-12", 9),
        "old ones between new ones": ("3,4,6", 9, (2, 7, 8), "2-4,6-8", 6),
        "new ones between old ones": ("2,7,8", 9, (3, 4, 6), "2-4,6-8", 6),
        "new indexes inside old intervals": ("2-7", 10, (0, 3, 5, 9), "0,2-7,9", 8),
    },
)
def test_succeeded_indexes_text(text: str, completions: int, more: tuple[int, ...], expected: str, total: int) -> None:
    """TestCalculateSucceededIndexes, TestIntervalsHaveIndex."""
    indexes = Indexes.parse(text, completions).plus(more)
    assert str(indexes) == expected
    assert indexes.total == total
    assert Indexes.parse(str(indexes), completions) == indexes
    assert [n for n in range(-1, 20) if n in indexes] == [
        n for low, high in indexes.intervals for n in range(low, high + 1)
    ]


@cases(
    "count, completions, used_indexes, expected",
    {
        "none requested": (0, 5, (), []),
        "the lowest": (3, 5, (), [0, 1, 2]),
        "indexes in use are skipped": (3, 8, ([0, 3], Indexes.of([1, 2])), [4, 5, 6]),
        "fewer free indexes than requested": (3, 5, (Indexes.of([0, 1, 2, 4]),), [3]),
        "more requested than completions": (5, 3, (), [0, 1, 2]),
        "the first are active": (3, 10, ([0, 1],), [2, 3, 4]),
        "the last are active or have succeeded": (6, 6, ([6], Indexes.of([4, 5])), [0, 1, 2, 3]),
        "mixed, some unknown": (5, 20, ([3, 5, 8, UNKNOWN, UNKNOWN], Indexes.of([2, 3, 4, 9])), [0, 1, 6, 7, 10]),
        "with failed indexes": (5, 20, ([3, 9], Indexes.of([1, 5, 9]), Indexes.of([2, 6, 7])), [0, 4, 8, 10, 11]),
    },
)
def test_first_pending_indexes(
    count: int, completions: int, used_indexes: tuple[Indexes | list[int], ...], expected: list[int]
) -> None:
    """TestFirstPendingIndexes."""
    assert first_pending_indexes(count, completions, *used_indexes) == expected


Active = tuple[str | None, str]


@cases(
    "pods, at_least, expected",
    {
        "no duplicates": ([("0", "Running"), ("1", "Running")], 0, []),
        "without index and out of range": (
            [(None, "Pending"), ("2", "Pending"), ("5", "Running"), ("6", "Running")],
            0,
            [(None, "Pending"), ("6", "Running")],
        ),
        "duplicates: the pod in the latest phase is kept": (
            [
                ("5", "Pending"),
                ("0", "Running"),
                ("3", "Pending"),
                ("0", "Running"),
                ("3", "Running"),
                ("0", "Pending"),
                ("6", "Running"),
                ("6", "Pending"),
            ],
            0,
            [("0", "Pending"), ("0", "Running"), ("3", "Pending"), ("6", "Pending"), ("6", "Running")],
        ),
        "mixed": (
            [
                (None, "Pending"),
                ("invalid", "Running"),
                ("-2", "Running"),
                ("0", "Pending"),
                ("1", "Pending"),
                ("1", "Pending"),
                ("1", "Running"),
            ],
            0,
            [(None, "Pending"), ("invalid", "Running"), ("-2", "Running"), ("1", "Pending"), ("1", "Pending")],
        ),
        "count": (
            [("0", "Running"), ("1", "Pending"), ("2", "Running")],
            2,
            [("1", "Pending"), ("0", "Running")],
        ),
    },
)
def test_active_pods_for_removal(pods: list[Active], at_least: int, expected: list[Active]) -> None:
    """TestAppendDuplicatedIndexPodsForRemoval, and ``activePodsForRemoval``."""
    owner = job(completion_mode="Indexed", completions=6)
    active = [
        pod(f"p{number}", phase, notes={INDEX: index} if index is not None else {})
        for number, (index, phase) in enumerate(pods)
    ]
    victims = active_pods_for_removal(owner, active, at_least)
    assert [(victim.metadata.annotations.get(INDEX), victim.status.phase) for victim in victims] == expected


@cases(
    "annotations, expected",
    {
        "no annotation": ({}, UNKNOWN),
        "annotation": ({"batch.kubernetes.io/job-completion-index": "3"}, 3),
        "negative": ({"batch.kubernetes.io/job-completion-index": "-3"}, UNKNOWN),
        "invalid annotation": ({"batch.kubernetes.io/job-completion-index": "abc"}, UNKNOWN),
    },
)
def test_completion_index(annotations: dict[str, str], expected: int) -> None:
    """``getCompletionIndex``."""
    assert index_of(annotations) == expected


@cases(
    "name, expected",
    {
        "a short name": ("indexed-job", "indexed-job-1"),
        "name is truncated": ("hhhhhooooo" * 7, "hhhhhooooo" * 5 + "hhhhh-1"),
        "too long with the index": ("hhhhhooooo" * 5 + "hhhhhoo", "hhhhhooooo" * 5 + "hhhhh-1"),
    },
)
def test_pod_generate_name_with_index(name: str, expected: str) -> None:
    """TestPodGenerateNameWithIndex."""
    assert pod_generate_name_with_index(name, 1) == expected
    assert len(pod_generate_name_with_index(name, 12)) <= 57
