"""NodeDeclaredFeatures as kube-scheduler v1.36's ``plugins/nodedeclaredfeatures/nodedeclaredfeatures_test.go``."""

from typing import Any

from tests.scheduler.build import Namespaces, cluster, node, pod
from tests.tables import cases

from pilothouse.scheduler.framework.runtime import Framework
from pilothouse.scheduler.framework.types import PodInfo, node_change
from pilothouse.scheduler.plugins.node_declared_features import (
    RESTART_ALL_CONTAINERS,
    UNSATISFIED_REQUIREMENTS,
    is_schedulable_after_node_change,
)


def container(*actions: str) -> list[dict[str, Any]]:
    return [{"name": "c", "restartPolicyRules": [{"action": action} for action in actions]}]


@cases(
    "spec, features, fits",
    {
        "the pod needs nothing": ({}, [], True),
        "a rule that every kubelet has": ({"containers": container("Restart")}, [], True),
        "the feature is missing": ({"containers": container("RestartAllContainers")}, ["Other"], False),
        "the feature is declared": ({"containers": container("RestartAllContainers")}, [RESTART_ALL_CONTAINERS], True),
        "an init container needs it": (
            {"containers": container(), "initContainers": container("Restart", "RestartAllContainers")}, [], False,
        ),
    },
)  # fmt: skip
def test_filter(spec: dict[str, Any], features: list[str], fits: bool) -> None:
    cache = cluster([node(features=features)])
    framework, pod_info = Framework(cache, Namespaces()), PodInfo(pod(**spec))
    state = framework.pre_filter(pod_info)
    expected = None if fits else UNSATISFIED_REQUIREMENTS
    assert framework.filter_node(pod_info, cache.nodes["n"], state) == expected
    assert list(framework.filter_nodes_in_cluster(pod_info, range(1), state)) == ([0] if fits else [])


def test_a_node_that_declares_other_features_may_help() -> None:
    rejected = PodInfo(pod(containers=container("RestartAllContainers")))
    old, new = node(), node(features=[RESTART_ALL_CONTAINERS])
    assert is_schedulable_after_node_change(rejected, node_change(old, new))
    assert is_schedulable_after_node_change(rejected, node_change(None, old))
    assert not is_schedulable_after_node_change(rejected, node_change(old, old))
    assert not is_schedulable_after_node_change(rejected, node_change(old, None))
