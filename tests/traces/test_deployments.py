"""The recorded scenarios of Deployments, replayed: our controller sends what that of v1.36.2 sent.

Compared are the writes of ReplicaSets by the fields that a Deployment's controller decides on, in their order, the
events, and what the conditions said one after the other. How often a status is written, what ReplicaSets report at that
moment, and conflicts are a matter of speed.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.traces.kubectl_user import KubectlUser, Steps, replay
from tests.traces.records import DATA, Record

DEPLOYMENTS = "deployment-controller"
IMAGE = "registry.k8s.io/pause:"
HASHES = {"3.10": "6fffd974d5", "3.11": "576f945fbd", "404": "84588dd5c5"}
"""What the real controller's hashes were, by tag."""
TAGS = {
    "05a-deployment-rolling": ("3.10", "3.11", "404"),
    "05b-deployment-scale-during-rollout": ("3.10", "404", "3.11"),
    "05c-deployment-pause-resume": ("3.10", "3.11"),
    "05d-deployment-recreate": ("3.10", "3.11"),
}
"""In the order of the placeholders HASHn."""
NOT_YET = 'Deployment "web" is progressing.'
ONE_BY_ONE = ("05c-deployment-pause-resume", "05d-deployment-recreate")
"""So few pods that there is only one way through."""


class Kubectl:
    """kubectl's verbs for these scenarios."""

    def __init__(self, user: KubectlUser) -> None:
        self._stage = user

    async def _patch(self, body: object, content_type: str = "strategic-merge") -> None:
        path = self._stage.path("Deployment", "web")
        await self._stage.request("PATCH", path, body, f"application/{content_type}-patch+json")

    async def create(self, replicas: int, **spec: Any) -> None:
        containers = [{"name": "main", "image": f"{IMAGE}3.10"}]
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        body = {
            "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
        }
        await self._stage.request("POST", self._stage.path("Deployment"), body)

    async def set_image(self, tag: str) -> None:
        """Also the result of ``rollout undo``."""
        containers = [{"name": "main", "image": IMAGE + tag}]
        await self._patch({"spec": {"template": {"spec": {"containers": containers}}}})

    async def no_image(self, until: float) -> None:
        """Pods of the tag 404 never start: they are marked so before they can."""
        pods = self._stage.path("Pod")
        patched: set[str] = set()
        waiting = {"metadata": {"annotations": {"simulated.pilothouse.dev/waiting": "ErrImagePull"}}}
        while self._stage.env.monotonic() < self._stage.server.zero + until:
            for pod in (await self._stage.request("GET", pods))["items"]:
                name = pod["metadata"]["name"]
                if name not in patched and pod["spec"]["containers"][0]["image"].endswith(":404"):
                    patched.add(name)
                    await self._stage.request("PATCH", f"{pods}/{name}", waiting, "application/merge-patch+json")
            await asyncio.sleep(0.02)

    async def pause(self, paused: bool) -> None:
        await self._patch({"spec": {"paused": paused or None}})

    async def scale(self, replicas: int) -> None:
        path = self._stage.path("Deployment", "web") + "/scale"
        await self._stage.request("PATCH", path, {"spec": {"replicas": replicas}}, "application/merge-patch+json")

    async def delete(self) -> None:
        await self._stage.delete("Deployment", "web")


async def rolling(user: KubectlUser) -> None:
    """05a: one rollout, one that gets stuck, back."""
    kubectl = Kubectl(user)
    await kubectl.create(4)
    await user.at(2.9)
    await kubectl.set_image("3.11")
    await user.at(7.667)
    await kubectl.set_image("404")
    await kubectl.no_image(until=12.902)
    await kubectl.set_image("3.11")
    await user.at(17.796)
    await kubectl.delete()
    await user.at(20.0)


async def scaling(user: KubectlUser) -> None:
    """05b: a stuck rollout is scaled up and down, and replaced."""
    kubectl = Kubectl(user)
    await kubectl.create(4)
    await user.at(2.767)
    await kubectl.set_image("404")
    await kubectl.no_image(until=7.146)
    await kubectl.scale(8)
    await kubectl.no_image(until=10.724)
    await kubectl.scale(4)
    await kubectl.no_image(until=15.021)
    await kubectl.set_image("3.11")
    await user.at(20.299)
    await kubectl.delete()
    await user.at(22.0)


async def pausing(user: KubectlUser) -> None:
    """05c: paused, changed, scaled, resumed."""
    kubectl = Kubectl(user)
    await kubectl.create(2)
    await user.at(2.713)
    await kubectl.pause(True)
    await user.at(4.816)
    await kubectl.set_image("3.11")
    await user.at(6.928)
    await kubectl.scale(3)
    await user.at(9.504)
    await kubectl.pause(False)
    await user.at(15.252)
    await kubectl.delete()
    await user.at(17.0)


async def recreating(user: KubectlUser) -> None:
    """05d: Recreate."""
    kubectl = Kubectl(user)
    await kubectl.create(2, strategy={"type": "Recreate"})
    await user.at(2.68)
    await kubectl.set_image("3.11")
    await user.at(7.562)
    await kubectl.delete()
    await user.at(9.0)


STEPS: Mapping[str, Steps] = dict(zip(sorted(TAGS), (rolling, scaling, pausing, recreating), strict=True))


def upstream(scenario: str) -> list[Record]:
    """The recorded requests."""
    text = (DATA / f"{scenario}.jsonl").read_text()
    for number, tag in enumerate(TAGS[scenario], 1):
        text = re.sub(rf"HASH{number}\b", HASHES[tag], text)
    return [msgspec.json.decode(line, type=Record) for line in text.splitlines()]


def sizes(records: list[Record]) -> list[tuple[Any, ...]]:
    """The accepted writes of ReplicaSets: name, size and annotations. A PUT that only raises a revision is one too."""
    return [
        (record.verb, record.name, record.body["spec"]["replicas"], record.body["metadata"]["annotations"])
        for record in records
        if record.resource == "replicasets" and not record.is_read and record.code < 400
    ]


def created(records: list[Record]) -> list[Any]:
    """The ReplicaSets as they were sent, without what an API server fills in."""
    result = []
    for record in records:
        if record.resource == "replicasets" and record.verb == "create" and record.code < 400:
            body = msgspec.json.decode(msgspec.json.encode(record.body))
            body.pop("status", None)
            for reference in body["metadata"]["ownerReferences"]:
                reference.pop("uid")
            body["metadata"].pop("creationTimestamp", None)
            body["spec"]["template"]["metadata"].pop("creationTimestamp", None)
            result.append(body)
    return result


def outcomes(records: list[Record]) -> list[tuple[Any, ...]]:
    """The events: verb, type, reason and message."""
    return [
        (record.verb, record.body.get("type", ""), record.body.get("reason", ""), record.body.get("message", ""))
        for record in records
        if record.is_event and record.verb == "create"
    ]


def conditions(records: list[Record]) -> dict[str, list[Any]]:
    """What each condition said, one word after the other.

    But for the creation of a ReplicaSet: upstream's word of that meets a conflict when something was written before in
    the same look, and the next look knows nothing of it. And but for what is said while there is no new ReplicaSet yet
    (``Recreate``): whether a pod's end is counted before it is there is a matter of milliseconds.
    """
    statuses: dict[str, list[Any]] = {}
    for record in records:
        if record.is_status and record.code < 400:
            for item in record.status.get("conditions", ()):
                words = [item["status"], item["reason"], item["message"]]
                passing = item["reason"] == "NewReplicaSetCreated" or item["message"] == NOT_YET
                if not passing and statuses.setdefault(item["type"], [None])[-1] != words:
                    statuses[item["type"]].append(words)
    return statuses


def turns(steps: list[tuple[Any, ...]]) -> dict[str, list[int]]:
    """The turning points of each ReplicaSet's size: how many pods are counted at once depends on timing."""
    result: dict[str, list[int]] = {}
    for _verb, name, size, _annotations in steps:
        sizes = result.setdefault(name, [])
        if len(sizes) > 1 and (sizes[-1] - sizes[-2]) * (size - sizes[-1]) >= 0:
            sizes.pop()
        sizes.append(size)
    return result


def notes(steps: list[tuple[Any, ...]]) -> dict[str, dict[str, str]]:
    """The last annotations of each ReplicaSet."""
    return {name: annotations for _verb, name, _size, annotations in steps}


@pytest.mark.parametrize("scenario", sorted(STEPS))
def test_deployment_writes_are_as_recorded(scenario: str, seed: int) -> None:
    latency = (0.001, 0.004) if seed else None
    server = replay(scenario, STEPS[scenario], seed=seed, latency=latency)
    actual = [record for record in server.records if record.user == DEPLOYMENTS]
    expected = [record for record in upstream(scenario) if record.user == DEPLOYMENTS]
    assert turns(sizes(actual)) == turns(sizes(expected))
    assert notes(sizes(actual)) == notes(sizes(expected))
    assert [set(item["metadata"]) for item in created(actual)] == [set(item["metadata"]) for item in created(expected)]
    if scenario in ONE_BY_ONE:
        assert sizes(actual) == sizes(expected)
        assert created(actual) == created(expected)
        assert outcomes(actual) == outcomes(expected)
    assert conditions(actual)["Progressing"] == conditions(expected)["Progressing"]
    assert {record.verb for record in actual} <= {record.verb for record in expected}
    revisions = [
        [r.body["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for r in records if r.is_status][-1]
        for records in (actual, expected)
    ]
    assert revisions[0] == revisions[1]
