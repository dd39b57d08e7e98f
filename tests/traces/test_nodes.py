"""The recorded scenarios of an unreachable and of a deleted node, replayed: our controllers send what those of v1.36.2
sent.

What differs is said here, each with its reason, and nothing else does. Reads: ours looks at the server before it
declares a node silent, marks a pod, evicts one or removes it, where upstream trusts its caches (docs/controllers/ says
so for each). Order: requests about one object come in the recorded one, those about several do not.
"""

import asyncio
import functools
import textwrap
from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from tests.traces.canonical import Doc, Trace, assert_same
from tests.traces.kubectl_user import OPTIONS, KubectlUser, Steps, replay
from tests.traces.records import DATA, Record
from tests.traces.scenarios import REPLICA_SET
from tests.traces.statuses import status_sequence, turning_points

from pilothouse.controllers.node.node_lifecycle import NodeLifecycleOptions
from pilothouse.env import TaskGroup
from pilothouse.machinery.times import format_micro_time, format_time

NODE_CONTROLLERS = "node-controller"
"""Node lifecycle and taint eviction have one user."""
POD_GC = "pod-garbage-collector"
REPLICA_SETS = "replicaset-controller"
TTL = "ttl-controller"
MANAGER = msgspec.structs.replace(
    OPTIONS,
    controller_options={
        "node-lifecycle-controller": NodeLifecycleOptions(monitor_period=2.0, monitor_grace_period=16.0)
    },
)
POD_IP = "10.9.0.1"
LEASES = "apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {app: x}
spec:
  containers:
  - {name: main, image: "registry.k8s.io/pause:3.10"}
  nodeName: %s
"""
TOLERATIONS = """
  tolerations:
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}
"""
FOR_FIVE_SECONDS = TOLERATIONS.replace("NoExecute}", "NoExecute, tolerationSeconds: 5}")
WEB = REPLICA_SET % 1 + "      nodeSelector: {kubernetes.io/hostname: %s}\n"
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ports: [{name: 80-8080, port: 80, protocol: TCP, targetPort: 8080}]
  selector: {app: web}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""


class Kubelet:
    """The recorded one: renews its Lease every 8 s, and pods turn Running and Ready 0.3 s after they are bound."""

    def __init__(self, user: KubectlUser, name: str) -> None:
        self._stage = user
        self._name = name
        self._pods: set[str] = set()

    async def _merge(self, path: str, body: Doc) -> None:
        await self._stage.request("PATCH", path, body, "application/strategic-merge-patch+json")

    def _now(self) -> str:
        return format_time(self._stage.env.now())

    def _conditions(self, kinds: str, status: str, **more: str | None) -> list[Doc]:
        return [{"type": kind, "status": status, "lastTransitionTime": self._now(), **more} for kind in kinds.split()]

    async def register(self) -> None:
        """Not ready, then ready."""
        name = self._name
        room = {"cpu": "64", "ephemeral-storage": "500Gi", "memory": "256Gi", "pods": "500"}
        info = dict.fromkeys(
            ("machineID", "systemUUID", "bootID", "osImage", "operatingSystem", "architecture"), "fake"
        )
        versions = ("kernelVersion", "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion")
        labels = {"arch": "amd64", "hostname": name, "os": "linux"}
        status: Doc = {
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": info | dict.fromkeys(versions, "v1.20.2"),
            "conditions": self._conditions("Ready", "False", lastHeartbeatTime=self._now()),
        }
        metadata = {"name": name, "labels": {f"kubernetes.io/{key}": value for key, value in labels.items()}}
        await self._stage.request("POST", "api/v1/nodes", {"metadata": metadata, "status": status})
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": self._moment()}
        await self._stage.request("POST", LEASES, {"metadata": {"name": name}, "spec": spec})
        well = self._conditions("Ready", "True", reason="KubeletReady", lastHeartbeatTime=self._now())
        well += self._conditions("MemoryPressure DiskPressure PIDPressure", "False", lastHeartbeatTime=self._now())
        await self._merge(f"api/v1/nodes/{name}/status", {"status": {"conditions": well}})

    def _moment(self) -> str:
        return format_micro_time(self._stage.env.now())

    async def renew(self) -> None:
        while True:
            await asyncio.sleep(8.0)
            await self._merge(f"{LEASES}/{self._name}", {"spec": {"renewTime": self._moment()}})

    async def run_pods(self) -> None:
        while True:
            for pod in (await self._stage.request("GET", self._stage.path("Pod")))["items"]:
                name = pod["metadata"]["name"]
                if pod["spec"].get("nodeName") == self._name and name not in self._pods:
                    self._pods.add(name)
                    await asyncio.sleep(0.3)
                    await self._merge(f"{self._stage.path('Pod', name)}/status", {"status": self._running()})
            await asyncio.sleep(0.01)

    def _running(self) -> Doc:
        container = {
            "name": "main", "state": {"running": {"startedAt": self._now()}}, "lastState": {}, "ready": True,
            "restartCount": 0, "image": "registry.k8s.io/pause:3.10", "imageID": "fake", "containerID": "fake://x",
            "started": True,
        }  # fmt: skip
        return {
            "phase": "Running",
            "conditions": self._conditions("Initialized Ready ContainersReady PodScheduled", "True"),
            "hostIP": "127.0.0.1", "podIP": POD_IP, "podIPs": [{"ip": POD_IP}], "startTime": self._now(),
            "containerStatuses": [container],
        }  # fmt: skip


async def silent(user: KubectlUser) -> None:
    """13: the kubelet stops, the node is declared out of service, and is deleted."""
    kubelet = Kubelet(user, "silent-0")
    async with TaskGroup("silent-0") as group:
        await kubelet.register()
        group.start(kubelet.renew())
        group.start(kubelet.run_pods())
        await user.at(3.749)
        for name, tolerations in (("short", FOR_FIVE_SECONDS), ("forever", TOLERATIONS), ("default", "")):
            await user.create(POD % (name, "silent-0") + tolerations.lstrip("\n"))
        await user.at(3.892)
        await user.create(WEB % "silent-0" + textwrap.indent(FOR_FIVE_SECONDS.lstrip("\n"), "    "))
        await user.at(4.363)
        await user.create(SERVICE)
        budgets = f"apis/policy/v1/namespaces/{user.namespace}/poddisruptionbudgets"
        await user.request("POST", budgets, msgspec.yaml.decode(BUDGET.encode()))
        await user.at(7.54)
        group.cancel()
    await user.at(81.819)
    taints = (await user.request("GET", "api/v1/nodes/silent-0"))["spec"]["taints"]
    out = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await user.request(
        "PATCH", "api/v1/nodes/silent-0", {"spec": {"taints": [*taints, out]}}, "application/merge-patch+json"
    )
    await user.at(108.009)
    await user.request("DELETE", "api/v1/nodes/silent-0")
    await user.at(115.0)


async def deleted(user: KubectlUser) -> None:
    """13b: the kubelet stops and its node is deleted immediately."""
    kubelet = Kubelet(user, "gone-0")
    async with TaskGroup("gone-0") as group:
        await kubelet.register()
        group.start(kubelet.renew())
        group.start(kubelet.run_pods())
        await user.at(3.91)
        await user.create(POD % ("bare", "gone-0"))
        await user.at(4.022)
        await user.create(WEB % "gone-0")
        await user.at(6.513)
        group.cancel()
    await user.request("DELETE", "api/v1/nodes/gone-0")
    await user.at(80.0)


STEPS: dict[str, Steps] = {"13-node-silent": silent, "13b-node-deleted": deleted}


@functools.cache
def replayed(scenario: str, seed: int) -> Trace:
    latency = (0.001, 0.004) if seed else None
    return Trace(replay(scenario, STEPS[scenario], seed=seed, latency=latency, options=MANAGER).records)


@functools.cache
def upstream(scenario: str) -> Trace:
    text = (DATA / f"{scenario}.jsonl").read_text().replace('"IP1"', f'"{POD_IP}"')
    return Trace(msgspec.json.decode(line, type=Record) for line in text.splitlines())


def writes(trace: Trace, user: str) -> list[Record]:
    """A user's successful writes, without status updates of the ReplicaSet, whose number varies."""
    return [
        record
        for record in trace.of(user)
        if not record.is_read and record.code != 409 and record.resource != "replicasets/status"
    ]


def comparable(trace: Trace, records: Iterable[Record], *, actual: bool) -> list[str]:
    """These requests as lines, without intended differences.

    Our deletions have the uid of the pod as a precondition; upstream's do not. The spec of a pod is removed from PUTs:
    admission (service accounts) added volumes to the recorded ones.
    """
    lines = []
    for doc in trace.docs(records):
        if doc["verb"] == "delete":
            name = doc["where"].partition("/")[2]
            assert doc["body"].pop("preconditions", None) == ({"uid": f"uid of {name}"} if actual else None)
        if (doc["verb"], doc["resource"]) == ("update", "v1 pods/status"):
            del doc["body"]["spec"]
        lines.append(msgspec.json.encode(doc, order="sorted").decode())
    return lines


@pytest.mark.parametrize("scenario", STEPS)
@pytest.mark.parametrize("user", [NODE_CONTROLLERS, POD_GC, REPLICA_SETS, TTL])
def test_writes_are_upstreams(scenario: str, user: str, seed: int) -> None:
    actual, expected = replayed(scenario, seed), upstream(scenario)
    assert_same(
        comparable(actual, writes(actual, user), actual=True),
        comparable(expected, writes(expected, user), actual=False),
    )


@pytest.mark.parametrize("scenario", STEPS)
def test_replica_set_status_has_the_same_turning_points(scenario: str, seed: int) -> None:
    actual, expected = replayed(scenario, seed), upstream(scenario)
    assert turning_points(status_sequence(actual, actual.of(REPLICA_SETS))) == turning_points(
        status_sequence(expected, expected.of(REPLICA_SETS))
    )


def steps(trace: Trace, *resources: str) -> dict[str, list[str]]:
    """The writes to objects of these kinds by name, in order. The order of labels varies."""
    result: dict[str, list[str]] = {}
    for user in (NODE_CONTROLLERS, POD_GC):
        records = [record for record in writes(trace, user) if record.resource in resources]
        for doc in trace.docs(records):
            taints = (doc["body"].get("spec") or {}).get("taints") or []
            fields = "" if doc["verb"] == "update" else [*sorted(doc["body"]), *(taint["effect"] for taint in taints)]
            if fields != ["metadata"]:
                result.setdefault(doc["where"], []).append(f"{user}: {doc['verb']} {doc['resource']} {fields}")
    return result


@pytest.mark.parametrize("scenario", STEPS)
def test_writes_of_one_object_have_the_same_order(scenario: str, seed: int) -> None:
    actual, expected = replayed(scenario, seed), upstream(scenario)
    assert steps(actual, "nodes", "nodes/status") == steps(expected, "nodes", "nodes/status")
    assert steps(actual, "pods/status") == steps(expected, "pods/status")
    for name in {record.name for record in actual.records if record.resource == "pods" and record.verb == "delete"}:
        verbs = [record.verb for record in actual.records if record.name == name and not record.is_read]
        changes = [verb for verb in verbs if verb in ("update", "patch", "delete")]
        assert changes[-2:] == ["patch", "delete"], "first the reason, then the end"


def reads(trace: Trace, user: str) -> Counter[str]:
    return Counter(
        f"{record.verb} {doc['resource']} {doc['where']} {record.query.get('resourceVersion', 'newest')}"
        for record, doc in zip(trace.of(user), trace.docs(trace.of(user)), strict=True)
        if record.is_read
    )


def test_additional_reads() -> None:
    """Every difference, in runs without latency and so without conflicts."""
    actual, expected = replayed("13-node-silent", 0), upstream("13-node-silent")
    additional, its = reads(actual, NODE_CONTROLLERS), reads(expected, NODE_CONTROLLERS)
    pods = {
        name: f"get v1 pods 13-node-silent/{name} newest" for name in ("short", "forever", "default", "web-GENERATED")
    }
    node = "get v1 nodes /silent-0 newest"
    # The node before it is declared silent, and before pods go, twice; each pod before it is marked.
    assert additional - its == Counter({node: 3, **dict.fromkeys(pods.values(), 1)})
    assert not its - additional
    assert reads(actual, POD_GC) == Counter({node: 1}), "whether the node is still out of service"
    assert not reads(expected, POD_GC)


def test_deleted_node_is_read_once() -> None:
    actual, expected = replayed("13b-node-deleted", 0), upstream("13b-node-deleted")
    assert reads(actual, POD_GC) == reads(expected, POD_GC) == Counter({"get v1 nodes /gone-0 newest": 1})
    # Two controllers wrote to the new node at once upstream, and one of them had to read it again.
    assert reads(expected, NODE_CONTROLLERS) - reads(actual, NODE_CONTROLLERS) == Counter(
        {"get v1 nodes /gone-0 newest": 1}
    )


def at(trace: Trace, verb: str, resource: str, name: str = "", user: str = NODE_CONTROLLERS) -> list[float]:
    """When a user sent these requests."""
    return [
        record.t
        for record in trace.of(user)
        if (record.verb, record.resource) == (verb, resource) and name in record.name
    ]


def test_timing_is_upstreams(seed: int) -> None:
    for trace in (replayed("13-node-silent", seed), upstream("13-node-silent")):
        (unknown,) = at(trace, "update", "nodes/status")
        assert 16.0 <= unknown < 20.1, "sixteen seconds after the first pass that saw it, and a pass every two"
        executed = at(trace, "patch", "nodes")[-1]
        assert executed - unknown < 0.25
        first, second = at(trace, "delete", "pods", "short")
        assert first - executed == pytest.approx(5.0, abs=0.05), "its tolerationSeconds"
        assert 0 <= second - 81.819 < 0.25, "the taint that it does not tolerate at all"
        assert all(0 < t - 81.819 <= 20.1 for t in at(trace, "delete", "pods", user=POD_GC))
    for trace in (replayed("13b-node-deleted", seed), upstream("13b-node-deleted")):
        assert all(40.0 < t - 6.513 <= 60.2 for t in at(trace, "delete", "pods", user=POD_GC)), "quarantine, and a pass"
