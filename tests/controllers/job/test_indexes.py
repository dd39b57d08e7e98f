"""Sets of indexes. Rows mirror ``pkg/controller/job/indexed_job_utils_test.go`` of v1.36."""

import pytest
from tests.controllers.job.builders import job, pod

from pilothouse.controllers.workloads.job.decide import rank_victims
from pilothouse.controllers.workloads.job.indexes import INDEX, UNKNOWN, Indexes, index_of, pending, pod_name_prefix


@pytest.mark.parametrize(
    ("text", "completions", "more", "expected", "total"),
    [
        pytest.param("", 10, (), "", 0, id="nothing"),
        pytest.param("0,5", 10, (), "0,5", 2, id="single ones"),
        pytest.param("0-1", 10, (), "0,1", 2, id="two neighbours are written apart"),
        pytest.param("1,3-5,7", 10, (), "1,3-5,7", 5, id="an interval between single ones"),
        pytest.param("0-9", 5, (), "0-4", 5, id="completions were lowered into an interval"),
        pytest.param("0,7-9", 5, (), "0", 1, id="completions were lowered below an interval"),
        pytest.param("0-2", 10, (3,), "0-3", 4, id="one joins the interval before"),
        pytest.param("4-6", 10, (3,), "3-6", 4, id="one joins the interval behind"),
        pytest.param("0-2,4-6", 10, (3,), "0-6", 7, id="one closes a gap"),
        pytest.param("", 10, (7, 2, 3, 9, 4), "2-4,7,9", 5, id="in any order"),
        pytest.param("1", 10, (1, 1), "1", 1, id="none counts twice"),
        pytest.param("a-b", 10, (), "", 0, id="no numbers: nothing"),
        pytest.param("0,,1", 10, (), "0,1", 2, id="an empty item is left out"),
        pytest.param("0,1-foo,bar", 4, (3,), "0,3", 2, id="what is no interval is left out, the rest stays"),
        pytest.param("", 2, (1,), "1", 1, id="one index"),
        pytest.param("", 11, (5, 5, 10), "5,10", 2, id="two separate ones, one of them twice"),
        pytest.param("", 8, (2, 3, 5, 6, 7), "2,3,5-7", 5, id="two intervals"),
        pytest.param("", 6, (0, 2, 3, 4, 5), "0,2-5", 5, id="one index and one interval"),
        pytest.param("0-5,8-10", 8, (), "0-5", 6, id="an old interval is out of range"),
        pytest.param("0-5,8-10", 10, (), "0-5,8,9", 8, id="an old interval is out of range in part"),
        pytest.param("0,4,5,10-12", 13, (2, 7, 8), "0,2,4,5,7,8,10-12", 9, id="old and new ones apart"),
        pytest.param("3,4,6", 9, (2, 7, 8), "2-4,6-8", 6, id="old ones between new ones"),
        pytest.param("2,7,8", 9, (3, 4, 6), "2-4,6-8", 6, id="new ones between old ones"),
        pytest.param("2-7", 10, (0, 3, 5, 9), "0,2-7,9", 8, id="new ones within old ones"),
    ],
)
def test_texts_and_sets(text: str, completions: int, more: tuple[int, ...], expected: str, total: int) -> None:
    """TestCalculateSucceededIndexes, TestIntervalsHaveIndex."""
    indexes = Indexes.parse(text, completions).plus(more)
    assert str(indexes) == expected
    assert indexes.total == total
    assert Indexes.parse(str(indexes), completions) == indexes
    assert [n for n in range(-1, 20) if n in indexes] == [
        n for low, high in indexes.intervals for n in range(low, high + 1)
    ]


@pytest.mark.parametrize(
    ("count", "completions", "taken", "expected"),
    [
        pytest.param(0, 5, (), [], id="none wanted"),
        pytest.param(3, 5, (), [0, 1, 2], id="the lowest"),
        pytest.param(3, 8, ([0, 3], Indexes.of([1, 2])), [4, 5, 6], id="those that are not taken"),
        pytest.param(3, 5, (Indexes.of([0, 1, 2, 4]),), [3], id="no more than there are"),
        pytest.param(5, 3, (), [0, 1, 2], id="more than completions"),
        pytest.param(3, 10, ([0, 1],), [2, 3, 4], id="the first are active"),
        pytest.param(6, 6, ([6], Indexes.of([4, 5])), [0, 1, 2, 3], id="the last are active or have succeeded"),
        pytest.param(
            5, 20, ([3, 5, 8, UNKNOWN, UNKNOWN], Indexes.of([2, 3, 4, 9])), [0, 1, 6, 7, 10], id="mixed, some unknown"
        ),
        pytest.param(
            5, 20, ([3, 9], Indexes.of([1, 5, 9]), Indexes.of([2, 6, 7])), [0, 4, 8, 10, 11], id="some have failed"
        ),
    ],
)
def test_the_lowest_that_are_missing(
    count: int, completions: int, taken: tuple[Indexes | list[int], ...], expected: list[int]
) -> None:
    """TestFirstPendingIndexes."""
    assert pending(count, completions, *taken) == expected


Active = tuple[str | None, str]


@pytest.mark.parametrize(
    ("pods", "at_least", "expected"),
    [
        pytest.param([("0", "Running"), ("1", "Running")], 0, [], id="one of each stays"),
        pytest.param(
            [(None, "Pending"), ("2", "Pending"), ("5", "Running"), ("6", "Running")],
            0,
            [(None, "Pending"), ("6", "Running")],
            id="all different: who is of no index, or of one past the last, goes",
        ),
        pytest.param(
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
            id="of doubles the one that is furthest stays",
        ),
        pytest.param(
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
            id="mixed",
        ),
        pytest.param(
            [("0", "Running"), ("1", "Pending"), ("2", "Running")],
            2,
            [("1", "Pending"), ("0", "Running")],
            id="as many as must go",
        ),
    ],
)
def test_who_goes(pods: list[Active], at_least: int, expected: list[Active]) -> None:
    """TestAppendDuplicatedIndexPodsForRemoval, and ``activePodsForRemoval``."""
    owner = job(completion_mode="Indexed", completions=6)
    active = [
        pod(f"p{number}", phase, notes={INDEX: index} if index is not None else {})
        for number, (index, phase) in enumerate(pods)
    ]
    victims = rank_victims(owner, active, at_least)
    assert [(victim.metadata.annotations.get(INDEX), victim.status.phase) for victim in victims] == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, UNKNOWN, id="says none"),
        pytest.param({"batch.kubernetes.io/job-completion-index": "3"}, 3, id="says it"),
        pytest.param({"batch.kubernetes.io/job-completion-index": "-3"}, UNKNOWN, id="negative"),
        pytest.param({"batch.kubernetes.io/job-completion-index": "abc"}, UNKNOWN, id="no number"),
    ],
)
def test_the_index_of_a_pod(annotations: dict[str, str], expected: int) -> None:
    """``getCompletionIndex``."""
    assert index_of(annotations) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("indexed-job", "indexed-job-1", id="a short name"),
        pytest.param("hhhhhooooo" * 7, "hhhhhooooo" * 5 + "hhhhh-1", id="a name that is too long by itself"),
        pytest.param("hhhhhooooo" * 5 + "hhhhhoo", "hhhhhooooo" * 5 + "hhhhh-1", id="too long with the index"),
    ],
)
def test_long_names_are_cut_before_the_index(name: str, expected: str) -> None:
    """TestPodGenerateNameWithIndex."""
    assert pod_name_prefix(name, 1) == expected
    assert len(pod_name_prefix(name, 12)) <= 57
