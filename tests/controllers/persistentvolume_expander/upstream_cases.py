"""The cases of upstream's test of ``pkg/controller/volume/expand``, and where each of them is.

``expand_controller_test.go`` was read in a public copy of v1.31.
"""

from tests.controllers.upstream_coverage import Cases

COVERED: Cases = {
    "when pvc has no PV binding": "test_a_volume_that_is_not_the_claims_is_waited_for",
    "when pvc and pv has everything for in-tree plugin": "test_for_a_migrated_plugin_the_driver_is_named",
    "if pv has pre-resize capacity annotation, generate expand operation should not be called": "test_who_expands",
    "for csi plugin without migration path": "test_who_expands",
}
