"""The cases of ``TestController``, v1.36 ``pkg/controller/devicetainteviction/device_taint_eviction_test.go``, and
where each of them is. Of the file, which was read in a public copy, the cases from "evict-pod-many-taints" on are not
listed one by one."""

from tests.controllers.upstream_coverage import NOT, Cases

_WHEN, _WHO = "test_when_the_users_of_a_claim_must_go", "test_which_pods_must_go"
_SAYS = "test_what_a_rules_status_says"
_RULE = "test_a_rule_evicts_and_its_status_says_how_far_it_is"
_SLICES = "test_a_slice_tells_which_devices_are_tainted_otherwise"
_JOINED = "test_several_claims_and_taints_are_joined"

COVERED: Cases = {
    "empty": f"{NOT}nothing happens, and there is nothing to look at",
    "populate-pools": _SLICES,
    "update-pools": _SLICES,
    "untainted-claim": _WHEN,
    "tainted-claim-through-resourceslice": _WHEN,
    "rule-status": _SAYS,
    "tainted-claim-through-rule": _RULE,
    "evict-pod-resourceclaim": "test_a_pod_on_a_tainted_device_is_told_why_and_deleted",
    "evict-pod-rule": _RULE,
    "evict-pod-rule-later": _RULE,
    "evict-many-pods-many-namespaces": _SAYS,
    "evict-many-pods-same-namespace": _SAYS,
    "none-pod-rule": "test_a_rule_without_effect_says_what_it_would_do",
    "none-many-pods-many-namespaces": _SAYS,
    "none-many-pods-same-namespace": _SAYS,
    "multiple-claims-same-rule": _JOINED,
    "multiple-claims-different-rules-order-1": _JOINED,
    "multiple-claims-different-rules-order-2": _JOINED,
    "evict-pod-resourceclaim-again": f"{NOT}two changes at one instant are one look here, and call nothing off",
    "evict-pod-after-scheduling": "test_a_pod_that_gets_its_node_or_its_claim_late_is_noticed",
    "evict-pod-resourceclaim-unrelated-changes": _SLICES,
    "evict-pod-resourceclaimtemplate": _WHO,
    "evict-pod-later": "test_a_toleration_delays_it_and_a_taint_that_goes_calls_it_off",
    "evict-pod-later-many": _WHEN,
    "evict-pod-toleration-mismatch": _WHEN,
    "no-evict-pod-toleration-forever": _WHEN,
    "no-evict-pod-toleration-forever-many": _WHEN,
    "evict-pod-partial-toleration": _WHEN,
    "evict-pod-many-taints": _JOINED,
}
