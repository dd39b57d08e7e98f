"""Defaults of pod-level resources (``defaultHugePagePodLimits``, ``defaultPodRequests``)."""

from typing import Any

from tests.tables import cases

from pilothouse.semantics.pod_defaults import default_pod

Object = dict[str, Any]


def _container(requests: Object | None = None, limits: Object | None = None, **fields: Any) -> Object:
    resources = {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}
    return {"name": "c", "image": "x", "resources": resources, **fields}


@cases(
    "whole, containers, init, expected",
    {
        "requests default to the limits": (
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            [_container()],
            [],
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}},
        ),
        "requests default to the containers' sum": (
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            [_container({"cpu": "100m"}), _container(limits={"cpu": "200m"})],
            [],
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "300m", "memory": "1Gi"}},
        ),
        "requests default to an init container with its sidecars": (
            {"limits": {"cpu": "2"}},
            [_container({"cpu": "100m"})],
            [_container({"cpu": "200m"}, restartPolicy="Always"), _container({"cpu": "500m"})],
            {"limits": {"cpu": "2"}, "requests": {"cpu": "700m"}},
        ),
        "no limits": (
            {"requests": {"cpu": "2"}},
            [_container({"cpu": "100m", "memory": "1Gi"})],
            [],
            {"requests": {"cpu": "2"}},
        ),
        "resources that pods cannot have": (
            {"limits": {"example.com/gpu": "1"}},
            [_container({"ephemeral-storage": "1Gi"})],
            [],
            {"limits": {"example.com/gpu": "1"}},
        ),
        "huge pages of the containers are limits": (
            {"requests": {"cpu": "1"}},
            [_container(limits={"hugepages-2Mi": "2Mi"}), _container(limits={"hugepages-2Mi": "4Mi"})],
            [],
            {
                "limits": {"hugepages-2Mi": "6Mi"},
                "requests": {"cpu": "1", "hugepages-2Mi": "6Mi"},
            },
        ),
        "requested hugepages are kept": (
            {"requests": {"hugepages-2Mi": "2Mi"}},
            [_container(limits={"hugepages-2Mi": "2Mi"})],
            [],
            {"requests": {"hugepages-2Mi": "2Mi"}},
        ),
    },
)
def test_resources_of_a_pod(whole: Object, containers: list[Object], init: list[Object], expected: Object) -> None:
    pod_object = {"spec": {"resources": whole, "containers": containers, "initContainers": init}}
    default_pod(pod_object)
    assert pod_object["spec"]["resources"] == expected
