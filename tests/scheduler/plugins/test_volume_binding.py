"""Filtering nodes by the claims of a pod.

As TestFindPodVolumesWithoutProvisioning, TestFindPodVolumesWithProvisioning and TestFindPodVolumesWithNodeAffinity of
v1.36 ``pkg/scheduler/framework/plugins/volumebinding/binder_test.go``.
"""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import Node, PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume, StorageClass
from pilothouse.scheduler.plugins.volume_binding import (
    ERR_REASON_BIND_CONFLICT,
    ERR_REASON_NODE_CONFLICT,
    ERR_REASON_PV_NOT_EXIST,
    PodVolumeClaims,
    UnboundClaim,
)

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
) -> UnboundClaim:
    body: dict[str, Any] = {"metadata": {"name": "c"}, "provisioner": MADE if provisioner == ZONAL else provisioner}
    if provisioner == ZONAL:
        body["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": ["of-node1"]}]}]
    return UnboundClaim(claim(name, size), msgspec.convert(body, StorageClass), chosen, volumes)


@cases(
    "bound, waiting, reasons",
    {
        "bound to a volume without node affinity": ([volume("v")], [], ()),
        "bound to a volume of this node": ([volume("v", on="node1")], [], ()),
        "bound to a volume of another node": ([volume("v", on="node2")], [], (ERR_REASON_NODE_CONFLICT,)),
        "bound to a volume that does not exist": ([None], [], (ERR_REASON_PV_NOT_EXIST,)),
        "a volume of this node": ([], [waits(volume("v", on="node1"))], ()),
        "a volume of another node": ([], [waits(volume("v", on="node2"))], (ERR_REASON_BIND_CONFLICT,)),
        "a volume that is too small": ([], [waits(volume("v"), size="9Gi")], (ERR_REASON_BIND_CONFLICT,)),
        "no volume": ([], [waits()], (ERR_REASON_BIND_CONFLICT,)),
        "no provisioner": ([], [waits(provisioner="")], (ERR_REASON_BIND_CONFLICT,)),
        "can be provisioned": ([], [waits(provisioner=MADE)], ()),
        "can be provisioned in this zone": ([], [waits(provisioner=ZONAL)], ()),
        "being provisioned for this node": ([], [waits(provisioner=MADE, chosen="node1")], ()),
        "being provisioned for another node": (
            [],
            [waits(provisioner=MADE, chosen="node2")],
            (ERR_REASON_BIND_CONFLICT,),
        ),
        "one volume for two claims": (
            [],
            [waits(volume("v"), name="a"), waits(volume("v"), name="b")],
            (ERR_REASON_BIND_CONFLICT,),
        ),
        "a volume reserved for the claim": ([], [waits(volume("v", claim="a"))], ()),
        "a volume reserved for another claim": (
            [],
            [waits(volume("v", on="node2", claim="a"), volume("w"))],
            (ERR_REASON_BIND_CONFLICT,),
        ),
        "two reasons": ([volume("v", on="node2")], [waits()], (ERR_REASON_NODE_CONFLICT, ERR_REASON_BIND_CONFLICT)),
        "volumes after one that does not exist are not checked": (
            [None, volume("v", on="node2")],
            [],
            (ERR_REASON_PV_NOT_EXIST,),
        ),
    },
)
def test_filter(bound: list[PersistentVolume | None], waiting: list[UnboundClaim], reasons: tuple[str, ...]) -> None:
    status = PodVolumeClaims(bound=bound, unbound=waiting).filter_node(node())
    assert (status.reasons if status is not None else ()) == reasons
    assert status is None or status.unresolvable, "preemption would not help"


def test_volumes_are_provisioned_in_allowed_topologies_only() -> None:
    volumes = PodVolumeClaims(unbound=[waits(provisioner=ZONAL)])
    assert volumes.filter_node(node("node1")) is None
    assert volumes.filter_node(node("node2")) is not None


def test_the_smallest_claim_is_bound_first() -> None:
    """Else it could take the large volume, and the small one would be too small for the other claim."""
    small, large = volume("small", "1Gi"), volume("large", "5Gi")
    plan = PodVolumeClaims(
        unbound=[waits(small, large, name="big", size="4Gi"), waits(small, large, name="little", size="1Gi")]
    ).find_pod_volumes(node())
    assert [(v.metadata.name, c.metadata.name) for v, c in plan.static_bindings] == [
        ("small", "little"),
        ("large", "big"),
    ]
    assert plan.dynamic_provisions == ()


def test_assumed_volumes_are_not_available() -> None:
    volumes = PodVolumeClaims(unbound=[waits(volume("v"), provisioner=MADE)], assumed=frozenset({"v"}))
    plan = volumes.find_pod_volumes(node())
    assert (
        plan.static_bindings,
        [unbound.metadata.name for unbound in plan.dynamic_provisions],
    ) == ((), ["a"])


def test_pod_volumes_are_empty_when_nothing_has_to_be_written() -> None:
    assert not PodVolumeClaims(bound=[volume("v")]).find_pod_volumes(node())
    assert PodVolumeClaims(unbound=[waits(provisioner=MADE)]).find_pod_volumes(node())
