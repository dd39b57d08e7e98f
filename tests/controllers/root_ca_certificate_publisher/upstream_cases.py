"""The cases of ``pkg/controller/certificates/rootcacertpublisher/publisher_test.go`` (v1.36), and where each of them
is."""

from tests.controllers.upstream_coverage import Cases

_NEW, _CHANGED = (
    "test_config_map_is_created_for_new_namespaces_and_recreated",
    "test_changed_config_map_is_restored_and_keeps_other_metadata",
)
_OTHERS = "test_other_config_maps_and_terminating_namespaces_are_ignored"

COVERED: Cases = {
    "TestConfigMapCreation: create new namesapce": _NEW,
    "TestConfigMapCreation: delete other configmap": _OTHERS,
    "TestConfigMapCreation: delete ca configmap": _NEW,
    "TestConfigMapCreation: update ca configmap with adding field": _CHANGED,
    "TestConfigMapCreation: update ca configmap with modifying field": _CHANGED,
    "TestConfigMapCreation: update with other configmap": _OTHERS,
    "TestConfigMapCreation: update namespace with terminating state": _OTHERS,
    "TestConfigMapUpdateNoHotLoop": "test_sync_config_map",
}
