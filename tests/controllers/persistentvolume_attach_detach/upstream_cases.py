"""The cases of upstream's tests of ``pkg/controller/volume/attachdetach``, and where each of them is.

``reconciler_test.go``, ``attach_detach_controller_test.go`` and the tests of ``cache`` were read in public copies of
several releases up to v1.33.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_STUCK = "test_force_detach_of_a_volume_in_use"
_TOLD = "test_failed_node_status_update_prevents_the_detach"
_AGAIN = "test_attached_volumes_are_restored_at_startup"

COVERED: Cases = {
    "Test_Run_Positive_DoNothing": "test_nothing_to_attach_or_detach",
    "Test_Run_Positive_OneDesiredVolumeAttach": "test_volume_is_attached_to_the_node_of_its_pod",
    "Test_Run_Positive_OneDesiredVolumeAttachThenDetachWithUnmountedVolume": (
        "test_volume_is_detached_when_it_is_no_longer_in_use"
    ),
    "Test_Run_Positive_OneDesiredVolumeAttachThenDetachWithMountedVolume": _STUCK,
    "Test_Run_Negative_OneDesiredVolumeAttachThenDetachWithUnmountedVolumeUpdateStatusFail": _TOLD,
    "Test_Run_OneVolumeAttachAndDetachMultipleNodesWithReadWriteMany": (
        "test_read_write_many_volume_is_attached_to_several_nodes"
    ),
    "Test_Run_OneVolumeAttachAndDetachMultipleNodesWithReadWriteOnce": (
        "test_read_write_once_volume_is_detached_before_the_next_attach"
    ),
    "Test_Run_OneVolumeAttachAndDetachUncertainNodesWithReadWriteOnce": (
        "test_uncertain_attachment_is_detached_when_unused"
    ),
    "Test_Run_UpdateNodeStatusFailBeforeOneVolumeDetachNodeWithReadWriteOnce": _TOLD,
    "Test_Run_OneVolumeDetachFailNodeWithReadWriteOnce": "test_failed_detach_prevents_attaching_elsewhere",
    "Test_Run_OneVolumeAttachAndDetachTimeoutNodesWithReadWriteOnce": "test_attach_times_out_after_two_minutes",
    "Test_Run_OneVolumeDetachOnOutOfServiceTaintedNode": _STUCK,
    "Test_Run_OneVolumeDetachOnNoOutOfServiceTaintedNode": _STUCK,
    "Test_Run_OneVolumeDetachOnUnhealthyNode": _STUCK,
    "Test_Run_OneVolumeDetachOnUnhealthyNodeWithForceDetachOnUnmountDisabled": _STUCK,
    "Test_ReportMultiAttachError": "test_multi_attach_error_events",
    "Test_NewAttachDetachController_Positive": NOT + "a controller that is made does nothing yet",
    "Test_AttachDetachControllerStateOfWorldPopulators_Positive": _AGAIN,
    "Test_AttachDetachControllerStateOfWorldPopulators_Positive_VolumeNilSpec": _AGAIN,
    "Test_AttachDetachControllerRecovery": _AGAIN,
    "Test_ADC_VolumeAttachmentRecovery": _AGAIN,
    "Test_AddVolumeNode_Positive_NewVolumeNewNode": "test_attached_volumes_are_reported_and_uncertain_ones_are_not",
    "Test_AddVolumeNode_Positive_ExistingVolumeNewNode": "test_later_volume_details_are_kept",
    "Test_AddVolumeNode_Positive_NewVolumeNewNodeVolumeNotAttached": (
        "test_attached_volumes_are_reported_and_uncertain_ones_are_not"
    ),
    "Test_DeleteVolumeNode_Positive_VolumeExistsNodeExists": "test_detached_volume_is_removed_from_the_report",
    "Test_DeleteVolumeNode_Positive_VolumeDoesntExistNodeDoesntExist": (
        "test_detached_volume_is_removed_from_the_report"
    ),
    "Test_SetVolumesMountedByNode_Positive_Set": "test_volume_is_mounted_by_node_by_default",
    "Test_RemoveVolumeFromReportAsAttached": "test_detached_volume_is_removed_from_the_report",
    "Test_SetDetachRequestTime_Positive": "test_detach_timeout_restarts_when_a_pod_uses_the_volume_again",
    "Test_SetNodeStatusUpdateNeededError": "test_node_is_updated_again_only_for_reported_volumes",
    "Test_AddPod_Positive_NewPodNodeExistsVolumeDoesntExist": "test_desired_volume_exists_while_a_pod_uses_it",
    "Test_DeleteNode_Negative_NodeExistsHasChildVolumes": "test_node_with_volumes_to_attach_is_not_removed",
    "Test_DeletePod_Positive_2PodsExistNodeExistsVolumesExist": "test_desired_volume_exists_while_a_pod_uses_it",
}
