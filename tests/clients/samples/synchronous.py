"""A sample test suite: the official client and lightkube in synchronous tests."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from lightkube import Client, KubeConfig
from lightkube.codecs import from_dict
from lightkube.resources.apps_v1 import ReplicaSet
from lightkube.resources.core_v1 import Pod

WEB = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
}


@pytest.fixture
def api(pilothouse: Any) -> Iterator[client.ApiClient]:
    """The official client with credentials."""
    with config.new_client_from_config(str(pilothouse.kubeconfig)) as api_client:
        yield api_client


def test_pods_of_a_replica_set_run(pilothouse: Any, api: client.ApiClient) -> None:
    client.AppsV1Api(api).create_namespaced_replica_set(pilothouse.namespace, WEB)
    core, running = client.CoreV1Api(api), set()
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_pod, pilothouse.namespace, label_selector="app=web"):
        if event["object"].status.phase == "Running":
            running.add(event["object"].metadata.name)
        if len(running) == 2:
            watcher.stop()
    assert len(running) == 2


def test_each_test_has_a_namespace_of_its_own(pilothouse: Any, api: client.ApiClient) -> None:
    with pytest.raises(ApiException, match="404"):
        client.AppsV1Api(api).read_namespaced_replica_set("web", pilothouse.namespace)


@pytest.mark.pilothouse(secure=True, nodes=1)
def test_over_tls_with_lightkube(pilothouse: Any) -> None:
    assert pilothouse.url.startswith("https://")
    with Client(config=KubeConfig.from_file(str(pilothouse.kubeconfig)), field_manager="suite") as kube:
        kube.apply(from_dict(WEB))
        pilothouse.wait_for("apps/v1", "ReplicaSet", "web", lambda rs: rs["status"].get("readyReplicas") == 2)
        assert len(list(kube.list(Pod, labels={"app": "web"}))) == 2
        kube.delete(ReplicaSet, "web")
        for pod in kube.list(Pod, labels={"app": "web"}):
            pilothouse.wait_for("v1", "Pod", pod.metadata.name, lambda found: found is None)
