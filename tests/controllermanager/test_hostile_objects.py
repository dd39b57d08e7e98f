"""Hostile objects affect only their own key.

Objects that no API server would admit are written to the store for every kind that a registered controller watches,
while every registered controller runs. Ordinary objects must still be reconciled.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from tests.controllermanager.test_bad_objects import replica_set
from tests.plane.running import running

from pilothouse.api.apps import DAEMON_SETS, REPLICA_SETS
from pilothouse.api.core import NAMESPACES, NODES, PODS
from pilothouse.api.kinds import Kind
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.controllermanager.feature_gates import FeatureGates
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

OPTIONS = PlaneOptions(
    nodes=0, scheduler=False, manager=Options(leader_election=LeaderElection(enabled=False), qps=0.0)
)
GATES = FeatureGates()
ON = [d for d in DESCRIPTORS if all(map(GATES.enabled, d.gates))]
KINDS: list[Kind[Any]] = list(
    {w.kind.group_resource: w.kind for d in ON for w in d.watches if not w.field_selector}.values()
)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bad", "uid": "uid-bad", "controller": True}
CONTROLS = "\u0000\u0007\u001b[2J\r\nE1121 forged\u007f\u009b31m\u2028\u202e"
LABELS = {"app": "bad"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
SELECTOR = {"matchLabels": LABELS}


def specified(**spec: Any) -> dict[str, Any]:
    """A spec that is something for every kind."""
    whole = {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE, "nodeName": "good", "containers": []}
    return {**whole, **spec}


def packed(document: object) -> str:
    """JSON without spaces, as the server stores it."""
    return json.dumps(document, separators=(",", ":"))


def text(meta: dict[str, Any] | None = None, spec: Any = None, status: Any = None, **more: Any) -> str:
    """A stored object, without its kind and the fields that the store sets."""
    whole = {"name": "bad", "uid": "uid-bad", "labels": LABELS, "creationTimestamp": "2026-01-01T00:00:00Z"}
    document = {"metadata": {**whole, **(meta or {})}, "spec": specified() if spec is None else spec, **more}
    return packed({**document, "status": {} if status is None else status})


QUANTITIES = ["9e999999999", "1" * 5000, "-1", "NaN", "", "1.2.3", "0x10", "5" + "0" * 400 + "Ei"]
NUMBERS = [2**31 - 1, -(2**31), 2**63 - 1, -1]
HOSTILE: dict[str, str] = {
    "megabytes of labels": text({"labels": {f"key-{n}": "v" * 63 for n in range(15_000)}}),
    "megabytes of annotations": text({"annotations": {"a": "x" * 1_400_000, **{f"{n}": "y" for n in range(5_000)}}}),
    "thousands of owners": text({"ownerReferences": [{**OWNER, "uid": f"uid-{n}"} for n in range(300)]}),
    "its own owner": text({"ownerReferences": [OWNER]}),
    "thousands of finalizers": text({"finalizers": [f"x/{n}" for n in range(5_000)]}),
    "control characters": text(
        {
            "labels": {CONTROLS: CONTROLS},
            "annotations": {CONTROLS: CONTROLS},
            "finalizers": [CONTROLS],
            "ownerReferences": [{**OWNER, "name": CONTROLS, "uid": CONTROLS, "kind": CONTROLS, "apiVersion": CONTROLS}],
        },
        specified(selector={"matchLabels": {CONTROLS: CONTROLS}}, nodeName=CONTROLS, holderIdentity=CONTROLS),
        {"reason": CONTROLS, "phase": CONTROLS, "conditions": [{"type": CONTROLS, "status": CONTROLS}]},
    ),
    "half of a character": text({"annotations": {"a": "\ud800"}, "labels": {"app": "\udfff"}}),
    "deep nesting": text().replace('"spec":{', '"spec":{"deep":' + '{"a":' * 5_000 + "1" + "}" * 5_000 + ",", 1),
    "deep nesting in metadata": text().replace(
        '"metadata":{', '"metadata":{"annotations":' + "[" * 50_000 + "]" * 50_000 + ",", 1
    ),
    "names twice": text().replace('"name":"bad"', '"name":"bad","name":"other","namespace":"elsewhere"', 1),
    "specs twice": text().replace('"spec":', '"spec":{"replicas":5},"spec":', 1),
    "absurd quantities": text(
        spec=specified(
            containers=[
                {"name": f"c{n}", "resources": {"requests": {"cpu": q, "memory": q}, "limits": {"cpu": q}}}
                for n, q in enumerate(QUANTITIES)
            ],
            overhead={"cpu": "9e999999999"},
        ),
        status={"capacity": {"cpu": "9e999999999"}, "allocatable": {"pods": "1" * 5_000}},
    ),
    **{
        f"the number {number}": text(
            {"deletionGracePeriodSeconds": number, "generation": number},
            specified(
                minReadySeconds=number,
                revisionHistoryLimit=number,
                terminationGracePeriodSeconds=number,
                leaseDurationSeconds=number,
                tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": number}],
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": number}},
                priority=number,
            ),
            {"observedGeneration": number, "replicas": number},
        )
        for number in NUMBERS
    },
    "a number beyond all bounds": text().replace('"replicas":2', '"replicas":-1' + "0" * 4_000, 1),
    "a fraction beyond all bounds": text().replace('"replicas":2', '"replicas":1e99999', 1),
    "percentages of everything": text(
        spec=specified(updateStrategy={"rollingUpdate": {"maxUnavailable": "-5%", "maxSurge": "99999999999%"}})
    ),
    "times that never were": text({"creationTimestamp": "0000-13-45T99:99:99Z", "deletionTimestamp": "never"}),
    "times at the end of time": text(
        {"creationTimestamp": "9999-12-31T23:59:59Z", "deletionTimestamp": "9999-12-31T23:59:59Z", "finalizers": ["x"]},
        specified(renewTime="9999-12-31T23:59:59.999999Z"),
        {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "0001-01-01T00:00:00Z"}]},
    ),
    "wrong types": text({"labels": [1], "ownerReferences": {"a": 1}, "finalizers": "x"}, ["no", "spec"], "no status"),
    "nothing but nulls": packed({"metadata": {"name": "bad"}, "spec": None, "status": None}),
    "selectors that match everything": text(spec=specified(selector={})),
    "selectors beyond reason": text(
        spec=specified(
            replicas=0,
            selector={
                "matchExpressions": [
                    {"key": "app", "operator": "In", "values": ["bad", *(f"{n}" for n in range(2_000))]}
                ]
                * 5
            },
        )
    ),
    "expressions that are none": text(
        spec=specified(
            selector={"matchExpressions": [{"key": "(a+)+$", "operator": "Gt", "values": ["x"]}]},
            template={
                "metadata": {"labels": LABELS},
                "spec": {
                    "nodeSelector": {CONTROLS: CONTROLS},
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["9" * 5_000]}]},
                                    {"matchFields": [{"key": "b", "operator": "Near", "values": []}]},
                                ]
                            }
                        }
                    },
                },
            },
        )
    ),
    "a thousand taints": text(
        spec=specified(
            taints=[{"key": f"k{n}", "effect": "NoExecute"} for n in range(1_000)], podCIDR="x", podCIDRs=[7]
        )
    ),
    "addresses that are none": text(spec=specified(podCIDR="300.0.0.0/99", podCIDRs=["::/0", "0.0.0.0/0"])),
}


MISSHAPEN = ("absurd quantities", "nothing but nulls")
"""Objects with nulls where the API server omits fields: the response may be a 500 with a long message."""


async def smuggle(store: MemoryStore, kind: Kind[Any], hostile: str) -> None:
    """Write it where the API server would, without asking it."""
    prefix = storage_prefix(kind.group, kind.resource)
    # If admission cannot decode a namespace's quota, nothing can be created, so another namespace is used.
    target_namespace = "elsewhere" if kind.resource == "resourcequotas" else "default"
    key = f"{prefix}{target_namespace}/bad" if kind.namespaced else f"{prefix}bad"
    namespace = f'"namespace":"{target_namespace}",' if kind.namespaced else ""

    def stored(revision: int) -> bytes:
        head = f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'
        filled = f'"metadata":{{{namespace}"resourceVersion":"{revision}",'
        return (head + hostile[1:].replace('"metadata":{', filled, 1)).encode("utf-8", "surrogatepass")

    await store.commit(store.stage(key, stored, expected=0))


def a_node() -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    status = {"conditions": [ready], "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "good"}, "status": status}


def a_daemon_set() -> dict[str, Any]:
    document = replica_set("good-daemon")
    del document["spec"]["replicas"]
    tolerating = [{"operator": "Exists"}]
    document["spec"]["template"]["spec"]["tolerations"] = tolerating
    return {**document, "kind": "DaemonSet"}


async def the_rest_goes_on(plane: Plane, store: MemoryStore) -> None:
    client = plane.client()
    await client.create(REPLICA_SETS, replica_set("good"), "default")
    await client.create(DAEMON_SETS, a_daemon_set(), "default")
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "passing"}})
    await client.delete(NAMESPACES, "passing")
    orphan = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "namespace": "default"}}
    missing_owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "uid-gone"}
    orphan["metadata"]["ownerReferences"] = [missing_owner]  # type: ignore[index]
    await client.create(PODS, {**orphan, "spec": {"containers": [{"name": "a", "image": "b"}]}}, "default")
    await asyncio.sleep(40)

    # Not through the server, which cannot list objects that it would reject.
    document = [
        json.loads(record.value)
        for record in store.list(storage_prefix("", "pods")).records
        if b"good" in record.key.encode()
    ]
    names = [pod["metadata"]["name"] for pod in document]
    assert len([name for name in names if name.startswith("good-") and "daemon" not in name]) == 2, (
        "the ReplicaSet has its pods"
    )
    assert any(name.startswith("good-daemon-") for name in names), "the DaemonSet has its own"
    keys = [record.key for record in store.list("").records]
    assert f"{storage_prefix('', 'pods')}default/orphan" not in keys, "garbage is collected"
    assert f"{storage_prefix('', 'namespaces')}passing" not in keys, "namespaces go"
    assert plane.manager is not None
    report = plane.manager.health.report("healthz", verbose=True)
    assert report.healthy
    assert {d.name for d in ON if d.default_on and not d.switch} <= set(plane.manager.controllers)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every object is tried as every kind with ``--soak``, each in a cluster of its own. Otherwise as every fifth kind,
    all of them in one, so that each kind and each object has its turns."""
    if "manifest" not in metafunc.fixturenames:
        return
    if metafunc.config.getoption("--soak"):
        tried = [
            pytest.param(manifest, [kind], id=f"{manifest}-{kind.resource}")
            for manifest, kind in itertools.product(HOSTILE, KINDS)
        ]
    else:
        tried = [pytest.param(manifest, KINDS[-row % 5 :: 5], id=manifest) for row, manifest in enumerate(HOSTILE)]
    metafunc.parametrize(("manifest", "kinds"), tried)


async def test_hostile_object_affects_only_its_own_key(
    env: Env, manifest: str, kinds: Sequence[Kind[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    began = time.process_time()
    store = MemoryStore(env)
    plane = Plane(env, store, OPTIONS)
    async with running(plane):
        await plane.client().create(NODES, a_node())
        for kind in kinds:
            await smuggle(store, kind, HOSTILE[manifest])
        await asyncio.sleep(5)
        await the_rest_goes_on(plane, store)
    assert time.process_time() - began < 20, "nor does it take the others' time"
    bugs = [
        (r.getMessage(), getattr(r, "values", {}), r.exc_info)
        for r in caplog.records
        if r.exc_info and not (r.name == "pilothouse.apiserver" and manifest in MISSHAPEN)
    ]
    assert bugs == [], "a hostile object is no unexpected one"
