"""The cases of upstream's test of ``pkg/controller/volume/expand``, and where each of them is.

``expand_controller_test.go`` was read in a public copy of v1.31.
"""

from tests.controllers.upstream_coverage import Cases

COVERED: Cases = {
    "when pvc has no PV binding": "test_volume_bound_to_another_claim_is_retried",
    "when pvc and pv has everything for in-tree plugin": "test_claim_of_a_migrated_plugin_names_the_csi_driver",
    "if pv has pre-resize capacity annotation, generate expand operation should not be called": (
        "test_resizer_of_a_claim"
    ),
    "for csi plugin without migration path": "test_resizer_of_a_claim",
}
