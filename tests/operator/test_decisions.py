"""The pure parts: conditions, status changes, whether an apply is needed, bodies, rights."""

import datetime
from typing import Any

import msgspec
import pytest
from kubernetes import client as official
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.api.meta import OwnerReference
from pilothouse.operator.applied import Applied, digest, fingerprint, is_current
from pilothouse.operator.bodies import as_json
from pilothouse.operator.status import changes, set_condition

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
EARLIER = "2025-01-01T00:00:00Z"


@cases(
    "before, status, since",
    {
        "new": ([], "True", "2026-01-01T00:00:00Z"),
        "its status changes": (
            [{"type": "Ready", "status": "False", "lastTransitionTime": EARLIER}],
            "True",
            "2026-01-01T00:00:00Z",
        ),
        "only its reason changes": (
            [{"type": "Ready", "status": "True", "lastTransitionTime": EARLIER}],
            "True",
            EARLIER,
        ),
    },
)
def test_the_transition_time_changes_with_the_status(before: list[dict[str, Any]], status: str, since: str) -> None:
    other = {"type": "Other", "status": "True"}
    found = set_condition([other, *before], "Ready", status, "Because", "so", 7, NOW)
    assert found[0] is other
    assert found[1] == {
        "type": "Ready", "status": status, "reason": "Because", "message": "so", "observedGeneration": 7,
        "lastTransitionTime": since,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({}, {"a": None}, {"a": None}),
    ],
)
def test_the_patch_between_two_statuses(before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]) -> None:
    assert changes(before, after) == patch


BODY = {"metadata": {"name": "a", "labels": {"mine": "1"}}, "spec": {"size": 1, "ports": [{"port": 80}]}}


def _object(version: str, **more: Any) -> bytes:
    spec = {"size": 1, "ports": [{"port": 80, "protocol": "TCP"}], "policy": "Default", **more.pop("spec", {})}
    meta = {"name": "a", "uid": "u", "resourceVersion": version, "labels": {"mine": "1"}, **more.pop("metadata", {})}
    return msgspec.json.encode({"metadata": meta, "spec": spec, **more})


@cases(
    "version, raw, body, expected",
    {
        "the version that the apply made": ("5", _object("5"), BODY, True),
        "only the status changed": ("6", _object("6", status={"ready": 1}), BODY, True),
        "a field that is not applied": ("6", _object("6", spec={"policy": "Other"}), BODY, True),
        "an annotation of a controller": ("6", _object("6", metadata={"annotations": {"revision": "1"}}), BODY, True),
        "a label of somebody else": ("6", _object("6", metadata={"labels": {"mine": "1", "b": "2"}}), BODY, True),
        "an applied field": ("6", _object("6", spec={"size": 2}), BODY, False),
        "an applied label was removed": ("6", _object("6", metadata={"labels": {}}), BODY, False),
        "an applied list": ("6", _object("6", spec={"ports": [{"port": 80}, {"port": 81}]}), BODY, False),
        "another object of its name": ("6", _object("6", metadata={"uid": "v"}), BODY, False),
        "the body changed": ("5", _object("5"), {**BODY, "spec": {"size": 2}}, False),
        "it was deleted": ("", None, BODY, False),
    },
)
def test_whether_an_apply_is_needed(version: str, raw: bytes | None, body: dict[str, Any], expected: bool) -> None:
    applied = Applied(digest(BODY), "5", fingerprint(_object("5"), BODY))
    assert is_current(applied, body, version, raw) is expected


def test_objects_that_were_never_applied_are_not_current() -> None:
    assert not is_current(None, {}, "5", _object("5"))


def test_a_status_in_a_body_is_not_compared() -> None:
    """An apply of the object does not write it."""
    body = {**BODY, "status": {"ready": 1}}
    applied = Applied(digest(body), "5", fingerprint(_object("5"), body))
    assert is_current(applied, body, "6", _object("6", status={"ready": 2}))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"kind": "ConfigMap", "data": {"a": "b"}}, {"kind": "ConfigMap", "data": {"a": "b"}}),
        (OwnerReference(name="a", api_version="v1"), {"name": "a", "apiVersion": "v1"}),
        (
            official.V1ConfigMap(kind="ConfigMap", metadata=official.V1ObjectMeta(name="a", owner_references=[])),
            {"kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": []}},
        ),
    ],
)
def test_bodies(body: Any, expected: dict[str, Any]) -> None:
    assert as_json(body) == expected


@pytest.mark.parametrize("body", [[1], "text", None, CONFIG_MAPS.__class__, object()])
def test_invalid_bodies_are_rejected(body: Any) -> None:
    with pytest.raises(TypeError, match=r"a body is a dict|has no form in JSON|unsupported"):
        as_json(body)
