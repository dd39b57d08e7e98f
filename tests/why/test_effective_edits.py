"""Changes that were not reverted, and fields that controllers act on."""

from typing import Any

from tests.tables import cases

from pilothouse.machinery.differences import ABSENT, Difference
from pilothouse.why.effective_edits import Edit, controller_acts_on, last_effective_edit

CREATED_AT = "2026-01-01T00:00:00Z"


def _edit(second: int, before: Any, after: Any, path: str = "spec.selector.track") -> Edit:
    return Edit(f"2026-01-01T00:{second // 60:02}:{second % 60:02}.5Z", (Difference(path, before, after),))


@cases(
    "edits, place",
    {
        "no edits": ([], None),
        "one edit": ([_edit(60, 1, 2)], 0),
        "reverted immediately": ([_edit(60, ABSENT, "stable"), _edit(67, "stable", ABSENT)], None),
        "reverted after a long time": ([_edit(60, "a", "b"), _edit(600, "b", "a")], 1),
        "reverted twice": ([_edit(60, 1, 2), _edit(65, 2, 1), _edit(70, 1, 3), _edit(75, 3, 1)], None),
        "reverted after an edit that persists": ([_edit(60, 1, 2), _edit(90, 2, 3), _edit(95, 3, 2)], 0),
        "another field": (
            [_edit(60, 1, 2, "spec.replicas"), _edit(61, ABSENT, 1), _edit(62, 1, ABSENT)],
            0,
        ),
        "a false that is no 0": ([_edit(60, ABSENT, 0), _edit(61, 0, ABSENT)], None),
    },
)
def test_last_effective_edit(edits: list[Edit], place: int | None) -> None:
    assert last_effective_edit(edits, CREATED_AT) == place


def test_reverted_edit_without_times_has_no_effect() -> None:
    edits = [Edit("", (Difference("spec.a", 1, 2),)), Edit("", (Difference("spec.a", 2, 1),))]
    assert last_effective_edit(edits) is None


@cases(
    "resource, path, does",
    {
        "a template": ("deployments.apps", "spec.template.spec.containers[name=app].image", True),
        "history limit": ("cronjobs.batch", "spec.successfulJobsHistoryLimit", False),
        "a schedule": ("cronjobs.batch", "spec.schedule", True),
        "a label of a workload": ("deployments.apps", "metadata.labels.owner", False),
        "an annotation of a workload": ("statefulsets.apps", 'metadata.annotations["a/b"]', False),
        "a label of a node": ("nodes", "metadata.labels.pool", True),
        "an annotation of a class": ("storageclasses.storage.k8s.io", 'metadata.annotations["a/b"]', True),
        "a label of a custom resource": ("workspaces.example.com", "metadata.labels.review", True),
        "the status": ("deployments.apps", "status.replicas", False),
    },
)
def test_fields_that_controllers_act_on(resource: str, path: str, does: bool) -> None:
    assert controller_acts_on(resource, path) is does


def test_history_limits_count_for_deletions() -> None:
    assert controller_acts_on("cronjobs.batch", "spec.successfulJobsHistoryLimit", keeps_records=True)
