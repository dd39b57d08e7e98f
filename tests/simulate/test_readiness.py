"""The time to ready of pods is one measure: budgets, the lines of the command, its JSON and reports have the same."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pilothouse.sim import Simulation
from pilothouse.simulate.outputs.text import run_lines
from pilothouse.simulate.recording import Recording, Workload
from pilothouse.simulate.report import html
from pilothouse.simulate.result import Result
from pilothouse.simulate.run import run
from pilothouse.simulate.scenario import load
from pilothouse.simulate.unavailable import UnavailablePods

_OUTAGE = """
apiVersion: simulate.pilothouse.io/v1alpha1
kind: Scenario
metadata: {{name: outage}}
spec:
  cluster:
    nodeGroups: [{{name: a, count: 1, zone: a}}, {{name: b, count: 1, zone: b}}]
    pods: [{{start: {{median: 8s}}}}]
  objects:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {{name: web}}
    spec:
      replicas: 2
      selector: {{matchLabels: {{app: web}}}}
      template:
        metadata: {{labels: {{app: web}}}}
        spec:
          tolerations:
          - {{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 60}}
          containers: [{{name: web, image: "web:1"}}]
  ready: 1m
  timeline:
  - {{name: outage, at: {silent}, nodes: {{zone: a, silence: true, for: 5m}}}}
  - {{name: grow, at: {grows}, scale: {{deployment: web, replicas: 6}}}}
  until: {{quiet: 2m, time: 1h}}
  expect: {{budgets: [{{timeToReady: {{max: 1m}}}}]}}
"""


def _outage(folder: Path, *, silent: str, grows: str) -> tuple[Result, Recording, Workload]:
    path = folder / "outage.yaml"
    path.write_text(_OUTAGE.format(silent=silent, grows=grows), encoding="utf-8")
    result = run(load(str(path)), 0, record=True)
    assert result.recording is not None
    return result, result.recording, next(workload for workload in result.recording.workloads if workload.name == "web")


@pytest.mark.parametrize(
    ("silent", "grows"),
    [
        pytest.param("1m2s", "1m", id="pods starting when their node became silent"),
        pytest.param("1m", "1m5s", id="pods bound to a silent node"),
    ],
)
def test_every_pod_counts_once_and_everywhere_alike(tmp_path: Path, silent: str, grows: str) -> None:
    outcome, recording, web = _outage(tmp_path, silent=silent, grows=grows)
    never_ready_pods = web.never_ready
    assert never_ready_pods >= 2
    # Marked for deletion a minute after the taint; the kubelet's report of its ready containers comes later.
    assert 90 < web.time_to_ready.most < 180
    assert web.time_to_ready.count == web.pods_created == 6 + web.pods_deleted
    assert web.time_to_ready == recording.time_to_ready
    for share, seconds in zip(
        ("p50", "p95", "p99", "max"),
        (web.time_to_ready.p50, web.time_to_ready.p95, web.time_to_ready.p99, web.time_to_ready.most),
        strict=True,
    ):
        assert outcome.measures[f"timeToReady.{share}"] == seconds
    (budget,) = outcome.budgets
    assert (budget.held, budget.measured) == (False, web.time_to_ready.most)


def test_the_pods_of_an_exceeded_budget_are_named(tmp_path: Path) -> None:
    outcome, recording, _web = _outage(tmp_path, silent="1m2s", grows="1m")
    (budget,) = outcome.budgets
    assert [(pod.node, pod.outcome) for pod in budget.pods] == [("a-0", "marked for deletion")] * 2
    first = budget.pods[0]
    assert first.waited_for.endswith("for its containers to start (ContainerCreating; the node was not ready)")
    assert outcome.failure is not None
    assert outcome.failure.message.splitlines()[1:] == [f"  {pod}" for pod in budget.pods]
    assert str(first).startswith(f"{first.pod} on a-0: not ready until it was marked for deletion, after 1m5")
    assert first.pod in " ".join(run_lines(outcome))  # also those that are not slow enough to be named
    assert f">{first.pod}<" in html(recording, budgets=outcome.budgets)


def test_a_pending_pod_has_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    text = _OUTAGE.format(silent="1m2s", grows="1m").replace(
        'image: "web:1"', "image: w, resources: {requests: {cpu: 99}}"
    )
    path.write_text(text, encoding="utf-8")
    (budget,) = run(load(str(path)), 0).budgets
    last = budget.pods[0]
    assert (last.node, last.outcome) == ("", "the end")
    assert "for a node (0/2 nodes are available: " in last.waited_for


def test_the_log_of_a_failure_has_no_heartbeats(tmp_path: Path) -> None:
    outcome, _recording, _web = _outage(tmp_path, silent="1m2s", grows="1m")
    nodes = [line for line in outcome.log.splitlines() if "/nodes/" in line]
    assert len([line for line in nodes if "/nodes/b-0" in line]) <= 1  # the first one reports a new image
    assert [line for line in nodes if "patch nodes/status a-0" in line]  # its return is no heartbeat


def test_pods_that_are_deleted_count_once(tmp_path: Path) -> None:
    _outcome, _recording, web = _outage(tmp_path, silent="1m", grows="1m5s")
    assert web.pods_deleted == web.evictions == 3
    assert web.deleted_by == {"node-controller": 3}


_ZONES = """
apiVersion: simulate.pilothouse.io/v1alpha1
kind: Scenario
metadata: {name: zones}
spec:
  cluster: {nodeGroups: [{name: a, count: 1, zone: a}, {name: b, count: 1, zone: b}]}
  objects:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 8
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: "web:1"}]}
  ready: 1m
  timeline:
  - {name: crash, at: 1m, crash: {selector: app=web, count: 2}}
  - {name: outage, at: 5m, nodes: {zone: a, silence: true, for: 5m}}
  until: {time: 15m}
  expect: {budgets: [{workload: deployment/web, maxUnavailable: 1}]}
"""


def test_the_pods_that_exceed_a_budget_of_unavailable_pods(tmp_path: Path) -> None:
    path = tmp_path / "zones.yaml"
    path.write_text(_ZONES, encoding="utf-8")
    outcome = run(load(str(path)), 0)
    (budget,) = outcome.budgets
    first, most = budget.moments
    assert (first.at, first.unavailable, first.more) == (budget.at, 2, 0)
    assert {pod.reason for pod in first.pods} == {"its container web has ended: Error, exit code 1"}
    assert (most.unavailable, most.more) == (budget.measured, 0)
    assert [(pod.node, pod.zone) for pod in most.pods] == [("a-0", "a")] * 4
    assert most.pods[0].reason == "its node is not ready; the pod was marked so at 5m50s by node-controller"
    assert outcome.failure is not None
    assert "\n  2 unavailable at 1m; pods that were not ready:\n    default/web-" in outcome.failure.message
    assert outcome.failure.why.startswith("why it was written:")


def test_many_pods_exceed_a_budget_of_unavailable_pods(tmp_path: Path) -> None:
    """Their node is deleted, then they are; their replacements wait for the other node."""
    path = tmp_path / "zones.yaml"
    text = _ZONES.replace("replicas: 8", "replicas: 16").replace("silence: true", "vanish: true")
    path.write_text(text.replace("count: 2}}", "count: 1}}"), encoding="utf-8")
    outcome = run(load(str(path)), 0)
    (moment,) = outcome.budgets[0].moments
    assert len(moment.pods) == 5
    assert moment.unavailable == 8
    assert outcome.failure is not None
    assert outcome.failure.message.endswith(f"\n    and {moment.more} more")
    assert moment.more >= 3
    assert moment.pods[0].reason == "marked for deletion at 6m by pod-garbage-collector"
    replacement = moment.pods[1]
    assert replacement.reason == "its containers have not started (created at 6m by replicaset-controller)"
    assert str(replacement).startswith(f"{replacement.pod} on b-0 (zone b): its containers")


@pytest.mark.parametrize(
    ("duration", "reason"),
    [
        pytest.param("9m", "marked for deletion at 6m0.1s by node-controller", id="marked for deletion"),
        pytest.param("2m", "it was deleted at 6m0.1s by node-controller, and has no replacement yet", id="removed"),
    ],
)
def test_who_deleted_unavailable_pods_and_when(duration: str, reason: str, tmp_path: Path) -> None:
    """Not what had made them not ready before."""
    path = tmp_path / "zones.yaml"
    toleration = "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 10}"
    text = _ZONES.replace("spec: {containers:", f"spec: {{tolerations: [{toleration}], containers:")
    quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: '0'}}}"
    more = f"  - {{at: 4m, apply: [{quota}]}}\n  - {{name: all, at: 8m, crash: {{selector: app=web, count: 12}}}}\n"
    text = text.replace("  until:", f"{more}  until:").replace("for: 5m", f"for: {duration}")
    path.write_text(text, encoding="utf-8")
    (budget,) = run(load(str(path)), 0).budgets
    most = budget.moments[-1]
    assert (most.at, most.unavailable) == (480.0, 8)
    assert reason in {pod.reason for pod in most.pods}
    assert "5m50s" not in str(most)


def test_an_unavailable_pod_that_was_never_ready_was_not_marked_as_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "zones.yaml"
    scale = "  - {at: 5m10s, scale: {deployment: web, replicas: 10}}\n  until:"
    path.write_text(_ZONES.replace("  until:", scale), encoding="utf-8")
    (budget,) = run(load(str(path)), 0).budgets
    assert budget.moments[-1].at == 350.0
    assert budget.moments[-1].pods[4].reason == "its node is not ready (created at 5m10s by replicaset-controller)"


def test_a_deleted_pod_with_a_replacement_is_not_missing() -> None:
    store, env = SimpleNamespace(get=lambda _key: None), SimpleNamespace(monotonic=lambda: 3.0)
    simulation = cast("Simulation", SimpleNamespace(store=store, env=env))
    pods = UnavailablePods()
    pods.not_ready("/pods/default/old", 1.0, None, was_ready=True, is_deleted=True)
    pods.removed("/pods/default/old", b'{"spec": {"nodeName": "a-0"}}')
    pods.not_ready("/pods/default/new", 2.0, None, was_ready=False, is_deleted=False)
    assert [pod.pod for pod in pods.moment(simulation, 0.0, 1).pods] == ["default/new"]
    assert [pod.pod for pod in pods.moment(simulation, 0.0, 2).pods] == ["default/new", "default/old"]
