"""The cases of ``pkg/controller/clusterroleaggregation/clusterroleaggregation_controller_test.go`` (v1.36), and where
each of them is."""

from tests.controllers.upstream_coverage import Cases

_ALLOWS = "test_what_a_role_made_of_others_allows"

COVERED: Cases = {
    "TestSyncClusterRole: remove dead rules": _ALLOWS,
    "TestSyncClusterRole: strip rules": _ALLOWS,
    "TestSyncClusterRole: select properly and put in order": _ALLOWS,
    "TestSyncClusterRole: select properly with multiple selectors": _ALLOWS,
    "TestSyncClusterRole: select properly remove duplicates": _ALLOWS,
    "TestSyncClusterRole: no diff skip": _ALLOWS,
    "TestSyncClusterRole: without server-side apply": "test_a_server_without_server_side_apply_is_sent_the_whole_role",
}
