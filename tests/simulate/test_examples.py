"""The scenarios of ``examples/scenarios`` succeed, and each one fails for the expected reason if its subject is
broken."""

import re
from pathlib import Path
from typing import Any

import pytest

from pilothouse.simulate import report
from pilothouse.simulate.result import Result
from pilothouse.simulate.run import run
from pilothouse.simulate.scenario import load
from pilothouse.simulate.scenario.overrides import parse_setting

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "scenarios"
SLOW = {"autoscaling-day", "cronjobs-clock-change", "preemption-storm"}
"""Scenarios that take more than some seconds."""
FAILS = "operator-with-a-bug"
BREAKS = {
    "zone-outage": ("objects.web.spec.template.spec.tolerations[0].tolerationSeconds=900", "all pods are ready again"),
    "drain-with-budgets": ('timeline["second replica"].scale.replicas=1', "nothing is left on the old pool"),
    "bad-rollout": ("objects.web.spec.progressDeadlineSeconds=600", "the deadline is reported"),
    "autoscaling-day": ('timeline.load.load.dailyCpu.low="8"', "few pods at night"),
    "cronjobs-clock-change": ("objects.berlin.spec.timeZone=Etc/UTC", "Berlin leaves one night out"),
    "quota-squeeze": ('timeline.relief.patch.merge.spec.hard["requests.cpu"]="8"', "it goes on by itself"),
    "preemption-storm": (
        'objects["Deployment/web"].spec.template.spec.priorityClassName=batch',
        "the service is not touched",
    ),
    "manager-failover": ("manager.replicas=1", "the first rollout is complete"),
    "daemonset-upgrade": (
        "objects.agent.spec.updateStrategy.rollingUpdate.maxUnavailable=30%",
        "maxUnavailable daemonset/agent",
    ),
}
FURTHER = {
    "manager-failover": ('timeline["leader dies"].manager.down=10m',),
    "daemonset-upgrade": ("cluster.nodeGroups[0].count=40",),
}
"""What else is needed to break it, or to do so in less time."""
FEW_NODES = {"daemonset-upgrade": ("cluster.nodeGroups[0].count=40",)}
"""In place of 1,000, without ``--soak``."""
_MARKED = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in BREAKS]


def _run(name: str, *settings: str, record: bool = False) -> Result:
    changed: list[tuple[str, Any]] = [parse_setting(setting) for setting in settings]
    return run(load(str(FOLDER / f"{name}.yaml"), overrides=changed), 0, record=record)


def test_all_ten_are_documented() -> None:
    page = (ROOT / "docs/simulate-scenarios.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == [*BREAKS, FAILS]
    assert len(BREAKS) == 9


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", _MARKED)
def test_a_scenario_holds(name: str, soak: bool) -> None:
    result = _run(name, *(() if soak else FEW_NODES.get(name, ())), record=True)
    assert (result.failure, result.notices) == (None, ())
    assert result.recording is not None
    # The picture in the documentation is of this scenario: the same actions at the same times.
    picture = (ROOT / f"docs/images/scenarios/{name}.svg").read_text(encoding="utf-8")
    assert f"<title>{name}: seed 0 " in picture
    assert _actions(report.svg(result.recording)) == _actions(picture)


def _actions(picture: str) -> list[str]:
    return re.findall(r"<title>(\d+\. [^<]*)</title>", picture)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BREAKS)
def test_a_scenario_that_is_broken_fails(name: str, soak: bool) -> None:
    if name in SLOW and not soak:
        pytest.skip("many virtual days: --soak")
    setting, expected = BREAKS[name]
    failure = _run(name, setting, *FURTHER.get(name, ())).failure
    assert failure is not None
    assert failure.name.startswith(expected)


@pytest.mark.parametrize("operator", ["buggy", "fixed"])
def test_the_operator_with_a_bug(operator: str) -> None:
    failure = _run(FAILS, f"programs[0].operator=tenants_operator.py:{operator}").failure
    if operator == "fixed":
        assert failure is None
        return
    assert failure is not None
    assert (failure.kind, failure.name) == ("always", "the data of a tenant is imported once")
    assert re.search(r"job/green-import-\w+ was created, by tenant", failure.why)
