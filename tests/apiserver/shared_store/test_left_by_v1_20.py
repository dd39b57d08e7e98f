"""Objects stored by kube-apiserver v1.20.2, in its storage versions, are decoded."""

import json
from typing import Any

import pytest
from tests.real_cluster import RealCluster

from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec
from pilothouse.env import Env
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore

pytestmark = [pytest.mark.real_loop(timeout=60)]

_POD = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
}
_SCALED = {
    "scaleTargetRef": {"kind": "Deployment", "name": "web"},
    "maxReplicas": 3,
    "targetCPUUtilizationPercentage": 50,
}
_BACKEND = {"serviceName": "web", "servicePort": 80}
_MADE: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "batch/v1beta1",
        "cronjobs",
        "CronJob",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _POD}}}},
    ),
    ("policy/v1beta1", "poddisruptionbudgets", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "selector": {}}}),
    (
        "discovery.k8s.io/v1beta1",
        "endpointslices",
        "EndpointSlice",
        {
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": ["10.1.0.1"],
                    "topology": {"kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z"},
                }
            ],
        },
    ),
    ("autoscaling/v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", {"spec": _SCALED}),
    ("networking.k8s.io/v1beta1", "ingresses", "Ingress", {"spec": {"backend": _BACKEND}}),
    ("coordination.k8s.io/v1beta1", "leases", "Lease", {"spec": {"holderIdentity": "me"}}),
    (
        "events.k8s.io/v1",
        "events",
        "Event",
        {
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "type": "Normal",
            "reason": "R",
            "action": "A",
            "reportingController": "c.io/x",
            "reportingInstance": "i",
            "regarding": {"kind": "Pod", "namespace": "NS", "name": "p"},
        },
    ),
)


def _read(env: Env, cluster: RealCluster) -> EtcdStore:
    # It is opened and not started: nothing is written.
    return EtcdStore.open(env, EtcdOptions(servers=(cluster.etcd_url,)), KeyLayout(), ObjectCodec())


async def test_bootstrap_objects_of_v1_20_are_decoded(env: Env, real_cluster: RealCluster) -> None:
    records = _read(env, real_cluster).list("").records
    assert len(records) > 150
    for record in records:
        read = json.loads(record.value)
        assert read["metadata"]["resourceVersion"] == str(record.revision), record.key
    flow = {record.key: json.loads(record.value) for record in records if "/prioritylevelconfigurations/" in record.key}
    level = flow["flowcontrol.apiserver.k8s.io/prioritylevelconfigurations/workload-low"]
    assert level["apiVersion"] == "flowcontrol.apiserver.k8s.io/v1"
    assert level["spec"]["limited"]["nominalConcurrencyShares"] == 100


async def test_older_storage_versions_are_converted(env: Env, real_cluster: RealCluster) -> None:
    ns = real_cluster.namespace()
    for version, resource, kind, body in _MADE:
        document = json.loads(
            json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **body}).replace("NS", ns)
        )
        real_cluster.request("POST", f"/apis/{version}/namespaces/{ns}/{resource}", document)
    store = _read(env, real_cluster)

    def of(prefix: str) -> Any:
        record = store.get(f"{prefix}/{ns}/x")
        assert record is not None, prefix
        return json.loads(record.value)

    job = of("batch/cronjobs")
    assert (job["apiVersion"], job["spec"]["schedule"], job["spec"]["concurrencyPolicy"]) == (
        "batch/v1",
        "* * * * *",
        "Allow",
    )
    assert "selector" not in of("policy/poddisruptionbudgets")["spec"]
    (endpoint,) = of("discovery.k8s.io/endpointslices")["endpoints"]
    assert (endpoint["nodeName"], endpoint["zone"], endpoint["addresses"]) == ("n", "z", ["10.1.0.1"])
    scaler = of("autoscaling/horizontalpodautoscalers")
    assert scaler["apiVersion"] == "autoscaling/v2"
    assert scaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
    backend = of("networking.k8s.io/ingresses")["spec"]["defaultBackend"]
    assert backend == {"service": {"name": "web", "port": {"number": 80}}}
    assert of("coordination.k8s.io/leases")["spec"]["holderIdentity"] == "me"
    event = of("/events")
    assert (event["apiVersion"], event["involvedObject"]["name"], event["reportingComponent"]) == ("v1", "p", "c.io/x")
    for record in store.list("").records:
        assert json.loads(record.value)["metadata"]["resourceVersion"] == str(record.revision)
