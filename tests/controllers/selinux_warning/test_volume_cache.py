"""The volume cache and its conflicts.

After v1.36 ``pkg/controller/volume/selinuxwarning/cache/volumecache_test.go``; ids are the names of the cases there.
"""

import random
from collections.abc import Iterable

import pytest
from tests.tables import cases

from pilothouse.controllers.shared.volume_plugins import VolumeIdentity
from pilothouse.controllers.volumes.selinux_warning.decide import (
    MOUNT_OPTION,
    RECURSIVE,
    Conflict,
    VolumeUse,
    conflicts_between,
)
from pilothouse.controllers.volumes.selinux_warning.volume_cache import VolumeCache

LABEL, POLICY = "SELinuxLabel", "SELinuxChangePolicy"


def at(volume: str) -> VolumeIdentity:
    return VolumeIdentity(volume, "driver1")


def mount(label: str) -> VolumeUse:
    return VolumeUse(label, MOUNT_OPTION)


EACH_FILE = VolumeUse("", RECURSIVE)

THERE = [
    ("ns1/pod1-mountOption", "vol1", mount("system_u:system_r:label1")),
    ("ns2/pod2-recursive", "vol2", EACH_FILE),
    ("ns3/pod3-1", "vol3", EACH_FILE),
    ("ns3/pod3-2", "vol3", EACH_FILE),
    ("ns4/pod4-1", "vol4", mount("system_u:system_r:label4")),
    ("ns4/pod4-2", "vol4", mount("system_u:system_r:label4")),
    ("ns5/pod5", "vol5", mount("::label5")),
    ("ns6/pod6", "vol6", mount(":system_r:label6")),
    ("ns7/pod7", "vol7", mount("::label7:c0,c1")),
    ("ns8/pod8", "vol8", mount("")),
]
NEW = "testns/testpod"


def mounting(*drivers: str) -> VolumeCache:
    """Books in which these drivers mount with labels."""
    volume_cache = VolumeCache()
    for name in drivers or ("driver1",):
        assert volume_cache.set_driver_support(name, mounts=True) == []
    return volume_cache


def cache_of(users: Iterable[tuple[str, str, VolumeUse]]) -> VolumeCache:
    volume_cache = mounting()
    for pod, volume, use in users:
        assert volume_cache.add_volumes(pod, f"uid of {pod}", {at(volume): use}, complete=False) == [], "they get on"
    return volume_cache


def both(*found: Conflict) -> list[Conflict]:
    return [side for item in found for side in (item, item.reversed())]


@cases(
    "pod, volume, use, cached",
    {
        "new volume": (NEW, "vol-new", mount("system_u:system_r:label-new"), []),
        "existing volume in a new pod with existing policy and label": (
            NEW,
            "vol1",
            mount("system_u:system_r:label1"),
            [],
        ),
        "existing volume in a new pod with existing policy and new conflicting label": (
            NEW,
            "vol1",
            mount("system_u:system_r:label-new"),
            [Conflict(LABEL, NEW, "system_u:system_r:label-new", "ns1/pod1-mountOption", "system_u:system_r:label1")],
        ),
        "existing volume in a new pod with new conflicting policy": (
            NEW,
            "vol1",
            EACH_FILE,
            [Conflict(POLICY, NEW, RECURSIVE, "ns1/pod1-mountOption", MOUNT_OPTION)],
        ),
        "existing pod is replaced with different non-conflicting policy and label": (
            "ns2/pod2-recursive",
            "vol2",
            mount("system_u:system_r:label-new"),
            [],
        ),
        "existing pod is replaced with conflicting policy": (
            "ns3/pod3-1",
            "vol3",
            mount("system_u:system_r:label-new"),
            [Conflict(POLICY, "ns3/pod3-1", MOUNT_OPTION, "ns3/pod3-2", RECURSIVE)],
        ),
        "new incomparable label (missing user and role)": (NEW, "vol5", mount("system_u:system_r:label5"), []),
        "conflicting policy with incomparable parts": (
            NEW,
            "vol5",
            mount("::label6"),
            [Conflict(LABEL, NEW, "::label6", "ns5/pod5", "::label5")],
        ),
        "new incomparable label (missing user)": (NEW, "vol6", mount("system_u::label6"), []),
        "new comparable label (missing categories)": (
            NEW,
            "vol7",
            mount("system_u:system_r:label7"),
            [Conflict(LABEL, NEW, "system_u:system_r:label7", "ns7/pod7", "::label7:c0,c1")],
        ),
        "new incomparable label (missing everything)": (NEW, "vol8", mount("system_u:system_r:label8"), []),
        "new comparable label (missing everything but categories)": (
            NEW,
            "vol8",
            mount("system_u:system_r:label8:c0,c1"),
            [Conflict(LABEL, NEW, "system_u:system_r:label8:c0,c1", "ns8/pod8", "")],
        ),
    },
)
def test_add_volume_returns_conflicts(pod: str, volume: str, use: VolumeUse, cached: list[Conflict]) -> None:
    volume_cache = cache_of(THERE)
    assert volume_cache.add_volumes(pod, f"uid of {pod}", {at(volume): use}, complete=True) == both(*cached)
    assert set(volume_cache.conflicts()) == set(both(*cached))
    assert volume_cache.add_volumes(pod, f"uid of {pod}", {at(volume): use}, complete=True) == [], (
        "a conflict is returned once"
    )


def test_add_volume_to_an_empty_cache() -> None:
    assert mounting().add_volumes(NEW, "u", {at("vol-new"): mount("l")}, complete=True) == []


def test_different_policy_and_level_are_two_conflicts() -> None:
    volume_cache = cache_of([("ns/a", "v", mount(":::s0:c1,c2"))])
    assert volume_cache.add_volumes("ns/b", "u", {at("v"): EACH_FILE}, complete=True) == both(
        Conflict(POLICY, "ns/b", RECURSIVE, "ns/a", MOUNT_OPTION), Conflict(LABEL, "ns/b", "", "ns/a", ":::s0:c1,c2")
    )


def test_deleting_all_pods_empties_the_cache() -> None:
    volume_cache = mounting()
    pods = [f"ns{a}/pod{b}" for a in range(4) for b in range(4)]
    for pod in pods:
        uses = {at(f"vol{number}"): mount("label1") for number in range(4)}
        assert volume_cache.add_volumes(pod, pod, uses, complete=True) == []
    for pod in pods:
        volume_cache.delete_pod(pod)
    assert (volume_cache._volumes, volume_cache._of_pod, volume_cache._contested) == ({}, {}, {})


def test_conflicts_over_several_volumes_exist_until_the_pod_is_deleted() -> None:
    volume_cache = cache_of([("ns/b", "vol1", mount("u:r:b")), ("ns/c", "vol2", mount("u:r:c"))])
    result = volume_cache.add_volumes(
        "ns/a", "u", {at("vol1"): mount("u:r:a"), at("vol2"): mount("u:r:a")}, complete=True
    )
    assert [(item.pod, item.other) for item in result] == [
        ("ns/a", "ns/b"),
        ("ns/b", "ns/a"),
        ("ns/a", "ns/c"),
        ("ns/c", "ns/a"),
    ]
    assert set(volume_cache.conflicts()) == set(result)
    volume_cache.delete_pod("ns/a")
    assert list(volume_cache.conflicts()) == []


def test_conflict_over_two_volumes_is_one_metric_sample() -> None:
    uses = [{at("vol3"): mount(f"u:r:{label}"), at("vol4"): mount(f"u:r:{label}")} for label in "de"]
    volume_cache = mounting()
    volume_cache.add_volumes("ns/d", "d", uses[0], complete=True)
    result = volume_cache.add_volumes("ns/e", "e", uses[1], complete=True)
    assert len(result) == 4
    assert set(volume_cache.conflicts()) == set(result)
    assert len(set(result)) == 2


A, B = ("ns/a", "vol1", "u:r:a"), ("ns/b", "vol1", "u:r:b")


@cases(
    "users, deleted, left",
    {
        "delete one of two conflicting pods clears all conflicts": ([A, B], "ns/a", set()),
        "delete non-conflicting pod preserves existing conflicts": (
            [A, B, ("ns/c", "vol2", "u:r:c")],
            "ns/c",
            {("ns/a", "ns/b")},
        ),
        "three pods on same volume delete one leaves remaining pair conflict": (
            [A, B, ("ns/c", "vol1", "u:r:c")],
            "ns/a",
            {("ns/b", "ns/c")},
        ),
        "delete pod with conflicts on multiple volumes": (
            [B, ("ns/c", "vol2", "u:r:c"), A, ("ns/a", "vol2", "u:r:a")],
            "ns/a",
            set(),
        ),
        "delete pod preserves conflicts on unrelated volumes": (
            [A, B, ("ns/c", "vol2", "u:r:c"), ("ns/d", "vol2", "u:r:d")],
            "ns/a",
            {("ns/c", "ns/d")},
        ),
    },
)
def test_delete_pod(users: list[tuple[str, str, str]], deleted: str, left: set[tuple[str, str]]) -> None:
    volume_cache = mounting()
    for pod, volume, label in users:
        volume_cache.add_volumes(pod, pod, {at(volume): mount(label)}, complete=False)
    for _twice in range(2):  # "delete pod that was already deleted is a no-op"
        volume_cache.delete_pod(deleted)
        pairs = {(item.pod, item.other) for item in volume_cache.conflicts()}
        assert pairs == left | {(other, pod) for pod, other in left}


def test_driver_support_is_updated_for_all_its_volumes() -> None:
    """Volumes of other drivers are not updated. Pods without conflicts cause no events."""
    volume_cache = mounting("d1")
    for driver, pod, volume, label in (
        ("d1", "ns1/pod1", "vol1", ":::a"),
        ("d2", "ns2/pod2", "vol2", ":::a"),
        ("d2", "ns3/pod3-2", "vol3", ":::a"),
        ("d2", "ns3/pod3-1", "vol3", ":::b"),
        ("d2", "ns3/pod3-3", "vol3", ":::b"),
        ("d3", "ns4/pod4-1", "vol4", ":::a"),
        ("d3", "ns4/pod4-2", "vol4", ":::b"),
    ):
        assert volume_cache.add_volumes(pod, pod, {VolumeIdentity(volume, driver): mount(label)}, complete=True) == []
    result = volume_cache.set_driver_support("d2", mounts=True)
    expected = both(*(Conflict(LABEL, f"ns3/pod3-{n}", ":::b", "ns3/pod3-2", ":::a") for n in (1, 3)))
    assert set(result) == set(volume_cache.conflicts()) == set(expected)
    assert len(result) == len(expected)
    assert volume_cache.set_driver_support("d2", mounts=True) == [], "that is known"
    assert volume_cache.set_driver_support("d2", mounts=False) == []
    assert list(volume_cache.conflicts()) == []
    assert volume_cache.set_driver_support("d4", mounts=True) == [], "totally unknown CSI driver"


def test_volumes_without_a_csi_driver_support_selinux_mount() -> None:
    volume_cache = VolumeCache()
    volume_cache.add_volumes("ns/a", "a", {VolumeIdentity("kubernetes.io/iscsi/x", ""): mount(":::a")}, complete=True)
    assert (
        len(
            volume_cache.add_volumes(
                "ns/b", "b", {VolumeIdentity("kubernetes.io/iscsi/x", ""): mount(":::b")}, complete=True
            )
        )
        == 2
    )


def test_recreated_pod_does_not_inherit_volumes() -> None:
    volume_cache = cache_of([("ns/a", "v", mount("u:r:a"))])
    volume_cache.add_volumes("ns/b", "u", {at("v"): mount("u:r:b")}, complete=True)
    assert volume_cache.add_volumes("ns/b", "another", {}, complete=False) == []
    assert list(volume_cache.conflicts()) == []


@pytest.mark.parametrize(
    ("complete", "left"), [(True, 0), (False, 2)], ids=["all volumes resolved", "unresolved volumes"]
)
def test_unused_volume_is_removed_if_all_volumes_are_known(complete: bool, left: int) -> None:
    volume_cache = cache_of([("ns/a", "v", mount("u:r:a"))])
    volume_cache.add_volumes("ns/b", "u", {at("v"): mount("u:r:b")}, complete=True)
    volume_cache.add_volumes("ns/b", "u", {at("w"): mount("u:r:b")}, complete=complete)
    assert len(list(volume_cache.conflicts())) == left


@pytest.mark.parametrize("number", range(20))
def test_conflicts_agree_with_pairwise_comparison(number: int) -> None:
    rng = random.Random(number)
    uses = [EACH_FILE, mount("u:r:t:s0"), mount("::t:s0"), mount(":::s1"), mount("v:::s0")]
    volume_cache, known = mounting(), dict[str, dict[str, VolumeUse]]()
    for _step in range(200):
        pod = f"ns{rng.randrange(2)}/p{rng.randrange(6)}"
        if rng.random() < 0.3:
            volume_cache.delete_pod(pod)
            known.pop(pod, None)
        else:
            known[pod] = {f"v{item}": rng.choice(uses) for item in range(3) if rng.random() < 0.6}
            volume_cache.add_volumes(pod, pod, {at(volume): use for volume, use in known[pod].items()}, complete=True)
        expected = {
            Conflict(property_name, one, value, other, other_value)
            for one, conflicts_of_pod in known.items()
            for other, conflicts_of_other in known.items()
            for volume in conflicts_of_pod.keys() & conflicts_of_other.keys()
            for property_name, value, other_value in conflicts_between(
                conflicts_of_pod[volume], conflicts_of_other[volume]
            )
        }
        assert set(volume_cache.conflicts()) == expected
