"""Which migration runs, its objects, and its status."""

import datetime
from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.apiextensions import CustomResourceDefinition
from pilothouse.api.storagemigration import GroupResource, StorageVersionMigration
from pilothouse.controllermanager.feature_gates import FeatureGates
from pilothouse.controllers.cleanup.storage_version_migrator import DESCRIPTOR, MigratorOptions
from pilothouse.controllers.cleanup.storage_version_migrator.decide import (
    NextMigration,
    as_ended,
    as_failed,
    as_running,
    as_succeeded,
    crd_for_group_resource,
    has_discovery_failed,
    is_new,
    migrated_configuration,
    migrating_configuration,
    missing_verbs_reason,
    next_migration,
    resource_for,
    unchanged_apply,
    with_resource_version,
)
from pilothouse.machinery.api_resources import Discovery, GroupVersion, Resource

NOW = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)
WIDGETS = GroupResource(group="example.com", resource="widgets")


def one(name: str, *true: str, age: int = 0, **status: Any) -> StorageVersionMigration:
    """A migration for which these conditions hold."""
    conditions = [{"type": type_, "status": "True", "reason": "R", "message": "m"} for type_ in true]
    return msgspec.convert(
        {
            "metadata": {"name": name, "generation": 1, "creationTimestamp": NOW - age * SECOND},
            "spec": {"resource": {"group": "example.com", "resource": "widgets"}},
            "status": {"conditions": conditions, **status},
        },
        StorageVersionMigration,
    )


@cases(
    "migrations, expected",
    {
        "no migrations": ([], ([], None)),
        "new migration": ([one("a")], ([], "a")),
        "a running migration continues": ([one("a", "Running")], ([], None)),
        "an older one waits for it, too": ([one("a", "Running"), one("b", age=5)], ([], None)),
        "the oldest runs first": ([one("a"), one("b", age=5)], ([], "b")),
        "equal creation time: by name": ([one("b"), one("a")], ([], "a")),
        "finished migration is removed first": ([one("a", "Running", "Succeeded"), one("b")], (["a"], "b")),
        "failed migration is removed": ([one("a", "Running", "Failed")], (["a"], None)),
        "finished migrations are not run again": ([one("a", "Succeeded"), one("b", "Failed")], ([], None)),
        "while another one runs": ([one("a", "Running", "Succeeded"), one("b", "Running"), one("c")], (["a"], None)),
    },
)
def test_one_migration_runs_at_a_time(
    migrations: list[StorageVersionMigration], expected: tuple[list[str], str | None]
) -> None:
    turn = next_migration(migrations)
    assert next_migration(reversed(migrations)) == turn
    next_ = turn.next.metadata.name if turn.next is not None else None
    assert ([ended.metadata.name for ended in turn.ended], next_) == expected
    assert isinstance(turn, NextMigration)


ALL = ("create", "delete", "get", "list", "patch", "update", "watch")


def served(group: str, version: str, name: str, *verbs: str) -> GroupVersion:
    """A version in which one resource is served."""
    return GroupVersion(group, version, (Resource(group, version, name, name.title(), True, verbs or ALL),))


@cases(
    "group, name, expected",
    {
        "core group": ("", "pods", "/v1, Resource=pods"),
        "preferred version": ("apps", "foo", "apps/v2, Resource=foo"),
        "version of its own group": ("bar", "foo", "bar/v1alpha1, Resource=foo"),
        "empty group": ("", "foo", None),
        "resource of another group": ("bar", "pods", None),
        "unserved resource": ("apps", "foos", None),
    },
)
def test_resource_of_a_migration(group: str, name: str, expected: str | None) -> None:
    versions = [served("", "v1", "pods"), served("apps", "v2", "foo"), served("apps", "v1", "foo")]
    result = resource_for(
        Discovery((*versions, served("bar", "v1alpha1", "foo"))), GroupResource(group=group, resource=name)
    )
    assert (f"{result.group}/{result.version}, Resource={result.name}" if result is not None else None) == expected


def test_failed_group_discovery_is_retried() -> None:
    discovery = Discovery((served("apps", "v1", "foo"),), {"metrics.k8s.io/v1beta1": "no endpoints", "v1": "down"})
    for group, expected in (("metrics.k8s.io", True), ("apps", False), ("", True), ("v1", False)):
        assert has_discovery_failed(discovery, GroupResource(group=group, resource="nodes")) is expected


@cases(
    "verbs, expected",
    {
        "all verbs": (ALL, ""),
        "update is needed": (("list", "patch"), "no update"),
        "patch is needed": (("list", "update"), "no patch"),
        "list is needed": (("patch", "update"), "no list"),
    },
)
def test_resources_that_cannot_be_migrated(verbs: tuple[str, ...], expected: str) -> None:
    message = missing_verbs_reason(Resource("apps", "v1", "deployments", "Deployment", True, verbs))
    needed = "does not support discovery operations: [update patch list]"
    assert message == (f'resource "apps/v1, Resource=deployments" {needed}' if expected else "")


def test_missing_resource_is_awaited_for_a_minute() -> None:
    assert is_new(one("a", age=59), NOW)
    assert not is_new(one("a", age=60), NOW)


def test_patch_has_only_uid_and_resource_version() -> None:
    resource = Resource("apps", "v1", "deployments", "Deployment", True)
    assert unchanged_apply(resource, "uid-1", "90") == (
        b'{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"uid":"uid-1","resourceVersion":"90"}}'
    )


def status_in(raw: bytes) -> Any:
    """The status."""
    return msgspec.json.decode(raw)["status"]


def test_migration_conditions() -> None:
    raw = b'{"metadata":{"name":"m","resourceVersion":"7"},"spec":{"later":1},"status":{}}'
    first = as_running(raw, one("m"), NOW)
    assert msgspec.json.decode(first)["spec"] == {"later": 1}
    running = {
        "type": "Running",
        "status": "True",
        "lastTransitionTime": "2026-05-01T12:00:00Z",
        "reason": "MigrationRunning",
        "message": "The migration is running",
    }
    assert status_in(first) == {"conditions": [running]}
    known = msgspec.json.decode(first, type=StorageVersionMigration)
    assert status_in(with_resource_version(first, "100")) == {"conditions": [running], "resourceVersion": "100"}
    over = as_succeeded(first, known, NOW + SECOND)
    succeeded = {**running, "type": "Succeeded", "reason": "StorageVersionMigrationSucceeded", "message": ""}
    succeeded["lastTransitionTime"] = "2026-05-01T12:00:01Z"
    assert status_in(over) == {"conditions": [running, succeeded]}, "what runs is ended by whoever let it run"
    failed = status_in(as_failed(first, known, "why", NOW))["conditions"][1]
    assert (failed["type"], failed["reason"], failed["message"]) == ("Failed", "StorageVersionMigrationFailed", "why")
    known = msgspec.json.decode(over, type=StorageVersionMigration)
    assert as_succeeded(over, known, NOW + 2 * SECOND) == over, "it is said once"
    ended = status_in(as_ended(over, known, NOW + 2 * SECOND))["conditions"]
    assert ended == [
        {
            "type": "Running",
            "status": "False",
            "lastTransitionTime": "2026-05-01T12:00:02Z",
            "reason": "MigrationCompleted",
            "message": "Migration completed",
        },
        succeeded,
    ]


def definition(storage: str, generation: int = 1, crd: int | None = None) -> CustomResourceDefinition:
    """Of two versions, both of which have been stored."""
    conditions = [] if crd is None else [{"type": "StorageMigrating", "status": "True", "observedGeneration": crd}]
    return msgspec.convert(
        {
            "metadata": {"name": "widgets.example.com", "generation": generation, "resourceVersion": "5"},
            "spec": {"versions": [{"name": name, "storage": name == storage} for name in ("v1", "v2")]},
            "status": {"conditions": conditions, "storedVersions": ["v1", "v2"]},
        },
        CustomResourceDefinition,
    )


def test_definition_condition_at_the_start() -> None:
    assert migrating_configuration(definition("v2", 3), "m", NOW) == {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.example.com", "resourceVersion": "5"},
        "status": {
            "conditions": [
                {
                    "type": "StorageMigrating",
                    "status": "True",
                    "lastTransitionTime": "2026-05-01T12:00:00Z",
                    "reason": "MigrationRunning",
                    "message": "Migration m is running",
                    "observedGeneration": 3,
                }
            ],
            "storedVersions": ["v1", "v2"],
        },
    }


@cases(
    "status, succeeded, reason, message, stored",
    {
        "stored versions updated": (
            1,
            True,
            "MigrationSucceeded",
            "has succeeded and the stored versions have been updated",
            ["v2"],
        ),
        "definition changed": (
            0,
            True,
            "MigrationSucceeded",
            "has succeeded but the stored versions have not been updated due to a generation mismatch",
            ["v1", "v2"],
        ),
        "beginning not recorded": (
            None,
            True,
            "MigrationSucceeded",
            "has succeeded but the stored versions have not been updated due to a generation mismatch",
            ["v1", "v2"],
        ),
        "failed": (1, False, "MigrationFailed", "has failed", ["v1", "v2"]),
    },
)
def test_definition_status_at_the_end(
    status: int | None, succeeded: bool, reason: str, message: str, stored: list[str]
) -> None:
    configuration = migrated_configuration(definition("v2", 1, status), succeeded=succeeded, now=NOW)
    assert configuration is not None
    reported = configuration["status"]
    condition = reported["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert condition["message"] == f"The migration {message}"
    assert reported["storedVersions"] == stored


def test_definition_status_at_the_end_is_written_once() -> None:
    """Repeated after a lost response, it would find the final generation."""
    known = definition("v2", 2, crd=2)
    ended = msgspec.structs.replace(known.status.conditions[0], status="False")
    status = msgspec.structs.replace(known.status, conditions=(ended,))
    assert migrated_configuration(msgspec.structs.replace(known, status=status), succeeded=True, now=NOW) is None


def test_groups_of_custom_resources() -> None:
    assert crd_for_group_resource(WIDGETS) == "widgets.example.com"
    assert crd_for_group_resource(GroupResource(group="", resource="secrets")) == ""
    assert crd_for_group_resource(GroupResource(group="apps", resource="deployments")) == ""


def test_both_feature_gates_are_required() -> None:
    assert [FeatureGates().enabled(gate) for gate in DESCRIPTOR.gates] == [False, True]


def test_garbage_collector_is_required() -> None:
    assert MigratorOptions().validate() == []
    assert MigratorOptions(collects=False).validate() == ["storage version migrator requires garbage collector"]
