"""Fixtures: nodes and a scheduler for the real cluster, and the roles of v1.36."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs import pilothouse
from tests.real.cluster_view import View
from tests.real_cluster import RealCluster, RequestFailed

from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects


@pytest.fixture
def view(real_cluster: RealCluster) -> View:
    """A new namespace for the test."""
    return View(real_cluster, real_cluster.namespace("real"))


LEFT_BEHIND = (
    *(f"apis/apps/v1/{resource}" for resource in ("deployments", "replicasets", "daemonsets", "statefulsets")),
    *(f"api/v1/{resource}" for resource in ("replicationcontrollers", "pods", "nodes")),
    "apis/storage.k8s.io/v1/storageclasses",
)
"""Resources that affect programs of the next module: owners before dependents."""


@pytest.fixture(scope="module")
def swept(real_cluster: RealCluster) -> None:
    """Delete objects that other modules left in the shared cluster.

    Nobody is behind their nodes: pods would wait there forever. Their pods fill nodes of the same names, and their
    workloads keep the managers of the next module busy.
    """
    for path in LEFT_BEHIND:
        prefix, _, resource = path.rpartition("/")
        for item in real_cluster.request("GET", f"/{path}")["items"]:
            meta = item["metadata"]
            namespace = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
            options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
            try:
                real_cluster.request("DELETE", f"/{prefix}/{namespace}{resource}/{meta['name']}", options)
            except RequestFailed as error:
                if error.status != 404:
                    raise


@pytest.fixture(scope="module")
def machines(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """``pilothouse nodes`` and ``pilothouse scheduler`` on the real API server."""
    directory = tmp_path_factory.mktemp("machines")
    kubeconfig = str(real_cluster.kubeconfig)
    with (
        pilothouse(directory, "nodes", f"--kubeconfig={kubeconfig}", "--pod-start-delay=50ms", "--pod-stop-delay=50ms"),
        pilothouse(directory, "scheduler", f"--kubeconfig={kubeconfig}"),
    ):
        yield


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The working directory of programs."""
    return tmp_path


def role_of_v1_36(resource: str, name: str) -> dict[str, Any]:
    """A bootstrap role or binding of v1.36.2, whole."""
    for obj, document in bootstrap_objects():
        if obj == resource and document["metadata"]["name"] == name:
            return document
    raise AssertionError(f"v1.36 has no {resource} {name}")


def apply_v1_36(cluster: RealCluster, resource: str, name: str) -> None:
    """Update a bootstrap role or binding of the cluster to v1.36's."""
    document = role_of_v1_36(resource, name)
    namespace = document["metadata"].get("namespace")
    base = f"/apis/rbac.authorization.k8s.io/v1/{f'namespaces/{namespace}/' if namespace else ''}{resource}"
    try:
        cluster.request("PUT", f"{base}/{name}", document)
    except RequestFailed as error:
        if error.status != 404:
            raise
        cluster.request("POST", base, document)
