"""The cases of upstream's tests of ``pkg/controller/volume/persistentvolume``, and where each of them is.

``binder_test.go``, ``provision_test.go``, ``delete_test.go``, ``recycle_test.go`` and ``index_test.go`` were read in
public copies of several releases; set numbers are upstream's.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_ONCE, _STEP, _VOLUME = "test_a_claim_is_looked_at_once", "test_the_next_step", "test_a_volume_is_looked_at_once"
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
    "binder_test.go TestSyncBlockVolume: 14": "test_the_best_match",
    "binder_test.go TestSyncBlockVolume: claims that name a volume": "test_why_a_certain_volume_does_not_do",
    "binder_test.go TestMultiSync: 10-1": "test_a_volume_and_a_claim_find_each_other_in_four_writes",
    "binder_test.go TestMultiSync: 10-2": "test_two_volumes_for_one_claim_come_to_one",
    "provision_test.go TestProvisionSync: 11-1, 11-13 provisioned": "test_host_paths_are_made_bound_and_deleted",
    "provision_test.go TestProvisionSync: 11-2, 11-14, 11-18 no plugin": "test_nobody_can_make_a_volume",
    "provision_test.go TestProvisionSync: 11-6, 11-22 there is a volume": _STEP,
    "provision_test.go TestProvisionSync: 11-15, 11-16 no class": _STEP,
    "provision_test.go TestProvisionSync: 11-7 made by somebody else meanwhile": "test_a_host_path_is_made_once",
    "provision_test.go TestProvisionSync: 11-8, 11-19 saved at the second try": "test_a_host_path_is_made_once",
    "provision_test.go TestProvisionSync: 11-9 never saved": "test_a_host_path_that_cannot_be_saved",
    "provision_test.go TestProvisionSync: 11-10 to 11-12 deleting what was not saved": _ASSET,
    "provision_test.go TestProvisionSync: 11-17 external": "test_an_external_provisioner_is_told_and_its_volume_bound",
    "provision_test.go TestProvisionSync: 11-20 mount options": "test_what_a_host_path_cannot_do",
    "provision_test.go TestProvisionSync: 11-21 moved to CSI": "test_who_makes_volumes",
    "provision_test.go TestProvisionSync: 11-23 selected node": _STEP,
    "provision_test.go TestProvisionSync: 11-24 the node is taken back": "test_what_a_host_path_cannot_do",
    "provision_test.go TestDisablingDynamicProvisioner": "test_without_dynamic_provisioning_nobody_is_told",
    "delete_test.go TestDeleteSync: 8-1, 8-2": "test_host_paths_are_made_bound_and_deleted",
    "delete_test.go TestDeleteSync: 8-3, 8-4": "test_a_volume_that_cannot_be_reclaimed_has_failed",
    "delete_test.go TestDeleteSync: 8-5": _ASSET,
    "delete_test.go TestDeleteSync: 8-6, 8-7, 8-9": "test_what_may_be_reclaimed",
    "delete_test.go TestDeleteSync: 8-10": "test_who_deletes_volumes",
    "delete_test.go TestDeleteSync: 8-11, 8-12": _VOLUME,
    "delete_test.go TestDeleteMultiSync: 9-1": _ASSET,
    "recycle_test.go TestRecycleSync: 6-3 no plugin": "test_a_volume_that_cannot_be_reclaimed_has_failed",
    "recycle_test.go TestRecycleSync: 6-11, 6-12 used by pods": "test_a_volume_that_pods_still_use_is_not_recycled",
    "recycle_test.go TestRecycleSync: the others": _RECYCLER,
    "index_test.go TestMatchVolume": "test_the_best_match",
    "index_test.go TestMatchingWithBoundVolumes": "test_of_two_alike_the_free_one_is_taken",
    "index_test.go TestListByAccessModes": "test_volumes_are_found_by_their_very_modes",
    "index_test.go TestAllPossibleAccessModes": "test_sets_with_the_fewest_modes_come_first",
    "index_test.go TestFindingVolumeWithDifferentAccessModes": "test_access_modes",
    "index_test.go TestFindingPreboundVolumes": "test_volumes_that_are_reserved",
    "index_test.go TestBestMatchDelayed": "test_volumes_that_are_reserved",
    "index_test.go TestFindMatchVolumeWithNode": "test_for_a_node",
    "index_test.go TestCheckAccessModes": "test_why_a_certain_volume_does_not_do",
    "pv_controller_test.go TestModifyDeletionFinalizers": "test_finalizers",
    "pv_controller_test.go TestAnnealMigrationAnnotations": "test_migration",
    "pv_controller_test.go TestControllerCacheParsingError": NOT + "versions that are no numbers are never newer",
    "pv_controller_test.go TestControllerCache": "test_a_volume_that_gets_other_modes_is_found_by_those",
    "pv_controller_test.go TestDelayBindingMode": _STEP,
    "pv_controller_test.go TestRetroactiveStorageClassAssignment": (
        "test_a_claim_gets_the_default_class_that_came_later"
    ),
}
