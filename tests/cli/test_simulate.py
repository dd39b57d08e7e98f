"""``pilothouse simulate``: what is printed, what is written, and the exit codes."""

import shlex
from pathlib import Path

import msgspec
import pytest

from pilothouse.cli.dispatch import main

SCENARIO = """apiVersion: simulate.pilothouse.io/v1alpha1
kind: Scenario
metadata: {name: growth}
spec:
  cluster: {nodeGroups: [{name: node, count: 2, profile: quick}]}
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
  timeline:
  - {at: 10s, cordon: {name: node-0}}
  - {at: 20s, scale: {deployment: web, replicas: 5}}
  - {at: 30s, uncordon: {name: node-0}}
  faults: {count: 2, within: 30s}
  until: {time: 1m}
  expect:
    always: [{name: few, cel: objects.pods.size() <= 4}]
"""
HOLDS = ("--set", "expect.always.few.cel=objects.pods.size() <= 40")


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "growth.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return str(file)


def test_what_holds(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, *HOLDS]) == 0
    out = capsys.readouterr().out
    assert out.startswith("growth, seed 0: passed; 1m of virtual time in ")
    assert "maxUnavailable deployment/web" in out


def test_what_fails_is_shrunk_and_can_be_replayed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, "--seeds", "3-5"]) == 1
    out = capsys.readouterr().out
    assert "seed 3 fails after 20s: always few: it does not hold" in out
    assert "why it was written" in out
    assert "1 of 5 actions and faults are enough" in out
    assert "    [1] at 20s: scale deployments/web replicas 5\n" in out
    replay = next(line for line in out.splitlines() if line.startswith("  replay: "))
    program, *words = shlex.split(replay.removeprefix("  replay: "))
    assert (program, *words) == ("pilothouse", "simulate", path, "--seeds", "3", "--only", "1")
    assert main(words) == 1
    again = capsys.readouterr().out
    assert "seed 3 fails after 20s: always few: it does not hold" in again
    assert replay in again


def test_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, "-o", "json", "--seeds", "3,4", "--keep-going", "--shrink-runs", "0"]) == 1
    found = msgspec.json.decode(capsys.readouterr().out)
    assert [(each["seed"], each["passed"]) for each in found["runs"]] == [(3, False), (4, False)]
    [failure] = found["failures"]
    assert (failure["seed"], failure["failure"]["kind"], len(failure["parts"])) == (3, "always", 5)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], "expected the file of a scenario", id="no file"),
        pytest.param(["none.yaml"], "none.yaml: unable to read the scenario: No such file", id="no such file"),
        pytest.param(["PATH", "--seeds", "9-1"], 'the range of seeds "9-1" ends before it begins', id="seeds"),
        pytest.param(["PATH", "--seeds", "1-9999999"], "at most 1000000 seeds", id="too many seeds"),
        pytest.param(["PATH", "--only", "x"], "expected numbers of parts such as 0,3", id="parts"),
        pytest.param(["PATH", "-o", "yaml"], "-o is text or json", id="output"),
        pytest.param(["PATH", "--set", "x"], "expected PATH=VALUE", id="setting"),
        pytest.param(["PATH", "--set", "objects.wep.spec.replicas=1"], "no object of the scenario", id="object"),
        pytest.param(["PATH", "--set", "expect.always.few.cel=pods"], "undeclared reference", id="expression"),
        pytest.param(["PATH", "--set", "timeline.none.at=1s"], "there is no none", id="name"),
        pytest.param(["PATH", "--set", "cluster.nodeGroups.node.count=[}"], "is no YAML", id="YAML"),
    ],
)
def test_what_cannot_be_used(path: str, capsys: pytest.CaptureFixture[str], words: list[str], expected: str) -> None:
    assert main(["simulate", *(path if word == "PATH" else word for word in words)]) == 2
    assert expected in capsys.readouterr().err


def test_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--schema"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["title"] == "pilothouse scenario"
