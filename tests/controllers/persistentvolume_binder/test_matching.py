"""Matching volumes to claims.

Mirrors ``index_test.go`` of v1.36 ``pkg/controller/volume/persistentvolume`` (TestMatchVolume,
TestMatchingWithBoundVolumes, TestListByAccessModes, TestAllPossibleAccessModes,
TestFindingVolumeWithDifferentAccessModes, TestFindingPreboundVolumes) and, with a node, the scheduler's use of
``FindMatchingVolume`` (component-helpers ``storage/volume/pv_helpers.go``).
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from tests.controllers.persistentvolume_binder.builders import Doc, as_claim, as_volume, claim, volume
from tests.tables import cases

from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_links import decode_object
from pilothouse.controllers.volumes.persistentvolume_binder import stores
from pilothouse.controllers.volumes.persistentvolume_binder.stores import VolumeStore, mode_set
from pilothouse.machinery.labels import SelectorError
from pilothouse.semantics.volumes import find_match

RWO, ROX, RWX, RWOP = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"
TWO, THREE = (RWO, ROX), (RWO, ROX, RWX)


def store(*docs: Doc) -> VolumeStore:
    volume_store = VolumeStore()
    for doc in docs:
        volume_store.put(decode_object(msgspec.json.encode(doc), PersistentVolume))
    return volume_store


SHELF = (
    volume("gce003", "10G", modes=TWO),
    volume("gce004", "20G", "def456", "other", modes=TWO),
    volume("nfs002", "5G", modes=THREE),
    volume("gce001", "1G", "abc123", "other", modes=TWO),
    volume("nfs003", "10G", modes=THREE),
    volume("gce002", "5G", modes=TWO),
    volume("nfs001", "1G", modes=THREE),
    volume("labelled", "20000G", modes=(RWO,), labels={"should-exist": "true"}),
    volume("silver1", "5000G", modes=(RWO,), labels={"should-exist": "true"}, class_name="silver"),
    volume("silver2", "100G", modes=(RWO,), class_name="silver"),
    volume("blocks", "200G", modes=(RWO,), volumeMode="Block"),
    volume("better", "300G", modes=(RWO,), volumeAttributesClassName="gold"),
)


def claim_of(size: str, modes: tuple[str, ...] = TWO, **more: Any) -> Doc:
    return claim("c", size=size, modes=modes, **more)


@cases(
    "requested, expected",
    {
        "the smallest that is large enough": (claim_of("8G"), "gce003"),
        "several access modes": (claim_of("5G", (ROX, RWO, RWX)), "nfs002"),
        "smallest volume": (claim_of("1G"), "gce002"),
        "none large enough": (claim_of("999G"), ""),
        "selector matches nothing": (claim_of("999G", selects={"should-not-exist": "true"}), ""),
        "selector matches, access modes do not": (claim_of("20000G", selects={"should-exist": "true"}), ""),
        "size and label": (claim_of("20000G", (RWO,), selects={"should-exist": "true"}), "labelled"),
        "class and label": (claim_of("1G", (RWO,), selects={"should-exist": "true"}, class_name="silver"), "silver1"),
        "class, and the smallest": (claim_of("1G", (RWO,), class_name="silver"), "silver2"),
        "no volume of the class": (claim_of("1G", (RWO,), class_name="gold"), ""),
        "volumeMode Block": (claim_of("1G", (RWO,), volumeMode="Block"), "blocks"),
        "the class of attributes": (claim_of("1G", (RWO,), volumeAttributesClassName="gold"), "better"),
        "ReadWriteOncePod is a separate mode": (claim_of("1G", (RWOP,)), ""),
    },
)
def test_match_volume(requested: Doc, expected: str) -> None:
    match = store(*SHELF).find_best_match_for_claim(as_claim(requested), delayed=False)
    assert (match.metadata.name if match else "") == expected


def test_available_volume_is_preferred_of_equal_ones() -> None:
    index = store(volume("gce001", "1G", "abc123", "other", modes=TWO), volume("gce002", "1G", modes=TWO))
    match = index.find_best_match_for_claim(as_claim(claim_of("1G")), delayed=False)
    assert match is not None
    assert match.metadata.name == "gce002"


def test_list_by_access_modes() -> None:
    index = store(*SHELF)
    assert [item.metadata.name for item in index.volumes_with_modes(ROX, RWO)] == [
        "gce001",
        "gce002",
        "gce003",
        "gce004",
    ]
    assert [item.metadata.name for item in index.volumes_with_modes(*THREE)] == ["nfs001", "nfs002", "nfs003"]


def test_all_possible_access_modes() -> None:
    index = store(*SHELF)
    assert index.all_possible_matching_access_modes((RWO,)) == [(RWO,), TWO, THREE]
    assert index.all_possible_matching_access_modes((RWX,)) == [THREE]
    assert index.all_possible_matching_access_modes((RWOP,)) == []
    assert mode_set((RWX, RWO, RWX)) == (RWO, RWX)


def test_changed_access_modes_are_reindexed() -> None:
    index = store(volume("a", modes=(RWO,)))
    newer = volume("a", modes=(RWX,))
    newer["metadata"]["resourceVersion"] = "2"
    assert index.put(decode_object(msgspec.json.encode(newer), PersistentVolume))
    assert index.volumes_with_modes(RWO) == []
    assert [item.metadata.name for item in index.volumes_with_modes(RWX)] == ["a"]
    assert not index.put(decode_object(msgspec.json.encode(volume("a", modes=(RWO,))), PersistentVolume)), (
        "older: ignored"
    )
    assert index.drop("a") is not None
    assert index.all_possible_matching_access_modes(()) == []


@cases(
    "modes, volume_modes, expected",
    {
        "the exact mode": ((RWO,), (), "ebs"),
        "two modes": ((RWO, ROX), (), "gce"),
        "three modes in another order": ((RWX, RWO, ROX), (), "nfs"),
        "fewer modes than the volume has": ((RWX,), (), "nfs"),
        "exact volume in use: one more mode": ((RWO,), ("ebs",), "gce"),
        "two volumes in use: two more modes": ((RWO,), ("ebs", "gce"), "nfs"),
        "a mode that no volume has alone": ((ROX,), ("ebs",), "gce"),
    },
)
def test_access_modes(modes: tuple[str, ...], volume_modes: tuple[str, ...], expected: str) -> None:
    of = {"ebs": (RWO,), "gce": TWO, "nfs": THREE}
    index = store(
        *(
            volume(
                name,
                "10G",
                "x" if name in volume_modes else "",
                "other" if name in volume_modes else "",
                modes=volume_object,
            )
            for name, volume_object in of.items()
        )
    )
    match = index.find_best_match_for_claim(as_claim(claim_of("1G", modes)), delayed=False)
    assert match is not None
    assert match.metadata.name == expected


def test_fewer_access_modes_win_over_a_better_size() -> None:
    """10Gi with one mode before 5Gi with two."""
    index = store(volume("ten", "10Gi"), volume("five", "5Gi", modes=(RWO, RWX)))
    match = index.find_best_match_for_claim(as_claim(claim_of("4Gi", (RWO,))), delayed=False)
    assert match is not None
    assert match.metadata.name == "ten"


RESERVED = volume("reserved", "10Gi", "", "c", "Pending")


@cases(
    "doc, delayed, expected",
    {
        "reserved by name, any phase": (RESERVED, False, True),
        "reserved by name, delayed binding": (RESERVED, True, True),
        "reserved by uid, another class": (volume("v", "10Gi", "u", "c", class_name="other"), True, True),
        "reserved for another uid": (volume("v", "10Gi", "older", "c"), False, False),
        "reserved by name, too small": (volume("v", "1Gi", "", "c"), False, False),
        "reserved by name, another volumeMode": (volume("v", "10Gi", "", "c", volumeMode="Block"), False, False),
        "unreserved with delayed binding": (volume("v", "10Gi"), True, False),
        "Pending volume": (volume("v", "10Gi", phase="Pending"), False, False),
        "Released volume": (volume("v", "10Gi", phase="Released"), False, False),
    },
)
def test_pre_bound_volumes(doc: Doc, delayed: bool, expected: bool) -> None:
    assert bool(store(doc).find_best_match_for_claim(as_claim(claim("c", size="5Gi")), delayed=delayed)) is expected


def test_terminating_volumes_do_not_match() -> None:
    doc = volume("v", "10Gi", "", "c")
    doc["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert store(doc).find_best_match_for_claim(as_claim(claim("c")), delayed=False) is None


def test_invalid_selector_is_an_error() -> None:
    doc = claim("c")
    doc["spec"]["selector"] = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    with pytest.raises(SelectorError):
        store(volume("v")).find_best_match_for_claim(as_claim(doc), delayed=False)


def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the volumes that are examined from now on."""
    looked_at: list[str] = []

    def noted(volumes: Iterable[PersistentVolume]) -> Iterator[PersistentVolume]:
        for item in volumes:
            looked_at.append(item.metadata.name)
            yield item

    def watched(requested: Any, volumes: Iterable[PersistentVolume], **more: Any) -> PersistentVolume | None:
        return find_match(requested, noted(volumes), **more)

    monkeypatch.setattr(stores, "find_match", watched)
    return looked_at


@pytest.mark.parametrize("delayed", [False, True])
def test_bound_volumes_are_not_visited(delayed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pending claims are synced every 15 seconds: the number of bound volumes must not matter."""
    looked_at = examined(monkeypatch)
    in_use = [volume(f"used{n}", "1Gi", f"uid{n}", f"other{n}", modes=TWO if n % 2 else THREE) for n in range(50)]
    others = [volume(f"gold{n}", class_name="gold", modes=TWO) for n in range(50)]
    blocks = [volume(f"block{n}", modes=TWO, volumeMode="Block") for n in range(50)]
    better = [volume(f"better{n}", modes=TWO, volumeAttributesClassName="gold") for n in range(50)]
    not_yet = [volume(f"new{n}", modes=TWO, phase="Pending") for n in range(50)]
    bound_volume = volume("mine", "1Gi", "", "c", "Pending", modes=THREE)
    index = store(*in_use, *others, *blocks, *better, *not_yet, volume("free", modes=TWO), bound_volume)
    match = index.find_best_match_for_claim(as_claim(claim_of("1Gi")), delayed=delayed)
    assert match is not None
    assert match.metadata.name == ("mine" if delayed else "free")
    assert looked_at == (["mine"] if delayed else ["free"])


def test_only_the_best_available_volumes_are_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    """And as many with non-matching labels as necessary."""
    looked_at = examined(monkeypatch)
    free = [volume(f"v{n:02}", f"{10 - n % 10}Gi", labels={"even": str(n % 2)}) for n in range(50)]
    index = store(*free)
    match = index.find_best_match_for_claim(as_claim(claim("c", size="3500Mi")), delayed=False)
    assert match is not None
    assert (match.metadata.name, looked_at) == ("v06", ["v06"]), "the first of 4Gi"
    looked_at.clear()
    match = index.find_best_match_for_claim(as_claim(claim("c", size="3500Mi", selects={"even": "1"})), delayed=False)
    assert match is not None
    assert (match.metadata.name, looked_at) == ("v05", ["v06", "v16", "v26", "v36", "v46", "v05"]), "of 5Gi"


@pytest.mark.parametrize("round_", range(30))
def test_index_agrees_with_a_full_scan(round_: int) -> None:
    rng = random.Random(round_)
    sizes = ["0", "500M", "512Mi", "1Gi", "1073741824", "1.5Gi", "0.0000000001", "2e9", "2Gi"]

    def any_volume(name: str, revision: int) -> Doc:
        owner = rng.choice(["", "", "", "c", "other"])
        uid = rng.choice(["", "uid-of-nobody"]) if owner else ""
        phase = rng.choice(["Available", "Available", "Pending"])
        spec: dict[str, Any] = {"class_name": rng.choice(["", "gold"]), "labels": {"a": rng.choice("xy")}}
        if rng.random() < 0.2:
            spec["volumeMode"] = rng.choice(["Block", "Filesystem"])
        random_volume = volume(
            name, rng.choice(sizes), uid, owner, phase, modes=rng.choice([(RWO,), TWO, THREE]), **spec
        )
        random_volume["metadata"]["resourceVersion"] = str(revision)
        if rng.random() < 0.1:
            random_volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return random_volume

    index, present = VolumeStore(), dict[str, PersistentVolume]()
    for revision in range(1, 120):
        name = f"v{rng.randrange(25)}"
        if rng.random() < 0.2:
            index.drop(name)
            present.pop(name, None)
            continue
        result = decode_object(msgspec.json.encode(any_volume(name, revision)), PersistentVolume)
        assert index.put(result)
        present[name] = result.object
        more: dict[str, Any] = {"class_name": rng.choice(["", "gold"])}
        if rng.random() < 0.3:
            more["selects"] = {"a": "x"}
        claim_object = as_claim(claim_of(rng.choice(sizes), rng.choice([(RWO,), TWO, (ROX,)]), **more))
        delayed = rng.random() < 0.3
        expected = None
        for modes in index.all_possible_matching_access_modes(claim_object.spec.access_modes):
            same = [
                volume_object
                for _, volume_object in sorted(present.items())
                if mode_set(volume_object.spec.access_modes) == modes
            ]
            expected = expected or find_match(claim_object, same, delayed=delayed)
        assert index.find_best_match_for_claim(claim_object, delayed=delayed) == expected


def test_released_volume_matches_again() -> None:
    index = store(volume("v", "1Gi", "u1", "other"))
    assert index.find_best_match_for_claim(as_claim(claim("c")), delayed=False) is None
    newer = volume("v", "1Gi")
    newer["metadata"]["resourceVersion"] = "2"
    assert index.put(decode_object(msgspec.json.encode(newer), PersistentVolume))
    assert index.find_best_match_for_claim(as_claim(claim("c")), delayed=False) is not None
    assert index.find_best_match_for_claim(as_claim(claim("c", class_name="gold")), delayed=False) is None
    newer["metadata"]["resourceVersion"], newer["spec"]["storageClassName"] = "3", "gold"
    assert index.put(decode_object(msgspec.json.encode(newer), PersistentVolume))
    assert index.find_best_match_for_claim(as_claim(claim("c")), delayed=False) is None
    assert index.find_best_match_for_claim(as_claim(claim("c", class_name="gold")), delayed=False) is not None


NEAR = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}


@cases(
    "docs, zone, modes, expected",
    {
        "the node can use it": ([volume("v", nodeAffinity=NEAR)], "a", (), "v"),
        "the node cannot": ([volume("v", nodeAffinity=NEAR)], "b", (), ""),
        "no node affinity": ([volume("v")], "b", (), "v"),
        "reserved volume on another node": ([volume("v", "1Gi", "", "c", nodeAffinity=NEAR), volume("w")], "b", (), ""),
        "volume of another claim of the pod": ([volume("v"), volume("w", "2Gi")], "a", ("v",), "w"),
        "access modes do not match": ([volume("v", modes=(ROX,))], "a", (), ""),
    },
)
def test_find_matching_volume_for_a_node(docs: list[Doc], zone: str, modes: tuple[str, ...], expected: str) -> None:
    volumes = [as_volume(doc) for doc in docs]
    match = find_match(as_claim(claim("c")), volumes, node={"zone": zone}, used_volumes=modes)
    assert (match.metadata.name if match else "") == expected
