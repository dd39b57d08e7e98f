"""Evictions because of device taints, and the status of DeviceTaintRules: tables.

Cases of ``TestController``, v1.36 ``pkg/controller/devicetainteviction/device_taint_eviction_test.go``, have their
names in the ids.
"""

import datetime
from typing import Any

from tests.controllers.resourceclaim.builders import claim_doc, owner, pod, reference, view
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.api.meta import Condition, ObjectMeta
from pilothouse.api.resource import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintRuleStatus,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSlice,
)
from pilothouse.controllers.devices.device_taint_eviction import DESCRIPTOR
from pilothouse.controllers.devices.device_taint_eviction.decide import (
    Eviction,
    Reason,
    claim_eviction,
    pod_eviction,
    rule_matches,
    taints_by_rules,
)
from pilothouse.controllers.devices.device_taint_eviction.pools import Pools
from pilothouse.controllers.devices.device_taint_eviction.rule_status import (
    Counts,
    new_condition,
    wait_seconds,
)

Doc = dict[str, Any]
T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TAINT: Doc = {"key": "broken", "value": "yes", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def later(seconds: float) -> datetime.datetime:
    return T0 + datetime.timedelta(seconds=seconds)


def slice_of(
    devices: dict[str, list[Doc]], *, name: str = "slice", pool: str = "node", generation: int = 1
) -> ResourceSlice:
    """A slice with these devices and their taints."""
    listed = [{"name": device, "taints": taints} for device, taints in devices.items()]
    spec = {"driver": "gpu.example.com", "pool": {"name": pool, "generation": generation}, "devices": listed}
    return view({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def claim_with(*tolerations: Doc, device: str = "gpu-0", **more: Any) -> ResourceClaim:
    """A claim that has a device and is reserved for the pod."""
    doc = claim_doc(**{"users": [reference()], **more})
    result = {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "node",
        "device": device,
        "tolerations": list(tolerations),
    }
    doc["status"]["allocation"] = {"devices": {"results": [result]}}
    return view(doc, ResourceClaim)


def pools_of(*slices: ResourceSlice) -> Pools:
    pools = Pools()
    for endpoint_slice in slices:
        pools.update(None, endpoint_slice)
    return pools


def toleration(seconds: int | None = None, **more: Any) -> Doc:
    result: Doc = {"operator": "Exists", "effect": "NoExecute", **more}
    return result if seconds is None else {**result, "tolerationSeconds": seconds}


@cases(
    "taints, tolerations, expected",
    {
        "untainted-claim": ([], [], None),
        "tainted-claim-through-resourceslice": ([TAINT], [], 0.0),
        "no-evict-pod-not-executed: NoSchedule": ([{**TAINT, "effect": "NoSchedule"}], [], None),
        "no-evict-pod-effect-none": ([{**TAINT, "effect": "None"}], [], None),
        "no-evict-pod-unknown-effect": ([{**TAINT, "effect": "new"}], [], None),
        "evict-pod-later": ([TAINT], [toleration(60)], 60.0),
        "evict-pod-later-many: the shortest one counts": (
            [TAINT],
            [toleration(20, key="other"), toleration(60), toleration(30)],
            30.0,
        ),
        "evict-pod-toleration-mismatch": ([TAINT], [toleration(60, key="other")], 0.0),
        "no-evict-pod-toleration-forever": ([TAINT], [toleration()], None),
        "no-evict-pod-toleration-forever-many": ([TAINT], [toleration(60), toleration()], None),
        "evict-pod-partial-toleration": ([TAINT, {**TAINT, "key": "second"}], [toleration(key="broken")], 0.0),
        "a negative time is zero": ([TAINT], [toleration(-5)], 0.0),
        "the value is the same": ([TAINT], [toleration(key="broken", operator="Equal", value="yes")], None),
        "the value is another": ([TAINT], [toleration(key="broken", operator="", value="no")], 0.0),
        "no effect: all of them, unlike upstream": ([TAINT], [{"operator": "Exists"}], None),
        "time out of range": ([TAINT], [toleration(2**62)], None),
        "a taint of the future waits for its time": ([{**TAINT, "timeAdded": "2026-01-01T00:01:00Z"}], [], 60.0),
    },
)
def test_eviction_time_of_a_claim(taints: list[Doc], tolerations: list[Doc], expected: float | None) -> None:
    pools = pools_of(slice_of({"gpu-0": taints, "gpu-1": [TAINT]}))
    result = claim_eviction(claim_with(*tolerations), pools.taints_of)
    assert (None if result is None else (result.at - T0).total_seconds()) == expected


def test_claim_without_devices_evicts_no_pods() -> None:
    assert claim_eviction(view(claim_doc(), ResourceClaim), lambda _device: []) is None


ENTRY = {"name": "gpu", "resourceClaimName": "claim"}


@cases(
    "user, claim, goes",
    {
        "evict-pod-resourceclaim": (pod(entries=[ENTRY], node="n"), claim_with(), True),
        "no-evict-pod-not-scheduled": (pod(entries=[ENTRY]), claim_with(), False),
        "evict-pod-resourceclaimtemplate": (pod(named={"gpu": "claim"}, node="n"), claim_with(owner=owner()), True),
        "no-evict-wrong-pod: the claim was made for another one": (
            pod(named={"gpu": "claim"}, node="n"),
            claim_with(owner=owner(uid="other")),
            False,
        ),
        "no-evict-pod-resourceclaim-not-created": (pod(node="n"), claim_with(owner=owner()), False),
        "no-evict-pod-no-claim-needed": (pod(named={"gpu": None}, node="n"), claim_with(), False),
        "no-evict-pod-resourceclaim-not-reserved": (pod(entries=[ENTRY], node="n"), claim_with(users=[]), False),
        "reserved for its predecessor": (pod(entries=[ENTRY], node="n", uid="other"), claim_with(), False),
        "completed, unlike upstream": (pod(entries=[ENTRY], node="n", phase="Succeeded"), claim_with(), False),
    },
)
def test_pods_to_evict(user: Pod, claim: ResourceClaim, goes: bool) -> None:
    pools = pools_of(slice_of({"gpu-0": [TAINT]}))
    assert (pod_eviction(user, lambda _name: claim, pools.taints_of) is not None) is goes


def rule(name: str = "rule", uid: str = "rule-uid", effect: str = "NoExecute", **more: Any) -> DeviceTaintRule:
    """A rule for all devices of the driver, with this condition if one is given."""
    condition = more.pop("condition", None)
    selector = DeviceTaintSelector(**{"driver": "gpu.example.com", **more.pop("selector", {})})
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name, uid=uid, generation=more.pop("generation", 1)),
        spec=DeviceTaintRuleSpec(
            device_selector=selector, taint=DeviceTaint(key="broken", effect=effect, time_added=more.pop("at", T0))
        ),
        status=DeviceTaintRuleStatus(conditions=(condition,) if condition is not None else ()),
    )


def test_reasons_of_several_claims_and_taints_are_merged() -> None:
    """multiple-claims-different-rules; evict-pod-many-taints."""
    first = rule("first", "u1", selector={"device": "gpu-0"})
    second = rule("second", "u2", selector={"device": "gpu-1"}, at=later(40))
    pools = pools_of(slice_of({"gpu-0": [], "gpu-1": [TAINT]}))
    user = pod(entries=[ENTRY, {"name": "net", "resourceClaimName": "other"}], node="n")
    claims = {"claim": claim_with(), "other": claim_with(device="gpu-1")}
    result = pod_eviction(
        user, claims.get, lambda device: [*pools.taints_of(device), *taints_by_rules([second, first], device)]
    )
    slice_reason = Reason(True, "", "", "gpu.example.com", "node", "gpu-1", 0, "slice")
    assert result == Eviction(T0, (Reason(False, "first", "u1"), Reason(False, "second", "u2"), slice_reason))
    assert result.is_by("u2")
    assert not result.is_by("u3")
    assert [str(reason) for reason in result.reasons] == [
        "DeviceTaintRule first:u1",
        "DeviceTaintRule second:u2",
        "ResourceSlice slice gpu.example.com/node/gpu-1 taint #0",
    ]


@cases(
    "selector, matches",
    {
        "the driver": ({}, True),
        "an empty selector: all devices": ({"driver": None}, True),
        "another driver": ({"driver": "other"}, False),
        "the pool": ({"pool": "node"}, True),
        "another pool": ({"pool": "other"}, False),
        "the device": ({"device": "gpu-0", "pool": "node"}, True),
        "another device": ({"device": "gpu-1"}, False),
    },
)
def test_devices_matched_by_a_rule(selector: Doc, matches: bool) -> None:
    assert rule_matches(rule(selector=selector), "gpu.example.com", "node", "gpu-0") is matches


def test_rule_without_a_selector_matches_no_devices() -> None:
    assert not rule_matches(DeviceTaintRule(), "gpu.example.com", "node", "gpu-0")


def changed(pools: Pools, old: ResourceSlice | None, new: ResourceSlice | None) -> list[str]:
    return [device for _driver, _pool, device in pools.update(old, new)]


def test_devices_with_changed_taints_in_a_slice() -> None:
    """populate-pools, update-pools."""
    pools = Pools()
    first = slice_of({"a": [], "b": [TAINT], "c": [{**TAINT, "effect": "NoSchedule"}]})
    assert changed(pools, None, first) == ["b"]
    second = slice_of({"a": [TAINT], "b": [TAINT], "d": []})
    assert changed(pools, first, second) == ["a"]
    third = slice_of({"a": [{**TAINT, "timeAdded": "2026-01-01T00:00:05Z"}], "b": [TAINT]})
    assert changed(pools, second, third) == ["a"]
    assert changed(pools, third, third) == []
    assert changed(pools, third, None) == ["a", "b"]
    assert list(pools.devices()) == []


def test_only_the_latest_pool_generation_is_used() -> None:
    """slice-replaced."""
    pools = Pools()
    old, new = slice_of({"a": [TAINT]}, name="old"), slice_of({"a": []}, name="new", generation=2)
    assert changed(pools, None, old) == ["a"]
    assert changed(pools, None, new) == ["a"], "the taint is gone with its generation"
    assert [device for _d, _p, device in pools.devices()] == ["a"]
    assert changed(pools, new, None) == ["a"], "and back"


WHEN = (
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger "
    "an update."
)


@cases(
    "effect, counts, expected",
    {
        "rule-status": ("NoExecute", Counts(), ("False", "NotStarted", "")),
        "evict-pod-rule": (
            "NoExecute",
            Counts(pending=1, namespaces=1),
            ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."),
        ),
        "evict-many-pods-many-namespaces": (
            "NoExecute",
            Counts(pending=2, namespaces=2),
            ("True", "PodsPendingEviction", "2 pods need to be evicted in 2 different namespaces."),
        ),
        "some evicted, others pending": (
            "NoExecute",
            Counts(pending=2, namespaces=1, evicted=1),
            (
                "True",
                "PodsPendingEviction",
                "2 pods need to be evicted in 1 namespace. 1 pod evicted since starting the controller.",
            ),
        ),
        "evict-many-pods-same-namespace": (
            "NoExecute",
            Counts(evicted=2),
            ("False", "Completed", "2 pods evicted since starting the controller."),
        ),
        "none-pod-rule": (
            "None",
            Counts(published=3, allocated=1, pending=1, namespaces=1),
            (
                "False",
                "NoEffect",
                "3 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace "
                f"{WHEN}",
            ),
        ),
        "none-many-pods-many-namespaces": (
            "None",
            Counts(allocated=3, pending=2, namespaces=2),
            (
                "False",
                "NoEffect",
                "0 published devices selected. 3 allocated devices selected. 2 pods would be evicted in 2 different "
                f"namespaces {WHEN}",
            ),
        ),
        "other effects": (
            "NoSchedule",
            Counts(),
            ("False", "OtherEffect", "Eviction only happens for the NoExecute effect."),
        ),
    },
)
def test_status_of_a_rule(effect: str, counts: Counts, expected: tuple[str, str, str]) -> None:
    condition = new_condition(rule(effect=effect), counts)
    assert condition is not None
    assert (condition.type, condition.status, condition.reason, condition.message) == ("EvictionInProgress", *expected)
    assert condition.observed_generation == 1


def test_unchanged_rule_status_is_not_written() -> None:
    known = Condition(
        type="EvictionInProgress",
        status="False",
        reason="NotStarted",
        observed_generation=1,
        last_transition_time=T0,
    )
    assert new_condition(rule(condition=known), Counts()) is None
    assert new_condition(rule(condition=known, generation=2), Counts()) is not None


def test_rule_status_is_written_at_most_every_ten_seconds() -> None:
    known = Condition(type="EvictionInProgress", observed_generation=1, last_transition_time=T0)
    assert wait_seconds(rule(), T0) == 0
    assert wait_seconds(rule(condition=known), later(4)) == 6
    assert wait_seconds(rule(condition=known), later(11)) == 0
    assert wait_seconds(rule(condition=known, generation=2), later(4)) == 0, "a changed rule does not wait"


def test_feature_gates_are_upstreams() -> None:
    assert DESCRIPTOR.gates == ("DynamicResourceAllocation", "DRADeviceTaints")
