"""``--feature-gates`` of programs that serve an API."""

import pytest

from pilothouse.apiserver.resources import BEHIND_GATES
from pilothouse.cli import apiserver, kube_apiserver
from pilothouse.controllermanager.options import Options, with_gates
from pilothouse.controllers.devices.device_taint_eviction import DeviceTaintEvictionOptions
from pilothouse.controllers.registry import DESCRIPTORS

ON = "--feature-gates=DRAResourcePoolStatus=true"


def test_gates_without_effect_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    words = [ON, "--feature-gates=CRIListStreaming=true"]
    apiserver.warn_of_idle_gates(apiserver.flag_set("x").parse(words), BEHIND_GATES)
    assert capsys.readouterr().err == (
        "warning: Feature gate CRIListStreaming=true is accepted for compatibility and has no effect\n"
    )


def test_stand_in_accepts_gates_of_all_releases() -> None:
    words = ["--feature-gates=IPv6DualStack=true,DRAResourcePoolStatus=true", "--feature-gates=Newer=true"]
    parsed = kube_apiserver.flag_set("kube-apiserver").parse(words)
    assert kube_apiserver._gates(parsed["feature-gates"]) == ("DRAResourcePoolStatus",)


def test_plane_applies_gates_of_controllers() -> None:
    parsed = apiserver.flag_set("x").parse([ON, "--feature-gates=DRADeviceTaintRules=true"])
    options = with_gates(Options(), apiserver.gates_of(parsed), DESCRIPTORS)
    assert options.gates.enabled("DRAResourcePoolStatus")
    assert options.controller_options["device-taint-eviction-controller"] == DeviceTaintEvictionOptions(rules=True)
