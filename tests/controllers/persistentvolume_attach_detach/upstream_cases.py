"""The cases of upstream's tests of ``pkg/controller/volume/attachdetach``, and where each of them is.

``reconciler_test.go``, ``attach_detach_controller_test.go`` and the tests of ``cache`` were read in public copies of
several releases up to v1.33.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_STUCK = "test_a_volume_that_its_node_does_not_let_go_of"
_TOLD = "test_a_node_that_cannot_be_told_keeps_its_volume"
_AGAIN = "test_after_a_restart_it_is_known_what_is_attached"

COVERED: Cases = {
    "Test_Run_Positive_DoNothing": "test_nobody_wants_anything",
    "Test_Run_Positive_OneDesiredVolumeAttach": "test_a_volume_is_attached_to_the_node_of_its_pod",
    "Test_Run_Positive_OneDesiredVolumeAttachThenDetachWithUnmountedVolume": (
        "test_a_volume_is_detached_when_its_node_has_let_go_of_it"
    ),
    "Test_Run_Positive_OneDesiredVolumeAttachThenDetachWithMountedVolume": _STUCK,
    "Test_Run_Negative_OneDesiredVolumeAttachThenDetachWithUnmountedVolumeUpdateStatusFail": _TOLD,
    "Test_Run_OneVolumeAttachAndDetachMultipleNodesWithReadWriteMany": (
        "test_a_volume_that_many_may_have_is_attached_to_many"
    ),
    "Test_Run_OneVolumeAttachAndDetachMultipleNodesWithReadWriteOnce": (
        "test_a_volume_that_moves_is_detached_before_it_is_attached"
    ),
    "Test_Run_OneVolumeAttachAndDetachUncertainNodesWithReadWriteOnce": (
        "test_what_may_be_attached_is_detached_when_nobody_wants_it"
    ),
    "Test_Run_UpdateNodeStatusFailBeforeOneVolumeDetachNodeWithReadWriteOnce": _TOLD,
    "Test_Run_OneVolumeDetachFailNodeWithReadWriteOnce": "test_a_volume_that_cannot_be_detached_goes_nowhere_else",
    "Test_Run_OneVolumeAttachAndDetachTimeoutNodesWithReadWriteOnce": "test_a_driver_that_says_nothing_has_two_minutes",
    "Test_Run_OneVolumeDetachOnOutOfServiceTaintedNode": _STUCK,
    "Test_Run_OneVolumeDetachOnNoOutOfServiceTaintedNode": _STUCK,
    "Test_Run_OneVolumeDetachOnUnhealthyNode": _STUCK,
    "Test_Run_OneVolumeDetachOnUnhealthyNodeWithForceDetachOnUnmountDisabled": _STUCK,
    "Test_ReportMultiAttachError": "test_what_a_pod_is_told",
    "Test_NewAttachDetachController_Positive": NOT + "a controller that is made does nothing yet",
    "Test_AttachDetachControllerStateOfWorldPopulators_Positive": _AGAIN,
    "Test_AttachDetachControllerStateOfWorldPopulators_Positive_VolumeNilSpec": _AGAIN,
    "Test_AttachDetachControllerRecovery": _AGAIN,
    "Test_ADC_VolumeAttachmentRecovery": _AGAIN,
    "Test_AddVolumeNode_Positive_NewVolumeNewNode": "test_what_is_attached_is_reported_and_what_may_be_is_not",
    "Test_AddVolumeNode_Positive_ExistingVolumeNewNode": "test_what_is_learned_later_of_a_volume_stays",
    "Test_AddVolumeNode_Positive_NewVolumeNewNodeVolumeNotAttached": (
        "test_what_is_attached_is_reported_and_what_may_be_is_not"
    ),
    "Test_DeleteVolumeNode_Positive_VolumeExistsNodeExists": "test_a_detached_volume_is_taken_off_the_report",
    "Test_DeleteVolumeNode_Positive_VolumeDoesntExistNodeDoesntExist": "test_a_detached_volume_is_taken_off_the_report",
    "Test_SetVolumesMountedByNode_Positive_Set": "test_a_volume_counts_as_mounted_until_its_node_says_otherwise",
    "Test_RemoveVolumeFromReportAsAttached": "test_a_detached_volume_is_taken_off_the_report",
    "Test_SetDetachRequestTime_Positive": "test_the_patience_begins_anew_when_a_pod_wants_the_volume_again",
    "Test_SetNodeStatusUpdateNeededError": "test_a_node_is_told_again_only_of_what_it_was_told",
    "Test_AddPod_Positive_NewPodNodeExistsVolumeDoesntExist": "test_a_volume_is_wanted_as_long_as_a_pod_uses_it",
    "Test_DeleteNode_Negative_NodeExistsHasChildVolumes": "test_a_node_stays_managed_while_pods_want_volumes_there",
    "Test_DeletePod_Positive_2PodsExistNodeExistsVolumesExist": "test_a_volume_is_wanted_as_long_as_a_pod_uses_it",
}
