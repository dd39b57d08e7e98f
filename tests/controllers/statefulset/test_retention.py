"""Claim owner references by retention policy.

Mirrors ``TestIsClaimOwnerUpToDate``, ``TestUpdateClaimOwnerRefForSetAndPod``, ``TestHasOwnerRef``,
``TestHasStaleOwnerRef``, ``TestHasUnexpectedController`` and ``TestUpdateClaimControllerRef`` of v1.36
``stateful_set_utils_test.go``.
"""

import itertools
from typing import Any

import pytest
from tests.controllers.statefulset.builders import BY_SET, SET_UID, by_pod, owned_by, stateful_set
from tests.tables import cases

from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.workloads.statefulset.retention import (
    DELETE,
    RETAIN,
    ClaimRetention,
    Policy,
    has_stale_owner_ref,
    has_unexpected_controller,
    is_claim_owner_updated_properly,
    pod_holder,
    policy_of,
    set_holder,
    updated_owner_refs,
)

POD = by_pod("web-1")
OTHER = owned_by("Thing", "other", "other-uid", controller=False)
RULER = owned_by("Thing", "ruler", "ruler-uid")
OLD_SET = owned_by("StatefulSet", "web", "an earlier one")
OLD_POD = by_pod("web-1", "an earlier one")
LOOSE_SET = owned_by("StatefulSet", "web", SET_UID, controller=False)
LOOSE_POD = owned_by("Pod", "web-1", "uid-web-1", controller=False)


def keeping(scaled: str, deleted: str, *, desired: bool) -> ClaimRetention:
    policy = Policy(when_deleted=deleted, when_scaled=scaled)
    return ClaimRetention(policy, set_holder("web", SET_UID), pod_holder("web-1", "uid-web-1"), desired)


RULES: list[Any] = [
    (RETAIN, RETAIN, True, ()),
    (RETAIN, RETAIN, False, ()),
    (RETAIN, DELETE, True, (BY_SET,)),
    (RETAIN, DELETE, False, (BY_SET,)),
    (DELETE, RETAIN, True, ()),
    (DELETE, RETAIN, False, (POD,)),
    (DELETE, DELETE, True, (BY_SET,)),
    (DELETE, DELETE, False, (POD,)),
]


@pytest.mark.parametrize(("scaled", "deleted", "desired", "owners"), RULES)
def test_claim_owner_references_by_policy(
    scaled: str, deleted: str, desired: bool, owners: tuple[OwnerReference, ...]
) -> None:
    rule = keeping(scaled, deleted, desired=desired)
    for before in ((), (BY_SET,), (POD,), (BY_SET, POD)):
        for others in ((), (OTHER,)):
            assert is_claim_owner_updated_properly((*others, *before), rule) == (set_of(before) == set_of(owners)), (
                before
            )
            after = updated_owner_refs((*before, *others), rule)
            assert after == (*others, *owners)
            assert is_claim_owner_updated_properly(after, rule), "what was settled stays"


def set_of(owners: tuple[OwnerReference, ...]) -> set[str]:
    return {owner.uid for owner in owners}


@pytest.mark.parametrize(("scaled", "deleted"), list(itertools.product((RETAIN, DELETE), repeat=2)))
@pytest.mark.parametrize("desired", [True, False])
@pytest.mark.parametrize("stale", [OLD_SET, OLD_POD])
def test_claim_of_a_previous_set_is_unchanged(scaled: str, deleted: str, desired: bool, stale: OwnerReference) -> None:
    assert is_claim_owner_updated_properly((stale,), keeping(scaled, deleted, desired=desired))


@pytest.mark.parametrize("loose", [LOOSE_SET, LOOSE_POD])
def test_non_controller_owner_references_are_replaced(loose: OwnerReference) -> None:
    for scaled, deleted, desired, owners in RULES:
        rule = keeping(scaled, deleted, desired=desired)
        assert not is_claim_owner_updated_properly((loose,), rule)
        assert updated_owner_refs((loose,), rule) == owners


def test_claim_with_another_controller_is_unchanged() -> None:
    for scaled, deleted, desired, owners in RULES:
        rule = keeping(scaled, deleted, desired=desired)
        retains = (scaled, deleted) == (RETAIN, RETAIN)
        assert has_unexpected_controller((RULER,), rule) != retains
        assert is_claim_owner_updated_properly((RULER,), rule), owners
        for own in (BY_SET, POD):
            assert not is_claim_owner_updated_properly((RULER, own), rule)
            assert updated_owner_refs((RULER, own), rule) == (RULER,)


@pytest.mark.parametrize(
    ("owners", "unexpected"),
    [
        ((), False),
        ((BY_SET,), False),
        ((POD,), False),
        ((BY_SET, POD), False),
        ((OTHER,), False),
        ((OLD_SET,), True),
        ((OLD_POD,), True),
        ((BY_SET, RULER), True),
    ],
)
def test_has_unexpected_controller(owners: tuple[OwnerReference, ...], unexpected: bool) -> None:
    assert has_unexpected_controller(owners, keeping(DELETE, DELETE, desired=True)) == unexpected
    assert not has_unexpected_controller(owners, keeping(RETAIN, RETAIN, desired=True))


def test_has_stale_owner_ref() -> None:
    holder = set_holder("web", SET_UID)
    assert has_stale_owner_ref((OLD_SET,), holder)
    assert not has_stale_owner_ref((BY_SET,), holder)
    assert not has_stale_owner_ref((owned_by("StatefulSet", "other", "x"),), holder)
    assert not has_stale_owner_ref((owned_by("Thing", "web", "x"),), holder)
    assert has_stale_owner_ref((POD,), pod_holder("web-1", "")), "a pod that is yet to be made owns nothing"


@cases(
    "written, policy",
    {
        "empty: Retain": ({}, Policy()),
        "explicit": ({"whenDeleted": "Delete", "whenScaled": "Retain"}, Policy(DELETE, RETAIN)),
        "an unknown policy: Retain": ({"whenDeleted": "Delete", "whenScaled": "Maybe"}, Policy()),
    },
)
def test_retention_policy_defaults(written: dict[str, str], policy: Policy) -> None:
    spec = {"persistentVolumeClaimRetentionPolicy": written} if written else {}
    assert policy_of(stateful_set(spec=spec)) == policy
