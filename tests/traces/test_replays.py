"""Recorded scenarios, replayed: our controllers send what kube-controller-manager v1.36.2 sent.

Each is replayed without latency, and with latencies by seed, which decide what is merged and the order of requests.
Equal in all of them: the writes with their bodies, patch types, queries and responses, the events, and the turning
points of statuses. ``data/README.md`` has what varies.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.traces.canonical import Trace, assert_same
from tests.traces.records import Record, recorded
from tests.traces.scenarios import QUOTA, SCENARIOS, run
from tests.traces.statuses import is_between, status_sequence, turning_points

REPLICA_SETS = "replicaset-controller"
GARBAGE = "generic-garbage-collector"
NAMESPACES = "namespace-controller"
QUOTAS = "resourcequota-controller"

MILLISECONDS = (0.001, 0.004)
"""The latency of requests and events, with every seed but 0. With seed 0 there is none."""


@functools.cache
def played(scenario: str, seed: int) -> list[Record]:
    """Every request of our manager. Each scenario is replayed once per seed, for all tests."""
    return run(scenario, latency=MILLISECONDS if seed else None, seed=seed).records


def replayed(scenario: str, seed: int) -> Trace:
    """Our manager's requests, without those that traces omit: discovery and Leases."""
    records = played(scenario, seed)
    return Trace(record for record in records if record.resource not in ("/api", "/apis", "leases"))


def upstream(scenario: str) -> Trace:
    """What upstream's sent."""
    return Trace(recorded(scenario))


def but_statuses(records: Iterable[Record]) -> list[Record]:
    """Everything except status updates, whose number varies."""
    return [record for record in records if not record.is_status]


def accepted(records: Iterable[Record]) -> list[Record]:
    """What changed something: without what met a conflict.

    A DELETE that is sent again counts once, as it was sent first: after a conflict it has one precondition less.
    """
    result: dict[object, Record] = {}
    conflicts: dict[object, Record] = {}
    for record in records:
        if record.is_read:
            continue
        key = (record.resource, record.name) if record.verb == "delete" else id(record)
        if record.code == 409:
            conflicts.setdefault(key, record)
        elif "resourceVersion" in str(record.body) or key not in conflicts:
            result.setdefault(key, record)
        else:
            result.setdefault(key, replace(conflicts[key], code=record.code, reason="", message=""))
    return list(result.values())


def reads_but_repeated(records: Iterable[Record]) -> list[Record]:
    """Reads, except those repeated after a conflict."""
    result: list[Record] = []
    for record in records:
        if record.is_read:
            result.append(record)
        elif record.code == 409:
            result.remove(next(read for read in reversed(result) if read.name == record.name))
    return result


def test_replica_set_scale_and_deletion(seed: int) -> None:
    actual, recorded_trace = replayed("01-replicaset-scale", seed), upstream("01-replicaset-scale")
    for user in (REPLICA_SETS, GARBAGE):
        assert_same(
            actual.lines(but_statuses(actual.of(user))), recorded_trace.lines(but_statuses(recorded_trace.of(user)))
        )
    assert turning_points(status_sequence(actual, actual.of(REPLICA_SETS))) == turning_points(
        status_sequence(recorded_trace, recorded_trace.of(REPLICA_SETS))
    )


def assert_same_walk_but_for_the_last_step(actual: Trace, recorded_trace: Trace, seed: int) -> None:
    """The statuses of an owner that is deleted within milliseconds of its pods: how many of the last ones are written
    is a race, their values are not."""
    walked, expected = (
        turning_points(status_sequence(actual, actual.of(REPLICA_SETS))),
        turning_points(status_sequence(recorded_trace, recorded_trace.of(REPLICA_SETS))),
    )
    if walked != expected:
        assert seed, "only requests that take time can come in another order"
        assert walked[: len(expected) - 1] == expected[:-1]
        assert all(is_between(expected[-2], last, expected[-1]) for last in walked[len(expected) - 1 :])


def test_pod_adoption_release_and_orphaning(seed: int) -> None:
    actual, recorded_trace = replayed("02-replicaset-adoption", seed), upstream("02-replicaset-adoption")
    # The owner's pods are orphaned and it is deleted within milliseconds. Its last status update is before or after
    # that.
    sent = [record for record in but_statuses(actual.of(REPLICA_SETS)) if record.code != 404]
    assert_same(actual.lines(sent), recorded_trace.lines(but_statuses(recorded_trace.of(REPLICA_SETS))))
    assert_same(actual.lines(accepted(actual.of(GARBAGE))), recorded_trace.lines(accepted(recorded_trace.of(GARBAGE))))
    assert_same(*(trace.lines(reads_but_repeated(trace.of(GARBAGE))) for trace in (actual, recorded_trace)))
    assert_same_walk_but_for_the_last_step(actual, recorded_trace, seed)


def test_creates_rejected_by_a_quota_are_retried(seed: int) -> None:
    actual, recorded_trace = replayed(QUOTA, seed), upstream(QUOTA)
    assert_same(actual.lines(actual.of(GARBAGE)), recorded_trace.lines(recorded_trace.of(GARBAGE)))
    assert turning_points(status_sequence(actual, actual.of(REPLICA_SETS))) == turning_points(
        status_sequence(recorded_trace, recorded_trace.of(REPLICA_SETS))
    )
    # How often it is tried is a matter of chance, what is sent each time is not.
    refusals = [record for record in actual.of(REPLICA_SETS) if record.resource == "pods" and record.code == 403]
    assert len(refusals) > 3
    assert set(actual.lines(refusals)) <= set(recorded_trace.lines(recorded_trace.of(REPLICA_SETS)))
    events = [record for record in actual.of(REPLICA_SETS) if record.is_event]
    failures = [record for record in events if "Error creating" in record.body["message"]]
    assert len(failures) == len(refusals), "one event for each refusal"
    combined = [record for record in failures if record.body["message"].startswith("(combined from similar events): ")]
    assert failures.index(combined[0]) == 9 if combined else len(failures) < 10
    for record in combined:
        failures.remove(record)
    for record in refusals + failures + combined:
        actual.records.remove(record)
    others = [
        record
        for record in but_statuses(recorded_trace.of(REPLICA_SETS))
        if record.code != 403 and not (record.is_event and "Error creating" in record.body["message"])
    ]
    assert set(actual.lines(failures)) <= set(recorded_trace.lines(recorded_trace.of(REPLICA_SETS)))
    assert_same(actual.lines(but_statuses(actual.of(REPLICA_SETS))), recorded_trace.lines(others))


def test_foreground_deletion_of_an_owner_tree(seed: int) -> None:
    scenario = "05e-deployment-delete-foreground"
    actual, recorded_trace = replayed(scenario, seed), upstream(scenario)
    # The owner is deleted within milliseconds after its last pod. Its last status update is before or after that.
    sent = [record for record in but_statuses(actual.of(REPLICA_SETS)) if record.code != 404]
    assert_same(actual.lines(sent), recorded_trace.lines(but_statuses(recorded_trace.of(REPLICA_SETS))))
    assert_same_walk_but_for_the_last_step(actual, recorded_trace, seed)
    assert_same(actual.lines(accepted(actual.of(GARBAGE))), recorded_trace.lines(accepted(recorded_trace.of(GARBAGE))))
    assert read_by(actual, GARBAGE) == read_by(recorded_trace, GARBAGE)


def test_garbage_collection(seed: int) -> None:
    scenario = "12-garbage-collector"
    actual, recorded_trace = replayed(scenario, seed), upstream(scenario)
    assert_same(actual.lines(accepted(actual.of(GARBAGE))), recorded_trace.lines(accepted(recorded_trace.of(GARBAGE))))
    assert read_by(actual, GARBAGE) == read_by(recorded_trace, GARBAGE)


def read_by(trace: Trace, user: str) -> set[str]:
    """Reads of existing objects and of missing owners.

    Whether a deleted object is read once more is a race between workers.
    """
    deleted = {(record.namespace, record.name) for record in trace.of(user) if record.verb in ("delete", "patch")}
    reads = [record for record in trace.of(user) if record.is_read]
    return set(trace.lines(r for r in reads if r.code == 200 or (r.namespace, r.name) not in deleted))


def test_namespace_deletion(seed: int) -> None:
    scenario = "11-namespace-deletion"
    actual, recorded_trace = replayed(scenario, seed), upstream(scenario)
    # Upstream finalizes the namespace as it was before the last status update, gets a conflict, and reads it
    # again. We take what the status update answered.
    conflict = next(index for index, record in enumerate(recorded_trace.records) if record.code == 409)
    assert [(r.verb, r.code) for r in recorded_trace.records[conflict:]] == [
        ("update", 409),
        ("get", 200),
        ("update", 200),
    ]
    expected = [*recorded_trace.records[:conflict], recorded_trace.records[-1]]
    assert_same(actual.lines(actual.of(NAMESPACES)), recorded_trace.lines(expected))


def test_namespace_sync_delays() -> None:
    actual = replayed("11-namespace-deletion", 0)
    gets = [record.t for record in actual.of(NAMESPACES) if record.verb == "get"]
    assert gets == pytest.approx([10.579, 15.579, 20.579, 28.579, 36.579, 44.579, 52.579])
    recorded_trace = [record.t for record in upstream("11-namespace-deletion").records if record.verb == "get"]
    assert recorded_trace[:-1] == pytest.approx(gets, abs=1.0)


def test_quota_usage(seed: int) -> None:
    """The number of steps until all four pods are released depends on what is counted together, and on conflicts."""
    actual, recorded_trace = replayed(QUOTA, seed), upstream(QUOTA)
    written = [[record for record in trace.of(QUOTAS) if record.code == 200] for trace in (actual, recorded_trace)]
    lines = [trace.docs(records) for trace, records in zip((actual, recorded_trace), written, strict=True)]
    assert lines[0][:2] == lines[1][:2], "the first limits, the new ones"
    for step in lines[0]:
        assert set(step) == set(lines[1][0])
        assert set(step["body"]["status"]) == {"hard", "used"}
    falls = [[int(step["body"]["status"]["used"]["pods"]) for step in line[2:]] for line in lines]
    for item in falls:
        assert item == sorted(item, reverse=True)
        assert item[-1] == 0
    assert {lines[0][-1]["body"]["status"]["hard"]["pods"], lines[1][-1]["body"]["status"]["hard"]["pods"]} == {"10"}


def test_every_recorded_scenario_is_replayed() -> None:
    users = Counter(record.user for scenario in (*SCENARIOS, QUOTA) for record in recorded(scenario))
    assert set(users) == {REPLICA_SETS, GARBAGE, NAMESPACES, QUOTAS}
    assert all(re.match(r"\d\d", scenario) for scenario in SCENARIOS)
