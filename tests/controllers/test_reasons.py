"""Recorded reasons of writes of workload, policy, namespace and volume controllers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.controllers.decisions import decisions
from tests.tables import cases
from tests.workloads import pod_spec, workload

from pilothouse.api.core import PODS
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, TaskGroup
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore, Retention
from pilothouse.testing import AsyncCluster, async_plane
from pilothouse.testing.asynchronous import QUICK
from pilothouse.testing.snapshot import Snapshot

Doc = dict[str, Any]
Scenario = Callable[[AsyncCluster], Awaitable[None]]

POD = pod_spec()


def _job(name: str, *, annotations: Doc | None = None, **spec: Any) -> Doc:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def _named(api_version: str, kind: str, name: str, spec: Doc) -> Doc:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _jobs(cluster: AsyncCluster) -> None:
    await cluster.create(_job("twice", completions=2, ttlSecondsAfterFinished=30))
    await cluster.create(_job("failing", annotations={"simulated.pilothouse.dev/exit-code": "1"}, backoffLimit=0))
    slow = {"simulated.pilothouse.dev/run-time": "1h"}
    await cluster.create(_job("late", annotations=slow, activeDeadlineSeconds=5))
    cron = {"schedule": "* * * * *", "successfulJobsHistoryLimit": 0, "jobTemplate": {"spec": _job("")["spec"]}}
    await cluster.create(_named("batch/v1", "CronJob", "cron", cron))
    await asyncio.sleep(90)


async def _sets(cluster: AsyncCluster) -> None:
    await cluster.create(workload("StatefulSet", "db", pod=POD, replicas=2, serviceName="db"))
    await cluster.create(workload("DaemonSet", "agent", pod=POD))
    await asyncio.sleep(10)
    image = {"containers": [{"name": "main", "image": "changed:1"}]}
    for kind, name in (("StatefulSet", "db"), ("DaemonSet", "agent")):
        await cluster.patch("apps/v1", kind, name, {"spec": {"template": {"spec": image}}})
    await asyncio.sleep(10)
    await cluster.patch("apps/v1", "StatefulSet", "db", {"spec": {"replicas": 1}})
    taint = {"spec": {"taints": [{"key": "closed", "effect": "NoExecute"}]}}
    await cluster.patch("v1", "Node", "node-1", taint)
    await asyncio.sleep(10)


async def _scaled(cluster: AsyncCluster) -> None:
    await cluster.create(workload("Deployment", "web", pod=POD, replicas=2))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Mi"}}
    spec = {"maxReplicas": 3, "scaleTargetRef": target, "metrics": [{"type": "Resource", "resource": metric}]}
    await cluster.create(_named("autoscaling/v2", "HorizontalPodAutoscaler", "scaler", spec))
    await asyncio.sleep(60)


async def _evicted(cluster: AsyncCluster) -> None:
    await cluster.create(workload("ReplicaSet", "web", pod=POD, replicas=2))
    selector = {"matchLabels": {"app": "web"}}
    await cluster.create(_named("policy/v1", "PodDisruptionBudget", "pdb", {"minAvailable": 1, "selector": selector}))
    await asyncio.sleep(10)
    name = (await cluster.list("v1", "Pod"))[0]["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await cluster.client.create(PODS.raw, body, "default", name=name, subresource="eviction")
    await asyncio.sleep(10)


async def _namespaces(cluster: AsyncCluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    team = cluster.in_namespace("team")
    await team.create(_named("v1", "ResourceQuota", "quota", {"hard": {"pods": "2"}}))
    await asyncio.sleep(5)
    await team.create(_named("v1", "Pod", "one", {"containers": [{"name": "main", "image": "nginx:1"}]}))
    await team.create(_named("v1", "Service", "front", {"selector": {"app": "web"}, "ports": [{"port": 80}]}))
    await asyncio.sleep(5)
    await cluster.delete("v1", "Namespace", "team")
    await asyncio.sleep(60)


@cases(
    "scenario, expected",
    {
        "Jobs and CronJobs": (
            _jobs,
            [
                (
                    "pods",
                    "twice",
                    "job-controller",
                    "parallelism 1, completions 2: 0 succeeded, 0 failed, 0 active, backoffLimit 6: 1 pod is created",
                ),
                (
                    "jobs.batch",
                    "failing",
                    "job-controller",
                    "status: 0 active, 0 succeeded, 1 failed; Failed is True, BackoffLimitExceeded: Job has reached "
                    "the specified backoff limit (backoffLimit 0)",
                ),
                (
                    "pods",
                    "late",
                    "job-controller",
                    "active pods are deleted: DeadlineExceeded: Job was active longer than specified deadline "
                    "(activeDeadlineSeconds 5)",
                ),
                (
                    "jobs.batch",
                    "twice",
                    "ttl-after-finished-controller",
                    "the Job finished 30 s ago, ttlSecondsAfterFinished 30",
                ),
                (
                    "jobs.batch",
                    "cron-",
                    "cronjob-controller",
                    "schedule * * * * * is due at 2026-01-01T00:01:00Z: cron-29453761 is created; concurrencyPolicy "
                    "Allow, 0 Jobs are active",
                ),
                (
                    "jobs.batch",
                    "cron-",
                    "cronjob-controller",
                    "cron-29453761 has ended and is over the history limits: successfulJobsHistoryLimit 0, "
                    "failedJobsHistoryLimit 1, the oldest go first",
                ),
            ],
        ),
        "StatefulSets and DaemonSets": (
            _sets,
            [
                (
                    "pods",
                    "db-1",
                    "statefulset-controller",
                    "2 replicas desired from ordinal 0: db-1 is missing and created from the update revision db-HASH; "
                    "OrderedReady, the ones before it are ready",
                ),
                (
                    "pods",
                    "db-1",
                    "statefulset-controller",
                    "rolling update: db-1 has revision db-HASH, the update revision is db-HASH; partition 0, one at "
                    "a time, the highest ordinal first",
                ),
                (
                    "pods",
                    "db-1",
                    "statefulset-controller",
                    "1 replicas desired from ordinal 0: db-1 is beyond them and deleted; OrderedReady, the highest "
                    "ordinal first",
                ),
                ("pods", "agent", "daemonset-controller", "node node-0 should run a daemon pod and has none"),
                (
                    "pods",
                    "agent",
                    "daemonset-controller",
                    "rolling update to the template of hash 79c7d8b49c: agent-POD has an older one and is deleted; "
                    "maxUnavailable 1, maxSurge 0; of 2 nodes 0 are without an available pod",
                ),
                (
                    "pods",
                    "agent",
                    "daemonset-controller",
                    "agent-POD is deleted: node node-1 has the taint closed:NoExecute, which the template does not "
                    "tolerate",
                ),
            ],
        ),
        "an autoscaler": (
            _scaled,
            [
                (
                    "deployments.apps",
                    "web",
                    "horizontal-pod-autoscaler-controller",
                    "scaled from 2 to 3: memory resource: 32Mi per pod, target 1Mi, ratio 32.00, tolerance 0.1 down "
                    "and 0.1 up: "
                    "2 replicas become 64; minReplicas 1, maxReplicas 3; TooManyReplicas, 3: the desired replica count "
                    "is more than the maximum replica count",
                ),
            ],
        ),
        "an eviction and its budget": (
            _evicted,
            [
                (
                    "poddisruptionbudgets.policy",
                    "pdb",
                    "disruption-controller",
                    "2 pods are expected, minAvailable 1: 1 must be healthy and 2 are, so 1 disruptions are allowed",
                ),
                (
                    "pods",
                    "web",
                    "kube-apiserver",
                    "pod web-POD is evicted: PodDisruptionBudget pdb is charged, disruptionsAllowed 1 -> 0",
                ),
                (
                    "poddisruptionbudgets.policy",
                    "pdb",
                    "kube-apiserver",
                    "pod web-POD is evicted: PodDisruptionBudget pdb is charged, disruptionsAllowed 1 -> 0",
                ),
            ],
        ),
        "a namespace with a quota and a Service": (
            _namespaces,
            [
                (
                    "resourcequotas",
                    "quota",
                    "kube-apiserver",
                    "ResourceQuota quota is charged for pods one: pods 0 -> 1 of 2",
                ),
                ("services", "front", "namespace-controller", "namespace team is being deleted: all services in it go"),
                (
                    "namespaces",
                    "team",
                    "namespace-controller",
                    "namespace team is empty: its finalizer kubernetes is removed",
                ),
                (
                    "endpointslices.discovery.k8s.io",
                    "front",
                    "endpointslice-controller",
                    "a slice for 0 IPv4 endpoints is created: 0 pods match the selector of Service team/front; +0 -0 "
                    "endpoints",
                ),
            ],
        ),
    },
)
async def test_reasons_of_writes(env: Env, scenario: Scenario, expected: list[tuple[str, str, str, str]]) -> None:
    async with async_plane(env=env, nodes=2) as cluster:
        store = cluster.plane.server.store
        await scenario(cluster)
    for resource, name, component, sentence in expected:
        result = decisions(store, resource, name, component)
        assert sentence in result, f"{sentence} is none of\n" + "\n".join(result)


SIDECARS = ("external-provisioner", "external-attacher", "external-resizer")
"""Of a CSI driver, as their programs are called."""
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


async def test_every_write_has_a_reason(env: Env) -> None:
    """All that its programs write, and what the API server writes by itself."""
    options = PlaneOptions(nodes=2, profile=QUICK, storage=True, cloud=True, manager=Options())
    store = MemoryStore(env, retention=Retention(seconds=3600.0))
    plane = Plane(env, store, options)
    async with TaskGroup("test") as group:
        group.start(plane.run(), name="plane")
        await plane.wait_ready()
        cluster = AsyncCluster(plane, Snapshot(plane))
        for scenario in (_jobs, _sets, _scaled, _namespaces):
            await scenario(cluster)
        await cluster.create(_named("v1", "PersistentVolumeClaim", "data", CLAIM))
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        await cluster.create(_named("v1", "Pod", "user", {**POD, "volumes": [volume]}))
        service = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}
        await cluster.create(_named("v1", "Service", "outside", service))
        await asyncio.sleep(30)
        await cluster.delete("v1", "Pod", "user")
        await cluster.delete("v1", "PersistentVolumeClaim", "data")
        await cluster.delete("v1", "Service", "outside")
        await asyncio.sleep(60)
        group.cancel()
    written = [change for prefix in store.counts() for change in store.changes(prefix)]
    assert len(written) > 500
    lacking, components = set(), set()
    for change in written:
        origin = change.origin
        if origin is not None and origin.user_agent == "pilothouse-testing":
            continue
        cause = None if origin is None else origin.cause
        if cause is not None and not change.key.startswith("/events/"):  # these use upstream's event sources
            components.add(cause.component)
        if cause is None or not cause.decision:
            lacking.add(f"{change.type} {change.key}: {origin}")
    assert not lacking, "\n".join(sorted(lacking))
    others = {"default-scheduler", "kubelet", "kube-apiserver", "csi-driver", "leader-election", *SIDECARS}
    assert components - {descriptor.name for descriptor in DESCRIPTORS} <= others
