"""Jobs, replayed: the writes, events and counting steps are those of kube-controller-manager v1.36.2.

The number of statuses between two steps depends on when a pod is observed ready; the steps do not. The recorded
containers end with their ``sleep``; here an annotation of the template has the duration, and is removed before
comparing.
"""

import asyncio
import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import KubectlUser, Steps, replay
from tests.traces.records import Record, recorded

USER = "job-controller"
OTHERS = ("ttl-after-finished-controller", "generic-garbage-collector")
"""Controllers that complete the deletions of the Job controller."""
ANNOTATIONS = ("simulated.pilothouse.dev/run-time", "simulated.pilothouse.dev/exit-code")
MILLISECONDS = (0.001, 0.004)


def manifest(name: str, command: str, *, run_time: str, exit_code: str = "0", **spec: Any) -> str:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", command]}
    template = {
        "metadata": {"annotations": dict(zip(ANNOTATIONS, (run_time, exit_code), strict=True))},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    whole = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": template},
    }
    return str(whole)


async def success(user: KubectlUser) -> None:
    await user.create(manifest("work", "sleep 1", run_time="1s", parallelism=2, completions=4))
    await user.at(7.0)


async def failure(user: KubectlUser) -> None:
    await user.create(manifest("fail", "sleep 1; exit 3", run_time="1s", exit_code="3", backoffLimit=2))
    await user.at(45.0)


async def indexed(user: KubectlUser) -> None:
    more: dict[str, Any] = {"parallelism": 2, "completions": 3, "completionMode": "Indexed"}
    await user.create(manifest("idx", "sleep 1", run_time="1s", **more))
    await user.at(7.0)


async def suspend(user: KubectlUser) -> None:
    await user.create(manifest("work", "sleep 60", run_time="60s", parallelism=2, completions=2, suspend=True))
    for t, value in ((2.3, False), (5.4, True)):
        await user.at(t)
        await user.patch("Job", "work", {"spec": {"suspend": value}}, "merge")
    await user.at(9.0)
    await asyncio.sleep(0)


async def time_to_live(user: KubectlUser) -> None:
    await user.create(manifest("ttl", "sleep 1", run_time="1s", ttlSecondsAfterFinished=2))
    await user.at(10.0)


async def delete_running(user: KubectlUser) -> None:
    await user.create(manifest("work", "sleep 300", run_time="300s", parallelism=2))
    await user.at(3.431)
    await user.delete("Job", "work")
    await user.at(10.0)


STEPS: dict[str, Steps] = {
    "06a-job-success": success,
    "06b-job-backofflimit": failure,
    "06c-job-indexed": indexed,
    "06d-job-ttl": time_to_live,
    "06e-job-suspend-resume": suspend,
    "06f-job-delete-running": delete_running,
}


def plain(record: Record) -> Record:
    """Without substitutes of the recorded containers: their commands and run times."""
    if record.resource != "pods" or record.verb != "create":
        return record
    body = copy.deepcopy(record.body)
    annotations = body["metadata"].get("annotations", {})
    for name in ANNOTATIONS:
        annotations.pop(name, None)
    if not annotations:
        body["metadata"].pop("annotations", None)
    for name in ("controller-uid", "batch.kubernetes.io/controller-uid"):
        assert body["metadata"]["labels"].pop(name) == body["metadata"]["ownerReferences"][0]["uid"]
    for container in body["spec"]["containers"]:
        container.pop("command", None)
        for variable in container.get("env", []):
            variable["valueFrom"]["fieldRef"].pop("apiVersion", None)  # the server fills it in
    return replace(record, body=body)


def step(record: Record) -> tuple[object, ...]:
    status = record.status
    uncounted = status.get("uncountedTerminatedPods") or {}
    return (
        [(c["type"], c["status"], c["reason"], c["message"]) for c in status.get("conditions") or []],
        status.get("succeeded", 0),
        status.get("failed", 0),
        {name: len(uids) for name, uids in uncounted.items()},
        status.get("completedIndexes"),
        "startTime" in status,
        "completionTime" in status,
    )


def steps(trace: Trace) -> list[tuple[object, ...]]:
    result: list[tuple[object, ...]] = []
    for record in trace.of(USER):
        if record.is_status and record.code < 400 and (not result or result[-1] != step(record)):
            result.append(step(record))
    return result


def writes_of(trace: Trace) -> Iterator[Record]:
    """All except statuses. The patch that removes a finalizer may be repeated when the Job has just finished and the
    cache still has the finalizer (as upstream's in 06f)."""
    patched: set[str] = set()
    for record in trace.of(USER):
        if record.is_status or record.is_read:
            continue
        if record.verb == "patch" and record.resource == "pods":
            if record.name in patched:
                continue
            patched.add(record.name)
        yield record


@pytest.mark.parametrize("latency", [None, MILLISECONDS], ids=["no latency", "with latency"])
@pytest.mark.parametrize("scenario", STEPS)
def test_job_is_as_recorded(scenario: str, latency: tuple[float, float] | None) -> None:
    played = replay(scenario, STEPS[scenario], latency=latency, seed=1).records
    actual, expected = Trace(map(plain, played)), Trace(map(plain, recorded(scenario)))
    writes = [list(writes_of(trace)) for trace in (actual, expected)]
    assert_same(actual.lines(writes[0]), expected.lines(writes[1]))
    assert steps(actual) == steps(expected)
    assert [record for record in actual.of(USER) if record.is_read] == []


@pytest.mark.parametrize("latency", [None, MILLISECONDS], ids=["no latency", "with latency"])
@pytest.mark.parametrize("scenario", ["06d-job-ttl", "06f-job-delete-running"])
def test_job_deletion_is_as_recorded(scenario: str, latency: tuple[float, float] | None) -> None:
    """The number of the garbage collector's first reads, and which dependents it reads, varies, also upstream.
    Dependents found by a read are deleted without resourceVersion precondition."""
    played = replay(scenario, STEPS[scenario], latency=latency, seed=1).records
    for user in OTHERS:
        actual, expected = (
            [
                line.replace('"resourceVersion": "RV", ', "") if record.verb == "delete" else line
                for record, line in zip(trace.of(user), trace.lines(trace.of(user)), strict=True)
                if record.code < 400 and record.namespace == scenario
                if not (record.is_read and user == "generic-garbage-collector")
            ]
            for trace in (Trace(map(plain, played)), Trace(map(plain, recorded(scenario))))
        )
        assert_same(actual, expected)
    assert scenario == "06f-job-delete-running" or order(played) == order(recorded(scenario))


def order(records: Iterable[Record]) -> list[tuple[str, str]]:
    """The steps from the end of its time on: look, delete, the pods, the Job itself."""
    return [(record.verb, record.resource) for record in records if record.user == OTHERS[0]] + [
        (record.verb, record.resource) for record in records if record.user == OTHERS[1] and not record.is_read
    ]
