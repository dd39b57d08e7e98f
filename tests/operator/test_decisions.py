"""The pure parts: conditions, status changes, whether an apply is needed, bodies, rights."""

import datetime
import re
from typing import Any

import msgspec
import pytest
from kubernetes import client as official
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.api.meta import OwnerReference
from pilothouse.operator.applied import Applied, digest, fingerprint, is_current
from pilothouse.operator.bodies import as_json
from pilothouse.operator.rights import Grant, missing_right
from pilothouse.operator.status import changes, condition_status, set_condition

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
EARLIER = "2025-01-01T00:00:00Z"


@cases(
    "before, status, since",
    {
        "new": ([], "True", "2026-01-01T00:00:00Z"),
        "status changes": (
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
    result = set_condition([other, *before], "Ready", status, "Because", "so", 7, NOW)
    assert result[0] is other
    assert result[1] == {
        "type": "Ready", "status": status, "reason": "Because", "message": "so", "observedGeneration": 7,
        "lastTransitionTime": since,
    }  # fmt: skip


@cases(
    "status, expected",
    {
        "true": (True, "True"), "false": (False, "False"), "None": (None, "Unknown"),
        "True": ("True", "True"), "False": ("False", "False"), "Unknown": ("Unknown", "Unknown"),
    },
)  # fmt: skip
def test_the_status_of_a_condition(status: bool | str | None, expected: str) -> None:
    assert condition_status("example.com/Ready", status, "Reason_A:b,9", "") == expected


@cases(
    "changed, error, message",
    {
        "unsupported status": (
            {"status": "yes"}, ValueError, "status of condition 'Ready' is True, False or Unknown, got 'yes'",
        ),
        "a status in lower case": (
            {"status": "true"}, ValueError, "status of condition 'Ready' is True, False or Unknown, got 'true'",
        ),
        "a number": ({"status": 1}, TypeError, "status of condition 'Ready' is True, False or Unknown, got 1"),
        "a reason with a space": (
            {"reason": "some reason"}, ValueError,
            "reason of condition 'Ready' is invalid, got 'some reason': a condition reason must start with alphabetic",
        ),
        "a reason that ends with a comma": ({"reason": "A,"}, ValueError, "reason of condition 'Ready' is invalid"),
        "a reason with a line break": ({"reason": "A\n"}, ValueError, "reason of condition 'Ready' is invalid"),
        "empty reason": ({"reason": ""}, ValueError, "reason of condition 'Ready' is missing: a word in CamelCase"),
        "a long reason": (
            {"reason": "a" * 1025}, ValueError, "reason of condition 'Ready' is too long: at most 1024 bytes",
        ),
        "a reason that is no text": ({"reason": None}, TypeError, "reason of condition 'Ready' is a str, got None"),
        "a type with a space": (
            {"type_": "Is ready"}, ValueError, "type of a condition is invalid, got 'Is ready': name part must consist",
        ),
        "no type": ({"type_": ""}, ValueError, "type of a condition is invalid, got '': name part must be non-empty"),
        "a type that is no text": ({"type_": True}, TypeError, "type of a condition is a str, got True"),
        "an error as message": (
            {"message": ValueError("a")}, TypeError, "message of condition 'Ready' is a str, got ValueError('a')",
        ),
    },
)  # fmt: skip
def test_invalid_conditions_name_the_field(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments = {"type_": "Ready", "status": True, "reason": "Because", "message": "", **changed}
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        condition_status(**arguments)


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
        "resourceVersion of the apply": ("5", _object("5"), BODY, True),
        "only the status changed": ("6", _object("6", status={"ready": 1}), BODY, True),
        "a field that is not applied": ("6", _object("6", spec={"policy": "Other"}), BODY, True),
        "an annotation of a controller": ("6", _object("6", metadata={"annotations": {"revision": "1"}}), BODY, True),
        "label of another manager": ("6", _object("6", metadata={"labels": {"mine": "1", "b": "2"}}), BODY, True),
        "an applied field": ("6", _object("6", spec={"size": 2}), BODY, False),
        "an applied label was removed": ("6", _object("6", metadata={"labels": {}}), BODY, False),
        "an applied list": ("6", _object("6", spec={"ports": [{"port": 80}, {"port": 81}]}), BODY, False),
        "recreated object": ("6", _object("6", metadata={"uid": "v"}), BODY, False),
        "the body changed": ("5", _object("5"), {**BODY, "spec": {"size": 2}}, False),
        "deleted object": ("", None, BODY, False),
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


READS = Grant("", "configmaps", ("get", "list", "watch"), "reads= of controller site")
OWNS = Grant("apps", "deployments", ("get", "list", "watch", "create", "delete", "patch"), "owns= of controller site")
STATUS = Grant("example.com", "sites/status", ("patch",), "controller site")


def _rule(group: str, resource: str, verb: str) -> str:
    return f"to rights= the rule {{'apiGroups': ['{group}'], 'resources': ['{resource}'], 'verbs': ['{verb}']}}"


@cases(
    "verb, group, resource, expected",
    {
        "reading what is not declared": (
            "list", "batch", "jobs",
            "no controller declares it: add its kind to reads=, references= or owns=, or "
            + _rule("batch", "jobs", "list"),
        ),
        "writing what is not declared": (
            "patch", "", "secrets",
            "no controller declares it: add its kind to owns=, or " + _rule("", "secrets", "patch"),
        ),
        "writing what is read": (
            "patch", "", "configmaps",
            "declared is get list watch by reads= of controller site; add its kind to owns=, or "
            + _rule("", "configmaps", "patch"),
        ),
        "a verb that owns= does not grant": (
            "update", "apps", "deployments",
            f"declared is {' '.join(OWNS.verbs)} by owns= of controller site; add "
            + _rule("apps", "deployments", "update"),
        ),
        "a subresource": (
            "create", "", "pods/eviction", "no controller declares it: add " + _rule("", "pods/eviction", "create"),
        ),
        "reading a status": (
            "get", "example.com", "sites/status",
            "declared is patch by controller site; add " + _rule("example.com", "sites/status", "get"),
        ),
        "declared, but the user has no roles": (
            "get", "", "configmaps", "declared is get list watch by reads= of controller site",
        ),
        "a path": (
            "get", "", "/metrics",
            "no controller declares it: add to rights= the rule {'nonResourceURLs': ['/metrics'], 'verbs': ['get']}",
        ),
    },
)  # fmt: skip
def test_rule_for_missing_permission(verb: str, group: str, resource: str, expected: str) -> None:
    assert missing_right([READS, OWNS, STATUS], verb, group, resource) == expected
