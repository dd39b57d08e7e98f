"""Forged causes and huge objects do not make an explanation long, slow or fail."""

import asyncio
from typing import Any

import pytest
from tests import custom_resources
from tests.tables import cases
from tests.why.cluster import Cluster, deployment, texts

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client import Client
from pilothouse.machinery.causes import Trigger, Triggers, begin_sync
from pilothouse.why import NO_CONDITION, STORED, text_lines


class _Claimed:
    """The metadata of a missing object."""

    def __init__(self, namespace: str, name: str, resource_version: str) -> None:
        self.namespace, self.name, self.resource_version = namespace, name, resource_version


def _config_map(name: str = "shared", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


@cases(
    "trigger",
    {
        "a resourceVersion of digits that are no decimals": Trigger("MODIFIED", "pods", "default", "web", "²"),
        "missing resource": Trigger("MODIFIED", "", "default", "web", "12"),
        "a resource that is no name": Trigger("MODIFIED", "../x&name=y", "default", "web", "12"),
    },
)
async def test_forged_triggers(cluster: Cluster, trigger: Trigger) -> None:
    claimed = Triggers()
    claimed.add(trigger.type, trigger.resource, _Claimed(trigger.namespace, trigger.name, trigger.resource_version))
    begin_sync("kubelet", "default/web", claimed)
    await cluster.create(_config_map())
    explanation = await cluster.why("configmaps", "shared")
    assert texts(explanation.steps) == ["configmap/shared was created, by kubelet"]
    assert explanation.unseen == []


async def test_thousands_of_finalizers_are_counted(cluster: Cluster) -> None:
    await cluster.create(_config_map(finalizers=[f"example.com/{number}" for number in range(3000)]))
    await cluster.plane.delete("v1", "ConfigMap", "shared")
    lines = text_lines(await cluster.why("configmaps", "shared"))
    assert any("is held by 2995 more finalizers" in line for line in lines)
    assert len("\n".join(lines)) < 3000


async def test_of_thousands_of_owners_the_first_are_read(cluster: Cluster) -> None:
    owners = [{"apiVersion": "v1", "kind": "Secret", "name": f"s-{number}", "uid": "1"} for number in range(3000)]
    await cluster.create(_config_map(ownerReferences=owners))
    explanation = await cluster.why("configmaps", "shared")
    assert explanation.unseen == ["owners of configmap/shared beyond the first 10"]
    assert len("\n".join(text_lines(explanation))) < 5000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests of all clients: ``list pods``."""
    requests: list[str] = []

    def record(name: str) -> None:
        send = getattr(Client, name)

        async def recorded(self: Client, kind: Any, *words: Any, **options: Any) -> Any:
            requests.append(f"{name} {kind.resource}")
            return await send(self, kind, *words, **options)

        monkeypatch.setattr(Client, name, recorded)

    record("get")
    record("list")
    return requests


async def test_objects_that_own_nothing_list_no_others(cluster: Cluster, reads: list[str]) -> None:
    spec: dict[str, Any] = {"podSelector": {}}
    await cluster.create(
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "none"}, "spec": spec}
    )
    reads.clear()
    await cluster.why("networkpolicies.networking.k8s.io", "none")
    assert [read for read in reads if "networkpolicies" not in read] == []


async def test_objects_are_read_once(cluster: Cluster, reads: list[str]) -> None:
    paths = [
        {"path": f"/{port}", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": port}}}}
        for port in range(1, 4)
    ]
    await cluster.create(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "web"},
            "spec": {"rules": [{"http": {"paths": paths}}]},
        }
    )
    reads.clear()
    explanation = await cluster.why("ingresses.networking.k8s.io", "web")
    assert len(explanation.steps) == 3
    assert reads.count("get services") == 1


async def test_only_the_shown_users_of_a_quota_are_read(cluster: Cluster, reads: list[str]) -> None:
    for number in range(12):
        replica_set = deployment(f"web-{number:02}", replicas=1)
        await cluster.create({**replica_set, "kind": "ReplicaSet"})
    await cluster.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "12"}}}
    )
    await asyncio.sleep(20)
    reads.clear()
    (step,) = (await cluster.why("resourcequotas", "full")).steps
    assert [line.partition("-")[0] for line in step.table[1:]] == ["replicaset/web"] * 10 + ["and 2 more"]
    assert reads.count("get replicasets") == 10


async def test_reads_of_an_object_with_many_changes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = Client.list

    async def pluralize(self: Client, *words: Any, **options: Any) -> Any:
        reads.append(options.get("resource_version", ""))
        return await read(self, *words, **options)

    monkeypatch.setattr(Client, "list", pluralize)
    await cluster.create(_config_map(finalizers=["example.com/hold"]))
    for number in range(500):
        await cluster.patch(CONFIG_MAPS, "shared", {"metadata": {"annotations": {"n": str(number)}}})
    reads.clear()
    explanation = await cluster.why("configmaps", "shared")
    assert list(explanation.unseen) == ["what was changed before the last 200 changes of an object"]
    assert len(reads) < 250

    await cluster.plane.delete("v1", "ConfigMap", "shared")
    reads.clear()
    explanation = await cluster.why("configmaps", "shared")
    assert explanation.steps[-1].text.startswith("configmap/shared was marked for deletion")
    assert len(reads) < 50


async def test_of_many_owned_objects_the_unready_ones_are_examined_first(cluster: Cluster, reads: list[str]) -> None:
    def widget(name: str, ready: str = "", **metadata: Any) -> dict[str, Any]:
        status = {"conditions": [{"type": "Ready", "status": ready}]} if ready else {"size": 1}
        return {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": name, **metadata},
            "status": status,
        }

    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    await cluster.create(widget("fleet"))
    fleet = await cluster.plane.get("example.com/v1", "Widget", "fleet")
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "fleet", "uid": fleet["metadata"]["uid"]}
    owners = [{**reference, "controller": True}]
    for number in range(150):
        await cluster.create(widget(f"ship-{number:03}", "True", ownerReferences=owners))
    reads.clear()
    explanation = await cluster.why("widgets.example.com", "fleet")
    assert explanation.state == NO_CONDITION
    assert explanation.unseen == ["widgets.example.com that widget/fleet owns, beyond the first 100"]
    assert len(reads) < 500
    await cluster.create(widget("ship-last", "False", ownerReferences=owners))
    explanation = await cluster.why("widgets.example.com", "fleet")
    assert explanation.steps[0].text == "widget/fleet owns widget/ship-last: not ready"
    assert explanation.unseen == []


async def test_of_many_subjects_the_first_are_read(cluster: Cluster, reads: list[str]) -> None:
    names = [f"user-{number}" for number in range(150)]
    for name in names:
        await cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    await cluster.create(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "view"}, "rules": []}
    )
    await cluster.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "viewers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name} for name in names],
        }
    )
    reads.clear()
    explanation = await cluster.why("clusterrolebindings.rbac.authorization.k8s.io", "viewers", "")
    assert (explanation.state, explanation.unseen) == (
        STORED,
        ["what clusterrolebinding/viewers refers to, beyond the first 100"],
    )
    assert reads.count("get serviceaccounts") == 99
