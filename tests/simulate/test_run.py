"""Runs of scenarios: equal seeds give equal runs, and violated expectations are reported."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.tables import cases

from pilothouse.simulate.jobs import Job
from pilothouse.simulate.outputs.replay import Replay
from pilothouse.simulate.outputs.text import failure_lines, run_lines, search_lines
from pilothouse.simulate.result import Result
from pilothouse.simulate.run import check_parts, run, validate
from pilothouse.simulate.scenario import ScenarioError, load
from pilothouse.simulate.search import ShrunkFailure

HEAD = "apiVersion: simulate.pilothouse.io/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n"
WEB = """
  objects:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: "web:1"}]}
  ready: 30s
  until: {time: 5m}
"""
_TWO_ENTRIES = "  timeline: [{at: 1m, crash: {selector: app=web}}, {at: 2m, crash: {selector: app=web}}]\n"
_DIGEST = """
import sys
sys.path[:] = eval(sys.argv[1])
from pilothouse.simulate.run import run
from pilothouse.simulate.scenario import load
print(run(load(sys.argv[2]), 3).digest)
"""


def result(folder: Path, spec: str, seed: int = 0, only: frozenset[int] | None = None) -> Result:
    path = folder / "s.yaml"
    path.write_text(HEAD + spec, encoding="utf-8")
    return run(load(str(path)), seed, only=only)


def failure(folder: Path, spec: str, seed: int = 0) -> str:
    failed = result(folder, spec, seed).failure
    return "" if failed is None else f"{failed.kind} {failed.name}: {failed.message}"


@cases(
    "spec, expected",
    {
        "no expectations": ("", ""),
        "always, holds": (
            "  expect:\n    always: [{cel: \"objects.deployments['default/web'].spec.replicas == 3\"}]\n",
            "",
        ),
        "always, violated": (
            "  timeline: [{at: 1m, scale: {deployment: web, replicas: 2}}]\n"
            "  expect:\n    always: [{name: three, cel: \"objects.deployments['default/web'].spec.replicas == 3\"}]\n",
            "always three: it does not hold\n  objects.deployments['default/web'].spec.replicas == 3\n"
            "  objects.deployments['default/web'].spec.replicas is 2",
        ),
        "always, error": (
            "  expect:\n    always: [{cel: \"objects.deployments['default/wep'].spec.replicas == 3\"}]\n",
            "always always[0]: it was never true or false: no such key: default/wep\n",
        ),
        "always, in another namespace": (
            "  expect:\n    always: [{cel: \"objects.deployments['shop/web'].spec.replicas == 3\"}]\n",
            "always always[0]: it was never true or false: no such key: shop/web; there is one in default: "
            "deployments['default/web']\n",
        ),
        "eventually, in another namespace": (
            "  expect:\n    eventually: [{cel: \"objects.deployments['shop/web'].spec.replicas == 3\", within: 1m}]\n",
            "within 1m after the start (0s): no such key: shop/web; there is one in default: "
            "deployments['default/web']\n",
        ),
        "at the end, in another namespace": (
            "  expect:\n    atEnd: [{cel: \"objects.deployments['shop/web'].spec.replicas == 3\"}]\n",
            "it does not hold at the end: no such key: shop/web; there is one in default: deployments['default/web']\n",
        ),
        "forEach violated": (
            "  timeline: [{at: 1m, crash: {selector: app=web, count: 1}}]\n"
            "  expect:\n    always: [{forEach: pods, cel: 'object.status.?containerStatuses.orValue([])"
            ".all(c, c.restartCount == 0)'}]\n",
            "always always[0]: it does not hold for pods default/web-",
        ),
        "all objects violated": (
            "  timeline: [{at: 1m, scale: {deployment: web, replicas: 5}}]\n"
            "  expect:\n    always: [{cel: objects.pods.size() <= 4}]\n",
            "always always[0]: it does not hold",
        ),
        "eventually": (
            "  timeline: [{name: growth, at: 1m, scale: {deployment: web, replicas: 5}}]\n  expect:\n    eventually:\n"
            "    - {cel: \"objects.deployments['default/web'].status.readyReplicas == 5\",\n"
            "       within: 1m, after: growth}\n",
            "",
        ),
        "eventually, not in time": (
            "  timeline: [{name: growth, at: 1m, scale: {deployment: web, replicas: 5}}]\n  expect:\n    eventually:\n"
            "    - {cel: \"objects.deployments['default/web'].status.readyReplicas == 5\",\n"
            "       within: 1s, after: growth}\n",
            "eventually eventually[0]: it did not hold in time: within 1s after growth (1m)",
        ),
        "at the end": (
            "  expect:\n    atEnd: [{forEach: nodes, cel: 'has(object.spec.unschedulable)'}]\n",
            "atEnd atEnd[0]: it does not hold at the end: nodes node-0: it is false",
        ),
        "a condition": (
            "  timeline:\n"
            "  - {at: 1m, scale: {deployment: web, replicas: 5}}\n"
            "  - {when: \"objects.deployments['default/web'].status.readyReplicas == 5\", "
            "scale: {deployment: web, replicas: 1}}\n"
            "  expect:\n    atEnd: [{cel: \"objects.deployments['default/web'].status.readyReplicas == 1\"}]\n",
            "",
        ),
        "every": (
            "  timeline: [{every: 1m, until: 3m, restart: {deployment: web}}]\n"
            "  expect:\n    atEnd: [{cel: 'objects.replicasets.size() == 4'}]\n",
            "",
        ),
        "a budget of unavailable pods": (
            "  timeline: [{at: 1m, crash: {selector: app=web}}]\n"
            "  expect: {budgets: [{workload: deployment/web, maxUnavailable: 1}]}\n",
            "budget maxUnavailable deployment/web: 3, at most 1 is allowed; exceeded first at 1m",
        ),
        "maxUnavailable while scaling up": (
            "  timeline: [{at: 1m, scale: {deployment: web, replicas: 9}}]\n"
            "  expect: {budgets: [{workload: deployment/web, maxUnavailable: 0}]}\n",
            "",
        ),
        "a budget of times": (
            "  expect: {budgets: [{timeToReady: {p50: 1s}}]}\n",
            "budget timeToReady p50: 3.55s, at most 1s is allowed",
        ),
        "a budget of writes": (
            "  expect: {budgets: [{writes: {max: 3, by: scheduler}}]}\n",
            "budget writes scheduler: ",
        ),
        "a budget of restarts": (
            "  timeline: [{at: 1m, crash: {selector: app=web}}]\n  expect: {budgets: [{restarts: {max: 2}}]}\n",
            "budget restarts: 3, at most 2 is allowed",
        ),
        "budget of a workload that never existed": (
            "  expect: {budgets: [{workload: deployment/wep, maxUnavailable: 1}]}\n",
            "budget maxUnavailable deployment/wep: deployment/wep never existed in the run",
        ),
        "a budget of a workload in another namespace": (
            "  expect: {budgets: [{workload: deployment/web, namespace: shop, timeToReady: {p50: 1h}}]}\n",
            "budget timeToReady deployment/web in shop: no such workload in namespace shop: deployment/web; "
            "there is one in default: `namespace: default`",
        ),
        "a budget of a Job that existed": (
            "  timeline: [{at: 1m, apply: {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: "
            "{spec: {restartPolicy: Never, containers: [{name: j, image: j}]}}}}}]\n"
            "  expect: {budgets: [{workload: job/j, restarts: {max: 0}}]}\n",
            "",
        ),
        "a budget of a workload that is deleted after it was exceeded": (
            "  timeline: [{at: 1m, crash: {selector: app=web}}, {at: 2m, delete: {object: deployment/web}}]\n"
            "  expect: {budgets: [{workload: deployment/web, maxUnavailable: 1}]}\n",
            "budget maxUnavailable deployment/web: 3, at most 1 is allowed; exceeded first at 1m",
        ),
        "after an entry that did not begin": (
            "  timeline: [{name: late, when: 'objects.pods.size() == 9', scale: {deployment: web, replicas: 5}}]\n"
            "  expect:\n    eventually: [{cel: 'true', within: 1m, after: late}]\n",
            'eventually eventually[0]: the run ended before the entry "late" began',
        ),
        "again, never false in between": (
            "  timeline: [{name: growth, at: 1m, scale: {deployment: web, replicas: 4}}]\n  expect:\n    eventually:\n"
            "    - {cel: 'objects.pods.size() >= 3', within: 1m, after: growth, again: true}\n",
            "eventually eventually[0]: it was never false, as again: true demands: within 1m after growth (1m)",
        ),
        "again": (
            "  timeline: [{name: crash, at: 1m, crash: {selector: app=web}}]\n  expect:\n    eventually:\n"
            "    - {cel: \"objects.deployments['default/web'].status.?readyReplicas.orValue(0) == 3\",\n"
            "       within: 2m, after: crash, again: true}\n",
            "",
        ),
        "an action that the API server rejects": (
            "  timeline: [{at: 1m, scale: {deployment: wep, replicas: 5}}]\n",
            "action timeline[0]: ",
        ),
        "unknown container": (
            "  timeline: [{at: 1m, setImage: {deployment: web, container: app, image: 'a:1'}}]\n",
            "no container is called app; there are web",
        ),
    },
)
def test_expectations(tmp_path: Path, spec: str, expected: str) -> None:
    failed = failure(tmp_path, WEB + spec)
    assert expected in failed
    assert bool(failed) == bool(expected)


_READY = (
    "  timeline: [{name: outage, at: 1m, nodes: {count: 3, silence: true, for: 2m}}]\n  expect:\n    eventually:\n"
    "    - {name: ready, cel: \"objects.deployments['default/web'].status.?readyReplicas.orValue(0) == 3\",\n"
    "       within: 4m, after: outage%s}\n"
)


def test_an_expectation_that_is_true_before_its_entry_is_a_notice(tmp_path: Path) -> None:
    run_result = result(tmp_path, WEB + _READY % "")
    notice = (
        'eventually ready: it was true already when the entry "outage" began; with again: true it must first be false'
    )
    assert (run_result.failure, run_result.notices, run_result.measures["time until ready"]) == (None, (notice,), 0.0)
    run_result = result(tmp_path, WEB + _READY % ", again: true")
    assert (run_result.failure, run_result.notices) == (None, ())
    assert run_result.measures["time until ready"] > 120


_CLAIMING = """
  objects:
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: db}
    spec:
      replicas: 2
      selector: {matchLabels: {app: db}}
      template:
        metadata: {labels: {app: db}}
        spec: {containers: [{name: db, image: "db:1"}]}
      volumeClaimTemplates:
      - {metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  until: {time: 1m}
  expect: {budgets: [{workload: statefulset/db, maxUnavailable: 1}]}
"""


def test_a_budget_that_measures_nothing_is_a_notice(tmp_path: Path) -> None:
    assert result(tmp_path, _CLAIMING).notices == (
        "budget maxUnavailable statefulset/db measures nothing: of 2 pods 0 are ready at the end, and all of them "
        "never were at the same time",
        "no volume at the end for default/data-db-0; with cluster: {storage: true} volumes are provisioned",
    )
    assert result(tmp_path, "  cluster: {storage: true}\n" + _CLAIMING).notices == ()


_EVERY_MINUTE = """
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: report}
    spec:
      schedule: "* * * * *"
      jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: report, image: "report:1"}]}}}}
  until: {quiet: 2m, time: 5m}
"""


def test_notices_of_a_run_that_is_never_quiet(tmp_path: Path) -> None:
    run_result = result(tmp_path, _CLAIMING.replace("\n  until: {time: 1m}\n", _EVERY_MINUTE))
    assert run_result.failure is not None
    assert run_result.failure.kind == "unsettled"
    assert run_result.notices == (
        "budget maxUnavailable statefulset/db measures nothing: of 2 pods 0 are ready at the end, and all of them "
        "never were at the same time",
        "no volume at the end for default/data-db-0; with cluster: {storage: true} volumes are provisioned",
    )


def test_a_failure_that_needs_no_action(tmp_path: Path) -> None:
    run_result = result(tmp_path, WEB + _TWO_ENTRIES + "  expect: {budgets: [{writes: {max: 1}}]}\n")
    assert run_result.failure is not None
    shrunk = ShrunkFailure(
        job=Job(number=0, seed=0), failure=run_result.failure, result=run_result, parts=(), of=2, runs=1
    )
    lines = list(failure_lines(shrunk, Replay(program="pilothouse simulate", path="s.yaml")))
    assert lines[1] == "  none of 2 actions and faults is needed to reproduce the failure, found in 1 run"


def test_entries_that_never_start_are_notices(tmp_path: Path) -> None:
    spec = WEB.replace('image: "web:1"', 'image: "web:1", resources: {requests: {cpu: "99"}}')
    spec += "  timeline: [{name: late, when: 'objects.pods.size() == 9', scale: {deployment: web, replicas: 5}}]\n"
    run_result = result(tmp_path, spec)
    assert run_result.notices == ('the entry "late" never began: its condition (when) never held',)
    assert len(run_result.never_ready) == 3
    lines = "\n".join(run_lines(run_result))
    assert f"\n  pods not ready at the end: {', '.join(run_result.never_ready)}\n" in lines
    assert lines.endswith("\n  notice: " + run_result.notices[0])
    assert "\n  notice: " + run_result.notices[0] + " (in 2 of 2 runs)\n" in "\n".join(
        [*search_lines("s", [(Job(number=0, seed=0), run_result)] * 2, 2), ""]
    )
    assert next(search_lines("s", [(Job(number=0, seed=0), run_result)], 1)).startswith("s: 1 run, ")


def test_a_budget_counts_time_as_the_timeline_does(tmp_path: Path) -> None:
    spec = WEB.replace("30s", "2m") + "  timeline: [{at: 1m, crash: {selector: app=web}}]\n"
    spec += "  expect: {budgets: [{workload: deployment/web, maxUnavailable: 1}]}\n"
    run_result = result(tmp_path, spec)
    assert run_result.failure is not None
    assert (run_result.failure.at, run_result.budgets[0].at) == (60.0, 60.0)
    assert not run_result.log_is_until_end, "it is about the time at which the budget was exceeded"
    assert "180.000" in (last := run_result.log.splitlines()[-1])
    assert "MODIFIED /pods/default/web-" in last
    failure = ShrunkFailure(
        job=Job(number=0, seed=0), failure=run_result.failure, result=run_result, parts=(), of=0, runs=0
    )
    lines_shown = list(failure_lines(failure, Replay(program="pilothouse simulate", path="s.yaml")))
    assert "  the log until 1m, in seconds since the creation of the cluster:" in lines_shown
    assert "exceeded first at 1m" in run_result.failure.message
    recorded = run(load(str(tmp_path / "s.yaml")), 0, record=True).recording
    assert recorded is not None
    assert [(mark.kind, mark.at - recorded.zero) for mark in recorded.marks] == [("action", 60.0), ("violation", 60.0)]


def test_quiet_is_shorter_than_the_time_after_which_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"until.*quiet must be shorter than time"):
        result(tmp_path, WEB.replace("{time: 5m}", "{quiet: 3h, time: 2h}"))


def test_a_limit_in_percent_is_of_the_replicas_at_that_moment(tmp_path: Path) -> None:
    spec = WEB + "  timeline:\n  - {at: 1m, crash: {selector: app=web}}\n"
    spec += "  - {at: 3m, scale: {deployment: web, replicas: 1}}\n"
    spec += "  expect: {budgets: [{workload: deployment/web, maxUnavailable: 100%}]}\n"
    run_result = result(tmp_path, spec)
    (budget,) = run_result.budgets
    assert (budget.measured, budget.limit, budget.held) == (3, 3, True)
    assert "budget maxUnavailable deployment/web  3 of 3" in "\n".join(run_lines(run_result))


def test_entries_that_are_left_out_are_not_missed(tmp_path: Path) -> None:
    spec = WEB + "  timeline:\n  - {name: one, at: 1m, scale: {deployment: web, replicas: 5}}\n"
    spec += "  expect:\n    eventually: [{cel: 'false', within: 1m, after: one}]\n"
    spec += "    budgets: [{workload: deployment/other, maxUnavailable: 0}]\n"
    assert result(tmp_path, spec, only=frozenset()).failure is None


@cases(
    "rule",
    {
        "an object by its key": "cel: \"objects.deployments['default/web'].status.readyReplicas == 3\"",
        "each object": "forEach: pods, cel: \"object.status.phase == 'Running'\"",
    },
)
@pytest.mark.parametrize("kind", ["eventually", "atEnd"])
def test_the_state_of_the_awaited_object_is_explained(tmp_path: Path, rule: str, kind: str) -> None:
    limit = ", within: 1m" if kind == "eventually" else ""
    web = WEB.replace("image:", "resources: {requests: {cpu: 900}}, image:")
    failed = result(tmp_path, web + f"  expect: {{{kind}: [{{{rule}{limit}}}]}}\n").failure
    assert failed is not None
    first, title, *_ = failed.why.splitlines()
    assert first == "why:"
    assert title.startswith("pod/web-" if "forEach" in rule else "deployment/web in namespace default: ")
    assert "Insufficient cpu (requests 900, at most " in failed.why


def test_an_outage_is_the_cause_after_the_history_of_its_nodes(tmp_path: Path) -> None:
    """Pods are evicted five minutes after their node was marked, when the history of the store does not have that."""
    spec = WEB.replace("{time: 5m}", "{time: 20m}").replace("containers:", "nodeName: node-0, containers:")
    spec += "  timeline: [{name: outage, at: 1m, nodes: {name: node-0, silence: true}}]\n"
    spec += "  expect:\n    eventually:\n    - {after: outage, within: 8m, again: true, "
    spec += "cel: \"objects.deployments['default/web'].status.readyReplicas == 3\"}\n"
    failed = result(tmp_path, spec).failure
    assert failed is not None
    assert failed.why.splitlines()[-1].endswith('node/node-0 goes silent, entry "outage"'), failed.why


def test_a_cluster_that_is_never_quiet_fails(tmp_path: Path) -> None:
    spec = WEB.replace("{time: 5m}", "{quiet: 2m, time: 10m}")
    entry = "  timeline: [{every: 1m, until: 20m, restart: {deployment: web}}]\n"
    assert "unsettled until: the cluster was not quiet for 2m within 10m" in failure(tmp_path, spec + entry)


def test_a_rejected_manifest_is_an_error_of_the_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"s.yaml:7: spec.objects\[0\]: Deployment web: .*unknown field"):
        result(tmp_path, WEB.replace("replicas: 3", "replica: 3"))


def test_a_rejected_manifest_is_named_with_its_document(tmp_path: Path) -> None:
    web = WEB.partition("  objects:\n  - ")[2].partition("  ready:")[0].replace("\n    ", "\n")
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\n"
    (tmp_path / "web.yaml").write_text(namespace + web.replace("replicas: 3", "replica: 3"))
    head = "  objects: [web.yaml]\n  until: {time: 1m}\n"
    rejected = r"s.yaml: spec.objects: \S+/web.yaml:4 \(document 2\): Deployment web: .*unknown field"
    with pytest.raises(ScenarioError, match=rejected):
        result(tmp_path, head)
    applied = head.replace("objects: [web.yaml]", "timeline: [{at: 10s, apply: web.yaml}]")
    assert "/web.yaml:4 (document 2): Deployment web: " in failure(tmp_path, applied)


def test_all_rejected_manifests_are_named(tmp_path: Path) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
    wrong = ("a", "ok", "B", "c")
    (tmp_path / "all.yaml").write_text(
        "---\n".join(config % name + ("" if name == "ok" else "dat: {}\n") for name in wrong)
    )
    head = "  objects: [all.yaml, {apiVersion: v1, kind: Confgmap, metadata: {name: d}}]\n  until: {time: 1m}\n"
    with pytest.raises(ScenarioError) as raised:
        result(tmp_path, head)
    lines = str(raised.value).splitlines()
    assert [line.partition("spec.objects: ")[2].rpartition("/")[2].partition(": ")[0] for line in lines[:-1]] == [
        "all.yaml:1 (document 1)", "all.yaml:9 (document 3)", "all.yaml:14 (document 4)",
    ]  # fmt: skip
    assert lines[-1].endswith(
        's.yaml:5: spec.objects[1]: no matches for kind "Confgmap" in version "v1"; did you mean ConfigMap?'
    )
    applied = "  timeline: [{at: 10s, apply: all.yaml}]\n  until: {time: 1m}\n"
    message = failure(tmp_path, applied)
    assert message.count("/all.yaml:") == 3
    assert message.count("; ") == 2


def test_of_many_rejected_manifests_the_first_are_named(tmp_path: Path) -> None:
    config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c%s}, dat: {}}"
    head = f"  objects: [{', '.join(config % n for n in range(12))}]\n  until: {{time: 1m}}\n"
    with pytest.raises(ScenarioError) as raised:
        result(tmp_path, head)
    lines = str(raised.value).splitlines()
    assert (len(lines), lines[-1].endswith("spec.objects: 2 more objects rejected")) == (11, True)


def test_an_action_that_cannot_be_performed_is_reported_without_the_log(tmp_path: Path) -> None:
    entry = "  timeline: [{at: 10s, drain: {selector: pool=bach}}]\n"
    run_result = result(tmp_path, WEB.replace("time: 5m", "time: 1m") + entry)
    assert run_result.failure is not None
    job = Job(number=0, seed=0)
    lines_shown = ShrunkFailure(
        job=job, failure=run_result.failure, result=run_result, parts=run_result.parts, of=1, runs=1
    )
    lines = list(failure_lines(lines_shown, Replay(program="pilothouse simulate", path="s.yaml")))
    assert "no nodes match: selector pool=bach" in lines[0]
    assert not any("log" in line for line in lines)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param("drain: {selector: x!=z, count: 4}", "count is 4, and only 3 nodes match"),
        pytest.param("delete: {object: deploymnt/web}", 'no resource type "deploymnt"; did you mean deployment?'),
    ],
    ids=["nodes", "type"],
)
def test_ambiguous_actions_are_rejected(tmp_path: Path, entry: str, expected: str) -> None:
    groups = "  cluster: {nodeGroups: [{name: a, count: 3}, {name: b, count: 1, labels: {x: z}}]}\n"
    assert expected in failure(tmp_path, groups + f"  until: {{time: 1m}}\n  timeline: [{{at: 10s, {entry}}}]\n")


def test_a_misspelled_kind_suggests_the_closest_one(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r'no matches for kind "Deploymnt".*; did you mean Deployment\?'):
        result(tmp_path, WEB.replace("kind: Deployment", "kind: Deploymnt"))


def test_an_unknown_resource_is_an_error_of_the_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"s.yaml:\d+: spec.expect.always\[0\]: .*did you mean deployments"):
        result(tmp_path, WEB + "  expect: {always: [{cel: 'objects.deploymets.size() == 1'}]}\n")


def test_an_expression_that_costs_too_much_is_an_error(tmp_path: Path) -> None:
    nested = "".join(f"objects.pods.all({name}, " for name in "abcdefgh") + "true" + ")" * 8
    with pytest.raises(ScenarioError, match="costs too much"):
        result(tmp_path, WEB.replace("replicas: 3", "replicas: 60") + f"  expect: {{atEnd: [{{cel: '{nested}'}}]}}\n")


def test_a_failure_explains_the_write(tmp_path: Path) -> None:
    spec = "  timeline: [{at: 1m, scale: {deployment: web, replicas: 5}}]\n  expect:\n    always:\n"
    spec += "    - cel: objects.pods.size() <= 4\n"
    failed = result(tmp_path, WEB + spec).failure
    assert failed is not None
    assert "why it was written" in failed.why


@cases(
    "spec, root",
    {
        "an entry of the timeline": (
            "  timeline: [{name: zone outage, at: 1m, nodes: {name: node-0, silence: true}}]\n",
            'node/node-0 goes silent, entry "zone outage"',
        ),
        "an entry without a name": (
            "  timeline: [{at: 1m, nodes: {name: node-0, silence: true}}]\n",
            "node/node-0 goes silent, spec.timeline[0]",
        ),
    },
)
def test_the_root_of_a_lost_node_is_the_action(tmp_path: Path, spec: str, root: str) -> None:
    ready = "objects.deployments['default/web'].status.?readyReplicas.orValue(0)"
    run_result = result(tmp_path, WEB + spec + f'  expect:\n    always: [{{cel: "{ready} in [0, 3]"}}]\n').failure
    assert run_result is not None
    assert run_result.why.splitlines()[-1].endswith(root)


def test_the_root_of_an_eviction_is_the_action_behind_the_taint(tmp_path: Path) -> None:
    spec = WEB.replace("time: 5m", "time: 10m")
    spec += "  timeline: [{name: zone outage, at: 1m, nodes: {name: node-0, silence: true}}]\n"
    run_result = result(tmp_path, spec + "  expect:\n    always: [{cel: objects.pods.size() <= 3}]\n").failure
    assert run_result is not None
    assert "by taint-eviction-controller" in run_result.why
    assert run_result.why.splitlines()[-1].endswith('node/node-0 goes silent, entry "zone outage"')


@cases(
    "selection, expected",
    {
        "count": ("count: 2", ""),
        "selector": ("selector: kubernetes.io/os=linux", ""),
        "name": ("name: node-1", 'node node-1: nodes "node-1" not found'),
    },
)
def test_nodes_that_have_vanished_are_not_meant(tmp_path: Path, selection: str, expected: str) -> None:
    spec = "  cluster: {nodeGroups: [{name: node, count: 3}]}\n  until: {time: 10m}\n  timeline:\n"
    spec += "  - {at: 1m, nodes: {names: [node-0, node-1], vanish: true}}\n"
    spec += f"  - {{at: 5m, taint: {{{selection}, taint: 'spot=gone:NoSchedule'}}}}\n"
    spec += "  - {at: 6m, nodes: {count: 3, revive: true}}\n"
    assert failure(tmp_path, spec).endswith(expected)
    assert bool(expected) == bool(failure(tmp_path, spec))


@cases(
    "action, expected",
    {
        "setImage": (
            "setImage: {deployment: web, namespace: shop, image: 'web:2'}",
            'deployments/web in shop: deployments.apps "web" not found; there is one in default: `namespace: default`',
        ),
        "delete": (
            "delete: {object: deployment/web, namespace: shop}",
            'deployment/web: deployments.apps "web" not found; there is one in default: `namespace: default`',
        ),
        "other name": (
            "scale: {deployment: wep, replicas: 1}",
            'deployments/wep: deployments.apps "wep" not found',
        ),
        "of no namespace": (
            "delete: {object: node/web}",
            'node/web: nodes "web" not found',
        ),
    },
)
def test_an_object_of_another_namespace_is_pointed_out(tmp_path: Path, action: str, expected: str) -> None:
    spec = WEB + f"  timeline: [{{at: 1m, {action}}}]\n"
    assert failure(tmp_path, spec).endswith(f"spec.timeline[0]: {expected}")


def test_the_same_seed_is_the_same_run_in_every_process(tmp_path: Path) -> None:
    spec = WEB + "  timeline: [{at: 1m, nodes: {count: 1, silence: true, for: 2m}}]\n"
    spec += "  faults: {count: 4, within: 4m, of: [manager, nodes, pods]}\n"
    spec += "  expect: {always: [{cel: 'objects.pods.size() >= 0'}]}\n"
    run_result = {result(tmp_path, spec, 3).digest}
    for hash_seed in ("0", "1"):
        command = [sys.executable, "-c", _DIGEST, repr(sys.path), str(tmp_path / "s.yaml")]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=True)
        run_result.add(done.stdout.strip())
    assert len(run_result) == 1
    assert result(tmp_path, spec, 4).digest not in run_result


def test_a_recording_has_entry_names_and_ends_of_faults(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    spec = "  timeline: [{name: outage, at: 1m, nodes: {name: node-0, silence: true, for: 2m}}]\n"
    path.write_text(HEAD + WEB + spec, encoding="utf-8")
    run_result = run(load(str(path)), 0, record=True).recording
    assert run_result is not None
    began, ended = run_result.marks
    assert (began.text.partition(" ")[0], ended.text) == ("outage:", "end of outage")
    assert ended.at - began.at == 120


_HELD = """  timeline: [{name: growth, at: 1m, scale: {deployment: web, replicas: 5}}]
  expect:
    always:
    - {name: never more, cel: "objects.deployments['default/web'].spec.replicas <= 5"}
    - {name: every pod, forEach: pods, cel: "has(object.metadata.name)"}
    eventually:
    - {name: grown, after: growth, within: 1m, cel: "objects.deployments['default/web'].status.readyReplicas == 5"}
    - {name: shrunk, after: growth, within: 2m, cel: "objects.deployments['default/web'].status.replicas == 1"}
    atEnd:
    - {name: five, cel: "objects.pods.size() == 5"}
"""


def test_results_of_expectations(tmp_path: Path) -> None:
    run_result = result(tmp_path, WEB + _HELD)
    outcomes = {expectation.name: (expectation.kind, expectation.outcome) for expectation in run_result.expectations}
    assert outcomes == {
        "never more": ("always", "held"),
        "every pod": ("always", "held"),
        "grown": ("eventually", "held"),
        "shrunk": ("eventually", "violated"),
        "five": ("atEnd", "open"),  # the run has ended before
    }
    grown, shrunk = run_result.expectations[2:4]
    assert grown.at is not None
    assert 60 < grown.at < 70
    assert (shrunk.at, shrunk.message.partition(":")[0]) == (180.0, "it did not hold in time")


def test_all_at_end_violations_are_reported(tmp_path: Path) -> None:
    at_end = "    - {name: A, cel: 'objects.pods.size() == 1'}\n    - {name: B, cel: 'objects.pods.size() == 2'}\n"
    run_result = result(tmp_path, f"{WEB}  expect:\n    atEnd:\n{at_end}    - {{name: C, cel: 'true'}}\n")
    assert [(expectation.name, expectation.outcome) for expectation in run_result.expectations] == [
        ("A", "violated"),
        ("B", "violated"),
        ("C", "held"),
    ]
    assert run_result.failure is not None
    assert run_result.failure.name == "A"


def test_failure_with_fewer_parts_is_not_repeated_if_it_reads_the_same(tmp_path: Path) -> None:
    spec = WEB + "  timeline: [{at: 1m, scale: {deployment: web, replicas: 5}}]\n"
    shrunk = result(tmp_path, spec + "  expect: {always: [{cel: 'objects.pods.size() <= 4'}]}\n")
    assert shrunk.failure is not None
    for later, lines in ((0.01, 0), (5.0, 1)):
        whole = msgspec.structs.replace(shrunk.failure, at=shrunk.failure.at + later)
        found = ShrunkFailure(job=Job(number=0, seed=0), failure=whole, result=shrunk, parts=shrunk.parts, of=2, runs=2)
        text = "\n".join(failure_lines(found, Replay(program="pilothouse simulate", path="s.yaml")))
        assert text.count("with these it fails") == lines, text


def test_parts_can_be_left_out(tmp_path: Path) -> None:
    spec = WEB + "  timeline:\n  - {at: 1m, scale: {deployment: web, replicas: 5}}\n"
    spec += (
        "  - {at: 2m, scale: {deployment: web, replicas: 7}}\n  expect: {atEnd: [{cel: 'objects.pods.size() == 5'}]}\n"
    )
    assert result(tmp_path, spec).failure is not None
    run_result = result(tmp_path, spec, only=frozenset({0}))
    assert run_result.failure is None
    assert [(part.number, part.text) for part in run_result.parts] == [(0, "at 1m: scale deployments/web replicas 5")]


@pytest.mark.parametrize(
    ("spec", "only", "message"),
    [
        pytest.param("", {0}, "there is no part 0: there are none", id="no timeline"),
        pytest.param(_TWO_ENTRIES, {0, 7}, "there is no part 7: they are 0 to 1", id="beyond the last"),
        pytest.param(_TWO_ENTRIES, {0, 1}, "", id="existing parts"),
        pytest.param(_TWO_ENTRIES, set(), "", id="no parts"),
    ],
)
def test_parts_that_no_run_has(tmp_path: Path, spec: str, only: set[int], message: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + WEB + spec)
    context = pytest.raises(ValueError, match=message) if message else contextlib.nullcontext()
    with context:
        check_parts([load(str(path))], range(3), only)


def test_a_recording_has_the_actions_and_the_violation(tmp_path: Path) -> None:
    spec = "  timeline: [{at: 1m, scale: {deployment: web, replicas: 2}}]\n"
    spec += "  expect: {always: [{name: three, cel: \"objects.deployments['default/web'].spec.replicas == 3\"}]}\n"
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + WEB + spec, encoding="utf-8")
    run_result = run(load(str(path)), 0, record=True)
    assert run_result.recording is not None
    assert [mark.kind for mark in run_result.recording.marks] == ["action", "violation"]
    assert run_result.recording.failure.startswith("always three: it does not hold")
    assert run(load(str(path)), 0).digest == run_result.digest


@cases(
    "spec, fewest, most",
    {
        "the manager's requests are throttled, as by default": ("", 0.4, 1.5),
        "higher kube-api-qps of the manager": (
            "  manager: {flags: {kube-api-qps: 1000, kube-api-burst: 1000}}\n",
            0,
            0.3,
        ),
        "lower kube-api-qps of the scheduler": (
            "  manager: {flags: {kube-api-qps: 1000, kube-api-burst: 1000}}\n"
            "  cluster: {scheduler: {kube-api-qps: 10, kube-api-burst: 10}}\n",
            2.5,
            9.0,
        ),
        "request latency": (
            "  manager: {flags: {kube-api-qps: 1000, kube-api-burst: 1000}}\n"
            "  cluster: {apiServer: {latency: {median: 500ms}}}\n",
            1.5,
            5.0,
        ),
    },
)
def test_how_long_it_takes_to_create_pods(tmp_path: Path, spec: str, fewest: float, most: float) -> None:
    web = WEB.replace("replicas: 3", "replicas: 0").replace("time: 5m", "time: 20s")
    web += "  timeline: [{name: growth, at: 0s, scale: {deployment: web, replicas: 40}}]\n"
    rule = (
        "objects.deployments['default/web'].metadata.generation == 2 && objects.pods.size() == 40 && "
        "objects.pods.all(p, has(objects.pods[p].spec.nodeName))"
    )
    web += f'  expect: {{eventually: [{{name: bound, after: growth, within: 20s, cel: "{rule}"}}]}}\n'
    run_result = result(tmp_path, spec + web)
    assert run_result.failure is None
    assert fewest <= run_result.measures["time until bound"] <= most


BLOCKED = """
  cluster: {nodeGroups: [{name: web, count: 1}]}
  objects:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: "web:1"}]}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: api},
     spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}
  ready: 30s
"""
BUDGET = "The disruption budget api needs 2 healthy pods and has 2 currently"


def test_a_drain_that_a_budget_blocks_is_named(tmp_path: Path) -> None:
    drain = "  timeline: [{name: replacement, at: 1m, drain: {name: web-0}}]\n"
    run_result = result(tmp_path, f"{BLOCKED}{drain}  until: {{quiet: 5m, time: 2h}}\n")
    assert run_result.failure is not None
    message = run_result.failure.message
    assert message.startswith(
        "the cluster was not quiet for 5m within 2h: the timeline has not finished: "
        "replacement: not finished: node web-0: pod default/web-"
    )
    assert message.count(f"can't be evicted: {BUDGET}") == 2
    assert "ADDED /events/" in run_result.log
    assert "DELETED /events/" not in run_result.log, "events that expire are no news"
    run_result = result(tmp_path, f"{BLOCKED}{drain}  until: {{time: 3m}}\n")
    assert run_result.failure is None
    assert [notice.partition(": pod")[0] for notice in run_result.notices] == ["replacement: not finished: node web-0"]


def test_a_drain_with_a_timeout_names_the_blocking_budget(tmp_path: Path) -> None:
    drain = "  timeline: [{name: replacement, at: 1m, drain: {name: web-0, timeout: 1m}}]\n  until: {time: 3m}\n"
    message = failure(tmp_path, BLOCKED + drain)
    assert "node web-0 was not drained within 1m: 2 pods are left: web-" in message
    assert f"can't be evicted: {BUDGET}" in message


def test_effects_of_the_last_action_that_begin_later_are_awaited(tmp_path: Path) -> None:
    """A node is marked 40 to 50 seconds after its last heartbeat: until then nothing is written."""
    spec = WEB.replace("{time: 5m}", "{quiet: 1m, time: 1h}").replace("containers:", "nodeName: node-0, containers:")
    spec += "  timeline: [{at: 10m, nodes: {name: node-0, silence: true}}]\n"
    spec += "  expect: {budgets: [{workload: deployment/web, maxUnavailable: 0}]}\n"
    assert failure(tmp_path, spec).startswith("budget maxUnavailable deployment/web: 3, at most 0 is allowed")


def test_a_timeline_that_ends_too_late_for_a_quiet_time(tmp_path: Path) -> None:
    spec = WEB.replace("{time: 5m}", "{quiet: 5m, time: 12m}")
    spec += "  timeline: [{at: 10m, nodes: {name: node-0, slow: 1s}}]\n"
    assert failure(tmp_path, spec).endswith("not quiet for 5m within 12m: the timeline ended only 2m before")


_EVERY_MINUTE_A_JOB = """
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: tick}
    spec:
      schedule: "* * * * *"
      jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: tick, image: "tick:1"}]}}}}
"""


def test_the_work_of_cronjobs_does_not_count_as_activity(tmp_path: Path) -> None:
    """Otherwise a cluster with a CronJob of every minute would never be quiet."""
    spec = WEB.replace("{time: 5m}", "{quiet: 3m, time: 1h}").replace("\n  ready:", f"{_EVERY_MINUTE_A_JOB}  ready:")
    spec += "  timeline: [{at: 5m, restart: {deployment: web}}]\n"
    run_result = result(tmp_path, spec)
    assert run_result.failure is None
    assert 300.0 < run_result.measures["time until quiet"] < 330.0
    assert run_result.seconds == pytest.approx(30.0 + run_result.measures["time until quiet"] + 180.0, abs=1.0)


def test_pods_of_cronjobs_that_have_just_begun_are_not_named(tmp_path: Path) -> None:
    """A run that ends in the first seconds of a minute; without the CronJob's pod the others are named."""
    spec = WEB.replace("{time: 5m}", "{time: 271s}").replace("\n  ready:", f"{_EVERY_MINUTE_A_JOB}  ready:")
    finished = result(tmp_path, spec)
    assert (finished.failure, finished.never_ready) == (None, ())
    spec += "  timeline: [{at: 270s, scale: {deployment: web, replicas: 4}}]\n"
    finished = result(tmp_path, spec)
    (pod,) = finished.never_ready
    assert pod.startswith("default/web-")
    lines = "\n".join(search_lines("s", [(Job(number=0, seed=0), finished), (Job(number=1, seed=1), finished)], 2))
    assert f"(-o json has all), with seed 0: {pod} (in 2 of 2 runs)" in lines


def test_pods_of_cronjobs_that_wait_for_longer_are_named(tmp_path: Path) -> None:
    job = _EVERY_MINUTE_A_JOB.replace('image: "tick:1"', 'image: "tick:1", resources: {requests: {cpu: "900"}}')
    spec = WEB.replace("{time: 5m}", "{time: 271s}").replace("\n  ready:", f"{job}  ready:")
    names = [pod.rpartition("-")[0] for pod in result(tmp_path, spec).never_ready]
    assert names == [f"default/tick-2945376{minute}" for minute in range(1, 5)], "the fifth has just begun"


def test_applying_some_fields_patches_an_existing_object(tmp_path: Path) -> None:
    """As ``kubectl apply`` does, although the fields alone are no valid object."""
    scale = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME}, spec: {replicas: 5}}"
    spec = WEB + f"  timeline: [{{at: 1m, apply: [{scale.replace('NAME', 'web')}]}}]\n"
    spec += "  expect: {atEnd: [{cel: \"objects.deployments['default/web'].status.readyReplicas == 5\"}]}\n"
    assert result(tmp_path, spec).failure is None
    spec = WEB + f"  timeline: [{{at: 1m, apply: [{scale.replace('NAME', 'wep')}]}}]\n"
    assert "spec.selector: Required value" in failure(tmp_path, spec)
    spec = spec.replace("name: wep", "generateName: web-")
    assert "Deployment web-: " in failure(tmp_path, spec)
    assert "spec.selector: Required value" in failure(tmp_path, spec)


def test_a_pod_that_stays_pending_does_not_count_as_activity(tmp_path: Path) -> None:
    """The scheduler tries it again every five minutes, and records an Event about each attempt."""
    pod = """
  - apiVersion: v1
    kind: Pod
    metadata: {name: huge}
    spec: {containers: [{name: huge, image: "huge:1", resources: {requests: {cpu: "900"}}}]}
"""
    spec = WEB.replace("{time: 5m}", "{quiet: 12m, time: 1h}").replace("\n  ready:", f"{pod}  ready:")
    spec += "  timeline: [{at: 5m, restart: {deployment: web}}]\n"
    run_result = result(tmp_path, spec)
    assert run_result.failure is None
    assert 300.0 < run_result.measures["time until quiet"] < 330.0


def test_writers_of_a_budget_exist(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + WEB + "  expect: {budgets: [{writes: {max: 1, by: scheduller}}]}\n", encoding="utf-8")
    message = r's.yaml:\d+: spec.expect.budgets\[0\]: writes.by is one of manager, .*, got "scheduller"'
    with pytest.raises(ScenarioError, match=message):
        validate(load(str(path)))
    path.write_text(path.read_text().replace("scheduller", "scheduler"), encoding="utf-8")
    validate(load(str(path)))


@cases(
    "spec, expected",
    {
        "of an action": (
            "  timeline: [{at: 1m, apiServer: {failWrites: refused, resource: deployment, for: 1m}}]\n",
            r's.yaml:\d+: spec.timeline\[0\]: the cluster has no resource "deployment"; did you mean deployments?',
        ),
        "of random faults": (
            "  faults: {count: 1, within: 1m, resources: [pod]}\n",
            r's.yaml:\d+: spec.faults: the cluster has no resource "pod"; did you mean pods?',
        ),
        "of an action without resources": (
            "  timeline: [{at: 1m, apiServer: {slow: 1s, resource: deployments, for: 1m}}]\n",
            "resource is for failWrites, dropWatches, slowWatches and holdWatches",
        ),
        "a probability": (
            "  timeline: [{at: 1m, apiServer: {slow: 1s, probability: 0.5, for: 1m}}]\n",
            "probability is for failWrites and failReads",
        ),
        "a feature gate": (
            "  cluster: {featureGates: {Foo: true}}\n",
            r"s.yaml:\d+: spec.cluster.featureGates: unrecognized feature gate: Foo",
        ),
        "an inline object": (
            "  objects:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n"
            "  - {apiVersion: v1, kind: Pod, metadata: {name: c}, spec: {container: []}}\n",
            r's.yaml:7: spec.objects\[1\]: Pod c: .*unknown field "spec.container"',
        ),
    },
)
def test_names_without_an_effect_are_errors(tmp_path: Path, spec: str, expected: str) -> None:
    with pytest.raises(ScenarioError, match=expected):
        result(tmp_path, (spec if spec.startswith("  objects") else WEB[1:] + spec))


def test_an_unknown_field_of_a_patch_is_an_error(tmp_path: Path) -> None:
    spec = WEB + "  timeline: [{at: 1m, patch: {deployment: web, merge: {spec: {replicaz: 5}}}}]\n"
    message = 'spec.timeline[0]: deployments/web: strict decoding error: unknown field "spec.replicaz"'
    assert failure(tmp_path, spec).endswith(message)


def test_workloads_of_other_namespaces_are_named_with_theirs(tmp_path: Path) -> None:
    spec = WEB.replace("metadata: {name: web}", "metadata: {name: web, namespace: web}")
    budget = "{workload: deployment/web, namespace: web, maxUnavailable: 1}"
    run_result = result(tmp_path, spec + f"  expect: {{budgets: [{budget}]}}\n")
    assert "maxUnavailable deployment/web in web" in run_result.measures
    assert run_result.budgets[0].name == "maxUnavailable deployment/web in web"


def test_a_key_without_its_namespace(tmp_path: Path) -> None:
    cel = "objects.deployments['%s'].status.replicas == 1"
    for key, hint in (("web", "there is one in default: deployments['default/web']"), ("x", "NAMESPACE/NAME")):
        rule = f'  expect: {{eventually: [{{within: 1m, cel: "{cel % key}"}}]}}\n'
        assert hint in failure(tmp_path, WEB + rule)


def test_writes_are_the_same_in_all_places(tmp_path: Path) -> None:
    run_result = result(tmp_path, _CLAIMING)
    assert run_result.writes == run_result.measures["writes"]


EVERY_MINUTE = """
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: backup}
    spec:
      schedule: "* * * * *"
      jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: backup, image: "backup:1"}]}}}}
  ready: 30s
"""
NOT_SCALED = """
  timeline: [{name: growth, at: 1m, scale: {deployment: web, replicas: 5}}]
  until: {time: 20m}
  expect:
    eventually:
    - {name: larger, after: growth, within: 5m, cel: "objects.deployments['default/web'].spec.replicas == 6&MORE"}
"""


@pytest.mark.parametrize("until", ["{time: 20m}", "{quiet: 6m, time: 20m}"])
def test_the_log_of_a_failure_leaves_out_repeated_work(tmp_path: Path, until: str) -> None:
    web = WEB.partition("  ready:")[0].replace('"web:1"', '"web:1", resources: {requests: {cpu: "20"}}')
    spec = web + EVERY_MINUTE + NOT_SCALED.replace("{time: 20m}", until).replace("&MORE", "")
    run_result = result(tmp_path, spec)
    assert run_result.failure is not None
    assert run_result.failure.kind == "eventually"
    assert "ACTION scale deployments/web" in run_result.log
    assert "backup" not in run_result.log
    assert "MODIFIED /events/" not in run_result.log
    assert run_result.log_omits_scheduled
    shrunk = ShrunkFailure(
        job=Job(number=0, seed=0), failure=run_result.failure, result=run_result, parts=(), of=0, runs=0
    )
    title = "  the end of the log without the work of CronJobs, in seconds since"
    assert any(
        line.startswith(title) for line in failure_lines(shrunk, Replay(program="pilothouse simulate", path="s.yaml"))
    )


@pytest.mark.parametrize("more", ["objects.jobs.size() > 100", "objects.cronjobs['default/backup'].spec.suspend"])
def test_the_log_of_a_failure_about_cron_jobs_has_their_work(tmp_path: Path, more: str) -> None:
    spec = WEB.partition("  ready:")[0] + EVERY_MINUTE + NOT_SCALED.replace("&MORE", f" || {more}")
    run_result = result(tmp_path, spec)
    assert "ADDED batch/jobs/default/backup-" in run_result.log
    assert not run_result.log_omits_scheduled
