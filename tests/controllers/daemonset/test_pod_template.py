"""Templates of daemon pods. Mirrors v1.36 ``pkg/controller/daemon/util/daemonset_util_test.go``."""

from typing import Any

import msgspec
import pytest
from tests.controllers.daemonset.daemons import pinned_to
from tests.tables import cases

from pilothouse.api.core import Pod, PodSpec
from pilothouse.controllers.workloads.daemonset.pod_template import (
    PinnedTemplate,
    target_node,
    template_generation,
)

TERM = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-7"]}]}


def template_for_node(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The template for node-7."""
    template = msgspec.json.encode({"metadata": {"labels": {"app": "agent"}, **metadata}, "spec": spec})
    pinned = PinnedTemplate(template, revision_hash="abc", generation=4)
    result: dict[str, Any] = msgspec.json.decode(pinned.for_node("node-7"))
    return result


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        # TestReplaceDaemonSetPodNodeNameNodeAffinity
        pytest.param(None, {}, id="no affinity"),
        pytest.param({}, {}, id="empty"),
        pytest.param({"nodeAffinity": {}}, {}, id="no required node affinity"),
        pytest.param(
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
            {},
            id="no terms",
        ),
        pytest.param(
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]},
                        ]
                    }
                }
            },
            {},
            id="required terms are replaced",
        ),
        *(
            pytest.param(
                {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": key, "operator": operator, "values": values}]}
                            ]
                        }
                    }
                },
                {},
                id=f"also {key} {operator} {values}",
            )
            for key, operator, values in (
                ("metadata.name", "In", ["node-7", "other"]),
                ("metadata.name", "NotIn", ["other"]),
                ("metadata.foo", "In", ["bar"]),
            )
        ),
        pytest.param(
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}},
            {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]},
            id="preferred terms are kept",
        ),
    ],
)
def test_pod_has_node_affinity_to_its_node(affinity: Any, expected: dict[str, Any]) -> None:
    spec = {} if affinity is None else {"affinity": affinity}
    assert template_for_node(spec)["spec"]["affinity"]["nodeAffinity"] == {
        **expected,
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
    }


def test_other_affinity_and_unknown_fields_are_kept() -> None:
    spec = {
        "affinity": {"podAntiAffinity": {"future": 1}},
        "containers": [{"name": "a", "future": 1.50}],
        "x": {"y": 1},
    }
    result = template_for_node(spec, annotations={"a": "b"}, finalizers=["f"], future=1)
    assert result["spec"]["affinity"]["podAntiAffinity"] == {"future": 1}
    assert result["spec"]["containers"] == spec["containers"]
    assert result["spec"]["x"] == {"y": 1}
    assert result["metadata"]["annotations"] == {"a": "b"}
    assert result["metadata"]["finalizers"] == ["f"]


def test_pod_has_revision_hash_and_template_generation_labels() -> None:
    """TestCreatePodTemplate."""
    assert template_for_node({})["metadata"]["labels"] == {
        "app": "agent",
        "controller-revision-hash": "abc",
        "pod-template-generation": "4",
    }
    bare = PinnedTemplate(b'{"metadata":{"labels":{"a":"b"}}}', revision_hash="", generation=None)
    assert msgspec.json.decode(bare.for_node("n"))["metadata"]["labels"] == {"a": "b"}


def test_default_tolerations_are_appended_to_the_templates() -> None:
    own = {"key": "dedicated", "operator": "Exists", "future": True}
    limited = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 9,
    }
    result = template_for_node({"tolerations": [own, limited], "hostNetwork": True})["spec"]["tolerations"]
    assert result[0] == own
    assert result[1] == {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    assert [item["key"].partition("/")[2] for item in result[2:]] == [
        "not-ready", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable", "network-unavailable"
    ]  # fmt: skip


@pytest.mark.parametrize("name", ['quo"te', "umläut", "node-0.example.com"])
def test_any_node_name_is_escaped_in_the_affinity(name: str) -> None:
    template = PinnedTemplate(b'{"spec":{}}', revision_hash="", generation=None)
    document = msgspec.json.decode(template.for_node(name), type=Pod)
    assert target_node(document) == name


@cases(
    "spec, expected",
    {
        # TestGetTargetNodeName
        "bound": (PodSpec(node_name="n1"), "n1"),
        "pinned": (PodSpec(affinity=pinned_to("n2")), "n2"),
        "nodeName differs from the affinity": (PodSpec(node_name="n1", affinity=pinned_to("n2")), "n1"),
        "pinned to two": (PodSpec(affinity=pinned_to("n1", "n2")), ""),
        "neither nodeName nor affinity": (PodSpec(), ""),
    },
)
def test_target_node_name_of_bound_and_pending_pods(spec: PodSpec, expected: str) -> None:
    assert target_node(Pod(spec=spec)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("", None),
        ("x", None),
        ("12", 12),
        ("1.5", None),
        ("-3", -3),
        ("+4", 4),
        ("+-5", None),
        ("\u0665", None),
        (" 1", None),
        ("1_0", None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
    ],
)
def test_template_generation_must_be_an_integer(text: str, expected: int | None) -> None:
    assert template_generation({"deprecated.daemonset.template.generation": text}) == expected
    assert template_generation({}) is None
