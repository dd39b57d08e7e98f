"""Members of a PUT that equal the stored ones are not decoded again; the response is the same."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.apiserver.api import Api, Object
from tests.tables import cases

from pilothouse.apiserver.endpoints import update
from pilothouse.apiserver.endpoints.unchanged_members import split_unchanged

_SPEC = b'{"a":[1,true,"x"],"b":{"c":"a text that is longer than what is small","d":null},"e":2.5}'
_STORED = b'{"kind":"K","apiVersion":"v1","metadata":{"name":"a"},"spec":%s,"status":{"n":1}}' % _SPEC


@cases(
    "spec, unchanged",
    {
        "identical bytes": (_SPEC, True),
        "indented": (json.dumps(json.loads(_SPEC), indent=1).encode(), True),
        "keys in another order": (json.dumps(dict(reversed(json.loads(_SPEC).items()))).encode(), True),
        "another value": (_SPEC.replace(b'"x"', b'"y"'), False),
        "a number for a truth value": (_SPEC.replace(b"true", b"1"), False),
        "a float for an integer": (_SPEC.replace(b"[1,", b"[1.0,"), False),
        "a field more": (_SPEC[:-1] + b',"f":1}', False),
        "a field twice": (_SPEC[:-1] + b',"e":2.5}', False),
        "another list": (_SPEC.replace(b'"x"]', b'"x",1]'), False),
        "null": (b"null", False),
    },
)
def test_unchanged_members(spec: bytes, unchanged: bool) -> None:
    body = b'{"metadata":{"name":"b"},"spec":%s,"status":{"n":2}}' % spec
    rest, members = split_unchanged(body, _STORED)
    assert {name: bytes(raw) for name, raw in members.items()} == ({"spec": _SPEC} if unchanged else {})
    assert rest == (b'{"metadata":{"name":"b"},"status":{"n":2}}' if unchanged else body)


@cases("body", {"not JSON": b'{"spec":', "a list": b"[]", "a member twice": b'{"spec":%s,"spec":%s}' % (_SPEC, _SPEC)})
def test_bodies_decoded_completely(body: bytes) -> None:
    assert split_unchanged(body, _STORED) == (body, {})


def _deployment() -> Object:
    labels = {"app": "web"}
    container = {"name": "main", "image": "app:v1", "ports": [{"containerPort": 80}], "resources": {}}
    template = {"metadata": {"labels": labels, "creationTimestamp": None}, "spec": {"containers": [container]}}
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def _annotated(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {"a": "b"}}}


def _with_status(obj: Object) -> Object:
    return {**obj, "status": {"replicas": 3, "observedGeneration": 1}}


def _compact(obj: Object) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


@cases(
    "change, subresource, write",
    {
        "an annotation": (_annotated, "", _compact),
        "an annotation, with spaces": (_annotated, "", lambda obj: json.dumps(obj, indent=2).encode()),
        "an annotation, sorted": (_annotated, "", lambda obj: json.dumps(obj, sort_keys=True).encode()),
        "unchanged object": (lambda obj: obj, "", _compact),
        "the status": (_with_status, "/status", _compact),
        "an unknown field": (lambda obj: {**obj, "nonsense": 1}, "", _compact),
        "an unknown field of metadata": (lambda obj: {**obj, "metadata": {**obj["metadata"], "x": 1}}, "", _compact),
        "metadata of a wrong type": (lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": 1}}, "", _compact),
        "another kind": (lambda obj: {**obj, "kind": "Pod"}, "", _compact),
        "spec of the wrong type": (lambda obj: {**obj, "spec": {**obj["spec"], "replicas": "x"}}, "", _compact),
    },
)
async def test_response_is_identical(
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Object], Object],
    subresource: str,
    write: Callable[[Object], bytes],
) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    first = await api.create(path, _deployment())
    target = f"{path}/web{subresource}?dryRun=All&fieldValidation=Warn"
    body = write(change(first))
    quick = await api.request("PUT", target, body)
    received: list[Any] = []

    def read_whole(body: bytes, value: bytes) -> tuple[bytes, dict[str, Any]]:
        received.append(split_unchanged(body, value)[1])
        return body, {}

    monkeypatch.setattr(update, "split_unchanged", read_whole)
    whole = await api.request("PUT", target, body)
    assert (quick.status, quick.body, quick.headers) == (whole.status, whole.body, whole.headers)
    assert bool(received[0]) is ("replicas" not in body.decode() or b'"replicas":"x"' not in body)
