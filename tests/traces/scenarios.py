"""The recorded scenarios, step by step: what was done with kubectl, and when (seconds from the start of each)."""

from collections.abc import Mapping

import msgspec
from tests.traces.audit import AuditedServer
from tests.traces.kubectl_user import Doc, KubectlUser, Steps, replay

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


async def scale(user: KubectlUser) -> None:
    """01: scaled up twice, down, to zero, up, and deleted."""
    await user.create(REPLICA_SET % 0)
    for t, replicas in ((2.572, 5), (5.508, 8), (8.542, 3), (11.972, 0), (15.306, 2)):
        await user.at(t)
        await user.scale("web", replicas)
    await user.at(17.785)
    await user.delete("ReplicaSet", "web")
    await user.at(20.0)


async def adoption(user: KubectlUser) -> None:
    """02: two pods are adopted, one is released and readopted, all are orphaned."""
    await user.create(POD % "orphan-a" + POD % "orphan-b")
    await user.at(3.003)
    await user.create(REPLICA_SET % 3)
    await user.at(5.807)
    await user.label("orphan-a", app="other")
    await user.at(8.53)
    await user.label("orphan-a", app="web")
    await user.at(12.796)
    await user.delete("ReplicaSet", "web", "Orphan")
    await user.at(15.148)
    for name in await user.names("Pod"):
        await user.delete("Pod", name)
    await user.at(18.0)


LONGEST_BACK_OFF = 200.0
"""The end of 03."""


async def quota(user: KubectlUser) -> None:
    """03: more pods than the quota allows; later the quota is raised.

    The time of the next retry depends on the number of earlier ones, so the end leaves time for it; recorded it was at
    10.907.
    """
    quotas = f"api/v1/namespaces/{user.namespace}/resourcequotas"
    await user.request("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}})
    await user.at(2.453)
    await user.create(REPLICA_SET % 4)
    await user.at(6.107)
    await user.request("PATCH", f"{quotas}/q", {"spec": {"hard": {"pods": "10"}}}, "application/merge-patch+json")
    await user.at(LONGEST_BACK_OFF)
    await user.delete("ReplicaSet", "web")
    await user.at(LONGEST_BACK_OFF + 2.0)


async def foreground(user: KubectlUser) -> None:
    """05e: a Deployment is deleted in the foreground."""
    await user.create(DEPLOYMENT % 2)
    await user.at(2.714)
    await user.delete("Deployment", "web", "Foreground")
    await user.at(8.0)


async def namespace(user: KubectlUser) -> None:
    """11: a namespace is deleted, with a ConfigMap that has a finalizer for a while."""
    await user.at(0.001)
    await user.create(DEPLOYMENT % 2)
    await user.at(2.815)
    await user.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: y}}")
    await user.create("{apiVersion: v1, kind: Secret, metadata: {name: b}, stringData: {x: y}}")
    ports = "[{name: 80-8080, port: 80, protocol: TCP, targetPort: 8080}]"
    await user.create(
        f"{{apiVersion: v1, kind: Service, metadata: {{name: web}}, spec: {{ports: {ports}, selector: {{app: web}}}}}}"
    )
    await user.create(POD % "bare")
    await user.at(3.437)
    await user.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}")
    await user.at(5.579)
    await user.request("DELETE", f"api/v1/namespaces/{user.namespace}", {"propagationPolicy": "Background"})
    await user.at(45.675)
    await user.patch("ConfigMap", "held", [{"op": "remove", "path": "/metadata/finalizers"}], "json")
    await user.at(70.0)


OTHER_NAMESPACE = "12-other"


async def make_other_namespace(user: KubectlUser) -> None:
    """Before 12: a second namespace."""
    await user.create_namespace(OTHER_NAMESPACE)


async def _config_map(user: KubectlUser, name: str, *owners: Doc, namespace: str = "", **more: bool) -> Doc:
    """A ConfigMap with owners; the first one blocks its owner's deletion, others as ``more`` says."""
    references = [{"apiVersion": "v1", "kind": "ConfigMap", **owner} for owner in owners]
    metadata: Doc = {"name": name} | ({"namespace": namespace} if namespace else {})
    if references:
        metadata["ownerReferences"] = references
    manifest = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).decode()
    (created,) = await user.create(manifest)
    return {"name": name, "uid": created["metadata"]["uid"]}


_BLOCKING = {"blockOwnerDeletion": True}


async def garbage(user: KubectlUser) -> None:
    """12: every way in which an owner is deleted, or never existed."""
    owner: Doc
    for t, child_at, deleted_at, way in (
        (0.0, 0.316, 2.059, "background"),
        (4.917, 5.064, 6.787, "foreground"),
        (9.511, 9.663, 11.383, "orphan"),
    ):
        await user.at(t)
        owner = await _config_map(user, f"owner-{way}")
        await user.at(child_at)
        await _config_map(user, f"child-{way}-1", owner | _BLOCKING)
        await _config_map(user, f"child-{way}-2", owner)
        await user.at(deleted_at)
        await user.delete("ConfigMap", f"owner-{way}", way.capitalize())
    await user.at(14.092)
    first, second = await _config_map(user, "owner-1"), await _config_map(user, "owner-2")
    await user.at(14.361)
    await _config_map(user, "child-two", first | _BLOCKING, second | _BLOCKING)
    await user.at(16.104)
    await user.delete("ConfigMap", "owner-1")
    await user.at(18.834)
    await user.delete("ConfigMap", "owner-2", "Foreground")
    await user.at(21.545)
    third, fourth = await _config_map(user, "owner-3"), await _config_map(user, "owner-4")
    await user.at(21.83)
    await _config_map(user, "child-two-b", third | _BLOCKING, fourth)
    await user.at(23.571)
    await user.delete("ConfigMap", "owner-3", "Foreground")
    await user.at(26.313)
    here = await _config_map(user, "owner-here")
    await user.at(26.465)
    await _config_map(user, "child-elsewhere", here | _BLOCKING, namespace=OTHER_NAMESPACE)
    await user.at(30.703)
    missing_owner = {"name": "nobody", "uid": "11111111-2222-3333-4444-555555555555"}
    await _config_map(user, "child-dangling", missing_owner | _BLOCKING)
    await user.at(34.919)
    wrong = {"name": "owner-4", "uid": "11111111-2222-3333-4444-666666666666"}
    await _config_map(user, "child-wrong-uid", wrong | _BLOCKING)
    await user.at(39.146)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t"}
    await _config_map(user, "child-unknown-kind", thing | {"uid": "11111111-2222-3333-4444-777777777777"})
    await user.at(45.375)
    await user.delete("ConfigMap", "owner-4")
    await user.delete("ConfigMap", "owner-here")
    await user.at(50.0)


def run(scenario: str, *, seed: int = 0, latency: tuple[float, float] | None = None) -> AuditedServer:
    """Replay one of ``SCENARIOS``, or 03."""
    if scenario != QUOTA:
        before = make_other_namespace if scenario == "12-garbage-collector" else None
        return replay(scenario, SCENARIOS[scenario], seed=seed, latency=latency, before=before)
    return replay(scenario, quota, seed=seed, latency=latency)


QUOTA = "03-replicaset-quota"

SCENARIOS: Mapping[str, Steps] = {
    "01-replicaset-scale": scale,
    "02-replicaset-adoption": adoption,
    "05e-deployment-delete-foreground": foreground,
    "11-namespace-deletion": namespace,
    "12-garbage-collector": garbage,
}
