"""What a pod's claims say to a node. Mirrors TestFindPodVolumesWithoutProvisioning, TestFindPodVolumesWithProvisioning
and TestFindPodVolumesWithNodeAffinity of v1.36 ``pkg/scheduler/framework/plugins/volumebinding/binder_test.go``."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import Node, PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume, StorageClass
from pilothouse.scheduler.pod_volumes import NONE_TO_BIND, NOT_THERE, OUT_OF_REACH, PodVolumes, Waiting

STATIC, MADE, ZONAL = "kubernetes.io/no-provisioner", "vendor.com/x", "zonal"


def node(name: str = "node1") -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": {"host": name, "zone": f"of-{name}"}}}, Node)


def volume(name: str, size: str = "5Gi", *, on: str = "", claim: str = "") -> PersistentVolume:
    spec: dict[str, Any] = {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
    }  # fmt: skip
    if on:
        terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": [on]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim:
        spec["claimRef"] = {"namespace": "ns", "name": claim}
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}, PersistentVolume
    )


def claim(name: str = "a", size: str = "1Gi") -> PersistentVolumeClaim:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "c", "resources": {"requests": {"storage": size}}}
    meta = {"name": name, "namespace": "ns", "uid": f"of-{name}"}
    return msgspec.convert({"metadata": meta, "spec": spec}, PersistentVolumeClaim)


def waits(
    *volumes: PersistentVolume, name: str = "a", size: str = "1Gi", provisioner: str = STATIC, chosen: str = ""
) -> Waiting:
    body: dict[str, Any] = {"metadata": {"name": "c"}, "provisioner": MADE if provisioner == ZONAL else provisioner}
    if provisioner == ZONAL:
        body["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": ["of-node1"]}]}]
    return Waiting(claim(name, size), msgspec.convert(body, StorageClass), chosen, volumes)


@pytest.mark.parametrize(
    ("bound", "waiting", "reasons"),
    [
        pytest.param([volume("v")], [], (), id="bound, and reachable from everywhere"),
        pytest.param([volume("v", on="node1")], [], (), id="bound here"),
        pytest.param([volume("v", on="node2")], [], (OUT_OF_REACH,), id="bound elsewhere"),
        pytest.param([None], [], (NOT_THERE,), id="bound, and the volume is gone"),
        pytest.param([], [waits(volume("v", on="node1"))], (), id="there is one here"),
        pytest.param([], [waits(volume("v", on="node2"))], (NONE_TO_BIND,), id="there is one elsewhere"),
        pytest.param([], [waits(volume("v"), size="9Gi")], (NONE_TO_BIND,), id="there is one, and it is too small"),
        pytest.param([], [waits()], (NONE_TO_BIND,), id="there is none"),
        pytest.param([], [waits(provisioner="")], (NONE_TO_BIND,), id="nobody makes any"),
        pytest.param([], [waits(provisioner=MADE)], (), id="somebody makes one"),
        pytest.param([], [waits(provisioner=ZONAL)], (), id="somebody makes one here"),
        pytest.param([], [waits(provisioner=MADE, chosen="node1")], (), id="one is being made here"),
        pytest.param([], [waits(provisioner=MADE, chosen="node2")], (NONE_TO_BIND,), id="one is being made elsewhere"),
        pytest.param(
            [], [waits(volume("v"), name="a"), waits(volume("v"), name="b")], (NONE_TO_BIND,), id="one for two claims"
        ),
        pytest.param([], [waits(volume("v", claim="a"))], (), id="one that is reserved"),
        pytest.param(
            [], [waits(volume("v", on="node2", claim="a"), volume("w"))], (NONE_TO_BIND,), id="one reserved elsewhere"
        ),
        pytest.param([volume("v", on="node2")], [waits()], (OUT_OF_REACH, NONE_TO_BIND), id="two things are wrong"),
        pytest.param([None, volume("v", on="node2")], [], (NOT_THERE,), id="what is gone is all that is said"),
    ],
)
def test_a_node(bound: list[PersistentVolume | None], waiting: list[Waiting], reasons: tuple[str, ...]) -> None:
    refusal = PodVolumes(bound=bound, waiting=waiting).refusal(node())
    assert (refusal.reasons if refusal is not None else ()) == reasons
    assert refusal is None or refusal.final, "fewer pods would not help"


def test_a_class_makes_volumes_only_where_it_says() -> None:
    volumes = PodVolumes(waiting=[waits(provisioner=ZONAL)])
    assert volumes.refusal(node("node1")) is None
    assert volumes.refusal(node("node2")) is not None


def test_the_smallest_claim_chooses_first() -> None:
    """So that two claims that both fit into the large volume don't leave the small one to who can't use it."""
    small, large = volume("small", "1Gi"), volume("large", "5Gi")
    plan = PodVolumes(
        waiting=[waits(small, large, name="big", size="4Gi"), waits(small, large, name="little", size="1Gi")]
    ).plan(node())
    assert [(v.metadata.name, c.metadata.name) for v, c in plan.given] == [("small", "little"), ("large", "big")]
    assert plan.told == ()


def test_what_was_promised_is_taken() -> None:
    volumes = PodVolumes(waiting=[waits(volume("v"), provisioner=MADE)], taken=frozenset({"v"}))
    plan = volumes.plan(node())
    assert (plan.given, [each.metadata.name for each in plan.told]) == ((), ["a"])


def test_nothing_to_do_is_no_plan() -> None:
    assert not PodVolumes(bound=[volume("v")]).plan(node())
    assert PodVolumes(waiting=[waits(provisioner=MADE)]).plan(node())
