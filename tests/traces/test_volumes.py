"""Claims of a StatefulSet and manually created volumes, replayed: the writes of the binder and the protection
controllers are those of kube-controller-manager v1.36.2. Who comes first, and therefore which writes meet a conflict,
is chance.
"""

import copy

import pytest
from msgspec.structs import replace
from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import KubectlUser, replay
from tests.traces.records import Record, recorded
from tests.traces.test_statefulsets import CLAIMS, HEAD, MILLISECONDS, TEMPLATE, make_volumes, scale

USER = "persistent-volume-binder"
SCENARIO = "07b-statefulset-volumeclaims"
PROTECTION = ("pvc-protection-controller", "pv-protection-controller")


async def steps(user: KubectlUser) -> None:
    await make_volumes(user)
    await user.at(2.3)
    await user.create(HEAD + "  replicas: 2" + CLAIMS + TEMPLATE)
    await user.at(5.107)
    await scale(user, 1)
    await user.at(9.4)
    await user.delete("StatefulSet", "db")
    await user.at(16.9)
    for name in ("vol-0", "vol-1"):
        await user.request("DELETE", f"api/v1/persistentvolumes/{name}")
    await user.at(20.0)


def plain(record: Record) -> Record:
    """A volume without the time of its last phase, which the server writes, and a claim without its owner, which its
    set may or may not have written by then."""
    if not record.resource.startswith("persistentvolume") or "status" not in (record.body or {}):
        return record
    body = copy.deepcopy(record.body)
    body["status"].pop("lastPhaseTransitionTime", None)
    body["metadata"].pop("ownerReferences", None)
    return replace(record, body=body)


def per_object(trace: Trace) -> list[Record]:
    """The writes to each object, in order."""
    written = [record for record in trace.of(USER) if record.code < 400 and record.resource != "events"]
    return sorted(written, key=lambda record: (record.resource, record.name))


@pytest.mark.parametrize("latency", [None, MILLISECONDS], ids=["no latency", "with latency"])
def test_claims_are_bound_and_volumes_released_as_recorded(latency: tuple[float, float] | None) -> None:
    played = replay(SCENARIO, steps, latency=latency, seed=1).records
    actual, expected = Trace(map(plain, played)), Trace(map(plain, recorded(SCENARIO)))
    assert_same(actual.lines(per_object(actual)), expected.lines(per_object(expected)))
    reads = [
        [(item.verb, item.resource, item.name, item.code) for item in trace.of(USER) if item.is_read]
        for trace in (actual, expected)
    ]
    assert reads[0] == reads[1], "whether a claim is gone is asked for, once each"


@pytest.mark.parametrize("latency", [None, MILLISECONDS], ids=["no latency", "with latency"])
@pytest.mark.parametrize("user", PROTECTION)
def test_protection_finalizers_are_removed_as_recorded(user: str, latency: tuple[float, float] | None) -> None:
    """For each claim a list of the pods, and for all a write of the whole object."""
    played = replay(SCENARIO, steps, latency=latency, seed=1).records
    actual, expected = Trace(map(plain, played)), Trace(map(plain, recorded(SCENARIO)))
    requests = [[item for item in trace.of(user) if item.code < 400] for trace in (actual, expected)]
    assert_same(actual.lines(requests[0]), expected.lines(requests[1]))


@pytest.mark.parametrize("latency", [None, MILLISECONDS], ids=["no latency", "with latency"])
def test_expansion_reads_are_as_recorded(latency: tuple[float, float] | None) -> None:
    """The volume of each claim once, when the status of the claim has its size; and no event."""
    played = replay(SCENARIO, steps, latency=latency, seed=1).records
    reads = [
        sorted((item.verb, item.resource, item.name, item.code) for item in trace if item.user == "expand-controller")
        for trace in (played, recorded(SCENARIO))
    ]
    assert reads[0] == reads[1]
    assert reads[0]
