"""The recorded scenarios of DaemonSets, replayed: our controller sends what that of v1.36.2 sent.

Statuses are written once per observed change, so their number depends on timing; all other writes, their bodies and the
events must be equal. The order of nodes in an update is random upstream; the requests for each are not.
"""

import re
from collections.abc import Mapping

import msgspec
import pytest
from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import KubectlUser, Steps, replay
from tests.traces.records import DATA, Record

DAEMONS = "daemon-set-controller"
GARBAGE = "generic-garbage-collector"
HASHES = {
    "04a-daemonset-nodes": ("f5dc55c7",),
    "04b-daemonset-maxunavailable": ("98445bc9d", "bf5b6c989"),
    "04c-daemonset-maxsurge": ("74bff888c5", "c9c9749bd"),
}
"""What the real controller's hashes were; the data has placeholders."""

AGENT = """
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
spec:
  selector:
    matchLabels: {app: agent}
%s
  template:
    metadata:
      labels: {app: agent}
    spec:
      containers:
      - {name: main, image: "registry.k8s.io/pause:3.10"}
      nodeSelector: {%s: "yes"}
      tolerations:
      - {key: dedicated, operator: Exists}
"""
SURGE = """
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
"""
DEDICATED = {"key": "dedicated", "value": "ds", "effect": "NoSchedule"}


class Daemons:
    """kubectl's verbs for these scenarios."""

    def __init__(self, user: KubectlUser) -> None:
        self._stage = user
        self._sets = f"apis/apps/v1/namespaces/{user.namespace}/daemonsets"

    async def _merge(self, path: str, body: object, content_type: str = "merge") -> None:
        await self._stage.request("PATCH", path, body, f"application/{content_type}-patch+json")

    async def create(self, pool: str, strategy: str = "") -> None:
        manifest = AGENT % (strategy, pool)
        await self._stage.request("POST", self._sets, msgspec.yaml.decode(manifest.encode()))

    async def label(self, node: str, pool: str, value: str | None = "yes") -> None:
        await self._merge(f"api/v1/nodes/{node}", {"metadata": {"labels": {pool: value}}})

    async def taint(self, node: str, *effects: str) -> None:
        taints = [DEDICATED, *({"key": "special", "value": "x", "effect": effect} for effect in effects)]
        await self._merge(f"api/v1/nodes/{node}", {"spec": {"taints": taints}})

    async def set_image(self, image: str) -> None:
        template = {"spec": {"containers": [{"name": "main", "image": image}]}}
        await self._merge(f"{self._sets}/agent", {"spec": {"template": template}}, "strategic-merge")

    async def undo(self) -> None:
        """Bring the older of the two revisions back."""
        path = f"apis/apps/v1/namespaces/{self._stage.namespace}/controllerrevisions"
        older = min((await self._stage.request("GET", path))["items"], key=lambda each: each["revision"])
        await self._merge(f"{self._sets}/agent", older["data"], "strategic-merge")

    async def fail(self, node: str) -> None:
        pods = f"api/v1/namespaces/{self._stage.namespace}/pods"
        for pod in (await self._stage.request("GET", pods))["items"]:
            if pod["spec"]["nodeName"] == node:
                status = {"status": {"phase": "Failed", "reason": "Test"}}
                await self._merge(f"{pods}/{pod['metadata']['name']}/status", status)

    async def delete(self) -> None:
        await self._stage.request("DELETE", f"{self._sets}/agent", {"propagationPolicy": "Background"})


def before(pool: str, *labelled: str) -> Steps:
    """The initial state: three tainted nodes, some of them in the pool."""

    async def prepare(user: KubectlUser) -> None:
        daemons = Daemons(user)
        for node in ("node-0", "node-1", "node-2"):
            await daemons.taint(node)
        for node in labelled:
            await daemons.label(node, pool)

    return prepare


async def nodes(user: KubectlUser) -> None:
    """04a: labels and taints move daemons."""
    daemons = Daemons(user)
    await daemons.create("poola")
    await user.at(2.826)
    await daemons.label("node-2", "poola")
    await user.at(5.596)
    await daemons.label("node-0", "poola", None)
    await user.at(8.853)
    await daemons.taint("node-1", "NoSchedule")
    await user.at(11.97)
    await daemons.taint("node-1")
    await user.at(14.12)
    await daemons.taint("node-2", "NoExecute")
    await user.at(18.433)
    await daemons.taint("node-2")
    await user.at(21.096)
    await daemons.delete()
    await user.at(24.0)


async def unavailable(user: KubectlUser) -> None:
    """04b: an update, back again, a failed pod."""
    daemons = Daemons(user)
    await daemons.create("poolb")
    await user.at(2.553)
    await daemons.set_image("registry.k8s.io/pause:3.11")
    await user.at(8.953)
    await daemons.undo()
    await user.at(15.305)
    await daemons.fail("node-2")
    await user.at(19.522)
    await daemons.delete()
    await user.at(22.0)


async def surge(user: KubectlUser) -> None:
    """04c: an update with new pods first, and back again."""
    daemons = Daemons(user)
    await daemons.create("poolc", SURGE)
    await user.at(2.503)
    await daemons.set_image("registry.k8s.io/pause:3.11")
    await user.at(6.968)
    await daemons.undo()
    await user.at(12.329)
    await daemons.delete()
    await user.at(15.0)


STEPS: Mapping[str, tuple[Steps, Steps]] = {
    "04a-daemonset-nodes": (before("poola", "node-0", "node-1"), nodes),
    "04b-daemonset-maxunavailable": (before("poolb", "node-0", "node-1", "node-2"), unavailable),
    "04c-daemonset-maxsurge": (before("poolc", "node-0", "node-1", "node-2"), surge),
}


def upstream(scenario: str) -> Trace:
    """The recorded requests, with our names of nodes."""
    text = (DATA / f"{scenario}.jsonl").read_text().replace("ds-node-", "node-")
    for number, revision in enumerate(HASHES[scenario], 1):
        text = re.sub(rf"HASH{number}\b", revision, text)
    return Trace(msgspec.json.decode(line, type=Record) for line in text.splitlines())


@pytest.mark.parametrize("scenario", sorted(STEPS))
def test_daemon_set_writes_are_as_recorded(scenario: str, seed: int) -> None:
    prepare, steps = STEPS[scenario]
    latency = (0.001, 0.004) if seed else None
    actual = Trace(replay(scenario, steps, seed=seed, latency=latency, before=prepare).records)
    recorded_trace = upstream(scenario)
    sent, expected = (
        trace.lines(record for record in trace.of(DAEMONS) if not record.is_status)
        for trace in (actual, recorded_trace)
    )
    assert_same(sent, expected)
    last, recorded = ([r.status for r in trace.of(DAEMONS) if r.is_status][-1] for trace in (actual, recorded_trace))
    assert last == recorded
