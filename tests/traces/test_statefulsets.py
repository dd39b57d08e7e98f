"""StatefulSets, replayed: the writes and events are those of kube-controller-manager v1.36.2, in their order.

The number of statuses between two of them depends on when a pod is observed; the turning points of each count do not.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import KubectlUser, Steps, replay
from tests.traces.records import Record, recorded

USER = "statefulset-controller"
MILLISECONDS = (0.001, 0.004)
IMAGE = "registry.k8s.io/pause:3.1"

TEMPLATE = f"""
  template:
    metadata:
      labels: {{app: db}}
    spec:
      containers:
      - {{name: main, image: "{IMAGE}0"}}
"""
HEAD = """
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
spec:
  serviceName: db
  selector:
    matchLabels: {app: db}
"""
CLAIMS = """
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Delete}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: manual
      resources: {requests: {storage: 1Gi}}
"""


async def scale(user: KubectlUser, replicas: int) -> None:
    path = user.path("StatefulSet", "db") + "/scale"
    await user.request("PATCH", path, {"spec": {"replicas": replicas}}, "application/merge-patch+json")


async def ordered(user: KubectlUser) -> None:
    await user.create(HEAD + "  replicas: 3" + TEMPLATE)
    await user.at(3.148)
    container = {"name": "main", "image": f"{IMAGE}1"}
    await user.patch("StatefulSet", "db", {"spec": {"template": {"spec": {"containers": [container]}}}}, STRATEGIC)
    await user.at(10.966)
    await scale(user, 1)
    await user.at(15.376)
    await user.delete("StatefulSet", "db")
    await user.at(20.0)


async def make_volumes(user: KubectlUser) -> None:
    """The volumes that the administrator created."""
    for name in ("vol-0", "vol-1"):
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/data/{name}"},
            "storageClassName": "manual",
        }
        await user.request("POST", "api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})


async def volume_claims(user: KubectlUser) -> None:
    await make_volumes(user)
    await user.at(2.3)
    await user.create(HEAD + "  replicas: 2" + CLAIMS + TEMPLATE)
    await user.at(5.107)
    await scale(user, 1)
    await user.at(9.4)
    await user.delete("StatefulSet", "db")
    await user.at(13.0)


STRATEGIC = "strategic-merge"
STEPS: dict[str, Steps] = {"07a-statefulset-ordered": ordered, "07b-statefulset-volumeclaims": volume_claims}


HASHES = ("58b9955788", "5695789457")
"""Of the two templates, as the notes on the traces have them."""


def plain(record: Record) -> Record:
    """A claim without what other controllers have put into it when it is written: a finalizer, a volume."""
    if record.resource != "persistentvolumeclaims" or record.verb != "update":
        return record
    body: dict[str, Any] = copy.deepcopy(record.body)
    body["metadata"].pop("finalizers", None)
    body["metadata"].pop("annotations", None)
    body["spec"].pop("volumeName", None)
    body.pop("status", None)
    return replace(record, body=body)


def writes_of(trace: Trace) -> Iterator[Record]:
    """All but statuses, and without refusals and their events: whether another one has just written a claim is
    chance."""
    for record in trace.of(USER):
        if record.is_status or record.is_read or record.code >= 400:
            continue
        if record.resource != "events" or "the object has been modified" not in (record.body or {}).get("message", ""):
            yield record


def numbers(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.status.items() if not name.endswith("Revision")}


@pytest.mark.parametrize("latency", [None, MILLISECONDS], ids=["no latency", "with latency"])
@pytest.mark.parametrize("scenario", STEPS)
def test_stateful_set_is_as_recorded(scenario: str, latency: tuple[float, float] | None) -> None:
    played = replay(scenario, STEPS[scenario], latency=latency, seed=1).records
    actual, expected = Trace(map(plain, played)), Trace(map(plain, recorded(scenario, HASHES)))
    assert_same(actual.lines(list(writes_of(actual))), expected.lines(list(writes_of(expected))))
    assert [record for record in actual.of(USER) if record.is_read] == []
    statuses = [[numbers(item) for item in trace.of(USER) if item.is_status] for trace in (actual, expected)]
    assert statuses[0][0] == statuses[1][0]
    assert statuses[0][-1] == statuses[1][-1]
    assert {frozenset(status) for status in statuses[0]} == {frozenset(status) for status in statuses[1]}, (
        "the same fields"
    )
