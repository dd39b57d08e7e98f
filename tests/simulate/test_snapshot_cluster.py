"""A scenario whose cluster is a snapshot: initial objects are counted like others."""

import json
from pathlib import Path

from tests.simulate.test_drain_preview import budget, deployment, pod, snapshot

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


def test_a_pod_keeps_what_admission_has_added_to_its_lists(tmp_path: Path) -> None:
    """The pods of a snapshot have the token of their service account among their volumes, which manifests have not."""
    manifest = pod("test", "node-0")
    admitted = pod("test", "node-0")
    mount = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    admitted["spec"] |= {
        "containers": [{"name": "c", "image": "i", "volumeMounts": [mount]}],
        "volumes": [{"name": "kube-api-access-x", "emptyDir": {}}],
    }
    snapshot(tmp_path / "cluster", [admitted])
    manifest["spec"]["containers"] = [{"name": "c", "image": "i:2"}]
    scenario = {
        "apiVersion": "simulate.pilothouse.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "copy"},
        "spec": {
            "cluster": {"snapshot": "cluster"},
            "timeline": [{"at": "1m", "apply": manifest}],
            "until": {"time": "2m"},
            "expect": {
                "atEnd": [
                    {
                        "name": "the image is new, and the mount is there",
                        "cel": "objects.pods['default/test'].spec.containers.map(c, [c.image, c.volumeMounts[0].name]) "
                        "== [['i:2', 'kube-api-access-x']]",
                    }
                ]
            },
        },
    }
    (tmp_path / "s.json").write_text(json.dumps(scenario), encoding="utf-8")
    result = run(load(str(tmp_path / "s.json")), 0)
    assert result.failure is None
