"""The order of requests in traces: within one sync of one object. Between parallel workers there is none."""

import pytest
from tests.traces.canonical import Trace
from tests.traces.records import Record, recorded
from tests.traces.test_replays import GARBAGE, NAMESPACES, REPLICA_SETS, replayed


def both(scenario: str, seed: int) -> list[Trace]:
    """Our trace and upstream's: an order must hold in both."""
    return [replayed(scenario, seed), Trace(recorded(scenario))]


def test_creates_use_slow_start(seed: int) -> None:
    """Each batch waits until the one before is answered."""
    actual = replayed("01-replicaset-scale", seed)
    creates = [record for record in actual.of(REPLICA_SETS) if record.verb == "create" and record.resource == "pods"]
    batches = []
    while creates:
        first_answer = min(record.ended for record in creates)
        batch = [record for record in creates if record.began < first_answer]
        batches.append(len(batch))
        creates = creates[len(batch) :]
    assert batches == [1, 2, 2, 1, 2, 1, 1], "0 to 5, 5 to 8, 0 to 2"


def test_creates_stop_at_the_first_rejected_batch(seed: int) -> None:
    """Of four pods one is created, then two, one of them rejected; the fourth is left to another sync."""
    for trace in both("03-replicaset-quota", seed):
        sent = [record for record in trace.of(REPLICA_SETS) if not record.is_event]
        first_sync = sent[: next(index for index, record in enumerate(sent) if record.is_status)]
        assert sorted(record.code for record in first_sync) == [201, 201, 403]


def test_deletes_of_one_scale_down_are_concurrent(seed: int) -> None:
    actual = replayed("01-replicaset-scale", seed)
    deletes = [record for record in actual.of(REPLICA_SETS) if record.verb == "delete"]
    for batch in (deletes[:5], deletes[5:]):
        assert max(record.began for record in batch) < min(record.ended for record in batch)


def test_pods_come_before_the_status_that_observes_the_generation(seed: int) -> None:
    for trace in both("01-replicaset-scale", seed):
        sent = [record for record in trace.of(REPLICA_SETS) if not record.is_event]
        for generation in range(2, 7):
            first = next(i for i, r in enumerate(sent) if r.is_status and r.status["observedGeneration"] == generation)
            assert sent[first - 1].resource == "pods"


def test_owner_is_read_once_before_adoptions_and_not_before_releases(seed: int) -> None:
    for trace in both("02-replicaset-adoption", seed):
        requests = [
            f"{r.verb} {r.name}" for r in trace.of(REPLICA_SETS) if r.verb in ("get", "patch") and r.code == 200
        ]
        assert requests == [
            "get web",
            "patch orphan-a",
            "patch orphan-b",
            "patch orphan-a",
            "get web",
            "patch orphan-a",
        ]


def test_owner_finalizer_is_removed_after_its_dependents(seed: int) -> None:
    for trace in both("02-replicaset-adoption", seed):
        requests = [f"{r.verb} {r.resource}" for r in trace.of(GARBAGE) if r.code == 200 and r.t > 12]
        assert requests[:3] == ["patch pods"] * 3
        assert requests[-2:] == ["get replicasets", "patch replicasets"]


def test_finalizers_are_removed_from_leaves_to_root(seed: int) -> None:
    for trace in both("05e-deployment-delete-foreground", seed):
        requests = [
            f"{record.verb} {record.resource} {record.body.get('propagationPolicy', '')}".rstrip()
            for record in trace.of(GARBAGE)
            if not record.is_read and record.code == 200
        ]
        first = {line: requests.index(line) for line in reversed(requests)}
        assert sorted(first, key=first.__getitem__) == [
            "delete replicasets Foreground",
            "delete pods Background",
            "patch replicasets",
            "patch deployments",
        ]


@pytest.mark.parametrize(
    "scenario",
    ["01-replicaset-scale", "03-replicaset-quota", "05e-deployment-delete-foreground", "12-garbage-collector"],
)
def test_deletes_have_a_get_and_preconditions(scenario: str, seed: int) -> None:
    for trace in both(scenario, seed):
        being_read: list[str] = []
        conflicts: set[str] = set()
        for record in trace.of(GARBAGE):
            if record.verb == "get":
                being_read.append(record.name)
            elif record.verb == "delete":
                being_read.remove(record.name)
                # Another field than its owners has changed: it is deleted if it is still the same object.
                unchanged = {"uid"} if record.name in conflicts else {"uid", "resourceVersion"}
                assert set(record.body["preconditions"]) in ({"uid", "resourceVersion"}, unchanged)
                if record.code == 409:
                    conflicts.add(record.name)


def test_namespace_sync_lists_deletes_and_reports(seed: int) -> None:
    actual, expected = both("11-namespace-deletion", seed)
    assert [steps(sync_pass) for sync_pass in passes(actual)] == [steps(sync_pass) for sync_pass in passes(expected)]
    for item in [*passes(actual), *passes(expected)]:
        for deletion, listing in zip(*[iter(item[2:])] * 2, strict=False):
            if deletion.verb == "deletecollection":
                assert (deletion.group, deletion.resource) == (listing.group, listing.resource)


def passes(trace: Trace) -> list[list[Record]]:
    """The requests of each pass."""
    result: list[list[Record]] = []
    for record in trace.of(NAMESPACES):
        if record.verb == "get" and not (result and result[-1][-1].code == 409):
            result.append([])
        result[-1].append(record)
    return result


def steps(sent: list[Record]) -> list[str]:
    """The steps of a pass, without the resources after pods, whose order varies, and without repeated finalization."""
    requests = [f"{record.verb} {record.resource}" for record in sent if record.code == 200]
    return requests[:4] + [step for step in requests[4:] if "namespaces" in step and not step.startswith("get")]
