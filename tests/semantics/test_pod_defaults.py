"""What pods as a whole ask for when only some of it is said (``defaultHugePagePodLimits``, ``defaultPodRequests``)."""

from typing import Any

import pytest

from pilothouse.semantics.pod_defaults import default_pod

Object = dict[str, Any]


def _container(requests: Object | None = None, limits: Object | None = None, **fields: Any) -> Object:
    resources = {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}
    return {"name": "c", "image": "x", "resources": resources, **fields}


@pytest.mark.parametrize(
    ("whole", "containers", "init", "expected"),
    [
        pytest.param(
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            [_container()],
            [],
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}},
            id="requests are the limits where no container asks",
        ),
        pytest.param(
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            [_container({"cpu": "100m"}), _container(limits={"cpu": "200m"})],
            [],
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "300m", "memory": "1Gi"}},
            id="or what the containers ask for together",
        ),
        pytest.param(
            {"limits": {"cpu": "2"}},
            [_container({"cpu": "100m"})],
            [_container({"cpu": "200m"}, restartPolicy="Always"), _container({"cpu": "500m"})],
            {"limits": {"cpu": "2"}, "requests": {"cpu": "700m"}},
            id="or one that initializes with the sidecars before it",
        ),
        pytest.param(
            {"requests": {"cpu": "2"}},
            [_container({"cpu": "100m", "memory": "1Gi"})],
            [],
            {"requests": {"cpu": "2"}},
            id="nothing without limits",
        ),
        pytest.param(
            {"limits": {"example.com/gpu": "1"}},
            [_container({"ephemeral-storage": "1Gi"})],
            [],
            {"limits": {"example.com/gpu": "1"}},
            id="nothing that pods as a whole cannot have",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            [_container(limits={"hugepages-2Mi": "2Mi"}), _container(limits={"hugepages-2Mi": "4Mi"})],
            [],
            {
                "limits": {"hugepages-2Mi": "6Mi"},
                "requests": {"cpu": "1", "hugepages-2Mi": "6Mi"},
            },
            id="huge pages of the containers are limits",
        ),
        pytest.param(
            {"requests": {"hugepages-2Mi": "2Mi"}},
            [_container(limits={"hugepages-2Mi": "2Mi"})],
            [],
            {"requests": {"hugepages-2Mi": "2Mi"}},
            id="but not where the pod requests some",
        ),
    ],
)
def test_resources_of_a_pod(whole: Object, containers: list[Object], init: list[Object], expected: Object) -> None:
    made = {"spec": {"resources": whole, "containers": containers, "initContainers": init}}
    default_pod(made)
    assert made["spec"]["resources"] == expected
