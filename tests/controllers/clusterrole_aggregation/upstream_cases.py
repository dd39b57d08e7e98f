"""The cases of ``pkg/controller/clusterroleaggregation/clusterroleaggregation_controller_test.go`` (v1.36), and where
each of them is."""

from tests.controllers.upstream_coverage import Cases

_ALLOWS = "test_aggregated_rules"

COVERED: Cases = {
    "TestSyncClusterRole: remove dead rules": _ALLOWS,
    "TestSyncClusterRole: strip rules": _ALLOWS,
    "TestSyncClusterRole: select properly and put in order": _ALLOWS,
    "TestSyncClusterRole: select properly with multiple selectors": _ALLOWS,
    "TestSyncClusterRole: select properly remove duplicates": _ALLOWS,
    "TestSyncClusterRole: no diff skip": _ALLOWS,
    "TestSyncClusterRole: without server-side apply": "test_falls_back_to_update_without_server_side_apply",
}
