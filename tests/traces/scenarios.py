"""The recorded scenarios, step by step: what was done with kubectl, and when (seconds from the start of each)."""

from collections.abc import Mapping

import msgspec
from tests.traces.audit import AuditedServer
from tests.traces.stage import Doc, Stage, Steps, play

REPLICA_SET = """
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
spec:
  replicas: %d
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - {name: main, image: "registry.k8s.io/pause:3.10"}
"""

DEPLOYMENT = REPLICA_SET.replace("ReplicaSet", "Deployment")

POD = """
---
apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {app: web}
spec:
  containers:
  - {name: main, image: "registry.k8s.io/pause:3.10"}
"""


async def scale(stage: Stage) -> None:
    """01: scaled up twice, down, to zero, up, and deleted."""
    await stage.create(REPLICA_SET % 0)
    for t, replicas in ((2.572, 5), (5.508, 8), (8.542, 3), (11.972, 0), (15.306, 2)):
        await stage.at(t)
        await stage.scale("web", replicas)
    await stage.at(17.785)
    await stage.delete("ReplicaSet", "web")
    await stage.at(20.0)


async def adoption(stage: Stage) -> None:
    """02: two pods are adopted, one is released and readopted, all are orphaned."""
    await stage.create(POD % "orphan-a" + POD % "orphan-b")
    await stage.at(3.003)
    await stage.create(REPLICA_SET % 3)
    await stage.at(5.807)
    await stage.label("orphan-a", app="other")
    await stage.at(8.53)
    await stage.label("orphan-a", app="web")
    await stage.at(12.796)
    await stage.delete("ReplicaSet", "web", "Orphan")
    await stage.at(15.148)
    for name in await stage.names("Pod"):
        await stage.delete("Pod", name)
    await stage.at(18.0)


LONGEST_BACK_OFF = 200.0
"""The end of 03."""


async def quota(stage: Stage) -> None:
    """03: more pods than the quota allows, which then is raised.

    When the next try comes depends on how many there were, so the end leaves time for it; recorded it was at 10.907.
    """
    quotas = f"api/v1/namespaces/{stage.namespace}/resourcequotas"
    await stage.request("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}})
    await stage.at(2.453)
    await stage.create(REPLICA_SET % 4)
    await stage.at(6.107)
    await stage.request("PATCH", f"{quotas}/q", {"spec": {"hard": {"pods": "10"}}}, "application/merge-patch+json")
    await stage.at(LONGEST_BACK_OFF)
    await stage.delete("ReplicaSet", "web")
    await stage.at(LONGEST_BACK_OFF + 2.0)


async def foreground(stage: Stage) -> None:
    """05e: a Deployment is deleted in the foreground."""
    await stage.create(DEPLOYMENT % 2)
    await stage.at(2.714)
    await stage.delete("Deployment", "web", "Foreground")
    await stage.at(8.0)


async def namespace(stage: Stage) -> None:
    """11: a namespace is deleted, with a ConfigMap that has a finalizer for a while."""
    await stage.at(0.001)
    await stage.create(DEPLOYMENT % 2)
    await stage.at(2.815)
    await stage.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: y}}")
    await stage.create("{apiVersion: v1, kind: Secret, metadata: {name: b}, stringData: {x: y}}")
    ports = "[{name: 80-8080, port: 80, protocol: TCP, targetPort: 8080}]"
    await stage.create(
        f"{{apiVersion: v1, kind: Service, metadata: {{name: web}}, spec: {{ports: {ports}, selector: {{app: web}}}}}}"
    )
    await stage.create(POD % "bare")
    await stage.at(3.437)
    await stage.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}")
    await stage.at(5.579)
    await stage.request("DELETE", f"api/v1/namespaces/{stage.namespace}", {"propagationPolicy": "Background"})
    await stage.at(45.675)
    await stage.patch("ConfigMap", "held", [{"op": "remove", "path": "/metadata/finalizers"}], "json")
    await stage.at(70.0)


OTHER_NAMESPACE = "12-other"


async def make_other_namespace(stage: Stage) -> None:
    """Before 12: a second namespace."""
    await stage.create_namespace(OTHER_NAMESPACE)


async def _config_map(stage: Stage, name: str, *owners: Doc, namespace: str = "", **more: bool) -> Doc:
    """A ConfigMap with owners; the first one blocks its owner's deletion, others as ``more`` says."""
    references = [{"apiVersion": "v1", "kind": "ConfigMap", **owner} for owner in owners]
    metadata: Doc = {"name": name} | ({"namespace": namespace} if namespace else {})
    if references:
        metadata["ownerReferences"] = references
    manifest = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).decode()
    (made,) = await stage.create(manifest)
    return {"name": name, "uid": made["metadata"]["uid"]}


_BLOCKING = {"blockOwnerDeletion": True}


async def garbage(stage: Stage) -> None:
    """12: every way in which an owner is deleted, or never existed."""
    owner: Doc
    for t, child_at, deleted_at, way in (
        (0.0, 0.316, 2.059, "background"),
        (4.917, 5.064, 6.787, "foreground"),
        (9.511, 9.663, 11.383, "orphan"),
    ):
        await stage.at(t)
        owner = await _config_map(stage, f"owner-{way}")
        await stage.at(child_at)
        await _config_map(stage, f"child-{way}-1", owner | _BLOCKING)
        await _config_map(stage, f"child-{way}-2", owner)
        await stage.at(deleted_at)
        await stage.delete("ConfigMap", f"owner-{way}", way.capitalize())
    await stage.at(14.092)
    first, second = await _config_map(stage, "owner-1"), await _config_map(stage, "owner-2")
    await stage.at(14.361)
    await _config_map(stage, "child-two", first | _BLOCKING, second | _BLOCKING)
    await stage.at(16.104)
    await stage.delete("ConfigMap", "owner-1")
    await stage.at(18.834)
    await stage.delete("ConfigMap", "owner-2", "Foreground")
    await stage.at(21.545)
    third, fourth = await _config_map(stage, "owner-3"), await _config_map(stage, "owner-4")
    await stage.at(21.83)
    await _config_map(stage, "child-two-b", third | _BLOCKING, fourth)
    await stage.at(23.571)
    await stage.delete("ConfigMap", "owner-3", "Foreground")
    await stage.at(26.313)
    here = await _config_map(stage, "owner-here")
    await stage.at(26.465)
    await _config_map(stage, "child-elsewhere", here | _BLOCKING, namespace=OTHER_NAMESPACE)
    await stage.at(30.703)
    nobody = {"name": "nobody", "uid": "11111111-2222-3333-4444-555555555555"}
    await _config_map(stage, "child-dangling", nobody | _BLOCKING)
    await stage.at(34.919)
    wrong = {"name": "owner-4", "uid": "11111111-2222-3333-4444-666666666666"}
    await _config_map(stage, "child-wrong-uid", wrong | _BLOCKING)
    await stage.at(39.146)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t"}
    await _config_map(stage, "child-unknown-kind", thing | {"uid": "11111111-2222-3333-4444-777777777777"})
    await stage.at(45.375)
    await stage.delete("ConfigMap", "owner-4")
    await stage.delete("ConfigMap", "owner-here")
    await stage.at(50.0)


def run(scenario: str, *, seed: int = 0, latency: tuple[float, float] | None = None) -> AuditedServer:
    """Replay one of ``SCENARIOS``, or 03."""
    if scenario != QUOTA:
        before = make_other_namespace if scenario == "12-garbage-collector" else None
        return play(scenario, SCENARIOS[scenario], seed=seed, latency=latency, before=before)
    return play(scenario, quota, seed=seed, latency=latency)


QUOTA = "03-replicaset-quota"

SCENARIOS: Mapping[str, Steps] = {
    "01-replicaset-scale": scale,
    "02-replicaset-adoption": adoption,
    "05e-deployment-delete-foreground": foreground,
    "11-namespace-deletion": namespace,
    "12-garbage-collector": garbage,
}
