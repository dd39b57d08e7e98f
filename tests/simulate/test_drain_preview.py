"""A snapshot in virtual time: without changes it is stable; the results of a drain."""

import asyncio
import io
import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.cli import main
from pilothouse.cli.drain_preview import described
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, virtual
from pilothouse.sim import SimulationOptions, running
from pilothouse.sim.run_log import CURRENT
from pilothouse.simulate import progress
from pilothouse.simulate.cluster import restored_manager, restored_options
from pilothouse.simulate.drain_preview import DrainOptions, NodeResult, UnknownNodes, preview
from pilothouse.simulate.scheduled_work import ScheduledWork
from pilothouse.snapshots import Restored, SaveOptions, restored, save
from pilothouse.snapshots.anonymizing import Anonymizer
from pilothouse.storage import Change
from pilothouse.testing import async_plane

Object = dict[str, Any]


def deployment(name: str, replicas: int, cpu: str = "1", **spec: Any) -> Object:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


def budget(name: str, **spec: Any) -> Object:
    meta = {"name": name}
    body = {"selector": {"matchLabels": {"app": name}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": body}


def pod(name: str, node: str) -> Object:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def stateful(name: str, replicas: int) -> Object:
    result = deployment(name, replicas)
    return {**result, "kind": "StatefulSet", "spec": {**result["spec"], "serviceName": name}}


SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}


SNAPSHOT_SEED = 1
"""Not that of the previews: objects that they create would get the uids of objects in the snapshot."""


def snapshot(path: Path, objects: Sequence[Object], *, nodes: int = 3, anonymize: Anonymizer | None = None) -> Path:
    """The snapshot of a cluster with these objects, at rest."""

    async def work(env: Env) -> None:
        async with async_plane(env=env, nodes=nodes) as cluster:
            for obj in objects:
                await cluster.create(obj)
            await asyncio.sleep(120)
            await save(cluster.client, env, path, SaveOptions(anonymize=anonymize))

    virtual.run(work, seed=SNAPSHOT_SEED)
    return path


def writes_of(run_result: Restored, seconds: float) -> list[str]:
    """The writes in a restored cluster, without Leases, node statuses and events."""
    written: list[str] = []

    def note(changes: list[Change]) -> None:
        for change in changes:
            if not change.key.startswith(("coordination.k8s.io/leases/kube-node-lease/", "/events/", "/nodes/")):
                written.append(f"{change.type} {change.key} by {CURRENT.get()}")

    async def work(env: Env) -> None:
        manager = restored_manager(run_result, Options(leader_election=LeaderElection(enabled=False)))
        options = SimulationOptions(nodes=0, manager=manager, **restored_options(run_result))
        async with running(env, options) as simulation:
            simulation.store.on_commit.append(note)
            await asyncio.sleep(seconds)

    assert run_result.time is not None
    virtual.run(work, start=run_result.time)
    return written


MANY = (
    deployment("web", 3),
    SERVICE,
    budget("web", maxUnavailable=1),
    stateful("db", 2),
    {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "logs"},
        "spec": {key: value for key, value in deployment("logs", 1)["spec"].items() if key != "replicas"},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "often"},
        "spec": {
            "schedule": "0 3 * * *",
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "acme-secret", "image": "acme/job"}]}
                    }
                }
            },
        },
    },
)


@pytest.mark.parametrize("anonymize", [False, True], ids=["with names", "anonymous"])
def test_a_restored_cluster_writes_nothing(tmp_path: Path, anonymize: bool) -> None:
    path = snapshot(tmp_path / "s", MANY, anonymize=Anonymizer() if anonymize else None)
    result = restored(path)
    assert len([record for record in result.records if record.key.startswith("/pods/")]) == 8
    assert writes_of(result, 600.0) == []


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three nodes with web (a budget for one less), db, and one that may not be disrupted."""
    path = tmp_path_factory.mktemp("snapshots") / "small"
    return snapshot(path, [*MANY, deployment("strict", 1), budget("strict", maxUnavailable=0)])


def test_a_drain_is_previewed(small: Path) -> None:
    report = restored(small)
    strict = next(
        json.loads(record.value)["spec"]["nodeName"]
        for record in report.records
        if record.key.startswith("/pods/default/strict-")
    )
    result = preview(report, DrainOptions(names=("node-0", "node-1", "node-2"), timeout=300.0, parallel=True))
    nodes = {node.name: node for node in result.nodes}
    assert not nodes[strict].drained
    assert "needs 1 healthy pods and has 1 currently" in nodes[strict].reason
    assert nodes[strict].seconds == 300.0
    assert not result.succeeded
    assert {(pod.namespace, pod.name) for pod in result.pending} >= {("default", "db-0")}
    assert "3 node(s) were unschedulable" in result.pending[0].reason
    others = {
        (workload.kind, workload.name): (workload.ready, workload.least, workload.end) for workload in result.workloads
    }
    assert others["StatefulSet", "db"] == (2, 0, 0)
    assert others["Deployment", "web"][1:] == (2, 2), "its budget holds"
    assert ("DaemonSet", "logs") not in others
    assert max(workload.seconds for workload in result.workloads) <= result.seconds, "until the last write"
    lines = list(described(result))
    (line,) = [line for line in lines if line.startswith("  statefulset/default/db ")]
    assert line.endswith(", and at the end")


def test_a_drain_that_succeeds(small: Path) -> None:
    report = restored(small)
    free = next(
        name
        for name in ("node-0", "node-1", "node-2")
        if not any(
            record.key.startswith("/pods/default/strict-") and json.loads(record.value)["spec"]["nodeName"] == name
            for record in report.records
        )
    )
    result = preview(report, DrainOptions(selector=f"kubernetes.io/hostname={free}"))
    assert result.succeeded
    assert [node.name for node in result.nodes] == [free]
    assert result.pending == ()
    assert result.at_rest
    assert all(workload.end == workload.ready for workload in result.workloads)
    assert "and at the end" not in "\n".join(described(result))
    assert preview(report, DrainOptions(names=(free,))) == result, "the same seed is the same run"


@cases(
    "options, error",
    {
        "unknown node": (
            DrainOptions(names=("node-9",)),
            "there is no node 'node-9' in the snapshot; there are node-0,",
        ),
        "selector without matches": (DrainOptions(selector="zone=a"), "no node of the snapshot matches 'zone=a'"),
    },
)
def test_unknown_nodes(small: Path, options: DrainOptions, error: str) -> None:
    with pytest.raises(UnknownNodes, match=error):
        preview(restored(small), options)


def test_autoscalers_do_not_scale(tmp_path: Path) -> None:
    """The usage of a real cluster is not in its snapshot, and simulated pods use little."""
    target = {"type": "Utilization", "averageUtilization": 50}
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
    objects = [deployment("web", 4), autoscaler, deployment("strict", 1), budget("strict", maxUnavailable=0)]
    report = restored(snapshot(tmp_path / "scaled", objects))
    (strict,) = [
        json.loads(record.value)["spec"]["nodeName"]
        for record in report.records
        if record.key.startswith("/pods/default/strict-")
    ]
    result = preview(report, DrainOptions(names=(strict,), timeout=900.0))
    assert [node.seconds for node in result.nodes] == [900.0]
    assert [workload.end for workload in result.workloads if workload.name == "web"] in ([], [4])


def test_a_bare_pod_stops_a_drain(tmp_path: Path) -> None:
    result = restored(snapshot(tmp_path / "s", [pod("alone", "node-0")], nodes=2))
    (node,) = preview(result, DrainOptions(names=("node-0",))).nodes
    assert node == NodeResult(
        name="node-0",
        pods=1,
        drained=False,
        seconds=0.0,
        reason="unable to drain node node-0: default/alone has no controller and would be lost (--force)",
    )
    assert preview(result, DrainOptions(names=("node-0",), force=True)).succeeded


def test_a_pod_that_was_pending_before_does_not_fail_a_drain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = deployment("big", 1)
    big["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500"}}
    path = snapshot(tmp_path / "s", [big], nodes=2)
    assert main(["snapshot", "drain", str(path), "node-0"]) == 0
    text = capsys.readouterr().out
    assert "1 pod pending as before the drain:\n  default/big-" in text
    assert "found no place" not in text


def job_spec(run_time: str, cpu: str = "100m", node: str = "", **spec: Any) -> Object:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    template = {
        "metadata": {"annotations": {"simulated.pilothouse.dev/run-time": run_time}},
        "spec": {"restartPolicy": "Never", "containers": [container], **selector},
    }
    return {**spec, "template": template}


def cron_job(name: str, cpu: str = "100m") -> Object:
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": job_spec("10s", cpu)}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": body}


def job(name: str, run_time: str) -> Object:
    """A Job of many pods on node-1."""
    spec = job_spec(run_time, node="node-1", completions=1000, parallelism=2)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes with web, a CronJob that runs each minute, one whose pods fit nowhere, and on node-1 the Jobs long, and
    short with pods that complete during a drain."""
    path = tmp_path_factory.mktemp("snapshots") / "busy"
    jobs = [cron_job("tick"), cron_job("big", cpu="500"), job("short", "17s"), job("long", "100h")]
    return snapshot(path, [deployment("web", 4), *jobs], nodes=2)


def test_a_drain_does_not_wait_for_what_cron_jobs_and_jobs_write(busy: Path) -> None:
    result = preview(restored(busy), DrainOptions(names=("node-0",)))
    assert result.busy == ()
    assert result.at_rest
    assert result.seconds < 30
    assert result.writes < 300


def test_completed_pods_of_jobs_are_not_missing(busy: Path) -> None:
    workloads = preview(restored(busy), DrainOptions(names=("node-0",))).workloads
    assert [(workload.kind, workload.name) for workload in workloads] == [("Deployment", "web")]


def test_evicted_pods_of_jobs_are_missing(busy: Path) -> None:
    result = preview(restored(busy), DrainOptions(names=("node-1",)))
    assert not result.succeeded
    workloads = {workload.name: (workload.ready, workload.end) for workload in result.workloads}
    assert workloads["long"] == (2, 0)
    assert {pod.name.partition("-")[0] for pod in result.pending if not pod.before} == {"long", "short"}


def test_new_pods_of_a_cron_job_whose_pods_fit_nowhere_are_pending_as_before(busy: Path) -> None:
    result = preview(restored(busy), DrainOptions(names=("node-0",)))
    assert result.succeeded
    pending = [(pod.name.rpartition("-")[0], pod.before) for pod in result.pending]
    stored = [record.key for record in restored(busy).records if record.key.startswith("/pods/default/big-")]
    assert len(pending) > len(stored), "some were created during the drain"
    assert all(name.startswith("big-") and before for name, before in pending)


def test_a_cluster_that_is_never_quiet_is_drained_all_the_same(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    always = property(lambda self: self._simulation.env.monotonic(), lambda *_: None)
    monkeypatch.setattr(ScheduledWork, "last_other_write", always, raising=False)
    monkeypatch.setattr(ScheduledWork, "recent", lambda self: [("/pods/default/a by nodes", 7)])
    main(["snapshot", "drain", str(small), "node-0", "--timeout", "1m"])
    text = capsys.readouterr().out
    assert text.startswith(
        "the cluster was not quiet within 10m, so the drain began while it wrote: /pods/default/a by nodes (7 times)\n"
    )
    assert "NOT at rest 10m after the drain" in text


def test_progress_is_printed_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_FIRST_SECONDS", 0.01)
    stream, printed = io.StringIO(), threading.Event()
    monkeypatch.setattr(stream, "flush", printed.set)
    with progress.phases(stream) as report:
        report("draining 2 nodes", lambda: 3600.0)
        assert printed.wait(10)
    assert re.fullmatch(r"draining 2 nodes: 1h of virtual time in .* real time\)\n", stream.getvalue())


def test_no_progress_of_what_is_quick() -> None:
    stream = io.StringIO()
    with progress.phases(stream) as report:
        report("draining 2 nodes", lambda: 3600.0)
    assert stream.getvalue() == ""


def test_the_command(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["snapshot", "drain", str(small)]
    assert main([*words, "node-0", "node-1", "node-2", "--timeout", "1m"]) == 1
    text = capsys.readouterr().out
    assert "node node-0: NOT drained after 1m: " in text or "node node-0: drained in " in text
    assert "  statefulset/default/db  " in text
    assert "pods found no place:" in text
    assert main([*words, "-l", "kubernetes.io/os=linux", "--timeout", "1m", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["succeeded"] is False
    assert [node["name"] for node in document["nodes"]] == ["node-0", "node-1", "node-2"]


@cases(
    "words, code, error",
    {
        "missing node": (["FILE"], 2, "drain needs the names of nodes, or --selector"),
        "missing file argument": ([], 2, 'expected "pilothouse snapshot drain FILE NODE..." or '),
        "missing file": (["/nowhere", "a"], 1, "/nowhere: No such file or directory"),
        "unknown": (["FILE", "a"], 1, "there is no node 'a' in the snapshot"),
        "selector": (["FILE", "-l", "a in"], 2, "--selector: "),
        "output": (["FILE", "node-0", "-o", "yaml"], 2, '-o is text or json, got "yaml"'),
        "flag of another action": (["FILE", "node-0", "--anonymize"], 2, "--anonymize is not for drain"),
    },
)
def test_command_lines_that_are_rejected(
    small: Path, words: list[str], code: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["snapshot", "drain", *(str(small) if word == "FILE" else word for word in words)]) == code
    assert error in capsys.readouterr().err
