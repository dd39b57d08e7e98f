"""The cases of upstream's tests of ``pkg/controller/volume/selinuxwarning``, and where each of them is.

Read in public copies: ``selinux_warning_controller_test.go`` as kubernetes#135629 (v1.36) left it, ``cache`` and
``internal/parse`` as of kubernetes#137226 (2026), ``translator`` of v1.33; what kubernetes#133425 changed in the last
one, that a level is compared even with none, is in the cases of ``cache``.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_USES, _WAITS = "test_how_a_pod_uses_its_volumes", "test_a_volume_that_is_not_bound_is_waited_for"
_TOLD, _ENDED = "test_what_a_pod_is_told", "test_a_pod_that_has_ended_is_in_nobodys_way"
_BOTH, _PARTS = "test_two_pods_that_differ_are_both_told_once", "test_the_parts_of_a_label"
_NEW, _LEFT = "test_what_one_more_use_brings", "test_what_is_left_when_a_pod_goes"
_LABEL, _CLASH = "test_the_label_of_options", "test_which_labels_clash"

COVERED: Cases = {
    "Sync: existing pod with no volumes": _USES,
    "Sync: existing pod with unbound PVC": _WAITS,
    "Sync: existing pod with fully bound PVC": _USES,
    "Sync: existing pod with fully bound PVC, Recursive change policy": _USES,
    "Sync: existing pod with inline volume": _USES,
    "Sync: existing pod with inline volume and PVC": _USES,
    "Sync: existing pod with PVC generates conflict, the other pod exists": _TOLD,
    "Sync: existing pod with Recursive policy does not generate conflicts": (
        "test_pods_that_have_each_file_labelled_get_on"
    ),
    "Sync: existing pod with Recursive policy does not conflict with pod with MountOption policy label, only with the "
    "policy": _TOLD,
    "Sync: existing pod with PVC generates conflict, the other pod doesn't exist": (
        "test_of_two_pods_the_one_that_is_still_there_is_told"
    ),
    "Sync: empty label implies Recursive policy": _USES,
    "Sync: pending pod is processed": _BOTH,
    "Sync: unknown pod is processed": NOT + "no phase is looked at but the two that end a pod",
    "Sync: succeeded pod is removed from the cache": _ENDED,
    "Sync: failed pod is removed from the cache": _ENDED,
    "Sync: deleted pod": _ENDED,
    "Sync: existing pod with fully bound PVC and CSIDriver.SELinuxMount disabled": (
        "test_a_driver_that_learns_to_mount_with_labels_and_unlearns_it"
    ),
    "TestVolumeCache_DeleteAll": "test_when_all_pods_are_deleted_nothing_is_left",
    "AddVolume: new volume in empty cache": "test_a_new_volume_in_an_empty_cache",
    "AddVolume: new volume": _NEW,
    "AddVolume: existing volume in a new pod with existing policy and label": _NEW,
    "AddVolume: existing volume in a new pod with existing policy and new conflicting label": _NEW,
    "AddVolume: existing volume in a new pod with new conflicting policy": _NEW,
    "AddVolume: existing pod is replaced with different non-conflicting policy and label": _NEW,
    "AddVolume: existing pod is replaced with conflicting policy": _NEW,
    "AddVolume: new incomparable label (missing user and role)": _NEW,
    "AddVolume: conflicting policy with incomparable parts": _NEW,
    "AddVolume: new incomparable label (missing user)": _NEW,
    "AddVolume: new comparable label (missing categories)": _NEW,
    "AddVolume: new incomparable label (missing everything)": _NEW,
    "AddVolume: new comparable label (missing everything but categories)": _NEW,
    "TestVolumeCache_MultiVolumeConflicts": "test_conflicts_over_several_volumes_are_all_there_until_the_pod_goes",
    "TestVolumeCache_MultiVolumeConflicts: deduplication": (
        "test_two_pods_that_differ_over_two_volumes_are_one_conflict_in_the_metric"
    ),
    "DeletePod: delete one of two conflicting pods clears all conflicts": _LEFT,
    "DeletePod: delete non-conflicting pod preserves existing conflicts": _LEFT,
    "DeletePod: three pods on same volume delete one leaves remaining pair conflict": _LEFT,
    "DeletePod: delete pod with conflicts on multiple volumes": _LEFT,
    "DeletePod: delete pod preserves conflicts on unrelated volumes": _LEFT,
    "DeletePod: delete pod that was already deleted is a no-op": _LEFT,
    "TestVolumeCache_GetPodsForCSIDriver": "test_what_a_driver_can_do_counts_for_its_volumes_all_at_once",
    "TestSELinuxOptionsToFileLabel: nil options": "test_who_asks_for_no_label_takes_any",
    "TestSELinuxOptionsToFileLabel: all fields set": _LABEL,
    "TestSELinuxOptionsToFileLabel: some fields set": _LABEL,
    "TestSELinuxOptionsToFileLabel: only level set": _LABEL,
    "TestSELinuxOptionsToFileLabel: no fields set": _LABEL,
    "TestLabelsConflict: empty strings don't conflict": _CLASH,
    "TestLabelsConflict: empty string  don't conflict with anything": _CLASH,
    "TestLabelsConflict: empty parts don't conflict with anything": _CLASH,
    "TestLabelsConflict: different lengths don't conflict if the common parts are the same": _CLASH,
    "TestLabelsConflict: different lengths conflict if the common parts differ": _CLASH,
    "TestLabelsConflict: empty parts with conflict": _CLASH,
    "TestLabelsConflict: non-conflicting empty parts": _CLASH,
    "TestParseSELinuxLabel": _PARTS,
}
