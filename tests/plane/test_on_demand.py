"""A plane whose controllers are built when the first object that they handle is created."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.certificate_requests import document, request_pem
from tests.plane.running import running

from pilothouse.api import wire
from pilothouse.controllermanager.feature_gates import FeatureGates
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.runtime.on_demand import supports_on_demand
from pilothouse.storage import MemoryStore

GATES = FeatureGates()
WAITING = {
    descriptor.name: descriptor.client_name
    for descriptor in DESCRIPTORS
    if supports_on_demand(descriptor.watches) and descriptor.default_on and all(map(GATES.enabled, descriptor.gates))
}
ALONE = Options(leader_election=LeaderElection(enabled=False))

LABELS = {"app": "web"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}
ONCE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
OWNED = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}
DEVICES = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"
SECRETS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
POLICY = {"matchConstraints": {"resourceRules": [SECRETS]}, "validations": [{"expression": "true"}]}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

WAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "certificatesigningrequest-approving-controller": (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        document("node", request_pem(), "kubernetes.io/kube-apiserver-client"),
    ),
    "cronjob-controller": (
        f"{BATCH}/cronjobs",
        {"spec": {"schedule": "@yearly", "jobTemplate": {"spec": {"template": ONCE}}}},
    ),
    "daemonset-controller": (f"{APPS}/daemonsets", {"spec": OWNED}),
    "deployment-controller": (f"{APPS}/deployments", {"spec": OWNED}),
    "disruption-controller": ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"spec": {"minAvailable": 0}}),
    "endpointslice-controller": (f"{CORE}/services", {"spec": {"selector": LABELS, "ports": [{"port": 80}]}}),
    "endpointslice-mirroring-controller": (
        f"{CORE}/endpoints",
        {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    ),
    "ephemeral-volume-controller": (f"{CORE}/pods", {"spec": {**TEMPLATE["spec"], "volumes": [SCRATCH]}}),
    "horizontal-pod-autoscaler-controller": (
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}},
    ),
    "job-controller": (f"{BATCH}/jobs", {"spec": {"template": ONCE}}),
    "persistentvolume-binder-controller": (f"{CORE}/persistentvolumeclaims", {"spec": CLAIM}),
    "persistentvolume-protection-controller": (
        "/api/v1/persistentvolumes",
        {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}},
    ),
    "pod-garbage-collector-controller": (f"{CORE}/pods", {"spec": TEMPLATE["spec"]}),
    "replicaset-controller": (f"{APPS}/replicasets", {"spec": OWNED}),
    "replicationcontroller-controller": (
        f"{CORE}/replicationcontrollers",
        {"spec": {"selector": LABELS, "template": TEMPLATE}},
    ),
    "resourceclaim-controller": (f"{CORE}/pods", {"spec": {**TEMPLATE["spec"], "resourceClaims": [DEVICES]}}),
    "resourcequota-controller": (f"{CORE}/resourcequotas", {"spec": {"hard": {"pods": "9"}}}),
    "statefulset-controller": (f"{APPS}/statefulsets", {"spec": {**OWNED, "serviceName": "web"}}),
    "ttl-after-finished-controller": (f"{BATCH}/jobs", {"spec": {"template": ONCE, "ttlSecondsAfterFinished": 5}}),
    "validatingadmissionpolicy-status-controller": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {"spec": POLICY},
    ),
    "volumeattributesclass-protection-controller": (
        "/apis/storage.k8s.io/v1/volumeattributesclasses",
        {"driverName": "d.example.com", "parameters": {"iops": "1"}},
    ),
}
"""An object for each that waits. The others that wait are built with the same."""
SAME = {
    "certificatesigningrequest-cleaner-controller": "certificatesigningrequest-approving-controller",
    "persistentvolume-attach-detach-controller": "ephemeral-volume-controller",
    "persistentvolume-expander-controller": "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller": "persistentvolume-binder-controller",
    "taint-eviction-controller": "pod-garbage-collector-controller",
}
BY_DELETION = {"namespace-controller"}


def manager_of(plane: Plane) -> Manager:
    assert plane.manager is not None
    return plane.manager


async def create(plane: Plane, path: str, body: dict[str, Any], name: str) -> None:
    whole = {**body, "metadata": {"name": name, **body.get("metadata", {})}}
    await plane.client().request("POST", path, body=msgspec.json.encode(whole))


def test_every_waiting_controller_has_a_test_object() -> None:
    assert set(WAKES) | set(SAME) | BY_DELETION == set(WAITING)


async def test_no_controller_is_created_before_it_has_work(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), PlaneOptions(on_demand=True, storage=True, manager=ALONE))
    async with running(plane):
        await asyncio.sleep(600)
        assert set(WAITING).isdisjoint(manager_of(plane).controllers)
        assert "garbage-collector-controller" in manager_of(plane).controllers


@pytest.mark.parametrize("name", sorted(WAITING))
async def test_it_is_built_with_the_first_object_that_gives_it_something_to_do(env: Env, name: str) -> None:
    plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=1, on_demand=True, storage=True, manager=ALONE))
    async with running(plane):
        if name in BY_DELETION:
            await create(plane, "/api/v1/namespaces", {}, "passing")
            await plane.client().request("DELETE", "/api/v1/namespaces/passing")
        else:
            await create(plane, *WAKES[SAME.get(name, name)], "first")
        await asyncio.sleep(1)
        assert name in manager_of(plane).controllers


async def test_controllers_that_are_created_immediately_have_no_work_either(env: Env) -> None:
    """With them, not without: what a controller does that never had an object of its kind must be nothing."""
    writes: list[str] = []

    def note(_program: str, transport: wire.Transport) -> wire.Transport:
        return _Notes(transport, writes)

    plane = Plane(env, MemoryStore(env), PlaneOptions(storage=True, manager=ALONE), wrap=note)
    async with running(plane):
        await asyncio.sleep(3600)
        assert set(WAITING) <= set(manager_of(plane).controllers)
    # Some write under one name.
    managers = set(WAITING.values()) - {
        descriptor.client_name for descriptor in DESCRIPTORS if descriptor.name not in WAITING
    }
    assert len(managers) > 20
    assert [line for line in writes if line.partition(" ")[0] in managers] == []
    assert writes, "others have written"


class _Notes:
    """Forwards everything, and records the writers."""

    def __init__(self, transport: wire.Transport, writes: list[str]) -> None:
        self._transport = transport
        self._writes = writes

    async def request(self, request: wire.Request) -> wire.Response:
        if request.method != "GET":
            agent = request.headers.get("user-agent", "")
            self._writes.append(f"{agent.rpartition('/')[2]} {request.method} {request.target}")
        return await self._transport.request(request)

    async def open(self, request: wire.Request) -> wire.Stream:
        return await self._transport.open(request)

    async def close(self) -> None:
        await self._transport.close()


async def test_a_deployment_is_served_as_by_running_controllers(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), PlaneOptions(on_demand=True, manager=ALONE))
    async with running(plane):
        await create(plane, f"{APPS}/deployments", {"spec": {**OWNED, "replicas": 3}}, "web")
        await asyncio.sleep(30)
        result = await plane.client().request("GET", f"{APPS}/deployments/web")
    document_: dict[str, Any] = msgspec.json.decode(result.body)
    assert document_["status"]["readyReplicas"] == 3


async def test_initial_objects_are_served_when_the_plane_is_ready(env: Env) -> None:
    """With a used store, controllers with objects are built, and their caches are filled."""
    store = MemoryStore(env)
    before = Plane(env, store, PlaneOptions(manager=None, scheduler=False))
    async with running(before):
        await create(before, f"{APPS}/deployments", {"spec": OWNED}, "web")
    plane = Plane(env, store, PlaneOptions(on_demand=True, manager=ALONE))
    async with running(plane):
        manager = manager_of(plane)
        assert "deployment-controller" in manager.controllers
        assert "statefulset-controller" not in manager.controllers
