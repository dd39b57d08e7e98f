"""The cases of ``TestController``, v1.36 ``pkg/controller/devicetainteviction/device_taint_eviction_test.go``, and
where each of them is. Of the file, which was read in a public copy, the cases from "evict-pod-many-taints" on are not
listed one by one."""

from tests.controllers.upstream_coverage import NOT, Cases

_WHEN, _WHO = "test_eviction_time_of_a_claim", "test_pods_to_evict"
_SAYS = "test_status_of_a_rule"
_RULE = "test_device_taint_rule_evicts_and_reports_progress_in_its_status"
_SLICES = "test_devices_with_changed_taints_in_a_slice"
_JOINED = "test_reasons_of_several_claims_and_taints_are_merged"

COVERED: Cases = {
    "empty": f"{NOT}nothing happens, and there is nothing to look at",
    "populate-pools": _SLICES,
    "update-pools": _SLICES,
    "untainted-claim": _WHEN,
    "tainted-claim-through-resourceslice": _WHEN,
    "rule-status": _SAYS,
    "tainted-claim-through-rule": _RULE,
    "evict-pod-resourceclaim": "test_pod_using_a_tainted_device_gets_an_event_and_is_deleted",
    "evict-pod-rule": _RULE,
    "evict-pod-rule-later": _RULE,
    "evict-many-pods-many-namespaces": _SAYS,
    "evict-many-pods-same-namespace": _SAYS,
    "none-pod-rule": "test_device_taint_rule_with_effect_none_reports_affected_pods",
    "none-many-pods-many-namespaces": _SAYS,
    "none-many-pods-same-namespace": _SAYS,
    "multiple-claims-same-rule": _JOINED,
    "multiple-claims-different-rules-order-1": _JOINED,
    "multiple-claims-different-rules-order-2": _JOINED,
    "evict-pod-resourceclaim-again": f"{NOT}two changes at one instant are one look here, and call nothing off",
    "evict-pod-after-scheduling": "test_pod_scheduled_after_the_taint_is_evicted",
    "evict-pod-resourceclaim-unrelated-changes": _SLICES,
    "evict-pod-resourceclaimtemplate": _WHO,
    "evict-pod-later": "test_toleration_delays_eviction_and_taint_removal_cancels_it",
    "evict-pod-later-many": _WHEN,
    "evict-pod-toleration-mismatch": _WHEN,
    "no-evict-pod-toleration-forever": _WHEN,
    "no-evict-pod-toleration-forever-many": _WHEN,
    "evict-pod-partial-toleration": _WHEN,
    "evict-pod-many-taints": _JOINED,
}
