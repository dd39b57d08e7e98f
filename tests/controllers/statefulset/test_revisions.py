"""Names and number of revisions.

Mirrors v1.36 ``stateful_set_control_test.go`` (getSetRevisions, LimitsHistory), ``controller_history_test.go`` and the
tests of semantic comparison.
"""

import datetime
from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.apps import ControllerRevision
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.history import revision_hash, revision_name, template_in, template_patch
from pilothouse.controllers.workloads.statefulset.revisions import (
    equal_with_defaults,
    in_order,
    revisions_to_truncate,
)
from pilothouse.machinery.template_hash import fnv32

DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}


MAIN = TEMPLATE["spec"]["containers"][0]


def projected(source: dict[str, Any]) -> dict[str, Any]:
    return {"name": "v", "projected": {"sources": [source], "defaultMode": 420}}


def data(**spec: Any) -> bytes:
    return template_patch(msgspec.json.encode({**TEMPLATE, "spec": {**TEMPLATE["spec"], **spec}}))


def revision(name: str, number: int = 0, *, day: int = 0) -> ControllerRevision:
    meta = ObjectMeta(name=name, creation_timestamp=DAY + datetime.timedelta(days=day))
    return ControllerRevision(metadata=meta, revision=number)


@pytest.mark.parametrize(("text", "expected"), [(b"", 0x811C9DC5), (b"a", 0x050C5D7E), (b"foobar", 0x31F0B262)])
def test_fnv_1(text: bytes, expected: int) -> None:
    """The test vectors of the algorithm's authors."""
    assert fnv32(text) == expected


def test_revision_name_is_upstreams() -> None:
    """The name that v1.36.2 gave to the revision of this template (trace 07a); each collision gives another name."""
    assert revision_hash(data(), 0) == "58b9955788"
    assert len({revision_hash(data(), count) for count in range(20)}) == 20


def test_long_revision_name_is_truncated() -> None:
    """``ControllerRevisionName`` of ``pkg/controller/history``."""
    assert revision_name("web", "abc") == "web-abc"
    assert revision_name("x" * 230, "abc") == "x" * 223 + "-abc"


def test_apply_revision() -> None:
    """TestCreateApplyRevision, the part that can be tested alone."""
    assert msgspec.json.decode(template_in(data())) == TEMPLATE


def test_sort_controller_revisions() -> None:
    """TestSortControllerRevisions: by number, then age, then name."""
    result = in_order([revision("b", 2), revision("z", 1, day=1), revision("a", 2), revision("y", 1, day=2)])
    assert [item.metadata.name for item in result] == ["z", "y", "a", "b"]


@cases(
    "limit, live, deleted",
    {
        "oldest are deleted": (1, {"d"}, ["a", "b"]),
        "at the limit": (3, {"d"}, []),
        "limit 0": (0, {"d"}, ["a", "b", "c"]),
        "revision of a pod is kept": (0, {"d", "a"}, ["b", "c"]),
        "negative limit": (-1, {"d"}, []),
    },
)
def test_history_limit_deletes_unused_revisions(limit: int, live: set[str], deleted: list[str]) -> None:
    """TestStatefulSetControlLimitsHistory."""
    result = [revision(name, number) for number, name in enumerate("abcd")]
    assert [item.metadata.name for item in revisions_to_truncate(result, frozenset(live), limit)] == deleted


@cases(
    "older, same",
    {
        "equal": ({}, True),
        "without later defaults": ({"schedulerName": None, "dnsPolicy": None}, True),
        "a list without items": ({"tolerations": []}, True),
        "null": ({"nodeSelector": None}, True),
        "another value": ({"schedulerName": "mine"}, False),
        "additional field": ({"hostNetwork": True}, False),
        "a bare container": ({"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]}, True),
        "another image": ({"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.9"}]}, False),
    },
)
def test_revisions_differing_by_defaults_are_equal(older: dict[str, Any], same: bool) -> None:
    """TestStatefulSetCompatibility (1.33 → 1.34), kubernetes#135017."""
    assert equal_with_defaults(data(**older), data()) == same


@cases(
    "before, after",
    {
        "GenericWorkload": ({}, {"schedulingGroup": {"podGroupName": "a"}}),
        "ContainerStopSignals": (
            {"os": {"name": "linux"}},
            {"os": {"name": "linux"}, "containers": [{**MAIN, "lifecycle": {"stopSignal": "SIGUSR1"}}]},
        ),
        "ClusterTrustBundleProjection": (
            {"volumes": [projected({})]},
            {"volumes": [projected({"clusterTrustBundle": {"name": "a", "path": "ca"}})]},
        ),
        "PodCertificateRequest": (
            {"volumes": [projected({})]},
            {"volumes": [projected({"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}})]},
        ),
    },
)
def test_gated_fields_are_part_of_the_revision(before: dict[str, Any], after: dict[str, Any]) -> None:
    """An API server whose gates are on keeps them. ``Scheme.Default`` only adds (v1.36
    ``setMatchesLatestExistingRevision``)."""
    assert not equal_with_defaults(data(**before), data(**after))


def test_empty_selector_differs_from_a_missing_one() -> None:
    def spread(**selector: Any) -> bytes:
        return data(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", **selector}])

    assert not equal_with_defaults(spread(labelSelector={}), spread())
