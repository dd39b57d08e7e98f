"""VolumeZone as kube-scheduler v1.36's ``plugins/volumezone/volume_zone_test.go``."""

import msgspec
from tests.scheduler.build import ZONE, info, node
from tests.tables import cases

from pilothouse.api.storage import PersistentVolume
from pilothouse.scheduler.plugins.volume_zone import CONFLICT, filter_node, topologies

REGION = "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


@cases(
    "volume, labels, fits",
    {
        "node without labels": ({ZONE: "a"}, {}, True),
        "node with other labels only": ({ZONE: "a"}, {"kubernetes.io/hostname": "h"}, True),
        "volume without labels": ({}, {ZONE: "a"}, True),
        "same zone": ({ZONE: "a"}, {ZONE: "a", "uselessLabel": "none"}, True),
        "other zone": ({ZONE: "a"}, {ZONE: "b"}, False),
        "one of several zones": ({ZONE: "a__b"}, {ZONE: "b"}, True),
        "none of several zones": ({ZONE: "a__b"}, {ZONE: "c"}, False),
        "same region": ({REGION: "r"}, {REGION: "r"}, True),
        "other region": ({REGION: "r"}, {REGION: "s"}, False),
        "node with another of the labels": ({REGION: "r"}, {ZONE: "a"}, False),
        "beta label of the volume, stable one of the node": ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        "beta label of both": ({BETA_REGION: "a"}, {BETA_REGION: "b"}, False),
        "stable label of the volume, beta one of the node": ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
        "an empty zone is ignored": ({ZONE: "a__"}, {ZONE: "b"}, True),
    },
)
def test_filter(volume: dict[str, str], labels: dict[str, str], fits: bool) -> None:
    required = topologies([msgspec.convert({"metadata": {"labels": volume}}, PersistentVolume)])
    assert filter_node(required, info(node(labels=labels))) == (None if fits else CONFLICT)
