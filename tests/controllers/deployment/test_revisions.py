"""Annotations and history. Cases of ``TestSetNewReplicaSetAnnotations``-like tests, ``TestAnnotationUtils``,
``TestEqualIgnoreHash``, v1.36 ``util/deployment_util_test.go``; ``TestDeploymentController_cleanupDeployment``,
``sync_test.go``; ``rollback_test.go``'s revisions."""

from typing import Any

import msgspec
import pytest
from tests.controllers.deployment.builders import deployment, replica_set, template
from tests.tables import cases

from pilothouse.api.apps import ReplicaSet
from pilothouse.controllers.workloads.deployment.annotations import (
    LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    ROLLBACK_TO,
    annotations_for_rollback,
    append_revision_history,
    last_revision,
    max_revision,
    new_replica_set_annotations,
)
from pilothouse.controllers.workloads.deployment.history import replica_sets_to_clean_up, roll_back, rollback_revision
from pilothouse.controllers.workloads.deployment.template import equal_ignore_hash, set_name, with_hash, without_hash


@cases(
    "owner, own, revision, expected",
    {
        "a new one": ({}, {}, 1, {REVISION: "1"}),
        "up to date": ({}, {REVISION: "1"}, 1, None),
        "a new annotation": ({"a": "b"}, {REVISION: "1"}, 1, {REVISION: "1", "a": "b"}),
        "a changed one": ({"a": "c"}, {REVISION: "1", "a": "b"}, 1, {REVISION: "1", "a": "c"}),
        "additional annotation is kept": ({}, {REVISION: "1", "a": "b"}, 1, None),
        "annotations that are not copied": ({LAST_APPLIED: "x", ROLLBACK_TO: "1"}, {REVISION: "1"}, 1, None),
        "back to it": ({}, {REVISION: "1"}, 3, {REVISION: "3", REVISION_HISTORY: "1"}),
        "second rollback": ({}, {REVISION: "3", REVISION_HISTORY: "1"}, 5, {REVISION: "5", REVISION_HISTORY: "1,3"}),
        "revision does not decrease": ({}, {REVISION: "5"}, 2, None),
        "invalid revision: no write": ({"a": "b"}, {REVISION: "x"}, 2, None),
    },
)
def test_new_replica_set_annotations(
    owner: dict[str, str], own: dict[str, str], revision: int, expected: dict[str, str] | None
) -> None:
    assert new_replica_set_annotations(owner, own, revision) == expected


def test_revision_history_is_truncated_from_the_oldest_entry() -> None:
    history = ",".join(str(number) for number in range(1000, 1400))
    assert len(history) == 1999
    longer = append_revision_history(history, "1400")
    assert longer is not None
    assert len(longer) <= 2000
    assert longer.split(",")[0] == "1001"
    assert longer.endswith(",1399,1400")


def test_revision_longer_than_the_limit_keeps_the_history() -> None:
    assert append_revision_history("1,2", "9" * 2001) is None


@cases(
    "revisions, highest, before",
    {
        "no ReplicaSets": ([], 0, 0),
        "one ReplicaSet": (["1"], 1, 0),
        "three": (["1", "3", "2"], 3, 2),
        "invalid revisions are ignored": (["3", "x", None], 3, 0),
        "equal revisions": (["2", "2"], 2, 2),
    },
)
def test_max_and_last_revision(revisions: list[str | None], highest: int, before: int) -> None:
    sets = [replica_set(f"rs-{index}", revision=text) for index, text in enumerate(revisions)]
    assert (max_revision(sets), last_revision(sets)) == (highest, before)


HASHED = {"app": "web", "pod-template-hash": "abc"}


@cases(
    "one, other, same",
    {
        "equal": ({"labels": HASHED}, {"labels": HASHED}, True),
        "different pod-template-hash": ({"labels": HASHED}, {"labels": HASHED | {"pod-template-hash": "d"}}, True),
        "a hash on one side only": ({"labels": HASHED}, {}, True),
        "different labels": ({"labels": {"app": "x"}}, {}, False),
        "different image": ({"image": "b"}, {}, False),
        "empty map": ({"nodeSelector": {}}, {}, True),
        "empty list": ({"tolerations": []}, {}, True),
        "null is nothing": ({"affinity": None}, {}, True),
        "empty object": ({"affinity": {}}, {}, False),
        "equal quantities": ({"overhead": {"cpu": "1000m"}}, {"overhead": {"cpu": "1"}}, True),
        "unknown field": ({"newField": 1}, {}, False),
    },
)
def test_equal_ignore_hash(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert equal_ignore_hash(template(**one), template(**other)) is same
    assert equal_ignore_hash(template(**other), template(**one)) is same


def test_pod_template_hash_label_is_added_and_removed() -> None:
    marked = with_hash(template(), "abc")
    assert msgspec.json.decode(marked)["metadata"]["labels"] == HASHED
    assert msgspec.json.decode(without_hash(marked)) == msgspec.json.decode(template())


def test_long_replica_set_name_is_truncated() -> None:
    assert set_name("web", "abc") == "web-abc"
    assert set_name("w" * 253, "abcdefghij") == "w" * 242 + "-abcdefghij"


def spent(name: str, revision: int | None, **more: Any) -> ReplicaSet:
    """An old ReplicaSet without pods."""
    return replica_set(name, **{"size": 0, "revision": None if revision is None else str(revision), **more})


@cases(
    "limit, old, expected",
    {
        "lowest revisions are deleted": (1, [spent("a", 3), spent("b", 1), spent("c", 2)], ["b", "c"]),
        "limit 0": (0, [spent("a", 1)], ["a"]),
        "within the limit": (5, [spent("a", 1)], []),
        "no limit": (None, [spent("a", 1)], []),
        "limit of MaxInt32": (2**31 - 1, [spent("a", 1)], []),
        "terminating ReplicaSets are not candidates": (0, [spent("a", 1, deleted=True), spent("b", 2)], ["b"]),
        "desired replicas": (0, [spent("a", 1, size=1)], []),
        "existing replicas": (0, [spent("a", 1, replicas=1)], []),
        "status not observed": (0, [spent("a", 1, generation=2, observed_generation=1)], []),
        "ReplicaSets in use count towards the limit": (1, [spent("a", 1, size=1), spent("b", 2)], []),
        "equal revisions: the oldest": (1, [spent("b", 1, age=1), spent("a", 1, age=5)], ["a"]),
        "without revision: before all others": (1, [spent("a", 1, age=5), spent("b", None)], ["b"]),
        "without revision, and older": (1, [spent("a", None, age=5), spent("b", 2)], ["a"]),
        "the oldest is in use, the next is deleted": (1, [spent("a", 1, size=1), spent("b", 2), spent("c", 3)], ["b"]),
        "the two oldest are in use": (1, [spent("a", 1, size=1), spent("b", 2, size=1), spent("c", 3)], []),
        "by revision instead of age": (
            2,
            [spent("a", 3, age=4), spent("b", 1, age=3), spent("c", 4, age=2), spent("d", 2, age=1)],
            ["b", "d"],
        ),
    },
)
def test_cleanup_deployment(limit: int | None, old: list[ReplicaSet], expected: list[str]) -> None:
    owner = deployment(revision_history_limit=limit)
    assert [item.metadata.name for item in replica_sets_to_clean_up(owner, old)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("0", 0), ("x", None), ("", None)],
    ids=["a number", "the last one", "invalid revision: no rollback", "empty revision: no rollback"],
)
def test_get_rollback_to(text: str, expected: int | None) -> None:
    assert rollback_revision(deployment(annotations={ROLLBACK_TO: text})) == expected


def test_no_rollback_requested() -> None:
    assert rollback_revision(deployment()) is None


OLD = replica_set("a", revision="1", of=template("old", HASHED), annotations={"cause": "first"})
NEW = replica_set("b", revision="2", of=template("a", HASHED))


def test_rollback_restores_template_and_annotations() -> None:
    owner = deployment(annotations={ROLLBACK_TO: "1", REVISION: "2", "cause": "second", "more": "x"})
    for revision in (0, 1):
        result = roll_back(owner, [OLD, NEW], revision)
        assert (result.type, result.reason) == ("Normal", "DeploymentRollback")
        assert result.message == 'Rolled back deployment "web" to revision 1'
        assert result.template is not None
        assert msgspec.json.decode(result.template) == msgspec.json.decode(template("old"))
        assert result.annotations == {ROLLBACK_TO: "1", REVISION: "2", "cause": "first"}


@cases(
    "sets, revision, reason, message",
    {
        "no previous revision": ([NEW], 0, "DeploymentRollbackRevisionNotFound", "Unable to find last revision."),
        "missing revision": (
            [OLD, NEW],
            7,
            "DeploymentRollbackRevisionNotFound",
            "Unable to find the revision to rollback to.",
        ),
        "template unchanged": (
            [OLD, NEW],
            2,
            "DeploymentRollbackTemplateUnchanged",
            'The rollback revision contains the same template as current deployment "web"',
        ),
    },
)
def test_rollback_revision_not_found(sets: list[ReplicaSet], revision: int, reason: str, message: str) -> None:
    result = roll_back(deployment(), sets, revision)
    assert (result.type, result.reason, result.message) == ("Warning", reason, message)
    assert result.template is None


def test_rollback_keeps_annotations_of_the_deployment() -> None:
    assert annotations_for_rollback({REVISION: "3", "a": "b"}, {REVISION: "1", "c": "d"}) == {REVISION: "3", "c": "d"}
