"""Which claim and which volume names which class. After ``getPVCReferencedVACNames`` and ``getPVReferencedVACNames`` of
v1.36 ``pkg/controller/volume/vacprotection/vac_protection_controller.go``."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.volumes.volumeattributesclass_protection.controller import (
    classes_of_claim,
    classes_of_volume,
    let_go,
)

WANTS, HAS = {"volumeAttributesClassName": "wanted"}, {"currentVolumeAttributesClassName": "has"}
GETS = {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gets"}}


@pytest.mark.parametrize(
    ("spec", "status", "names"),
    [
        pytest.param({}, {}, (), id="none"),
        pytest.param({"volumeAttributesClassName": ""}, {}, (), id="an empty name is none"),
        pytest.param(WANTS, {}, ("wanted",), id="the one it asks for"),
        pytest.param({}, HAS, ("has",), id="the one it has"),
        pytest.param({}, GETS, ("gets",), id="the one it is being changed to"),
        pytest.param(WANTS, HAS | GETS, ("wanted", "has", "gets"), id="all three"),
        pytest.param(WANTS, {"currentVolumeAttributesClassName": "wanted"}, ("wanted",), id="each once"),
    ],
)
def test_the_classes_of_a_claim(spec: dict[str, Any], status: dict[str, Any], names: tuple[str, ...]) -> None:
    assert classes_of_claim(msgspec.convert({"spec": spec, "status": status}, PersistentVolumeClaim)) == names


@pytest.mark.parametrize(("spec", "names"), [({}, ()), ({"volumeAttributesClassName": ""}, ()), (WANTS, ("wanted",))])
def test_the_class_of_a_volume(spec: dict[str, Any], names: tuple[str, ...]) -> None:
    assert classes_of_volume(msgspec.convert({"spec": spec}, PersistentVolume)) == names


def test_what_was_named_and_is_not_any_more() -> None:
    assert let_go(("a", "b"), ("b", "c")) == ["a"]
    assert let_go(("a",), ()) == ["a"]
    assert let_go((), ("a",)) == []
