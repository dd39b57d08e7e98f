"""A scenario whose cluster is a snapshot: initial objects are counted like others."""

from pathlib import Path

from tests.simulate.test_drain_preview import budget, deployment, snapshot

from pilothouse.simulate.run import run
from pilothouse.simulate.scenario import load

SCENARIO = """
apiVersion: simulate.pilothouse.io/v1alpha1
kind: Scenario
metadata: {name: copy}
spec:
  cluster:
    snapshot: cluster
    pods: [{selector: app=web, start: {median: 10s}}]
  timeline:
  - {name: replacement, at: 1m, drain: {name: node-0}}
  until: {quiet: 5m, time: 1h}
  expect:
    budgets:
    - {workload: deployment/web, maxUnavailable: 1}
    - {workload: deployment/web, timeToReady: {max: 20s}}
"""


def test_the_workloads_of_a_snapshot_are_counted(tmp_path: Path) -> None:
    snapshot(tmp_path / "cluster", [deployment("web", 6, cpu="1"), budget("web", maxUnavailable=1)])
    (tmp_path / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    result = run(load(str(tmp_path / "s.yaml")), 0, record=True)
    assert result.failure is None
    assert result.recording is not None
    web = next(workload for workload in result.recording.workloads if workload.name == "web")
    unavailable, time = result.budgets
    assert (unavailable.measured, unavailable.limit, web.most_unavailable) == (1, 1, 1)
    # Only new pods have a time: those of the snapshot were ready before.
    assert 5 < time.measured <= 20
    assert 0 < web.pods_created < 6
