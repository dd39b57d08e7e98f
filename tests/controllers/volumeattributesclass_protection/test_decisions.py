"""Which claim and which volume names which class. After ``getPVCReferencedVACNames`` and ``getPVReferencedVACNames`` of
v1.36 ``pkg/controller/volume/vacprotection/vac_protection_controller.go``."""

from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.volumes.volumeattributesclass_protection.controller import (
    classes_of_claim,
    classes_of_volume,
    let_go,
)

WANTS, HAS = {"volumeAttributesClassName": "wanted"}, {"currentVolumeAttributesClassName": "has"}
GETS = {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gets"}}


@cases(
    "spec, status, names",
    {
        "none": ({}, {}, ()),
        "an empty name is none": ({"volumeAttributesClassName": ""}, {}, ()),
        "the one it asks for": (WANTS, {}, ("wanted",)),
        "the one it has": ({}, HAS, ("has",)),
        "the one it is being changed to": ({}, GETS, ("gets",)),
        "all three": (WANTS, HAS | GETS, ("wanted", "has", "gets")),
        "each once": (WANTS, {"currentVolumeAttributesClassName": "wanted"}, ("wanted",)),
    },
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
