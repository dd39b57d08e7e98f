"""The cases of ``migrationrunner_test.go``, ``resourceversion_test.go`` and ``storageversionmigrator_test.go`` in
``pkg/controller/storageversionmigrator`` (v1.36), and where each of them is."""

from tests.controllers.upstream_coverage import NOT, Cases

_TURNS, _BEGINS, _ENDS = (
    "test_one_runs_at_a_time",
    "test_what_a_definition_is_told_at_the_beginning",
    "test_what_a_definition_is_told_at_the_end",
)
_VERBS, _STORY = "test_some_resources_cannot_be_migrated", "test_every_object_is_stored_in_the_version_of_today"
_REFUSED, _SLOW = "test_a_write_that_is_refused_fails_the_migration", "test_it_waits_for_the_cache"
COVERED: Cases = {
    "TestCustomResourceController_Sync: Initial sync: CRD missing": _TURNS,
    "TestCustomResourceController_Sync: Initial sync: CRD exists": _BEGINS,
    "TestCustomResourceController_Sync: Migration running (No-op)": _TURNS,
    "TestCustomResourceController_Sync: Migration succeeded: Update CRD stored versions": _ENDS,
    "TestCustomResourceController_Sync: Migration succeeded: CRD generation mismatch (No update)": _ENDS,
    "TestCustomResourceController_Sync: Migration failed: CRD condition updated": _ENDS,
    "TestCustomResourceController_Sync: Cleanup admission updates SVM condition": "test_what_is_said_of_a_migration",
    "TestCustomResourceController_Sync: Promote older SVM first": _TURNS,
    **{
        f"TestIsResourceMigratable: {case}": _VERBS
        for case in ("migratable resource", "non-updatable resource", "non-patchable resource", "non-listable resource")
    },
    "TestIsResourceMigratable: unknown resource": "test_which_resource_is_meant",
    "TestIsResourceMigratable: multiple versions": "test_which_resource_is_meant",
    "TestIsResourceMigratable: multiple versions and groups": "test_which_resource_is_meant",
    "TestRVSync: Successful RV acquisition": _STORY,
    "TestRVSync: SVM not found": "test_one_that_is_deleted_makes_room_for_the_next",
    "TestRVSync: SVM already succeeded": _STORY,
    "TestRVSync: SVM already failed": _REFUSED,
    "TestRVSync: RV already set": _STORY,
    "TestRVSync: Resource not migratable": "test_what_cannot_be_written_fails_at_once",
    "TestRVSync: Metadata list error": "test_an_api_server_that_fails_for_a_while_fails_no_migration",
    "TestRVSync: Invalid RV returned": "test_versions_that_have_no_order_fail_the_migration",
    "TestSync: Successful migration": _STORY,
    "TestSync: SVM not found": "test_one_that_is_deleted_makes_room_for_the_next",
    "TestSync: SVM already succeeded": _STORY,
    "TestSync: GC cache is not up to date": _SLOW,
    "TestSync: Resource not in GC": "test_what_nobody_watches_fails_after_a_minute",
    "TestSync: Fatal patch error fails migration": _REFUSED,
    "TestSync: Conflict on patch is ignored": "test_what_was_changed_or_deleted_meanwhile_is_left_alone",
    "TestSync: Retriable patch error is returned directly": "test_an_api_server_that_is_busy_is_asked_when_it_says",
    "TestSync: Incomparable resource version for gc fails migration": (
        NOT + "a cache that cannot be compared has read nothing that could be noted, either"
    ),
    "TestSync: Incomparable resource version for object fails migration": (
        NOT + "objects of a list that can be compared can be compared"
    ),
}
