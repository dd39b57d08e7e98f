"""The cases of ``pkg/controller/certificates/rootcacertpublisher/publisher_test.go`` (v1.36), and where each of them
is."""

from tests.controllers.upstream_coverage import Cases

_NEW, _CHANGED = (
    "test_a_new_namespace_gets_one_and_a_deleted_one_comes_back",
    "test_a_config_map_that_was_changed_is_put_right_and_keeps_what_is_not_ours",
)
_OTHERS = "test_other_config_maps_and_namespaces_that_go_are_left_alone"

COVERED: Cases = {
    "TestConfigMapCreation: create new namesapce": _NEW,
    "TestConfigMapCreation: delete other configmap": _OTHERS,
    "TestConfigMapCreation: delete ca configmap": _NEW,
    "TestConfigMapCreation: update ca configmap with adding field": _CHANGED,
    "TestConfigMapCreation: update ca configmap with modifying field": _CHANGED,
    "TestConfigMapCreation: update with other configmap": _OTHERS,
    "TestConfigMapCreation: update namespace with terminating state": _OTHERS,
    "TestConfigMapUpdateNoHotLoop": "test_what_a_config_map_should_say",
}
