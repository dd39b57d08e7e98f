"""The cases of ``migrationrunner_test.go``, ``resourceversion_test.go`` and ``storageversionmigrator_test.go`` in
``pkg/controller/storageversionmigrator`` (v1.36), and where each of them is."""

from tests.controllers.upstream_coverage import NOT, Cases

_TURNS, _BEGINS, _ENDS = (
    "test_one_migration_runs_at_a_time",
    "test_definition_condition_at_the_start",
    "test_definition_status_at_the_end",
)
_VERBS, _STORY = "test_resources_that_cannot_be_migrated", "test_objects_are_rewritten_in_the_storage_version"
_REFUSED, _SLOW = "test_rejected_write_fails_the_migration", "test_migration_waits_for_the_garbage_collectors_cache"
COVERED: Cases = {
    "TestCustomResourceController_Sync: Initial sync: CRD missing": _TURNS,
    "TestCustomResourceController_Sync: Initial sync: CRD exists": _BEGINS,
    "TestCustomResourceController_Sync: Migration running (No-op)": _TURNS,
    "TestCustomResourceController_Sync: Migration succeeded: Update CRD stored versions": _ENDS,
    "TestCustomResourceController_Sync: Migration succeeded: CRD generation mismatch (No update)": _ENDS,
    "TestCustomResourceController_Sync: Migration failed: CRD condition updated": _ENDS,
    "TestCustomResourceController_Sync: Cleanup admission updates SVM condition": "test_migration_conditions",
    "TestCustomResourceController_Sync: Promote older SVM first": _TURNS,
    **{
        f"TestIsResourceMigratable: {case}": _VERBS
        for case in ("migratable resource", "non-updatable resource", "non-patchable resource", "non-listable resource")
    },
    "TestIsResourceMigratable: unknown resource": "test_resource_of_a_migration",
    "TestIsResourceMigratable: multiple versions": "test_resource_of_a_migration",
    "TestIsResourceMigratable: multiple versions and groups": "test_resource_of_a_migration",
    "TestRVSync: Successful RV acquisition": _STORY,
    "TestRVSync: SVM not found": "test_deleted_migration_starts_the_next",
    "TestRVSync: SVM already succeeded": _STORY,
    "TestRVSync: SVM already failed": _REFUSED,
    "TestRVSync: RV already set": _STORY,
    "TestRVSync: Resource not migratable": "test_resource_without_patch_fails_immediately",
    "TestRVSync: Metadata list error": "test_temporary_server_errors_are_retried",
    "TestRVSync: Invalid RV returned": "test_incomparable_resource_versions_fail_the_migration",
    "TestSync: Successful migration": _STORY,
    "TestSync: SVM not found": "test_deleted_migration_starts_the_next",
    "TestSync: SVM already succeeded": _STORY,
    "TestSync: GC cache is not up to date": _SLOW,
    "TestSync: Resource not in GC": "test_unmonitored_resource_fails_after_a_minute",
    "TestSync: Fatal patch error fails migration": _REFUSED,
    "TestSync: Conflict on patch is ignored": "test_concurrently_changed_or_deleted_objects_are_skipped",
    "TestSync: Retriable patch error is returned directly": "test_retry_after_is_respected",
    "TestSync: Incomparable resource version for gc fails migration": (
        NOT + "a cache that cannot be compared has read nothing that could be noted, either"
    ),
    "TestSync: Incomparable resource version for object fails migration": (
        NOT + "objects of a list that can be compared can be compared"
    ),
}
