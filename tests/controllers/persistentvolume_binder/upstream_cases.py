"""The cases of upstream's tests of ``pkg/controller/volume/persistentvolume``, and where each of them is.

``binder_test.go``, ``provision_test.go``, ``delete_test.go``, ``recycle_test.go`` and ``index_test.go`` were read in
public copies of several releases; set numbers are upstream's.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_ONCE, _STEP, _VOLUME = "test_sync_claim", "test_next_action", "test_sync_volume"
_RECYCLER = NOT + "nothing here recycles volumes (docs/controllers/persistentvolume_binder.md)"
_ASSET = NOT + "a host path is only a name here, there is nothing that deleting it could fail at"

COVERED: Cases = {
    "binder_test.go TestSync: 1-1 to 1-12": _ONCE,
    "binder_test.go TestSync: 1-13 delayed binding": _STEP,
    "binder_test.go TestSync: 1-14 successful prebound PV": _STEP,
    "binder_test.go TestSync: 2-1 to 2-10": _ONCE,
    "binder_test.go TestSync: 3-1 to 3-7": _ONCE,
    "binder_test.go TestSync: 4-1 to 4-9": _VOLUME,
    "binder_test.go TestSync: 13-1 to 13-6": _ONCE,
    "binder_test.go TestSyncBlockVolume: 14": "test_match_volume",
    "binder_test.go TestSyncBlockVolume: claims that name a volume": "test_mismatch_of_a_requested_volume",
    "binder_test.go TestMultiSync: 10-1": "test_claim_and_volume_are_bound_in_four_writes",
    "binder_test.go TestMultiSync: 10-2": "test_two_volumes_pre_bound_to_one_claim",
    "provision_test.go TestProvisionSync: 11-1, 11-13 provisioned": (
        "test_host_path_volumes_are_provisioned_bound_and_deleted"
    ),
    "provision_test.go TestProvisionSync: 11-2, 11-14, 11-18 no plugin": "test_no_provisioner_available",
    "provision_test.go TestProvisionSync: 11-6, 11-22 there is a volume": _STEP,
    "provision_test.go TestProvisionSync: 11-15, 11-16 no class": _STEP,
    "provision_test.go TestProvisionSync: 11-7 made by somebody else meanwhile": (
        "test_host_path_volume_is_provisioned_once"
    ),
    "provision_test.go TestProvisionSync: 11-8, 11-19 saved at the second try": (
        "test_host_path_volume_is_provisioned_once"
    ),
    "provision_test.go TestProvisionSync: 11-9 never saved": "test_failed_save_of_a_provisioned_volume_is_retried",
    "provision_test.go TestProvisionSync: 11-10 to 11-12 deleting what was not saved": _ASSET,
    "provision_test.go TestProvisionSync: 11-17 external": (
        "test_external_provisioning_annotates_the_claim_and_binds_the_volume"
    ),
    "provision_test.go TestProvisionSync: 11-20 mount options": "test_unsupported_host_path_provisioning",
    "provision_test.go TestProvisionSync: 11-21 moved to CSI": "test_provisioner_of_a_class",
    "provision_test.go TestProvisionSync: 11-23 selected node": _STEP,
    "provision_test.go TestProvisionSync: 11-24 the node is taken back": "test_unsupported_host_path_provisioning",
    "provision_test.go TestDisablingDynamicProvisioner": "test_dynamic_provisioning_disabled",
    "delete_test.go TestDeleteSync: 8-1, 8-2": "test_host_path_volumes_are_provisioned_bound_and_deleted",
    "delete_test.go TestDeleteSync: 8-3, 8-4": "test_failed_reclaim_sets_phase_failed",
    "delete_test.go TestDeleteSync: 8-5": _ASSET,
    "delete_test.go TestDeleteSync: 8-6, 8-7, 8-9": "test_reclaim_policy",
    "delete_test.go TestDeleteSync: 8-10": "test_deleter_of_a_volume",
    "delete_test.go TestDeleteSync: 8-11, 8-12": _VOLUME,
    "delete_test.go TestDeleteMultiSync: 9-1": _ASSET,
    "recycle_test.go TestRecycleSync: 6-3 no plugin": "test_failed_reclaim_sets_phase_failed",
    "recycle_test.go TestRecycleSync: 6-11, 6-12 used by pods": "test_volume_in_use_is_not_recycled",
    "recycle_test.go TestRecycleSync: the others": _RECYCLER,
    "index_test.go TestMatchVolume": "test_match_volume",
    "index_test.go TestMatchingWithBoundVolumes": "test_available_volume_is_preferred_of_equal_ones",
    "index_test.go TestListByAccessModes": "test_list_by_access_modes",
    "index_test.go TestAllPossibleAccessModes": "test_all_possible_access_modes",
    "index_test.go TestFindingVolumeWithDifferentAccessModes": "test_access_modes",
    "index_test.go TestFindingPreboundVolumes": "test_pre_bound_volumes",
    "index_test.go TestBestMatchDelayed": "test_pre_bound_volumes",
    "index_test.go TestFindMatchVolumeWithNode": "test_find_matching_volume_for_a_node",
    "index_test.go TestCheckAccessModes": "test_mismatch_of_a_requested_volume",
    "pv_controller_test.go TestModifyDeletionFinalizers": "test_modify_deletion_finalizers",
    "pv_controller_test.go TestAnnealMigrationAnnotations": "test_anneal_migration_annotations",
    "pv_controller_test.go TestControllerCacheParsingError": NOT + "versions that are no numbers are never newer",
    "pv_controller_test.go TestControllerCache": "test_changed_access_modes_are_reindexed",
    "pv_controller_test.go TestDelayBindingMode": _STEP,
    "pv_controller_test.go TestRetroactiveStorageClassAssignment": ("test_default_class_is_assigned_retroactively"),
}
