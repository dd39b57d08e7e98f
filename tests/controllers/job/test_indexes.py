"""Sets of indexes. Rows mirror ``pkg/controller/job/indexed_job_utils_test.go`` of v1.36."""

import pytest
from tests.controllers.job.builders import job, pod

from pilothouse.controllers.workloads.job.decide import rank_victims
from pilothouse.controllers.workloads.job.indexes import UNKNOWN, Indexes, index_of, pending, pod_name_prefix


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
        pytest.param("0,,1", 10, (), "", 0, id="an empty item: nothing"),
    ],
)
def test_texts_and_sets(text: str, completions: int, more: tuple[int, ...], expected: str, total: int) -> None:
    """TestCalculateSucceededIndexes, TestParseIndexesFromString."""
    indexes = Indexes.parse(text, completions).plus(more)
    assert str(indexes) == expected
    assert indexes.total == total
    assert Indexes.parse(str(indexes), completions) == indexes
    assert [n for n in range(-1, 12) if n in indexes] == [
        n for low, high in indexes.intervals for n in range(low, high + 1)
    ]


@pytest.mark.parametrize(
    ("count", "completions", "taken", "expected"),
    [
        pytest.param(0, 5, (), [], id="none wanted"),
        pytest.param(3, 5, (), [0, 1, 2], id="the lowest"),
        pytest.param(3, 8, ([0, 3], Indexes.of([1, 2])), [4, 5, 6], id="those that are not taken"),
        pytest.param(3, 5, (Indexes.of([0, 1, 2, 4]),), [3], id="no more than there are"),
    ],
)
def test_the_lowest_that_are_missing(
    count: int, completions: int, taken: tuple[Indexes | list[int], ...], expected: list[int]
) -> None:
    """TestFirstPendingIndexes."""
    assert pending(count, completions, *taken) == expected


@pytest.mark.parametrize(
    ("pods", "at_least", "expected"),
    [
        pytest.param([(0, "a"), (1, "b")], 0, [], id="one of each stays"),
        pytest.param([(0, "a"), (0, "b"), (0, "c")], 0, ["a", "b"], id="of doubles one stays"),
        pytest.param([(None, "a"), (1, "b")], 0, ["a"], id="who is of no index goes"),
        pytest.param([(7, "a"), (1, "b")], 0, ["a"], id="who is of none of the indexes goes"),
        pytest.param([(0, "a"), (1, "b"), (2, "c")], 2, ["a", "b"], id="as many as must go"),
    ],
)
def test_who_goes(pods: list[tuple[int | None, str]], at_least: int, expected: list[str]) -> None:
    """TestAppendDuplicatedIndexPodsForRemoval."""
    owner = job(completion_mode="Indexed", completions=5)
    active = [pod(name, index=index) for index, name in pods]
    assert [victim.metadata.name for victim in rank_victims(owner, active, at_least)] == expected


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
    """TestGetCompletionIndex."""
    assert index_of(annotations) == expected


def test_long_names_are_cut_before_the_index() -> None:
    """TestPodGenerateNameWithIndex."""
    assert pod_name_prefix("indexed-job", 1) == "indexed-job-1"
    assert len(pod_name_prefix("j" * 63, 12)) == 57
    assert pod_name_prefix("j" * 63, 12).endswith("j-12")
