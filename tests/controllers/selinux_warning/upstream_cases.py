"""The cases of upstream's tests of ``pkg/controller/volume/selinuxwarning``, and where each of them is.

Read in public copies: ``selinux_warning_controller_test.go`` as kubernetes#135629 (v1.36) left it, ``cache`` and
``internal/parse`` as of kubernetes#137226 (2026), ``translator`` of v1.33; what kubernetes#133425 changed in the last
one, that a level is compared even with none, is in the cases of ``cache``.
"""

from tests.controllers.upstream_coverage import NOT, Cases

_USES, _WAITS = "test_volumes_of_a_pod", "test_unbound_volume_is_awaited"
_TOLD, _ENDED = "test_conflict_event_messages", "test_terminated_pod_has_no_conflicts"
_BOTH, _PARTS = "test_conflict_emits_one_event_on_each_pod", "test_parse_selinux_label"
_NEW, _LEFT = "test_add_volume_returns_conflicts", "test_delete_pod"
_LABEL, _CLASH = "test_selinux_options_to_label", "test_conflicting_labels"

COVERED: Cases = {
    "Sync: existing pod with no volumes": _USES,
    "Sync: existing pod with unbound PVC": _WAITS,
    "Sync: existing pod with fully bound PVC": _USES,
    "Sync: existing pod with fully bound PVC, Recursive change policy": _USES,
    "Sync: existing pod with inline volume": _USES,
    "Sync: existing pod with inline volume and PVC": _USES,
    "Sync: existing pod with PVC generates conflict, the other pod exists": _TOLD,
    "Sync: existing pod with Recursive policy does not generate conflicts": (
        "test_recursive_change_policy_has_no_conflict"
    ),
    "Sync: existing pod with Recursive policy does not conflict with pod with MountOption policy label, only with the "
    "policy": _TOLD,
    "Sync: existing pod with PVC generates conflict, the other pod doesn't exist": (
        "test_event_is_emitted_only_for_existing_pods"
    ),
    "Sync: empty label implies Recursive policy": _USES,
    "Sync: pending pod is processed": _BOTH,
    "Sync: unknown pod is processed": NOT + "no phase is looked at but the two that end a pod",
    "Sync: succeeded pod is removed from the cache": _ENDED,
    "Sync: failed pod is removed from the cache": _ENDED,
    "Sync: deleted pod": _ENDED,
    "Sync: existing pod with fully bound PVC and CSIDriver.SELinuxMount disabled": (
        "test_changed_selinux_mount_of_a_csi_driver"
    ),
    "TestVolumeCache_DeleteAll": "test_deleting_all_pods_empties_the_cache",
    "AddVolume: new volume in empty cache": "test_add_volume_to_an_empty_cache",
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
    "TestVolumeCache_MultiVolumeConflicts": "test_conflicts_over_several_volumes_exist_until_the_pod_is_deleted",
    "TestVolumeCache_MultiVolumeConflicts: deduplication": ("test_conflict_over_two_volumes_is_one_metric_sample"),
    "DeletePod: delete one of two conflicting pods clears all conflicts": _LEFT,
    "DeletePod: delete non-conflicting pod preserves existing conflicts": _LEFT,
    "DeletePod: three pods on same volume delete one leaves remaining pair conflict": _LEFT,
    "DeletePod: delete pod with conflicts on multiple volumes": _LEFT,
    "DeletePod: delete pod preserves conflicts on unrelated volumes": _LEFT,
    "DeletePod: delete pod that was already deleted is a no-op": _LEFT,
    "TestVolumeCache_GetPodsForCSIDriver": "test_driver_support_is_updated_for_all_its_volumes",
    "TestSELinuxOptionsToFileLabel: nil options": "test_pod_without_a_label_conflicts_with_none",
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
