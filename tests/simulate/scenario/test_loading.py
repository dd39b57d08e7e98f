"""Errors in scenario files: file, line, field and how to correct them."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.simulate.run import validate
from pilothouse.simulate.scenario import ScenarioError, load
from pilothouse.simulate.scenario.scalars import duration, shown_seconds

HEAD = "apiVersion: simulate.pilothouse.io/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n"


def written(folder: Path, text: str) -> str:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def error_of(folder: Path, text: str) -> str:
    path = written(folder, text)
    with pytest.raises(ScenarioError) as raised:
        validate(load(path))
    return str(raised.value).replace(path, "s.yaml")


@cases(
    "spec, message",
    {
        "an unknown field": (
            "  timeline:\n  - at: 1m\n    scale: {deployment: web, replica: 5}\n",
            "s.yaml:7: spec.timeline[0].scale.replica: unknown field; did you mean replicas?",
        ),
        "a field of another level": (
            "  timeline:\n  - {at: 1m, delete: {deployment: web}}\n",
            "s.yaml:6: spec.timeline[0].delete.deployment: unknown field; there are namespace, object, ",
        ),
        "an unknown value": (
            "  cluster:\n    nodeGroups:\n    - {name: a, count: 1, profile: fast}\n",
            "spec.cluster.nodeGroups[0].profile: Invalid enum value 'fast'; one of lifelike, quick, instant, calm",
        ),
        "a wrong type": (
            "  timeline:\n  - at: 1m\n    scale:\n      deployment: web\n      replicas: many\n",
            "s.yaml:9: spec.timeline[0].scale.replicas: expected a whole number, got text",
        ),
        "string in place of a name mapping": (
            "  timeline:\n  - {at: 1m, drain: web-0}\n",
            "s.yaml:6: spec.timeline[0].drain: expected a mapping, got text; write {name: web-0}",
        ),
        "string in place of a mapping": (
            "  timeline:\n  - {at: 1m, scale: web}\n",
            "s.yaml:6: spec.timeline[0].scale: expected a mapping, got text",
        ),
        "a missing field": (
            "  timeline:\n  - at: 1m\n    scale: {deployment: web}\n",
            "s.yaml:7: spec.timeline[0].scale: the field replicas is missing",
        ),
        "a duration without a unit": (
            "  timeline:\n  - {at: 90, uncordon: {name: node-0}}\n",
            "s.yaml:6: spec.timeline[0].at: expected a duration such as 90s, 10m or 1d12h, got 90",
        ),
        "a duration that is too long": (
            "  until: {time: 9999d}\n",
            's.yaml:5: spec.until.time: durations are from 0 to 366d, got "9999d"',
        ),
        "invalid quantity": (
            "  cluster:\n    nodeGroups:\n    - name: a\n      count: 1\n      capacity:\n        cpu: lots\n",
            "s.yaml:10: spec.cluster.nodeGroups[0].capacity.cpu: expected a quantity such as 500m, 8 or 32Gi, got",
        ),
        "a negative count": (
            "  cluster:\n    nodeGroups:\n    - {name: a, count: -1}\n",
            "s.yaml:7: spec.cluster.nodeGroups[0]: count must be from 0 to 20000, got -1",
        ),
        "invalid name of a group": (
            "  cluster:\n    nodeGroups:\n    - {name: a_b, count: 1}\n",
            "s.yaml:7: spec.cluster.nodeGroups[0].name: a lowercase RFC 1123 subdomain",
        ),
        "an unknown action": (
            "  timeline:\n  - {at: 1m, explode: {}}\n",
            "s.yaml:6: spec.timeline[0].explode: unknown field",
        ),
        "two actions": (
            "  timeline:\n  - {at: 1m, cordon: {name: a}, uncordon: {name: a}}\n",
            "s.yaml:6: spec.timeline[0]: an entry has one action, got cordon, uncordon; one of apply, patch",
        ),
        "neither at, every nor when": (
            "  timeline:\n  - {cordon: {name: a}}\n",
            "s.yaml:6: spec.timeline[0]: a time is required: at, every or when",
        ),
        "two effects": (
            "  timeline:\n  - {at: 1m, nodes: {name: node-0, silence: true, vanish: true}}\n",
            "s.yaml:6: spec.timeline[0].nodes: one effect: silence, vanish",
        ),
        "unknown zone": (
            "  timeline:\n  - {at: 1m, nodes: {zone: mars, silence: true}}\n",
            's.yaml:6: spec.timeline[0].nodes.zone: no node group has the zone "mars"; there are none',
        ),
        "invalid taint": (
            "  timeline:\n  - {at: 1m, taint: {name: node-0, taint: a=b}}\n",
            "s.yaml:6: spec.timeline[0].taint: a taint is KEY=VALUE:EFFECT",
        ),
        "invalid selector": (
            "  timeline:\n  - {at: 1m, nodes: {selector: 'a in', silence: true}}\n",
            "s.yaml:6: spec.timeline[0].nodes.selector: ",
        ),
        "an unknown flag": (
            "  manager:\n    flags: {node-monitor-period: 5s, node-moniter-grace-period: 40s}\n",
            "s.yaml:6: spec.manager.flags.node-moniter-grace-period: the manager has no such flag",
        ),
        "invalid value of a flag": (
            "  manager:\n    flags: {node-monitor-grace-period: soon}\n",
            's.yaml:6: spec.manager.flags: invalid argument "soon" for "--node-monitor-grace-period" flag',
        ),
        "an unknown controller": (
            '  manager: {controllers: ["*", "-fridge"]}\n',
            's.yaml:5: spec.manager.controllers: "fridge" is not in the list of known controllers',
        ),
        "invalid CEL": (
            "  expect:\n    always:\n    - cel: objects.pods.all(p,\n",
            "s.yaml:7: spec.expect.always[0]: ERROR: <input>:1:",
        ),
        "CEL of another type": (
            "  expect:\n    atEnd:\n    - cel: 1 + 1\n",
            "s.yaml:7: spec.expect.atEnd[0]: expected an expression that is true or false, got int",
        ),
        "CEL over everything": (
            "  expect:\n    always:\n    - cel: objects.size() > 0\n",
            "s.yaml:7: spec.expect.always[0]: name a resource: objects.pods",
        ),
        "an unknown invariant": (
            "  expect: {invariants: [ReplicaSet]}\n",
            's.yaml:5: spec.expect.invariants[0]: no invariant is called "ReplicaSet"; did you mean ReplicaSets?',
        ),
        "an unknown name of an entry": (
            "  expect:\n    eventually:\n    - {cel: 'true', within: 1m, after: outage}\n",
            's.yaml:7: spec.expect.eventually[0].after: no entry of the timeline is named "outage"',
        ),
        "an entry after the end": (
            "  until: {time: 5m}\n  timeline:\n  - {name: late, at: 10m, uncordon: {name: node-0}}\n",
            "s.yaml:7: spec.timeline[0].at: the run ends before, after 5m (until.time)",
        ),
        "an entry that repeats after the end": (
            "  until: {time: 5m}\n  timeline:\n  - {every: 10m, uncordon: {name: node-0}}\n",
            "s.yaml:7: spec.timeline[0].every: the run ends before, after 5m (until.time)",
        ),
        "faults after the end": (
            "  until: {time: 5m}\n  faults:\n    count: 3\n    within: 1m\n    after: 5m\n",
            "s.yaml:9: spec.faults.after: no fault can start: the run ends before, after 5m (until.time)",
        ),
        "a misspelled flag": (
            "  manager:\n    flags:\n      node-monitor-grace-perod: 20s\n",
            "s.yaml:7: spec.manager.flags.node-monitor-grace-perod: the manager has no such flag; did you mean node-",
        ),
        "unavailable pods of a Job": (
            "  expect:\n    budgets:\n    - {workload: job/a, maxUnavailable: 1}\n",
            "s.yaml:7: spec.expect.budgets[0]: maxUnavailable is not available for Jobs, whose pods terminate",
        ),
        "invalid workload of a budget": (
            "  expect:\n    budgets:\n    - {workload: web, maxUnavailable: 1}\n",
            "s.yaml:7: spec.expect.budgets[0]: workload must be TYPE/NAME with one of deployment",
        ),
        "invalid percentage": (
            "  expect:\n    budgets:\n    - {workload: deployment/web, maxUnavailable: half}\n",
            "s.yaml:7: spec.expect.budgets[0].maxUnavailable: expected a number or a percentage such as 25%, got half",
        ),
        "invalid rate": (
            "  faults: {rate: often, within: 10m}\n",
            's.yaml:5: spec.faults: a rate is a number per s, m, h or d, such as 3/h, got "often"',
        ),
        "objects from the net": (
            "  objects: ['https://example.com/a.yaml']\n",
            "s.yaml:5: spec.objects[0]: https://example.com/a.yaml: URLs are not supported; download the file",
        ),
        "missing file": ("  objects: [nothing.yaml]\n", "nothing.yaml: no such file or folder"),
        "an object without a kind": (
            "  objects:\n  - {apiVersion: v1, metadata: {name: a}}\n",
            "s.yaml:6: spec.objects[0]: inline: an object has no kind",
        ),
        "missing program": (
            "  programs: [{operator: op.py}]\n",
            "op.py: no such file; expected FILE or FILE:NAME",
        ),
        "a program's action without one": (
            "  timeline:\n  - {at: 1m, program: {kill: true}}\n",
            "s.yaml:6: spec.timeline[0].program: there is no program",
        ),
        "two managers without leaderElect": (
            "  manager: {replicas: 2}\n",
            "s.yaml:5: spec.manager: two replicas need leaderElect: true",
        ),
        "invalid start": ("  cluster: {start: tomorrow}\n", "s.yaml:5: spec.cluster.start: "),
    },
)
def test_errors_have_file_line_and_field(tmp_path: Path, spec: str, message: str) -> None:
    assert message in error_of(tmp_path, HEAD + spec)


@cases(
    "text, message",
    {
        "invalid YAML": ("a: [", "s.yaml:2: invalid YAML: did not find expected node content"),
        "a list": ("- a", "s.yaml:1: expected a scenario: apiVersion: simulate.pilothouse.io/v1alpha1"),
        "empty": ("", "s.yaml:1: expected a scenario"),
        "another kind": (
            HEAD.replace("Scenario", "Deployment"),
            "s.yaml:2: kind: Invalid enum value 'Deployment'",
        ),
        "a key twice": (
            HEAD + "  description: a\n  description: b\n",
            's.yaml:6: the key "description" is duplicated',
        ),
        "two documents": (
            HEAD + "  description: a\n---\na: 1\n",
            "s.yaml:6: expected a single document: a file has one scenario",
        ),
        "recursive alias": ("a: &a [*a]\n", "s.yaml:1: an alias must not contain itself"),
        "an unknown alias": ("a: *b\n", "s.yaml:1: "),
        "aliases that explode": (
            "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
            "there are more than 200000 values; aliases count each time",
        ),
        "nested too deep": ("a: " + "[" * 200 + "]" * 200, "s.yaml:1: values are nested more than 100 deep"),
    },
)
def test_untrusted_files(tmp_path: Path, text: str, message: str) -> None:
    assert message in error_of(tmp_path, text)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    assert "it has more than 4194304 bytes" in error_of(tmp_path, "#" * (5 << 20))


def test_aliases_and_merged_keys_are_read(tmp_path: Path) -> None:
    groups = "    nodeGroups:\n    - &a {name: a, count: 2, zone: x}\n    - {<<: *a, name: b}\n"
    result = load(written(tmp_path, f"{HEAD}  cluster:\n{groups}")).spec.cluster.node_groups
    assert [(item.name, item.count, item.zone) for item in result] == [("a", 2, "x"), ("b", 2, "x")]


def test_a_delay_of_zero_is_valid(tmp_path: Path) -> None:
    text = HEAD + "  timeline:\n  - {name: slow, at: 1m, apiServer: {slow: 2s, for: 1m}}\n"
    result = (
        load(written(tmp_path, text), overrides=[("timeline.slow.apiServer.slow", "0s")]).spec.timeline[0].api_server
    )
    assert result is not None
    assert result.slow is not None
    assert float(result.slow) == 0.0


def test_objects_come_from_files_and_folders_beside_the_scenario(tmp_path: Path) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
    (tmp_path / "one.yaml").write_text(config % "one" + "---\n" + config % "two", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.yaml").write_text(config % "three", encoding="utf-8")
    inline = "  - {apiVersion: v1, kind: ConfigMap, metadata: {name: four}}\n"
    result = load(written(tmp_path, f"{HEAD}  objects:\n  - one.yaml\n  - folder\n{inline}")).objects
    assert [item["metadata"]["name"] for item in result] == ["one", "two", "three", "four"]


def test_a_manifest_whose_aliases_explode_is_rejected(tmp_path: Path) -> None:
    text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    assert "more than 2000000 values" in error_of(tmp_path, f"{HEAD}  objects: [m.yaml]\n")


@cases(
    "overrides, expected",
    {
        "a flag": ([("manager.flags.node-monitor-grace-period", "20s")], "20s"),
        "path with spec": ([("spec.manager.flags.node-monitor-grace-period", "20s")], "20s"),
        "quoted key": ([('manager.flags["node-monitor-grace-period"]', "20s")], "20s"),
    },
)
def test_values_are_changed_from_outside(tmp_path: Path, overrides: list[tuple[str, Any]], expected: str) -> None:
    result = load(written(tmp_path, HEAD + "  description: x\n"), overrides=overrides)
    assert result.spec.manager.flags["node-monitor-grace-period"] == expected


def test_objects_are_changed_from_outside(tmp_path: Path) -> None:
    text = (
        HEAD + "  objects:\n  - {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1}}\n"
    )
    result = load(written(tmp_path, text), overrides=[("objects.web.spec.strategy.rollingUpdate.maxSurge", "10%")])
    assert result.objects[0]["spec"] == {"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": "10%"}}}


_TWO_WEBS = """  objects:
  - {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {maxUnavailable: 1}}
"""


def test_a_name_that_several_objects_have_is_ambiguous(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + _TWO_WEBS)
    with pytest.raises(ScenarioError) as error:
        load(path, overrides=[("objects.web.spec.maxUnavailable", 2)])
    assert str(error.value).endswith(
        '"objects.web.spec.maxUnavailable" is ambiguous: Deployment and PodDisruptionBudget are called web; write '
        'objects["Deployment/web"].spec.maxUnavailable or objects["PodDisruptionBudget/web"].spec.maxUnavailable'
    )
    result = load(path, overrides=[('objects["PodDisruptionBudget/web"].spec.maxUnavailable', 2)]).objects
    assert [item["spec"] for item in result] == [{"replicas": 1}, {"maxUnavailable": 2}]


@cases(
    "path, message",
    {
        "path without spec": (
            "objects.web.replicas",
            "Deployment web has no such field; did you mean objects.web.spec.replicas?",
        ),
        "path without template": (
            "objects.web.spec.containers.main.image",
            "mean objects.web.spec.template.spec.containers.main.image?",
        ),
        "path with kind": ('objects["Deployment/web"].replicas', 'mean objects["Deployment/web"].spec.replicas?'),
        "unknown container": ("objects.web.spec.template.spec.containers.mian.image", "no mian; did you mean main?"),
        "unknown object": ("objects.wbe.spec.replicas", "called wbe; did you mean web?"),
    },
)
def test_a_path_of_an_unknown_object_suggests_the_closest_name(tmp_path: Path, path: str, message: str) -> None:
    containers = "{template: {spec: {containers: [{name: main, image: x}], activeDeadlineSeconds: 5}}, replicas: 1}"
    text = f"  objects: [{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {containers}}}]\n"
    with pytest.raises(ScenarioError, match=re.escape(message)):
        load(written(tmp_path, HEAD + text), overrides=[(path, 2)])
    load(written(tmp_path, HEAD + text), overrides=[("objects.web.spec.activeDeadlineSeconds", 2)])  # a Job's own


@cases(
    "selection, message",
    {
        "count of all nodes": (
            "count: 30",
            "s.yaml:7: spec.timeline[0].cordon.count: count is 30, and only 4 nodes match",
        ),
        "count of a group": ("group: b, count: 2", "count is 2, and 1 node matches"),
        "count of names": ("names: [a-0, a-1], count: 3", "count is 3, and only 2 nodes match"),
        "count of a zone": ("zone: west, count: 3", "count is 3, and 1 node matches"),
    },
)
def test_counts_above_the_number_of_nodes(tmp_path: Path, selection: str, message: str) -> None:
    groups = "  cluster: {nodeGroups: [{name: a, count: 3, zone: east}, {name: b, count: 1, zone: west}]}\n"
    assert message in error_of(tmp_path, f"{HEAD}{groups}  timeline:\n  - {{at: 1m, cordon: {{{selection}}}}}\n")


@cases(
    "setting, message",
    {
        "a flag": (
            ("manager.flags.node-monitor-grace-perod", "20s"),
            "s.yaml: spec.manager.flags.node-monitor-grace-perod (from the command line): the manager has no such "
            "flag; did you mean node-monitor-grace-period?",
        ),
        "a field": (
            ("until.tiem", "1h"),
            "s.yaml: spec.until.tiem (from the command line): unknown field; did you mean time?",
        ),
        "unknown field of a path": (
            ("manager.flag.x", 1),
            "s.yaml: spec.manager.flag (from the command line): unknown field; did you mean flags?",
        ),
        "a value in a list": (
            ("timeline[0].at", "soon"),
            ":7: spec.timeline[0].at (from the command line): ",
        ),
        "error in the file": (
            ("until.time", "1h"),
            ":9: spec.timeline[1].sacle: unknown field; did you mean scale?",
        ),
    },
)
def test_errors_of_command_line_settings_have_no_line(tmp_path: Path, setting: tuple[str, Any], message: str) -> None:
    timeline = "  until: {time: 10m}\n  timeline:\n  - {at: 1m, scale: {deployment: web, replicas: 2}}\n"
    if "sacle" in message:
        timeline += "  - {at: 1m,\n     sacle: {deployment: web, replicas: 2}}\n"
    with pytest.raises(ScenarioError, match=re.escape(message)):
        load(written(tmp_path, HEAD + timeline), overrides=[setting])


@cases(
    "text, seconds",
    {"hours": ("1h30m", 5400), "days": ("1d", 86400), "weeks": ("1w", 604800), "all units": ("1w1d1h", 694800)},
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@cases(
    "seconds, text",
    {
        "seconds": (1.5, "1.5s"),
        "minutes": (600.0, "10m"),
        "hours": (3600.0, "1h"),
        "days": (93600.0, "1d2h"),
        "days alone": (86400.0, "1d"),
        "ten seconds": (10.0, "10s"),
        "mixed": (630.0, "10m30s"),
        "zero": (0.0, "0s"),
    },
)
def test_durations_as_people_write_them(seconds: float, text: str) -> None:
    assert shown_seconds(seconds) == text


def test_files_without_an_end_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for spec, expected in (
        ("  objects: [pipe]\n", "spec.objects\\[0\\]: .*pipe: it is not a regular file"),
        ("  objects: [/dev/zero]\n", "/dev/zero: it is not a regular file"),
        ("  cluster: {stages: /dev/zero}\n", "spec.cluster.stages: /dev/zero is neither a file nor a folder"),
        ("  manager: {flags: {root-ca-file: /dev/zero}}\n", "root-ca-file: /dev/zero is neither a file nor a folder"),
    ):
        path = tmp_path / "s.yaml"
        path.write_text(
            f"apiVersion: simulate.pilothouse.io/v1alpha1\nkind: Scenario\nmetadata: {{name: t}}\nspec:\n{spec}",
            encoding="utf-8",
        )
        with pytest.raises(ScenarioError, match=expected):
            load(str(path))
    with pytest.raises(ScenarioError, match="unable to read the scenario: it is not a regular file"):
        load(str(tmp_path / "pipe"))
